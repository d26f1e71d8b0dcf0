//! The frame: a batch with its place in the device's chain and the device's signature. Never looks into the batch.

use alloc::vec::Vec;
use core::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    error::{BadSignature, DecodeError},
    wire::{Reader, put, varint_len},
};

/// The layout that this build writes.
pub const VERSION: u8 = 1;
/// Most bytes of a frame: the largest batch fits.
pub const MAX_FRAME_BYTES: usize = 48 * 1024;

const FRAME_TAG: &[u8] = b"furrow frame v1\0";
const EPOCH_TAG: &[u8] = b"furrow epoch v1\0";
const SIGNATURE_BYTES: usize = 64;

/// A device's short number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Device(pub u32);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The first 16 bytes of a SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The digest of a frame whose [`Frame::signed_bytes`] are at hand.
    #[must_use]
    pub fn of_signed(signed: &[u8]) -> Self {
        Self::of(&[signed])
    }

    fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        let full = hash.finalize();
        let short = full.first_chunk().copied();
        Self(short.expect("a SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Random number, made with the spool.
    pub epoch: u64,
    /// From 1, never used twice in an epoch.
    pub seq: u64,
    /// [`Frame::digest`] of the frame before, or [`genesis`] for the first.
    pub prev: Digest,
    /// An encoded batch.
    pub batch: Vec<u8>,
    /// Ed25519 over [`Frame::signed_bytes`].
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Frame {
    /// Signs a batch into its place in the chain.
    #[must_use]
    pub fn sign(
        key: &SigningKey,
        device: Device,
        epoch: u64,
        seq: u64,
        prev: Digest,
        batch: Vec<u8>,
    ) -> Self {
        let mut frame = Self {
            epoch,
            seq,
            prev,
            batch,
            signature: [0; SIGNATURE_BYTES],
        };
        frame.signature = key.sign(&frame.signed_bytes(device)).to_bytes();
        frame
    }

    /// The frame's bytes: version, epoch, seq, prev, batch, signature.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + 8 + 10 + 16 + self.batch.len() + SIGNATURE_BYTES);
        out.push(VERSION);
        out.extend_from_slice(&self.epoch.to_be_bytes());
        put(&mut out, &self.seq);
        out.extend_from_slice(&self.prev.0);
        out.extend_from_slice(&self.batch);
        out.extend_from_slice(&self.signature);
        out
    }

    /// The frame that these bytes hold. The batch in it is not looked at.
    ///
    /// Errors: an unknown version, a wrong size, or another form than [`Frame::to_bytes`] writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, VERSION, MAX_FRAME_BYTES)?;
        let epoch = u64::from_be_bytes(reader.take_array("epoch")?);
        let before = reader.rest().len();
        let seq: u64 = reader.take("seq")?;
        if before - reader.rest().len() != varint_len(seq) {
            return Err(DecodeError::NotCanonical);
        }
        if seq == 0 {
            return Err(DecodeError::OutOfRange("seq"));
        }
        let prev = Digest(reader.take_array("prev")?);
        let (batch, signature) = reader
            .rest()
            .split_last_chunk()
            .ok_or(DecodeError::Malformed("signature"))?;
        Ok(Self {
            epoch,
            seq,
            prev,
            batch: batch.to_vec(),
            signature: *signature,
        })
    }

    /// What the signature is over: domain tag, device, epoch, seq (big endian), prev, batch.
    #[must_use]
    pub fn signed_bytes(&self, device: Device) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAME_TAG.len() + 4 + 8 + 8 + 16 + self.batch.len());
        out.extend_from_slice(FRAME_TAG);
        out.extend_from_slice(&device.0.to_be_bytes());
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.prev.0);
        out.extend_from_slice(&self.batch);
        out
    }

    /// What the next frame's `prev` must be: over all but the signature.
    #[must_use]
    pub fn digest(&self, device: Device) -> Digest {
        Digest::of(&[&self.signed_bytes(device)])
    }

    /// Strict verification (no small-order keys or points, canonical encodings only).
    ///
    /// Errors: [`BadSignature`].
    pub fn verify(&self, device: Device, key: &VerifyingKey) -> Result<(), BadSignature> {
        key.verify_strict(
            &self.signed_bytes(device),
            &Signature::from_bytes(&self.signature),
        )
        .map_err(|_| BadSignature)
    }
}

/// `prev` of the first frame of an epoch.
#[must_use]
pub fn genesis(device: Device, epoch: u64, key: &VerifyingKey) -> Digest {
    Digest::of(&[
        EPOCH_TAG,
        &device.0.to_be_bytes(),
        &epoch.to_be_bytes(),
        key.as_bytes(),
    ])
}

/// Names a payload that cannot be read, for a Refused.
#[must_use]
pub fn payload_digest(payload: &[u8]) -> Digest {
    Digest::of(&[payload])
}
