//! What can be wrong with bytes or values of the wire format; never carries the bytes themselves.

use thiserror::Error;

/// Why bytes are not a message of this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Nothing at all.
    #[error("empty payload")]
    Empty,
    /// The version byte is of a format that this build does not know.
    #[error("unknown version {0}")]
    UnknownVersion(u8),
    /// More bytes than the format allows.
    #[error("{len} bytes, at most {max} are allowed")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The bytes end inside the named field.
    #[error("cut off or malformed in {0}")]
    Malformed(&'static str),
    /// Bytes are left over after the last field.
    #[error("{0} bytes left over after the last field")]
    TrailingBytes(usize),
    /// A value of the named field is outside its range.
    #[error("value out of range in {0}")]
    OutOfRange(&'static str),
    /// The content is valid but written in another way than this format writes it.
    #[error("not in canonical form")]
    NotCanonical,
}

impl From<EncodeError> for DecodeError {
    /// What must not be written must not be read either.
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::OutOfRange(field) | EncodeError::TooMany(field) => Self::OutOfRange(field),
        }
    }
}

/// Why a value cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// A value of the named field is outside its range.
    #[error("value out of range in {0}")]
    OutOfRange(&'static str),
    /// More entries than the format allows in the named field.
    #[error("too many entries in {0}")]
    TooMany(&'static str),
}

/// A signature that does not fit the device, the key or the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("signature does not fit device, key and content")]
pub struct BadSignature;

/// Why 32 bytes are not taken as a device's public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No point of the curve, or not in its one canonical encoding.
    #[error("not an Ed25519 public key")]
    NotAKey,
    /// A point of small order, or one with a part of small order: signatures could fit without a secret.
    #[error("a weak Ed25519 public key")]
    Weak,
}

/// Why a string is not a topic of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a topic of the form furrow/v1/DEVICE/(up|down|state)")]
pub struct TopicError;
