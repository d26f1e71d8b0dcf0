//! Speeds from places, and whether reported speeds can be true. Never trusts a single pair of places.

use super::{Fix, clean::ms};
use crate::geo::Metres;

/// Spans over which reported and derived speeds are compared, s.
const COMPARE_S: f64 = 10.0;
/// The least way of a span that says anything, m.
const COMPARE_M: f64 = 10.0;
/// As few spans as this prove nothing.
const COMPARE_SPANS: usize = 12;
/// Reported over derived speed that no receiver reaches by noise. Knots for m/s are 1.94, km/h 3.6.
const CREDIBLE: std::ops::RangeInclusive<f64> = 0.7..=1.4;

/// Reported over derived speed (the median of straight spans of 10 s), if that is in no way credible.
pub(super) fn wrong_unit(kept: &[(Fix, Metres)]) -> Option<f64> {
    let mut ratios = Vec::new();
    let mut begin = 0;
    for (end, (fix, place)) in kept.iter().enumerate() {
        let Some((first, from)) = kept.get(begin) else {
            break;
        };
        let seconds = ms(fix.at_ms - first.at_ms);
        if seconds < COMPARE_S {
            continue;
        }
        // A pause within the span or a bend make the way between its ends too short: those do not count.
        let inner = kept.get(begin..=end).unwrap_or_default();
        let way: f64 = inner
            .windows(2)
            .map(|pair| match pair {
                [a, b] => a.1.distance(b.1),
                _ => 0.0,
            })
            .sum();
        let straight = from.distance(*place);
        let told: Option<Vec<f64>> = inner.iter().map(|(f, _)| f.speed()).collect();
        if seconds < 3.0 * COMPARE_S
            && straight >= COMPARE_M
            && straight > 0.9 * way
            && let Some(mean) = told.as_deref().and_then(mean)
        {
            ratios.push(mean * seconds / straight);
        }
        begin = end;
    }
    if ratios.len() < COMPARE_SPANS {
        return None;
    }
    super::step::median(ratios.into_iter()).filter(|ratio| !CREDIBLE.contains(ratio))
}

#[expect(clippy::cast_precision_loss, reason = "a handful of numbers")]
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Half the span over which a speed is derived, s: the worse the places, the longer.
fn half_span(accuracy_m: f64) -> f64 {
    if accuracy_m <= 0.1 {
        2.0
    } else if accuracy_m <= 1.0 {
        5.0
    } else {
        7.5
    }
}

/// Derived speeds, m/s: the slope of the places around each fix (least squares), so that noise of
/// single fixes is no speed. 1.5 m of white noise at 1 Hz is 0.09 m/s here, and 2 m/s from step to step.
pub(super) fn derived(kept: &[(Fix, Metres)]) -> Vec<f64> {
    let (mut from, mut to) = (0, 0);
    kept.iter()
        .enumerate()
        .map(|(i, (fix, _))| {
            let half = half_span(fix.accuracy());
            let seconds = |j: usize| kept.get(j).map_or(0.0, |(f, _)| ms(f.at_ms - fix.at_ms));
            // The spans of neighbours differ where the accuracy does: both ends may move back.
            while from > 0 && seconds(from - 1) >= -half {
                from -= 1;
            }
            while from < i && seconds(from) < -half {
                from += 1;
            }
            to = to.max(i);
            while to > i && seconds(to) > half {
                to -= 1;
            }
            while to + 1 < kept.len() && seconds(to + 1) <= half {
                to += 1;
            }
            // Fixes further apart than the span: its neighbours on either side.
            let (first, last) = if to - from >= 2 {
                (from, to)
            } else {
                (i.saturating_sub(1), (i + 1).min(kept.len() - 1))
            };
            slope(kept.get(first..=last).unwrap_or_default())
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "fixes of some seconds")]
fn slope(span: &[(Fix, Metres)]) -> f64 {
    let Some((origin, place)) = span.first() else {
        return 0.0;
    };
    let n = span.len() as f64;
    let (mut t1, mut t2, mut x, mut y, mut tx, mut ty) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (fix, here) in span {
        let t = ms(fix.at_ms - origin.at_ms);
        let way = place.to(*here);
        t1 += t;
        t2 += t * t;
        x += way.x;
        y += way.y;
        tx += t * way.x;
        ty += t * way.y;
    }
    let spread = n * t2 - t1 * t1;
    if spread <= 0.0 {
        return 0.0;
    }
    ((n * tx - t1 * x) / spread).hypot((n * ty - t1 * y) / spread)
}
