//! A track while it grows: what one more fix adds, in constant time. Never looks back further than some fixes.

use std::collections::VecDeque;

use super::{
    Fix,
    anchor::{Anchor, STAND_MPS, STAND_S},
    clean::{fast, ms, refuse},
    step::{GAP_INTERVALS, GAP_S, Step, median},
};
use crate::geo::Metres;

/// Speeds are derived over so many fixes at most.
const RECENT: usize = 16;
/// ... and so many seconds.
const DERIVE_S: f64 = 15.0;

/// What a fix adds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub fix: Fix,
    pub from: Metres,
    pub to: Metres,
    pub seconds: f64,
    pub pace: f64,
    pub parked: bool,
    pub travels: bool,
    pub may_work: bool,
    pub sweeps: bool,
    pub creeps: bool,
}

impl Progress {
    pub(crate) fn metres(&self) -> f64 {
        self.from.distance(self.to)
    }
}

/// Follows a machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Follower {
    recent: VecDeque<(Fix, Metres)>,
    intervals: VecDeque<f64>,
    /// A fix that no machine could have reached; the next one says whether it or the former was wrong.
    doubted: Option<(Fix, Metres)>,
    /// Since when it is slow, and where.
    slow: Option<(i64, Anchor)>,
    parked: bool,
}

impl Follower {
    /// None where the fix is left out: no place, not newer, or a jump.
    pub(crate) fn follow(&mut self, fix: &Fix, place: Metres) -> Option<Progress> {
        let last = self.recent.back().copied();
        if refuse(fix, None).is_some() || last.is_some_and(|(last, _)| fix.at_ms <= last.at_ms) {
            return None;
        }
        let here = (*fix, place);
        if last.is_some_and(|last| fast(&last, &here)) {
            let agrees = self
                .doubted
                .is_some_and(|d| d.0.at_ms < fix.at_ms && !fast(&d, &here));
            if !agrees {
                self.doubted = Some(here);
                return None;
            }
            // Two that agree: the machine is here, and nothing is known of how it came.
            self.recent.clear();
            self.slow = None;
            self.parked = false;
        }
        self.doubted = None;
        let last = self.recent.back().copied();
        Some(self.step(last, here))
    }

    fn step(&mut self, last: Option<(Fix, Metres)>, (fix, place): (Fix, Metres)) -> Progress {
        self.recent.push_back((fix, place));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let pace = fix.speed().unwrap_or_else(|| self.derived());
        let was_parked = self.anchor();
        self.park(&fix, place, pace);
        let (from, seconds) = last.map_or((place, 0.0), |(last, from)| {
            (was_parked.unwrap_or(from), ms(fix.at_ms - last.at_ms))
        });
        let parked = self.parked;
        // While it stands the anchor settles; that is no way.
        let to = match (was_parked, self.anchor()) {
            (Some(_), Some(_)) => from,
            (None, Some(anchor)) => anchor,
            (_, None) => place,
        };
        let gap = last.is_none() || seconds > self.gap_limit();
        let step = Step {
            end: 1,
            seconds,
            metres: from.distance(to),
            gap,
            parked: parked && was_parked.is_some(),
            pace,
            // Whoever could not have come here was left out before.
            leap: false,
        };
        if !step.gap && !step.parked && step.speed() > STAND_MPS {
            self.intervals.push_back(seconds);
            if self.intervals.len() > RECENT {
                self.intervals.pop_front();
            }
        }
        Progress {
            fix,
            from,
            to,
            seconds,
            pace,
            parked,
            travels: step.travels(),
            may_work: step.may_work(),
            sweeps: step.sweeps(),
            creeps: step.creeps(),
        }
    }

    fn gap_limit(&self) -> f64 {
        median(self.intervals.iter().copied()).map_or(GAP_S, |m| GAP_S.max(GAP_INTERVALS * m))
    }

    fn derived(&self) -> f64 {
        let Some((last, to)) = self.recent.back() else {
            return 0.0;
        };
        let age = |fix: &Fix| ms(last.at_ms - fix.at_ms);
        let near = self.recent.iter().find(|(fix, _)| age(fix) <= DERIVE_S);
        let before = self.recent.iter().rev().nth(1);
        let from = near.filter(|(fix, _)| age(fix) > 0.0).or(before);
        from.map_or(0.0, |(fix, from)| from.distance(*to) / age(fix).max(1e-3))
    }

    /// Where it stands, if it does.
    fn anchor(&self) -> Option<Metres> {
        let slow = self.slow.filter(|_| self.parked);
        slow.map(|(_, anchor)| anchor.middle())
    }

    fn park(&mut self, fix: &Fix, place: Metres, pace: f64) {
        if self.parked {
            let moves = fix.speed().is_some_and(|v| v > STAND_MPS);
            let left = |(_, anchor): &(i64, Anchor)| anchor.is_left(fix, place);
            if moves || self.slow.as_ref().is_some_and(left) {
                self.parked = false;
                self.slow = None;
                return;
            }
        } else if pace >= STAND_MPS {
            self.slow = None;
            return;
        }
        let (since, anchor) = self.slow.get_or_insert((fix.at_ms, Anchor::default()));
        anchor.add(place);
        self.parked |= ms(fix.at_ms - *since) >= STAND_S;
    }
}
