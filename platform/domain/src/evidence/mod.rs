//! The verdict on a device's chain of frames: what links, what is missing, what contradicts. Never decodes a frame and never checks a signature.
//!
//! The chain is told here as [`Link`]s; whoever holds the frames makes them and says of each whether
//! its signature is good. The verdict depends on the set of links alone, not on their order or on
//! how often one is given.
//!
//! `prev` is judged between two kept frames of one epoch with consecutive sequences and nowhere
//! else. A missing neighbour is a gap, never a contradiction. A link without a good signature
//! proves nothing: it is listed, and takes part in nothing else, or a forger could cast doubt on
//! the frames beside his.

mod epoch;
mod judge;

use serde::Serialize;

pub use judge::judge;

/// First 16 bytes of the SHA-256 over all that a frame's signature is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Digest(pub [u8; 16]);

/// What an epoch's first frame says of the epoch before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Former {
    /// Number of the former epoch.
    pub epoch: u64,
    /// Its last sequence and that frame's digest; none where the device does not know them.
    pub last: Option<(u64, Digest)>,
}

/// A kept frame, as far as the chain is concerned. Frames in quarantine with a good signature are links too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// Random number of the spool it was written to.
    pub epoch: u64,
    /// Sequence in the epoch, from 1.
    pub seq: u64,
    /// This frame's digest.
    pub digest: Digest,
    /// What it says the digest of frame `seq - 1` is.
    pub prev: Digest,
    /// Whether strict verification accepts its signature.
    pub signature_ok: bool,
    /// Time of its first fix, ms since 1970 UTC.
    pub first_ms: i64,
    /// Time of its last fix, ms since 1970 UTC.
    pub last_ms: i64,
    /// Of the first frame of an epoch: what `prev` must be, by device, epoch and key.
    pub genesis: Option<Digest>,
    /// Of the first frame of an epoch: the epoch before.
    pub former: Option<Former>,
}

/// Why the device says that it lost frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// The spool's quota or the disk's floor needed the space.
    QuotaDropped,
    /// The record was damaged on disk.
    Damaged,
    /// The disk refused the write.
    DiskFailed,
    /// Another reason of the device.
    Other,
}

/// Frames that the device announced as lost, in a frame with a good signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loss {
    /// Their epoch.
    pub epoch: u64,
    /// First sequence.
    pub first: u64,
    /// Last sequence.
    pub last: u64,
    /// Why.
    pub reason: LossReason,
}

/// How much of the device's life the links cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of it: every epoch begins with sequence 1, and what was before the first is asked for too.
    Whole,
    /// A window: the epoch of the earliest frame may begin anywhere, and what was before it is not asked for.
    Window,
}

/// How two kept frames stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bond {
    /// Consecutive, and `prev` is the other's digest.
    Linked,
    /// Consecutive, and `prev` is not the other's digest.
    Contradiction,
    /// Not consecutive frames of one epoch: nothing follows from `prev`.
    Apart,
}

impl Link {
    /// How this frame stands to the one that may follow it.
    #[must_use]
    pub fn bond(&self, next: &Self) -> Bond {
        epoch::place(self).bond(next.epoch, next.seq, next.prev)
    }
}

/// The place of a frame and which frame it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// Epoch.
    pub epoch: u64,
    /// Sequence.
    pub seq: u64,
    /// Digest.
    pub digest: Digest,
}

impl Place {
    /// How this frame stands to the one of `epoch` and `seq` that names `prev` as the one before it.
    #[must_use]
    pub fn bond(&self, epoch: u64, seq: u64, prev: Digest) -> Bond {
        if self.epoch != epoch || self.seq.checked_add(1) != Some(seq) {
            Bond::Apart
        } else if self.digest == prev {
            Bond::Linked
        } else {
            Bond::Contradiction
        }
    }
}

/// Frames `first..=last` of an epoch that all are kept, each linked to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Epoch.
    pub epoch: u64,
    /// First sequence.
    pub first: u64,
    /// Last sequence.
    pub last: u64,
    /// `prev` of the first frame.
    pub prev: Digest,
    /// Digest of the last frame.
    pub head: Digest,
    /// Earliest time of a fix in it, ms.
    pub first_ms: i64,
    /// Latest time of a fix in it, ms.
    pub last_ms: i64,
}

/// What is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Gap {
    /// Frames `first..=last` of an epoch.
    Sequences {
        /// Epoch.
        epoch: u64,
        /// First missing sequence.
        first: u64,
        /// Last missing sequence.
        last: u64,
        /// Last fix of the kept frame before, ms; none where there is none in the epoch.
        from_ms: Option<i64>,
        /// First fix of the kept frame after, ms; none where there is none in the epoch.
        to_ms: Option<i64>,
        /// Why, where the device announced it.
        reason: Option<LossReason>,
    },
    /// Whatever came after the last kept frame of an epoch whose end nobody knows.
    UnknownEnd {
        /// Epoch.
        epoch: u64,
        /// Last kept sequence; 0 if none is kept.
        after: u64,
        /// Last fix of that frame, ms.
        from_ms: Option<i64>,
    },
}

/// Two signed statements that cannot both be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Contradiction {
    /// Another frame stands at the same place; one entry for each frame of it but the smallest digest.
    OtherFrame {
        /// The smallest digest there.
        one: Place,
        /// This one's.
        other: Digest,
    },
    /// `prev` is no digest of a frame kept at the sequence before.
    BrokenLink {
        /// The later frame.
        frame: Place,
        /// What it says came before.
        prev: Digest,
        /// The smallest digest that is kept there.
        kept: Digest,
    },
    /// `prev` of an epoch's first frame is not that of this device, epoch and key.
    BrokenGenesis {
        /// The frame.
        frame: Place,
        /// What it says.
        prev: Digest,
        /// What it must say.
        genesis: Digest,
    },
    /// The next epoch names another last frame than is kept at that sequence.
    BrokenFormer {
        /// First frame of the next epoch.
        frame: Place,
        /// What it names.
        named: Place,
        /// The smallest digest that is kept there.
        kept: Digest,
    },
    /// A frame is kept beyond the end that the next epoch names. A disk that lost what it had
    /// synced and the platform already has makes one too.
    BeyondEnd {
        /// First frame of the next epoch.
        frame: Place,
        /// Epoch that it names.
        epoch: u64,
        /// End that it names.
        end: u64,
        /// Highest sequence that is kept.
        kept: u64,
    },
    /// Epochs that each name another as the one before, in a circle; told of its smallest number.
    FormerCircle {
        /// Its smallest epoch.
        epoch: u64,
    },
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Verdict {
    /// Frames with a good signature, each place and digest once.
    pub frames: usize,
    /// Links whose signature is not good.
    pub unsigned: Vec<Place>,
    /// Linked runs, epochs by their earliest fix, then by sequence.
    pub runs: Vec<Run>,
    /// What is missing, in the same order.
    pub gaps: Vec<Gap>,
    /// What contradicts, in the order of the enum, then by place.
    pub contradictions: Vec<Contradiction>,
}

impl Verdict {
    /// Nothing is missing, nothing contradicts, every signature is good.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.gaps.is_empty() && self.contradictions.is_empty() && self.unsigned.is_empty()
    }
}
