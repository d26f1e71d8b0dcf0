//! The verdict on the start of work at a plot. Never calls a start proven that the track does not show.

use std::collections::HashMap;

use super::{Reason, Setup};
use crate::{
    geo::{Metres, region::Lookup},
    track::{
        Track,
        step::{Step, median},
    },
};

/// The window in which a start shows itself, ms.
const WINDOW_MS: i64 = 600_000;
/// Seconds of work in it.
const WORK_S: f64 = 120.0;
/// ... or this part of the plot.
const PLOT_SHARE: f64 = 0.3;
/// Slowest work without a sensor, m/s.
const SLOWEST_MPS: f64 = 0.3;
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

/// A step that may be part of a start.
struct Candidate {
    begin_ms: i64,
    end_ms: i64,
    seconds: f64,
    metres: f64,
    /// The cells that its way touches.
    cells: Vec<(i64, i64)>,
    good: bool,
}

/// The candidates of a window, summed up as they come and go.
#[derive(Default)]
struct Window {
    seconds: f64,
    metres: f64,
    count: u32,
    good: u32,
    cells: HashMap<(i64, i64), u32>,
}

impl Window {
    fn enter(&mut self, candidate: &Candidate) {
        self.seconds += candidate.seconds;
        self.metres += candidate.metres;
        self.count += 1;
        self.good += u32::from(candidate.good);
        for cell in &candidate.cells {
            *self.cells.entry(*cell).or_default() += 1;
        }
    }

    fn leave(&mut self, candidate: &Candidate) {
        self.seconds -= candidate.seconds;
        self.metres -= candidate.metres;
        self.count -= 1;
        self.good -= u32::from(candidate.good);
        for cell in &candidate.cells {
            if let Some(count) = self.cells.get_mut(cell) {
                *count -= 1;
                if *count == 0 {
                    self.cells.remove(cell);
                }
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "cells of ten minutes")]
    fn cells_m2(&self) -> f64 {
        self.cells.len() as f64 * CELL_M * CELL_M
    }

    fn good_share(&self) -> f64 {
        f64::from(self.good) / f64::from(self.count.max(1))
    }
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
    /// Whether the sensor says what is work.
    pub sensor: bool,
}

/// A start that the track shows.
pub(super) struct Start {
    pub at_ms: i64,
    /// Seconds of work in the window that shows it.
    pub seconds: f64,
}

impl Ground<'_> {
    fn candidates(&self) -> Vec<Candidate> {
        let fastest = self.setup.machine_type.fastest_work_mps();
        self.steps
            .iter()
            .zip(self.worked)
            .filter(|(step, worked)| **worked && step.seconds <= STEP_S)
            .filter_map(|(step, _)| {
                let (a, b) = (
                    self.track.points.get(step.end - 1)?,
                    self.track.points.get(step.end)?,
                );
                let may = self.sensor || (SLOWEST_MPS..=fastest).contains(&step.pace);
                (may && self.inside.contains(b.place)).then(|| Candidate {
                    begin_ms: a.fix.at_ms,
                    end_ms: b.fix.at_ms,
                    seconds: step.seconds,
                    metres: step.metres,
                    cells: cells(a.place, b.place),
                    good: b.fix.good(),
                })
            })
            .collect()
    }

    /// Start of work (ms since 1970 UTC), if the track shows it, and what it rests on.
    pub(super) fn start(&self) -> Result<Start, Reason> {
        let candidates = self.candidates();
        let mut poor: Option<f64> = None;
        let mut window = Window::default();
        let mut end = 0;
        for first in &candidates {
            while let Some(next) = candidates
                .get(end)
                .filter(|c| c.end_ms - first.begin_ms <= WINDOW_MS)
            {
                window.enter(next);
                end += 1;
            }
            if self.enough(&window) {
                let good = window.good_share();
                if good >= GOOD_SHARE {
                    return Ok(Start {
                        at_ms: first.begin_ms,
                        seconds: window.seconds,
                    });
                }
                poor = Some(poor.map_or(good, |p| p.max(good)));
            }
            window.leave(first);
        }
        Err(match poor {
            Some(good_share) => Reason::PoorFixes { good_share },
            None => self.shortage(&candidates),
        })
    }

    /// Why no window of the candidates shows a start.
    fn shortage(&self, candidates: &[Candidate]) -> Reason {
        let inside = |step: &Step| {
            let end = self.track.points.get(step.end);
            end.is_some_and(|p| self.inside.contains(p.place))
        };
        let sparse = |(step, worked): &(&Step, &bool)| **worked && step.seconds > STEP_S;
        let steps = self.steps.iter().zip(self.worked).filter(sparse);
        let sparse = median(steps.filter(|(s, _)| inside(s)).map(|(s, _)| s.seconds));
        match (candidates.is_empty(), sparse) {
            (true, Some(interval_s)) => Reason::SparseFixes { interval_s },
            (true, None) => Reason::NoWork,
            (false, _) => Reason::WorkTooShort {
                seconds: candidates.iter().map(|c| c.seconds).sum(),
            },
        }
    }

    fn enough(&self, window: &Window) -> bool {
        let share = window.metres * self.setup.width_m >= PLOT_SHARE * self.plot_m2;
        let least = CELLS_M2.max((CELLS_PLOT * self.plot_m2).min(CELLS_MOST_M2));
        (window.seconds >= WORK_S || share)
            && window.metres >= PATH_WIDTHS * self.setup.width_m
            && window.cells_m2() >= least
    }
}

/// The distinct cells that a way of at most some ten metres touches.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "cells of a plot, steps of at most 40 m"
)]
fn cells(from: Metres, to: Metres) -> Vec<(i64, i64)> {
    let parts = (from.distance(to) / (CELL_M / 2.0))
        .ceil()
        .clamp(1.0, 1000.0) as u32;
    let cell = |part: u32| {
        let place = from.moved(from.to(to), f64::from(part) / f64::from(parts));
        (
            (place.x / CELL_M).floor() as i64,
            (place.y / CELL_M).floor() as i64,
        )
    };
    let mut cells: Vec<(i64, i64)> = (0..=parts).map(cell).collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}
