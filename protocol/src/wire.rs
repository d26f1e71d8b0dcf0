//! Reading and writing of single values with postcard; knows no message.

use alloc::vec::Vec;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::DecodeError;

/// Appends `value` in postcard's form.
pub(crate) fn put<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    let taken = core::mem::take(out);
    *out = postcard::to_extend(value, taken).expect("a Vec takes any number of bytes");
}

/// What is left to read, and the reading of it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take<T: DeserializeOwned>(
        &mut self,
        field: &'static str,
    ) -> Result<T, DecodeError> {
        let (value, rest) =
            postcard::take_from_bytes(self.rest).map_err(|_| DecodeError::Malformed(field))?;
        self.rest = rest;
        Ok(value)
    }

    pub(crate) fn take_slice(
        &mut self,
        len: usize,
        field: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        if self.rest.len() < len {
            return Err(DecodeError::Malformed(field));
        }
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Errors: [`DecodeError::TrailingBytes`] if anything is left.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::TrailingBytes(left)),
        }
    }
}
