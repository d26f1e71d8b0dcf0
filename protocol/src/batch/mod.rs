//! The batch: up to 600 fixes and what happened between them, the unit that is stored, signed, sent and acknowledged. Never signs.

mod codec;
mod field;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{
    error::{DecodeError, EncodeError},
    fix::Fix,
    frame::Digest,
};

/// Most fixes in a batch.
pub const MAX_FIXES: usize = 600;
/// Most gaps in a batch.
pub const MAX_GAPS: usize = 128;
/// Most extensions in a batch.
pub const MAX_EXTS: usize = 16;
/// Most bytes of an extension.
pub const MAX_EXT_BYTES: usize = 64;
/// Most bytes of an encoded batch; the largest content within the other limits takes less.
pub const MAX_BATCH_BYTES: usize = 40 * 1024;
/// Most milliseconds from the first to the last fix: 24 h. A reader that wants every batch that
/// reaches into a window looks so far back and no further.
pub const MAX_SPAN_MS: i64 = 86_400_000;

/// Why something is missing. The order is the number on the wire: new ones go last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GapReason {
    /// The spool's quota or the disk's floor needed the space.
    QuotaDropped,
    /// The record was damaged on disk.
    Damaged,
    /// The disk refused the write or the sync.
    DiskFailed,
    /// The receiver had no fix.
    NoFix,
    /// The receiver was not there or silent.
    NoReceiver,
    /// The receiver's time jumped.
    ClockStep,
    /// Positions whose date never came.
    Undated,
    /// The agent's own queue overflowed.
    Overrun,
}

/// Something that is missing, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Gap {
    /// Frames `first..=last` of `epoch` will never come.
    Sequences {
        /// Epoch they belong to.
        epoch: u64,
        /// First sequence, from 1.
        first: u64,
        /// Last sequence, not below `first`.
        last: u64,
        /// Why.
        reason: GapReason,
    },
    /// No fix from `from_ms` to `to_ms` (ms since 1970 UTC, `from_ms < to_ms`, their difference an i64).
    Silence {
        /// Time of the last fix before.
        from_ms: i64,
        /// Time of the first fix after.
        to_ms: i64,
        /// Why.
        reason: GapReason,
    },
}

impl Gap {
    fn in_range(&self) -> bool {
        match *self {
            Self::Sequences { first, last, .. } => 1 <= first && first <= last,
            // A difference that wraps would make a panic or nonsense of every sum of silences.
            Self::Silence { from_ms, to_ms, .. } => {
                to_ms.checked_sub(from_ms).is_some_and(|length| length > 0)
            }
        }
    }
}

/// The epoch before this one; told by the first batch of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FormerEpoch {
    /// Its number.
    pub epoch: u64,
    /// Its last sequence and that frame's digest, where known; an epoch without them is a gap.
    pub last: Option<(u64, Digest)>,
}

/// An extension: signed and kept, skipped by whoever does not know the tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ext {
    /// What it is.
    pub tag: u16,
    /// At most [`MAX_EXT_BYTES`].
    pub bytes: Vec<u8>,
}

/// A batch. Its fixes are strictly ascending in time and span at most [`MAX_SPAN_MS`]: where time
/// jumps back, or further ahead, the agent closes the batch ([`Batch::takes`]).
///
/// Times may be any i64 here: whether a time is believed is the platform's judgement, which must be
/// able to read a frame that it does not believe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Time of the first fix, or of a batch without one: last fix plus monotonic time. ms since 1970 UTC.
    pub at_ms: i64,
    /// Random number of this start of the agent.
    pub boot: u32,
    /// Monotonic milliseconds since that start, at the first fix.
    pub monotonic_ms: u64,
    /// At most [`MAX_FIXES`].
    pub fixes: Vec<Fix>,
    /// At most [`MAX_GAPS`].
    pub gaps: Vec<Gap>,
    /// Only in the first batch of an epoch that is not the first.
    pub former: Option<FormerEpoch>,
    /// At most [`MAX_EXTS`].
    pub ext: Vec<Ext>,
}

impl Batch {
    /// Time of the last fix, or the batch's own time where it has none. ms since 1970 UTC.
    #[must_use]
    pub fn last_at_ms(&self) -> i64 {
        self.fixes.last().map_or(self.at_ms, |f| f.at_ms)
    }

    /// Whether a fix of this time may be the next one here.
    #[must_use]
    pub fn takes(&self, at_ms: i64) -> bool {
        self.fixes.len() < MAX_FIXES
            && match (self.fixes.first(), self.fixes.last()) {
                (Some(first), Some(last)) => last.at_ms < at_ms && spans(first.at_ms, at_ms),
                _ => true,
            }
    }

    /// The batch's bytes.
    ///
    /// Errors: a value out of range, fixes not strictly ascending or over too long a span, `at_ms`
    /// not the time of the first fix, or too many entries.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.check()?;
        Ok(codec::write(self))
    }

    /// The batch that these bytes hold.
    ///
    /// Errors: anything that [`Batch::encode`] would not have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let batch = codec::read(bytes)?;
        batch.check()?;
        // Varints can be padded and a column told in more than one form; one content has one form.
        if codec::write(&batch) == bytes {
            Ok(batch)
        } else {
            Err(DecodeError::NotCanonical)
        }
    }

    fn check(&self) -> Result<(), EncodeError> {
        for (field, entries, most) in [
            ("fixes", self.fixes.len(), MAX_FIXES),
            ("gaps", self.gaps.len(), MAX_GAPS),
            ("extensions", self.ext.len(), MAX_EXTS),
        ] {
            if entries > most {
                return Err(EncodeError::TooMany(field));
            }
        }
        match self.out_of_range() {
            None => Ok(()),
            Some(field) => Err(EncodeError::OutOfRange(field)),
        }
    }

    fn out_of_range(&self) -> Option<&'static str> {
        let first_at = self.fixes.first().map_or(self.at_ms, |f| f.at_ms);
        let mut pairs = self.fixes.iter().zip(self.fixes.iter().skip(1));
        if self.at_ms != first_at {
            Some("time of the first fix")
        } else if pairs.any(|(a, b)| a.at_ms >= b.at_ms) {
            Some("order of fixes")
        } else if !spans(first_at, self.last_at_ms()) {
            Some("span of fixes")
        } else if let Some(field) = self.fixes.iter().find_map(Fix::out_of_range) {
            Some(field)
        } else if !self.gaps.iter().all(Gap::in_range) {
            Some("gaps")
        } else if (self.former).is_some_and(|f| f.last.is_some_and(|(seq, _)| seq == 0)) {
            Some("former epoch")
        } else if self.ext.iter().any(|e| e.bytes.len() > MAX_EXT_BYTES) {
            Some("extension")
        } else {
            None
        }
    }
}

/// Whether a batch may reach from one time to the other, which is not before it.
fn spans(first_ms: i64, last_ms: i64) -> bool {
    last_ms
        .checked_sub(first_ms)
        .is_some_and(|span| span <= MAX_SPAN_MS)
}
