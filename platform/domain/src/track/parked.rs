//! Finds out when a machine stands, so that the drift of a parked receiver is no way travelled.

use super::{
    Fix, Point,
    anchor::{Anchor, STAND_MPS, STAND_S},
    clean::ms,
    speed::derived,
};
use crate::geo::Metres;

/// Faster for so long is moving again, s.
const MOVE_S: f64 = 3.0;
/// ... and so is being away from the anchor for so many fixes, where they are far apart.
const MOVE_FIXES: usize = 3;

/// Points with their speed, parked ones at their anchor. Reported speeds count where `believe` says so.
pub(super) fn settle(kept: &[(Fix, Metres)], believe: bool) -> Vec<Point> {
    let told = |fix: &Fix| fix.speed().filter(|_| believe);
    let complete = kept.iter().all(|(fix, _)| told(fix).is_some());
    let derived = if complete { vec![] } else { derived(kept) };
    let mut points: Vec<Point> = kept
        .iter()
        .enumerate()
        .map(|(i, (fix, place))| Point {
            fix: *fix,
            place: *place,
            parked: false,
            speed: told(fix).or_else(|| derived.get(i).copied()).unwrap_or(0.0),
        })
        .collect();
    let mut i = 0;
    let mut slow_since: Option<usize> = None;
    while let Some(point) = points.get(i) {
        if point.speed >= STAND_MPS {
            slow_since = None;
            i += 1;
            continue;
        }
        let begin = *slow_since.get_or_insert(i);
        let since = points.get(begin).map_or(0, |p| p.fix.at_ms);
        if ms(point.fix.at_ms - since) >= STAND_S {
            i = park(&mut points, begin, i, believe);
            slow_since = None;
        } else {
            i += 1;
        }
    }
    points
}

/// When something began that must last to count.
#[derive(Default)]
struct Since(Option<(usize, i64, usize)>);

impl Since {
    /// Notes whether it is so at point `i`; gives how long it has been so, s, and for how many points.
    fn note(&mut self, is_so: bool, i: usize, at_ms: i64) -> (f64, usize) {
        if !is_so {
            self.0 = None;
            return (0.0, 0);
        }
        let (_, since, count) = self.0.get_or_insert((i, at_ms, 0));
        *count += 1;
        (ms(at_ms - *since), *count)
    }

    fn begin(&self) -> Option<usize> {
        self.0.map(|(i, ..)| i)
    }
}

/// Parks from `begin` on, known by `known`; gives the first point that moves again.
fn park(points: &mut [Point], begin: usize, known: usize, believe: bool) -> usize {
    let mut anchor = Anchor::default();
    for point in points.get(begin..=known).unwrap_or_default() {
        anchor.add(point.place);
    }
    let (mut fast, mut away) = (Since::default(), Since::default());
    let mut end = points.len();
    for (i, point) in points.iter().enumerate().skip(known + 1) {
        let at_ms = point.fix.at_ms;
        let is_away = anchor.is_left(&point.fix, point.place);
        let (fast_s, _) = fast.note(point.speed > STAND_MPS, i, at_ms);
        let (away_s, away_fixes) = away.note(is_away, i, at_ms);
        // A derived speed is made of places: it says nothing that the way from the anchor does not.
        let reported = believe && point.fix.speed().is_some();
        let moves = (reported && fast_s >= MOVE_S) || away_s >= MOVE_S || away_fixes >= MOVE_FIXES;
        if moves {
            // It moved from when its speed rose or it was first away; the way from the anchor counts.
            end = fast
                .begin()
                .into_iter()
                .chain(away.begin())
                .min()
                .unwrap_or(i);
            break;
        }
        if !is_away {
            anchor.add(point.place);
        }
    }
    // Not where it was first slow: reported speeds fall some seconds before a machine stands.
    let place = anchor.middle();
    for point in points.iter_mut().take(end).skip(begin) {
        point.place = place;
        point.parked = true;
    }
    end.max(known + 1)
}
