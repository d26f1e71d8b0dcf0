//! Furrow's wire format: fixes, batches, signed and chained frames, topics, down and state messages. Never does I/O and never reads a clock.
//!
//! `README.md` beside this crate gives the same format in words, byte by byte.
//!
//! ```
//! use furrow_protocol::{
//!     SigningKey,
//!     batch::Batch,
//!     fix::Fix,
//!     frame::{Device, Frame, genesis},
//! };
//!
//! let key = SigningKey::from_bytes(&[7; 32]);
//! let (device, epoch) = (Device(4711), 0x0123_4567_89ab_cdef);
//! let fix = Fix {
//!     at_ms: 1_577_986_220_000,
//!     lat_e7: 545_738_029,
//!     lon_e7: 101_880_516,
//!     ..Fix::default()
//! };
//! let batch = Batch {
//!     at_ms: fix.at_ms,
//!     boot: 1,
//!     monotonic_ms: 5_000,
//!     fixes: vec![fix],
//!     gaps: vec![],
//!     former: None,
//!     ext: vec![],
//! };
//!
//! // The agent: sign, store, send.
//! let prev = genesis(device, epoch, &key.verifying_key());
//! let sent = Frame::sign(&key, device, epoch, 1, prev, batch.encode()?).to_bytes();
//!
//! // The platform: read, verify, and keep the digest as the next frame's `prev`.
//! let frame = Frame::from_bytes(&sent)?;
//! frame.verify(device, &key.verifying_key())?;
//! assert_eq!(Batch::decode(&frame.batch)?, batch);
//! let next_prev = frame.digest(device);
//! # assert_ne!(next_prev, prev);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(not(feature = "std"), no_std)]
#![warn(missing_docs)]

extern crate alloc;

pub mod batch;
mod column;
pub mod down;
pub mod error;
pub mod fix;
pub mod frame;
pub mod key;
pub mod state;
pub mod topic;
mod wire;

pub use ed25519_dalek::{SigningKey, VerifyingKey};
