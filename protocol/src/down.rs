//! What the platform says to a device: acks, refusals, settings.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{
    error::{DecodeError, EncodeError},
    frame::Digest,
    wire::{Reader, put},
};

/// The layout that this build writes.
pub const VERSION: u8 = 1;
/// Most ranges in an ack; more are several acks.
pub const MAX_RANGES: usize = 128;
/// Most bytes of a down message.
pub const MAX_DOWN_BYTES: usize = 4096;

/// Why the platform will never store a payload. The order is the number on the wire: new ones go last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RefusedReason {
    /// Not a frame.
    Undecodable,
    /// A version that the platform does not know yet.
    UnknownVersion,
    /// The signature does not fit the device's key.
    BadSignature,
    /// Dated too far in the past.
    TooOld,
    /// Dated in the future.
    Ahead,
    /// The device is revoked.
    Revoked,
}

/// Settings that may be changed from afar. Never server, keys or spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Settings {
    /// Echoed in `state`.
    pub version: u32,
    /// Fixes per second x 10: 1 ..= 100.
    pub rate_dhz: Option<u16>,
    /// Length of a batch, s: 1 ..= 60.
    pub batch_s: Option<u16>,
    /// Most unacknowledged frames: 1 ..= 32.
    pub window: Option<u16>,
    /// Log level.
    pub log_level: Option<LogLevel>,
}

/// Log level of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogLevel {
    /// Errors only.
    Error,
    /// Warnings too.
    Warn,
    /// The default.
    Info,
    /// For finding faults.
    Debug,
}

impl Settings {
    fn out_of_range(&self) -> Option<&'static str> {
        if self.rate_dhz.is_some_and(|v| !(1..=100).contains(&v)) {
            Some("rate")
        } else if self.batch_s.is_some_and(|v| !(1..=60).contains(&v)) {
            Some("batch time")
        } else if self.window.is_some_and(|v| !(1..=32).contains(&v)) {
            Some("window")
        } else {
            None
        }
    }
}

const ACK: u8 = 0;
const REFUSED: u8 = 1;
const SETTINGS: u8 = 2;

/// A down message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Down {
    /// Exactly these sequences are committed: the device may forget them.
    Ack {
        /// Their epoch.
        epoch: u64,
        /// Inclusive, ascending, neither touching nor overlapping; at least one, at most [`MAX_RANGES`].
        ranges: Vec<(u64, u64)>,
    },
    /// This payload is kept but never stored as a track.
    Refused {
        /// [`crate::frame::payload_digest`] of it.
        digest: Digest,
        /// Why.
        reason: RefusedReason,
    },
    /// New settings.
    Settings(Settings),
}

impl Down {
    /// The message's bytes: version, then postcard.
    ///
    /// Errors: a value out of range, or too many ranges.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.check()?;
        Ok(self.write())
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        out.push(VERSION);
        match self {
            Self::Ack { epoch, ranges } => {
                out.push(ACK);
                put(&mut out, epoch);
                put(&mut out, ranges);
            }
            Self::Refused { digest, reason } => {
                out.push(REFUSED);
                out.extend_from_slice(&digest.0);
                put(&mut out, reason);
            }
            Self::Settings(settings) => {
                out.push(SETTINGS);
                put(&mut out, settings);
            }
        }
        out
    }

    /// The message that these bytes hold.
    ///
    /// Errors: anything that [`Down::encode`] would not have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, VERSION, MAX_DOWN_BYTES)?;
        let down = match reader.take_byte("kind")? {
            ACK => Self::Ack {
                epoch: reader.take("epoch")?,
                ranges: read_ranges(&mut reader)?,
            },
            REFUSED => Self::Refused {
                digest: Digest(reader.take_array("digest")?),
                reason: reader.take("reason")?,
            },
            SETTINGS => Self::Settings(reader.take("settings")?),
            _ => return Err(DecodeError::OutOfRange("kind")),
        };
        reader.end()?;
        down.check()?;
        if down.write() == bytes {
            Ok(down)
        } else {
            Err(DecodeError::NotCanonical)
        }
    }

    fn check(&self) -> Result<(), EncodeError> {
        match self {
            Self::Ack { ranges, .. } if ranges.len() > MAX_RANGES => {
                Err(EncodeError::TooMany("ranges"))
            }
            Self::Ack { ranges, .. } if !ranges_in_order(ranges) => {
                Err(EncodeError::OutOfRange("ranges"))
            }
            Self::Settings(settings) => settings
                .out_of_range()
                .map_or(Ok(()), |f| Err(EncodeError::OutOfRange(f))),
            Self::Ack { .. } | Self::Refused { .. } => Ok(()),
        }
    }
}

/// Bounded before anything is allocated.
fn read_ranges(reader: &mut Reader<'_>) -> Result<Vec<(u64, u64)>, DecodeError> {
    let count = reader.take_count(MAX_RANGES, "ranges")?;
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        ranges.push(reader.take("ranges")?);
    }
    Ok(ranges)
}

fn ranges_in_order(ranges: &[(u64, u64)]) -> bool {
    !ranges.is_empty()
        && ranges
            .iter()
            .all(|(first, last)| 1 <= *first && first <= last)
        && ranges
            .windows(2)
            .all(|pair| matches!(pair, [(_, a), (b, _)] if a.saturating_add(1) < *b))
}

/// Acks for these sequences (in any order, repeated or not, each from 1), in as few messages as their ranges fit in.
#[must_use]
pub fn acks(epoch: u64, mut seqs: Vec<u64>) -> Vec<Down> {
    seqs.sort_unstable();
    seqs.dedup();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for seq in seqs {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(seq) => *last = seq,
            _ => ranges.push((seq, seq)),
        }
    }
    ranges
        .chunks(MAX_RANGES)
        .map(|part| Down::Ack {
            epoch,
            ranges: part.to_vec(),
        })
        .collect()
}
