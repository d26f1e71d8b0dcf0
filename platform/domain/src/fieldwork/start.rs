//! The verdict on the start of work at a plot. Never calls a start proven that the track does not show.

use std::collections::HashSet;

use serde::Serialize;

use super::Setup;
use crate::{
    geo::{Metres, region::Lookup},
    track::{Track, step::Step},
};

/// The window in which a start shows itself, ms.
const WINDOW_MS: i64 = 600_000;
/// Seconds of work in it.
const WORK_S: f64 = 120.0;
/// ... or this part of the plot.
const PLOT_SHARE: f64 = 0.3;
/// Longest step that counts, s.
const STEP_S: f64 = 10.0;
/// Least way, in widths.
const PATH_WIDTHS: f64 = 3.0;
/// Side of the cells that are counted, m.
const CELL_M: f64 = 3.0;
/// Least area of distinct cells, m2 ...
const CELLS_M2: f64 = 50.0;
/// ... or this part of the plot ...
const CELLS_PLOT: f64 = 0.005;
/// ... but never more than this, m2.
const CELLS_MOST_M2: f64 = 400.0;
/// Least share of good fixes.
const GOOD_SHARE: f64 = 0.8;
/// How far the plot is grown: the first round drives half a width inside the edge.
pub(super) const GROWN_M: f64 = 2.0;

/// What can be said of the start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The verdict.
    pub kind: VerdictKind,
    /// Why, as data.
    pub reasons: Vec<Reason>,
}

/// Kinds of verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The track shows the start.
    Proven,
    /// The device was on and elsewhere.
    Contradicted,
    /// The track can say neither.
    NotProvable,
    /// There is no plot to start at.
    None,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// So much work was seen within 10 minutes of the start.
    WorkSeen {
        /// Seconds of it.
        seconds: f64,
    },
    /// No plot was given.
    NoPlot,
    /// The device sent nothing.
    Silent,
    /// The device never came nearer to the plot than this.
    Elsewhere {
        /// Metres to the plot's edge.
        nearest_m: f64,
    },
    /// The machine was at the plot and did not work for long enough at a stretch.
    WorkTooShort {
        /// Seconds of work inside the plot in all.
        seconds: f64,
    },
    /// The machine was at the plot and did not work.
    NoWork,
    /// Too few fixes were good.
    PoorFixes {
        /// Share of good ones.
        good_share: f64,
    },
}

/// A step that may be part of a start.
struct Candidate {
    begin_ms: i64,
    end_ms: i64,
    seconds: f64,
    metres: f64,
    from: Metres,
    to: Metres,
    good: bool,
}

/// Where the start is sought.
pub(super) struct Ground<'a> {
    pub track: &'a Track,
    pub steps: &'a [Step],
    pub worked: &'a [bool],
    pub setup: &'a Setup,
    /// The plot grown by [`GROWN_M`].
    pub inside: &'a Lookup,
    pub plot_m2: f64,
}

impl Ground<'_> {
    fn candidates(&self) -> Vec<Candidate> {
        let fastest = self.setup.machine_type.fastest_work_mps();
        let sensor = self.setup.use_sensor;
        self.steps
            .iter()
            .zip(self.worked)
            .filter(|(step, worked)| **worked && step.seconds <= STEP_S)
            .filter_map(|(step, _)| {
                let (a, b) = (
                    self.track.points.get(step.end - 1)?,
                    self.track.points.get(step.end)?,
                );
                let told = sensor && b.fix.work_on == Some(true);
                let may = told || (0.3..=fastest).contains(&step.speed());
                (may && self.inside.contains(b.place)).then(|| Candidate {
                    begin_ms: a.fix.at_ms,
                    end_ms: b.fix.at_ms,
                    seconds: step.seconds,
                    metres: step.metres,
                    from: a.place,
                    to: b.place,
                    good: b.fix.good(),
                })
            })
            .collect()
    }

    /// Start of work (ms since 1970 UTC), if the track shows it, and what it rests on.
    pub(super) fn start(&self) -> Result<(i64, f64), Reason> {
        let candidates = self.candidates();
        let mut poor: Option<f64> = None;
        let (mut end, mut seconds, mut metres) = (0, 0.0, 0.0);
        for (begin, first) in candidates.iter().enumerate() {
            while let Some(next) = candidates
                .get(end)
                .filter(|c| c.end_ms - first.begin_ms <= WINDOW_MS)
            {
                seconds += next.seconds;
                metres += next.metres;
                end += 1;
            }
            let window = candidates.get(begin..end).unwrap_or_default();
            if metres >= PATH_WIDTHS * self.setup.width_m && self.enough(window, seconds) {
                #[expect(clippy::cast_precision_loss, reason = "at most some thousand fixes")]
                let good =
                    window.iter().filter(|c| c.good).count() as f64 / window.len().max(1) as f64;
                if good >= GOOD_SHARE {
                    return Ok((first.begin_ms, seconds));
                }
                poor = Some(poor.map_or(good, |p| p.max(good)));
            }
            seconds -= first.seconds;
            metres -= first.metres;
        }
        Err(match poor {
            Some(good_share) => Reason::PoorFixes { good_share },
            None if candidates.is_empty() => Reason::NoWork,
            None => Reason::WorkTooShort {
                seconds: candidates.iter().map(|c| c.seconds).sum(),
            },
        })
    }

    fn enough(&self, window: &[Candidate], seconds: f64) -> bool {
        // The cheap question first: sums decide most windows without counting cells.
        let swept: f64 = window.iter().map(|c| c.metres * self.setup.width_m).sum();
        let share = swept >= PLOT_SHARE * self.plot_m2;
        if seconds < WORK_S && !share {
            return false;
        }
        let least = CELLS_M2.max((CELLS_PLOT * self.plot_m2).min(CELLS_MOST_M2));
        cells_m2(window) >= least
    }
}

/// Area of the distinct cells that the way touches, m2.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "cells of a plot, steps of at most 40 m"
)]
fn cells_m2(window: &[Candidate]) -> f64 {
    let mut cells = HashSet::new();
    for step in window {
        let parts = (step.metres / (CELL_M / 2.0)).ceil().max(1.0) as u32;
        for part in 0..=parts {
            let place = step
                .from
                .moved(step.from.to(step.to), f64::from(part) / f64::from(parts));
            cells.insert((
                (place.x / CELL_M).floor() as i64,
                (place.y / CELL_M).floor() as i64,
            ));
        }
    }
    cells.len() as f64 * CELL_M * CELL_M
}
