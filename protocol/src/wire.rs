//! Reading and writing of single values with postcard; knows no message.

use alloc::vec::Vec;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::DecodeError;

/// Appends `value` in postcard's form.
pub(crate) fn put<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    let taken = core::mem::take(out);
    *out = postcard::to_extend(value, taken).expect("a Vec takes any number of bytes");
}

/// Bytes of `value` as a varint: seven bits a byte.
pub(crate) fn varint_len(value: u64) -> usize {
    let bits = usize::try_from(u64::BITS - value.leading_zeros()).unwrap_or(64);
    bits.div_ceil(7).max(1)
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

    /// Begins a message of at most `max` bytes, its first byte being `version`.
    pub(crate) fn open(bytes: &'a [u8], version: u8, max: usize) -> Result<Self, DecodeError> {
        let Some((first, rest)) = bytes.split_first() else {
            return Err(DecodeError::Empty);
        };
        if *first != version {
            return Err(DecodeError::UnknownVersion(*first));
        }
        if bytes.len() > max {
            return Err(DecodeError::TooLong {
                len: bytes.len(),
                max,
            });
        }
        Ok(Self { rest })
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

    pub(crate) fn take_byte(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        let [byte] = self.take_array(field)?;
        Ok(byte)
    }

    pub(crate) fn take_array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Malformed(field))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn take_slice(
        &mut self,
        len: usize,
        field: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeError::Malformed(field))?;
        self.rest = rest;
        Ok(taken)
    }

    /// How many entries follow: at most `max`, known before anything is allocated for them.
    pub(crate) fn take_count(
        &mut self,
        max: usize,
        field: &'static str,
    ) -> Result<usize, DecodeError> {
        let count: u64 = self.take(field)?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= max)
            .ok_or(DecodeError::OutOfRange(field))
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
