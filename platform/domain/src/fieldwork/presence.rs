//! Arrival and leaving: when a machine was at a plot. Never says where else it was.

use crate::{geo::region::Lookup, track::Track};

/// Inside for so long is arrived, ms.
const ARRIVE_MS: i64 = 60_000;
/// Outside for so long is gone, ms.
const LEAVE_MS: i64 = 300_000;

/// How far the plot is grown to judge arrival, m.
pub(super) const ARRIVE_GROWN_M: f64 = 10.0;
/// ... and leaving, m.
pub(super) const LEAVE_GROWN_M: f64 = 30.0;

/// When the machine came and went, ms since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Presence {
    pub arrived_ms: Option<i64>,
    pub left_ms: Option<i64>,
}

/// Arrival is the begin of the first 60 s inside `near`; leaving the begin of the last 5 min outside
/// `far` that nothing comes back from within the track's plot visits.
pub(super) fn presence(track: &Track, near: &Lookup, far: &Lookup) -> Presence {
    let arrived_ms = dwell(track, 0, ARRIVE_MS, |place| near.contains(place)).map(|(_, at)| at);
    let left_ms = arrived_ms.and_then(|arrived| last_leaving(track, arrived, far));
    Presence {
        arrived_ms,
        left_ms,
    }
}

/// The first point from `from` on where `inside` holds for `ms`, with its time.
fn dwell(
    track: &Track,
    from: usize,
    ms: i64,
    inside: impl Fn(crate::geo::Metres) -> bool,
) -> Option<(usize, i64)> {
    let mut begin: Option<(usize, i64)> = None;
    for (i, point) in track.points.iter().enumerate().skip(from) {
        if !inside(point.place) {
            begin = None;
            continue;
        }
        let (at, since) = *begin.get_or_insert((i, point.fix.at_ms));
        if point.fix.at_ms - since >= ms {
            return Some((at, since));
        }
    }
    None
}

/// Machines go for fuel and come back: the leaving that counts is the last one.
fn last_leaving(track: &Track, arrived_ms: i64, far: &Lookup) -> Option<i64> {
    let last_inside = track
        .points
        .iter()
        .rposition(|p| p.fix.at_ms >= arrived_ms && far.contains(p.place))
        .map_or(0, |i| i + 1);
    dwell(track, last_inside, LEAVE_MS, |place| !far.contains(place)).map(|(_, at)| at)
}
