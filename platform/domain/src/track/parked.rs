//! Finds out when a machine stands, so that the drift of a parked receiver is no way travelled.

use super::{Fix, Point, clean::ms};
use crate::geo::Metres;

/// Slower than this is standing, m/s.
const STAND_MPS: f64 = 0.3;
/// ... for so long, s.
const STAND_S: f64 = 10.0;
/// Faster for so long is moving again, s.
const MOVE_S: f64 = 3.0;
/// The least way from the anchor that is one, m.
const RELEASE_M: f64 = 0.3;
/// ... and as a multiple of the accuracy.
const RELEASE_ACCURACY: f64 = 3.0;
/// Derived speeds are taken over this span, so that noise of single fixes is no speed, s.
const DERIVE_S: f64 = 10.0;

/// Points with their speed, parked ones at their anchor.
pub(super) fn settle(kept: &[(Fix, Metres)]) -> Vec<Point> {
    let speeds = speeds(kept);
    let mut points: Vec<Point> = kept
        .iter()
        .zip(&speeds)
        .map(|((fix, place), speed)| Point {
            fix: *fix,
            place: *place,
            parked: false,
            speed: *speed,
        })
        .collect();
    let mut i = 0;
    while i < points.len() {
        let stood = standing_from(&points, i);
        match stood {
            Some(end) => i = park(&mut points, i, end),
            None => i += 1,
        }
    }
    points
}

/// If the machine stands from point `i` on for long enough: the first point by which that is known.
fn standing_from(points: &[Point], i: usize) -> Option<usize> {
    let first = points.get(i)?;
    let slow = points.get(i..)?.iter().take_while(|p| p.speed < STAND_MPS);
    let mut end = None;
    for (n, point) in slow.enumerate() {
        if ms(point.fix.at_ms - first.fix.at_ms) >= STAND_S {
            end = Some(i + n);
            break;
        }
    }
    end
}

/// Parks from `begin` on, known by `known`; gives the first point that moves again.
fn park(points: &mut [Point], begin: usize, known: usize) -> usize {
    let Some(anchor) = points.get(begin).map(|p| p.place) else {
        return known;
    };
    let mut fast_since: Option<(usize, i64)> = None;
    let mut end = points.len();
    for (i, point) in points.iter().enumerate().skip(known + 1) {
        let away = point.place.distance(anchor);
        if away > RELEASE_M.max(RELEASE_ACCURACY * point.fix.accuracy()) {
            // The way from the anchor counts from where the machine began to move.
            end = fast_since.map_or(i, |(since, _)| since);
            break;
        }
        if point.speed > STAND_MPS {
            let (since, at_ms) = *fast_since.get_or_insert((i, point.fix.at_ms));
            if ms(point.fix.at_ms - at_ms) >= MOVE_S {
                end = since;
                break;
            }
        } else {
            fast_since = None;
        }
    }
    for point in points.iter_mut().take(end).skip(begin) {
        point.place = anchor;
        point.parked = true;
    }
    end
}

/// Reported speed, else the way between the places 5 s before and after.
fn speeds(kept: &[(Fix, Metres)]) -> Vec<f64> {
    let (mut back, mut ahead) = (0, 0);
    let half = DERIVE_S / 2.0;
    (0..kept.len())
        .map(|i| {
            let Some((fix, _)) = kept.get(i) else {
                return 0.0;
            };
            let seconds = |j: usize| kept.get(j).map_or(0.0, |(f, _)| ms(f.at_ms - fix.at_ms));
            while back < i && seconds(back) < -half {
                back += 1;
            }
            while ahead + 1 < kept.len() && seconds(ahead + 1) <= half {
                ahead += 1;
            }
            fix.speed()
                .unwrap_or_else(|| derived(kept, i, back, ahead.max(i)))
        })
        .collect()
}

fn derived(kept: &[(Fix, Metres)], i: usize, back: usize, ahead: usize) -> f64 {
    // With fixes further apart than the span, the step to the fix before is all there is.
    let (from, to) = if back == ahead {
        (i.saturating_sub(1), i)
    } else {
        (back, ahead)
    };
    match (kept.get(from), kept.get(to)) {
        (Some((a, from)), Some((b, to))) if b.at_ms > a.at_ms => {
            from.distance(*to) / ms(b.at_ms - a.at_ms)
        }
        _ => 0.0,
    }
}
