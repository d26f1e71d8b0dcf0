//! Passes that lie beside each other: how far apart, and how many. Never knows a plot.

use std::collections::HashMap;

use super::Setup;
use crate::{
    geo::Metres,
    track::{
        Track,
        step::{Step, direction, median},
    },
};

/// Places of a pass that are compared are this far apart, m.
const SAMPLE_M: f64 = 5.0;
/// The next pass is sought within so many widths ...
const NEXT_WIDTHS: f64 = 2.5;
/// ... and passes that make a field within so many, ...
const REACH_WIDTHS: f64 = 4.0;
/// ... or this, m.
const REACH_M: f64 = 15.0;
/// Nearer than this part of the width it is the same line driven again.
const SAME_WIDTHS: f64 = 0.25;
/// Passes are parallel within about 20 degrees: the cosine.
const PARALLEL: f64 = 0.94;
/// A neighbouring pass is driven at another time, ms.
const APART_MS: i64 = 20_000;
/// Fewer samples than this say nothing.
const SAMPLES: usize = 50;

/// Passes of a field are so many at least ...
const LINES: usize = 4;
/// ... further apart from the first to the last than the lanes of any road, m ...
const SPREAD_M: f64 = 15.0;
/// ... and than this many widths.
const SPREAD_WIDTHS: f64 = 2.8;

/// One place of a pass.
#[derive(Clone, Copy)]
struct Sample {
    at_ms: i64,
    place: Metres,
    course: Metres,
}

/// The passes of some steps, sampled every five metres.
pub(super) struct Passes {
    samples: Vec<Sample>,
    /// Of each step, the sample that it belongs to.
    of_step: Vec<Option<usize>>,
    grid: HashMap<(i64, i64), Vec<Sample>>,
    reach_m: f64,
    width_m: f64,
}

impl Passes {
    /// The passes of the steps that are flagged.
    pub(super) fn new(track: &Track, steps: &[Step], flags: &[bool], setup: &Setup) -> Self {
        let reach_m = REACH_M.max(REACH_WIDTHS * setup.width_m);
        let (samples, of_step) = samples(track, steps, flags);
        let mut grid: HashMap<(i64, i64), Vec<Sample>> = HashMap::new();
        for sample in &samples {
            let here = grid.entry(cell(sample.place, reach_m)).or_default();
            here.push(*sample);
        }
        Self {
            samples,
            of_step,
            grid,
            reach_m,
            width_m: setup.width_m,
        }
    }

    /// How far to the left of a sample the parallel passes of other times lie, m.
    fn beside<'a>(&'a self, a: &'a Sample) -> impl Iterator<Item = f64> + 'a {
        let (x, y) = cell(a.place, self.reach_m);
        let cells = (x - 1..=x + 1).flat_map(move |x| (y - 1..=y + 1).map(move |y| (x, y)));
        cells
            .filter_map(|cell| self.grid.get(&cell))
            .flatten()
            .filter(|b| (b.at_ms - a.at_ms).abs() > APART_MS)
            .filter(|b| a.place.to(b.place).dot(a.course).abs() <= SAMPLE_M)
            .filter(|b| b.course.dot(a.course).abs() > PARALLEL)
            .map(|b| a.place.to(b.place).dot(a.course.left()))
            .filter(|m| m.abs() <= self.reach_m)
    }

    /// Median distance between a place and the nearest parallel pass of another time, m. None where
    /// hardly any place has one.
    pub(super) fn spacing_m(&self) -> Option<f64> {
        let range = SAME_WIDTHS * self.width_m..=NEXT_WIDTHS * self.width_m;
        let next = |a: &Sample| {
            let beside = self.beside(a).map(f64::abs).filter(|m| range.contains(m));
            let next = beside.fold(f64::INFINITY, f64::min);
            next.is_finite().then_some(next)
        };
        let next: Vec<f64> = self.samples.iter().filter_map(next).collect();
        median(next.iter().copied()).filter(|_| next.len() >= SAMPLES)
    }

    /// Whether each step lies among the parallel passes of a field: four lines, each apart from the
    /// next, over more than the lanes of a road.
    pub(super) fn in_field(&self) -> Vec<bool> {
        let spread_m = SPREAD_M.max(SPREAD_WIDTHS * self.width_m);
        self.where_lines(|lines, spread| lines >= LINES && spread >= spread_m)
    }

    /// Whether each step has at least so many parallel lines, its own included, near it.
    pub(super) fn with_lines(&self, least: usize) -> Vec<bool> {
        self.where_lines(|lines, _| lines >= least)
    }

    fn where_lines(&self, enough: impl Fn(usize, f64) -> bool) -> Vec<bool> {
        let judge = |a: &Sample| {
            let (lines, spread) = self.lines(a);
            enough(lines, spread)
        };
        let samples: Vec<bool> = self.samples.iter().map(judge).collect();
        let of = |i: &Option<usize>| i.and_then(|i| samples.get(i)).copied().unwrap_or(false);
        self.of_step.iter().map(of).collect()
    }

    /// How many lines of passes lie at a place, its own included, and from the first to the last, m.
    fn lines(&self, a: &Sample) -> (usize, f64) {
        let mut beside: Vec<f64> = self.beside(a).chain([0.0]).collect();
        beside.sort_by(f64::total_cmp);
        let apart = 2.0 * SAME_WIDTHS * self.width_m;
        let mut lines = 0;
        let mut last = f64::NEG_INFINITY;
        for line in &beside {
            if line - last >= apart {
                lines += 1;
                last = *line;
            }
        }
        let ends = beside.first().zip(beside.last());
        (lines, ends.map_or(0.0, |(first, last)| last - first))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "metres of a projection over metres of an implement"
)]
fn cell(place: Metres, side: f64) -> (i64, i64) {
    (
        (place.x / side).floor() as i64,
        (place.y / side).floor() as i64,
    )
}

fn samples(track: &Track, steps: &[Step], flags: &[bool]) -> (Vec<Sample>, Vec<Option<usize>>) {
    let mut samples: Vec<Sample> = Vec::new();
    let mut of_step = Vec::with_capacity(steps.len());
    for (step, flag) in steps.iter().zip(flags) {
        let pair = (track.points.get(step.end - 1), track.points.get(step.end));
        let (true, (Some(from), Some(to))) = (*flag, pair) else {
            of_step.push(None);
            continue;
        };
        let near = |metres: f64| {
            let last = samples.last();
            last.filter(|last| last.place.distance(to.place) < metres)
        };
        // The course over the way since the last sample where that is near, else of the step.
        let origin = near(3.0 * SAMPLE_M).map_or(from.place, |last| last.place);
        let course = direction(origin, to.place).filter(|_| near(SAMPLE_M).is_none());
        if let Some(course) = course {
            samples.push(Sample {
                at_ms: to.fix.at_ms,
                place: to.place,
                course,
            });
        }
        of_step.push(samples.len().checked_sub(1));
    }
    (samples, of_step)
}
