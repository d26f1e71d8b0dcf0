//! What the world shows beside the order: the track's facts, the calendar, the machine. Filled by the shell; an absent fact is never taken for one.

use chrono::{DateTime, Utc};

use crate::money::Fen;

/// Where the machine is, by fixes not older than 10 min and accurate to 50 m.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It has no device.
    NoDevice,
    /// Its device says nothing.
    Silent,
    /// Its fixes are too poor.
    Poor,
    /// Within the order's plots and the fence around them.
    AtPlot,
    /// Somewhere else.
    Elsewhere {
        /// From the plot.
        distance_m: u32,
    },
    /// It works there.
    Started {
        /// The first proven working step.
        at: DateTime<Utc>,
    },
}

/// The facts of a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Where the machine is.
    pub presence: Presence,
    /// It was in the fence at some time since an hour before the start.
    pub arrived: bool,
    /// Minutes in the fence at or after the start.
    pub present_min: u32,
    /// How far it has moved since its side said that it sets off, metres.
    pub moved_m: u32,
    /// Its device has spoken lately.
    pub online: bool,
    /// The last proven working step.
    pub last_work_at: Option<DateTime<Utc>>,
    /// It stands still, or is out of the fence, since then.
    pub stopped_since: Option<DateTime<Utc>>,
    /// The device has announced frames of the work window that are not here.
    pub frames_missing: bool,
    /// Another order of the machine is in work.
    pub other_in_work: bool,
    /// The machine is listed, verified, not in repair.
    pub machine_usable: bool,
    /// For a change of time: whether the calendar takes it, as the one predicate says.
    pub slot_free: bool,
    /// If it does not: from when on it is taken.
    pub next_busy_from: Option<DateTime<Utc>>,
    /// For a change of time: what it would cost.
    pub new_estimate_fen: Option<Fen>,
    /// The bill is over the operator's thresholds and nobody has passed it.
    pub bill_in_review: bool,
}

impl Default for Facts {
    /// A machine without a device whose calendar takes everything.
    fn default() -> Self {
        Self {
            presence: Presence::NoDevice,
            arrived: false,
            present_min: 0,
            moved_m: 0,
            online: false,
            last_work_at: None,
            stopped_since: None,
            frames_missing: false,
            other_in_work: false,
            machine_usable: true,
            slot_free: true,
            next_busy_from: None,
            new_estimate_fen: None,
            bill_in_review: false,
        }
    }
}
