//! Where positions come from; every source gives the same events and never blocks another.

pub mod gpsd;
mod gpx;
pub mod live;
pub mod nmea;
pub mod recorded;
pub mod replay;

use std::{collections::BTreeMap, fmt};

use crate::position::Position;

/// What a source tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A position, newer than the one before, or the first after a [`Event::ClockStep`].
    Position(Position),
    /// Something that gives no position.
    Skipped(Skip),
    /// The receiver's time went back; a new sequence of time begins.
    ClockStep {
        /// Last time given, ms since 1970 UTC.
        from_ms: i64,
        /// First time of the new sequence, ms since 1970 UTC.
        to_ms: i64,
    },
    /// The receiver does not answer, or is gone.
    NoReceiver,
}

/// What a source tells, or nothing but that time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// The source's monotonic time, ms: a recorded track has one of its own.
    pub now_ms: u64,
    /// What it tells.
    pub event: Option<Event>,
}

/// Why something gives no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// A checksum that does not fit.
    BadChecksum,
    /// A sentence cut off before its checksum.
    NoChecksum,
    /// Bytes that are no sentence, or one over the limit.
    Garbage,
    /// A line that cannot be read.
    Malformed(&'static str),
    /// The receiver has no place to tell, or not one to believe.
    Void(&'static str),
    /// Not newer than the last position.
    NotNewer,
    /// The date never came.
    Undated,
    /// Left out to keep the asked rate.
    Thinned,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadChecksum => "wrong checksum",
            Self::NoChecksum => "sentence without checksum",
            Self::Garbage => "no sentence, or one over 256 bytes",
            Self::Malformed(what) | Self::Void(what) => what,
            Self::NotNewer => "not newer than the last position",
            Self::Undated => "date never known",
            Self::Thinned => "left out by the rate",
        })
    }
}

/// How often each reason came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Skip, u64>);

impl Skipped {
    /// Counts one.
    pub fn count(&mut self, skip: Skip) {
        *self.0.entry(skip).or_default() += 1;
    }

    /// Reasons with their counts, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, u64)> + '_ {
        self.0.iter().map(|(skip, n)| (*skip, *n))
    }
}

/// A time that lies back by more than this is a step of the clock, not a duplicate, ms.
const STEP_BACK_MS: i64 = 60_000;

/// Keeps the times of a source in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Order {
    given_ms: Option<i64>,
}

impl Order {
    /// Hands a position over if it is newer than the last, or so far back that the clock was set.
    pub fn give(&mut self, position: Position, mut take: impl FnMut(Event)) {
        if let Some(given) = self.given_ms.filter(|given| position.at_ms <= *given) {
            if given.saturating_sub(position.at_ms) <= STEP_BACK_MS {
                return take(Event::Skipped(Skip::NotNewer));
            }
            take(Event::ClockStep {
                from_ms: given,
                to_ms: position.at_ms,
            });
        }
        self.given_ms = Some(position.at_ms);
        take(Event::Position(position));
    }
}
