//! Steps between neighbouring points, and the gaps between them; never counts a gap as a step.

use super::{
    Point, TRANSPORT_MPS, Track,
    clean::{fast, ms},
};
use crate::geo::Metres;

/// Seconds without a fix that are always a gap.
pub(super) const GAP_S: f64 = 10.0;
/// ... and as a multiple of the median interval of moving steps.
pub(super) const GAP_INTERVALS: f64 = 2.5;
/// Metres that no step of a working machine has.
pub(crate) const LONG_STEP_M: f64 = 40.0;
/// Slower than this an implement covers nothing, m/s.
const LEAST_WORK_MPS: f64 = 0.2;

/// From point `end - 1` to point `end`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Index of its second point.
    pub end: usize,
    /// Seconds.
    pub seconds: f64,
    /// Metres between the (anchored) places.
    pub metres: f64,
    /// Longer than the gap limit: nothing is known of it.
    pub gap: bool,
    /// The machine stood.
    pub parked: bool,
    /// Reported speed at its end, else the derived one, m/s.
    pub pace: f64,
    /// No machine gets so far in that time by itself; noise is no leap.
    pub leap: bool,
}

impl Step {
    /// m/s.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.metres / self.seconds.max(1e-3)
    }

    /// Whether it is way travelled: seen, not standing, and not faster than anything that carries a machine.
    #[must_use]
    pub fn travels(&self) -> bool {
        !self.gap && !self.parked && (!self.leap || self.speed() <= TRANSPORT_MPS)
    }

    /// Whether a machine may work in it: seen, not standing, no leap.
    #[must_use]
    pub fn may_work(&self) -> bool {
        !self.gap && !self.parked && !self.leap
    }

    /// Whether an implement at work covers ground in it: at least 0.2 m/s (a work flag alone is not
    /// enough), and not so long that what lies between is a guess.
    #[must_use]
    pub fn sweeps(&self) -> bool {
        self.may_work() && self.metres <= LONG_STEP_M && self.speed() >= LEAST_WORK_MPS
    }

    /// Whether the machine hardly moves in it: nothing is covered, and a pass is not over yet.
    #[must_use]
    pub fn creeps(&self) -> bool {
        !self.gap && (self.parked || self.speed() < LEAST_WORK_MPS)
    }
}

/// All steps of a track in order; step i ends at point i + 1.
#[must_use]
pub fn steps(track: &Track) -> Vec<Step> {
    let mut steps: Vec<Step> = track
        .points
        .windows(2)
        .enumerate()
        .filter_map(|(i, pair)| match pair {
            [a, b] => Some(step(i + 1, a, b)),
            _ => None,
        })
        .collect();
    let limit = gap_limit(&steps);
    for step in &mut steps {
        step.gap = step.seconds > limit;
    }
    steps
}

fn step(end: usize, a: &Point, b: &Point) -> Step {
    Step {
        end,
        seconds: ms(b.fix.at_ms - a.fix.at_ms),
        metres: a.place.distance(b.place),
        gap: false,
        parked: a.parked && b.parked,
        pace: b.speed,
        leap: fast(&(a.fix, a.place), &(b.fix, b.place)),
    }
}

/// max(10 s, 2.5 x the median interval of moving steps).
#[must_use]
pub fn gap_limit(steps: &[Step]) -> f64 {
    let moving = steps.iter().filter(|s| !s.parked && s.speed() > 0.3);
    median(moving.map(|s| s.seconds)).map_or(GAP_S, |m| GAP_S.max(GAP_INTERVALS * m))
}

/// The middle value (the upper one of two).
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Directions of a step, where it has one.
#[must_use]
pub fn direction(from: Metres, to: Metres) -> Option<Metres> {
    from.to(to).unit()
}
