//! Sorts fixes, drops what cannot be, and says why. Never moves a fix, and never lets the order of the input show.

use std::cmp::Ordering;

use super::{Fix, JUMP_MPS, Rejection, TRANSPORT_MPS};
use crate::geo::{Metres, projection::Projection};

/// A step is a jump only if the receivers' own speed, times this, does not explain it either.
const JUMP_FACTOR: f64 = 3.0;
/// Shorter steps than this many accuracies are noise, however little time lies between.
const JUMP_ACCURACY: f64 = 3.0;
/// Places closer to 0/0 than this are none, degrees.
const NULL_ISLAND: f64 = 1e-5;
/// A receiver that is wrong for longer than this is not taken for a jump, ms.
const ISLAND_MS: i64 = 3_000;
/// Times beyond the years 1 to 9999 are none, ms from 1970.
const TIMES_MS: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// Fixes with their places, and those left out with the reason, both in time order.
pub type Cleaned = (Vec<(Fix, Metres)>, Vec<(Fix, Rejection)>);

/// Sorts and cleans fixes in any order.
#[must_use]
pub fn clean(fixes: &[Fix], projection: &Projection) -> Cleaned {
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
    let mut flags = jumps.iter();
    kept.retain(|(fix, _)| {
        let jump = flags.next().copied().unwrap_or(false);
        if jump {
            rejected.push((*fix, Rejection::Jump));
        }
        !jump
    });
    rejected.sort_by(|a, b| order(&a.0, &b.0).then(a.1.cmp(&b.1)));
    (kept, rejected)
}

/// By time, then by everything else, so that the order of the input never shows. Of two fixes of one
/// time the one with the better accuracy comes first and stands.
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
        .then(a.sections.cmp(&b.sections))
        .then_with(|| {
            number(a)
                .iter()
                .zip(number(b))
                .map(|(x, y)| x.total_cmp(&y))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        })
}

/// What is wrong with a fix by itself, or beside the one before.
pub(super) fn refuse(fix: &Fix, last: Option<&Fix>) -> Option<Rejection> {
    let (lat, lon) = (fix.place.lat, fix.place.lon);
    if !TIMES_MS.contains(&fix.at_ms) {
        Some(Rejection::NoTime)
    } else if !(lat.is_finite() && lon.is_finite() && lat.abs() <= 90.0 && lon.abs() <= 360.0) {
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

/// Speed between two kept fixes, m/s.
fn speed(a: &(Fix, Metres), b: &(Fix, Metres)) -> f64 {
    a.1.distance(b.1) / ms(b.0.at_ms - a.0.at_ms).max(1e-3)
}

/// Whether no machine gets from one to the other: over 15 m/s, over three times what either
/// receiver's reading says, and more than noise.
pub(super) fn fast(a: &(Fix, Metres), b: &(Fix, Metres)) -> bool {
    let told = match (a.0.speed(), b.0.speed()) {
        (Some(a), Some(b)) => a.min(b),
        (one, other) => one.or(other).unwrap_or(0.0),
    };
    let noise = JUMP_ACCURACY * a.0.accuracy().max(b.0.accuracy());
    let speed = speed(a, b);
    speed > JUMP_MPS && speed > JUMP_FACTOR * told && a.1.distance(b.1) > noise
}

/// Fixes between two impossible steps: a stretch that hangs together.
struct Stretch {
    begin: usize,
    end: usize,
}

/// Which fixes are jumps. The track is cut at its impossible steps; a short stretch goes when what
/// lies before and after agrees without it, or when no transport explains the way to it.
fn jumps(kept: &[(Fix, Metres)]) -> Vec<bool> {
    let mut out = vec![false; kept.len()];
    let stretches = stretches(kept);
    let mut before: Option<&Stretch> = None;
    for (i, stretch) in stretches.iter().enumerate() {
        let after = stretches.get(i + 1);
        if is_jump(kept, before, stretch, after) {
            if let Some(flags) = out.get_mut(stretch.begin..stretch.end) {
                flags.fill(true);
            }
        } else {
            before = Some(stretch);
        }
    }
    out
}

fn stretches(kept: &[(Fix, Metres)]) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let mut begin = 0;
    for (i, pair) in kept.windows(2).enumerate() {
        if let [a, b] = pair
            && fast(a, b)
        {
            stretches.push(Stretch { begin, end: i + 1 });
            begin = i + 1;
        }
    }
    stretches.push(Stretch {
        begin,
        end: kept.len(),
    });
    stretches
}

fn is_jump(
    kept: &[(Fix, Metres)],
    before: Option<&Stretch>,
    stretch: &Stretch,
    after: Option<&Stretch>,
) -> bool {
    let first = |s: &Stretch| kept.get(s.begin);
    let last = |s: &Stretch| s.end.checked_sub(1).and_then(|i| kept.get(i));
    let size = |s: &Stretch| s.end - s.begin;
    let (Some(entry), Some(exit)) = (first(stretch), last(stretch)) else {
        return false;
    };
    if exit.0.at_ms - entry.0.at_ms > ISLAND_MS {
        return false;
    }
    let (from, to) = (before.and_then(last), after.and_then(first));
    match (from, to) {
        (Some(from), Some(to)) => {
            let near = !fast(from, entry);
            let carried = speed(from, entry) <= TRANSPORT_MPS && speed(exit, to) <= TRANSPORT_MPS;
            let comes_back = !fast(from, to);
            !near && (comes_back || !carried)
        }
        // A wrong first or last fix: what it is beside is longer.
        (None, Some(to)) => {
            after.is_some_and(|after| size(after) > size(stretch)) && fast(exit, to)
        }
        (Some(from), None) => {
            before.is_some_and(|before| size(before) > size(stretch)) && fast(from, entry)
        }
        (None, None) => false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::Degrees;

    const CENTRE: Degrees = Degrees {
        lon: 10.0,
        lat: 50.0,
    };

    /// A fix so many metres north of the centre.
    fn fix(seconds: i64, north_m: f64, speed_mps: Option<f64>) -> Fix {
        Fix {
            at_ms: seconds * 1000,
            place: Degrees {
                lat: CENTRE.lat + north_m / 111_229.0,
                ..CENTRE
            },
            speed_mps,
            quality: 1,
            accuracy_m: None,
            work_on: None,
            width_m: None,
            sections: None,
        }
    }

    fn reasons(fixes: &[Fix]) -> Vec<(i64, Rejection)> {
        let (_, rejected) = clean(fixes, &Projection::at(CENTRE));
        rejected
            .iter()
            .map(|(fix, reason)| (fix.at_ms / 1000, *reason))
            .collect()
    }

    fn way(seconds: std::ops::Range<i64>, speed: f64) -> Vec<Fix> {
        seconds
            .map(|s| fix(s, s as f64 * speed, Some(speed)))
            .collect()
    }

    #[test]
    fn a_single_jump_goes_and_its_neighbours_stay() {
        let mut fixes = way(0..20, 2.0);
        fixes[7] = fix(7, 500.0, Some(2.0));
        assert_eq!(reasons(&fixes), vec![(7, Rejection::Jump)]);
    }

    #[test]
    fn a_receiver_that_is_wrong_for_three_seconds_jumps_as_a_whole() {
        let mut fixes = way(0..30, 2.0);
        for s in 10..13 {
            fixes[usize::try_from(s).unwrap_or(0)] = fix(s, 700.0 + s as f64, Some(2.0));
        }
        let jump = |s| (s, Rejection::Jump);
        assert_eq!(reasons(&fixes), vec![jump(10), jump(11), jump(12)]);
    }

    #[test]
    fn a_wrong_first_fix_and_a_wrong_last_one_go() {
        let mut fixes = way(0..20, 2.0);
        fixes[0] = fix(0, -9000.0, None);
        fixes[19] = fix(19, 9000.0, None);
        let jump = |s| (s, Rejection::Jump);
        assert_eq!(reasons(&fixes), vec![jump(0), jump(19)]);
    }

    #[test]
    fn a_lorry_without_a_reported_speed_is_no_jump_and_scatter_is() {
        let lorry: Vec<Fix> = (0..20).map(|s| fix(s, s as f64 * 25.0, None)).collect();
        assert_eq!(reasons(&lorry), vec![]);
        let mut scatter = way(0..20, 2.0);
        scatter.extend((20..25).map(|s| fix(s, (s % 7) as f64 * 3000.0, None)));
        scatter.extend(way(25..60, 2.0));
        assert_eq!(reasons(&scatter).len(), 5);
    }

    #[test]
    fn places_that_are_none_times_that_are_none_and_doubles_say_what_they_are() {
        let mut fixes = way(0..3, 2.0);
        let mut nowhere = fix(3, 0.0, None);
        nowhere.place.lat = f64::NAN;
        let mut null = fix(4, 0.0, None);
        null.place = Degrees { lon: 0.0, lat: 0.0 };
        let mut never = fix(5, 0.0, None);
        never.at_ms = i64::MIN;
        let other = fix(1, 40.0, Some(2.0));
        fixes.extend([nowhere, null, never, other, fixes[2]]);
        let mut counts: Vec<Rejection> = reasons(&fixes).into_iter().map(|(_, r)| r).collect();
        counts.sort();
        assert_eq!(
            counts,
            vec![
                Rejection::Duplicate,
                Rejection::SameTime,
                Rejection::NoTime,
                Rejection::NotAPlace,
                Rejection::NullIsland
            ]
        );
    }
}
