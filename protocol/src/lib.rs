//! Furrow's wire format: fixes, batches, signed and chained frames, topics, down and state messages. Never does I/O and never reads a clock.
//!
//! `README.md` beside this crate gives the same format in words, byte by byte.
#![cfg_attr(not(feature = "std"), no_std)]

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
