//! Sorts fixes, drops what cannot be, and says why.

use std::cmp::Ordering;

use super::{Fix, Rejection};
use crate::geo::{Metres, projection::Projection};

/// No machine on a field or road is faster, m/s (54 km/h).
const JUMP_MPS: f64 = 15.0;
/// ... unless its own receiver says nearly so.
const JUMP_FACTOR: f64 = 3.0;
/// Places closer to 0/0 than this are none, degrees.
const NULL_ISLAND: f64 = 1e-5;

/// Fixes in time order with their places, and those left out with the reason.
#[must_use]
pub fn clean(
    fixes: &[Fix],
    projection: &Projection,
) -> (Vec<(Fix, Metres)>, Vec<(Fix, Rejection)>) {
    let mut sorted = fixes.to_vec();
    sorted.sort_by(order);
    let mut rejected = Vec::new();
    let mut kept: Vec<(Fix, Metres)> = Vec::with_capacity(sorted.len());
    for fix in sorted {
        match refuse(&fix, kept.last().map(|(last, _)| last)) {
            Some(reason) => rejected.push((fix, reason)),
            None => kept.push((fix, projection.metres(fix.place))),
        }
    }
    let jumps = jumps(&kept);
    let mut at = 0;
    kept.retain(|(fix, _)| {
        let jump = jumps.get(at).copied().unwrap_or(false);
        at += 1;
        if jump {
            rejected.push((*fix, Rejection::Jump));
        }
        !jump
    });
    rejected.sort_by(|a, b| order(&a.0, &b.0));
    (kept, rejected)
}

/// By time, then by everything else, so that the order of the input never shows. Of two fixes of one
/// time the one with the better quality comes first and stands.
fn order(a: &Fix, b: &Fix) -> Ordering {
    let number = |f: &Fix| {
        [
            f.place.lat,
            f.place.lon,
            f.speed_mps.unwrap_or(-1.0),
            f.width_m.unwrap_or(-1.0),
        ]
    };
    a.at_ms
        .cmp(&b.at_ms)
        .then(a.accuracy().total_cmp(&b.accuracy()))
        .then(a.quality.cmp(&b.quality))
        .then(b.work_on.cmp(&a.work_on))
        .then_with(|| {
            number(a)
                .iter()
                .zip(number(b))
                .map(|(x, y)| x.total_cmp(&y))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        })
}

fn refuse(fix: &Fix, last: Option<&Fix>) -> Option<Rejection> {
    let (lat, lon) = (fix.place.lat, fix.place.lon);
    if !(lat.is_finite() && lon.is_finite() && lat.abs() <= 90.0 && lon.abs() <= 360.0) {
        Some(Rejection::NotAPlace)
    } else if lat.abs() < NULL_ISLAND && lon.abs() < NULL_ISLAND {
        Some(Rejection::NullIsland)
    } else {
        let last = last.filter(|last| last.at_ms == fix.at_ms)?;
        Some(if last == fix {
            Rejection::Duplicate
        } else {
            Rejection::SameTime
        })
    }
}

/// Which fixes are too fast to both neighbours; the first and the last have one neighbour only and
/// go when that one is at ease with its own other neighbour.
fn jumps(kept: &[(Fix, Metres)]) -> Vec<bool> {
    let fast = |a: &(Fix, Metres), b: &(Fix, Metres), of: &(Fix, Metres)| {
        let seconds = ms(b.0.at_ms - a.0.at_ms);
        let speed = a.1.distance(b.1) / seconds.max(1e-3);
        speed > JUMP_MPS && speed > JUMP_FACTOR * of.0.speed().unwrap_or(0.0)
    };
    let mut out = vec![false; kept.len()];
    for (i, window) in kept.windows(3).enumerate() {
        let [a, b, c] = window else { continue };
        let middle = fast(a, b, b) && fast(b, c, b);
        if let Some(flag) = out.get_mut(i + 1) {
            // Of two neighbours that are both far from all, the first goes; then the other is judged anew.
            *flag = middle;
        }
        if i == 0 && fast(a, b, a) && !fast(b, c, b) {
            out[0] = true;
        }
        if i + 3 == kept.len() && fast(b, c, c) && !fast(a, b, b) {
            out[i + 2] = true;
        }
    }
    spare_neighbours(kept, &mut out, fast);
    out
}

/// A jump makes its neighbours look fast too: who is at ease with the nearest kept ones stays.
fn spare_neighbours(
    kept: &[(Fix, Metres)],
    out: &mut [bool],
    fast: impl Fn(&(Fix, Metres), &(Fix, Metres), &(Fix, Metres)) -> bool,
) {
    let mut last_kept: Option<usize> = None;
    for i in 0..out.len() {
        let flagged = out.get(i).copied().unwrap_or(false);
        let spared = flagged
            && i > 0
            && i + 1 < kept.len()
            && last_kept
                .and_then(|l| kept.get(l))
                .zip(kept.get(i))
                .is_some_and(|(a, b)| !fast(a, b, b));
        if spared && let Some(flag) = out.get_mut(i) {
            *flag = false;
        }
        if !flagged || spared {
            last_kept = Some(i);
        }
    }
}

/// Milliseconds as seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "differences of times are far below 2^53 ms"
)]
pub(super) fn ms(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
