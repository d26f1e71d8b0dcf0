//! Work without a sensor: ground that slow driving covers in passes side by side is field, what is left is road. Never takes a single way, there and back, for work.

use std::f64::consts::PI;

use super::{Setup, area, passes::Passes};
use crate::{
    geo::{Metres, region::Region},
    track::{
        Track,
        step::{Step, direction},
    },
};

/// Slowest work, m/s; slower is manoeuvring.
const SLOWEST_WORK_MPS: f64 = 0.3;
/// Gaps between passes up to twice this are noise, not a hole in the field, m ...
const MERGE_M: f64 = 2.5;
/// ... or this part of what the passes lie further apart than the implement is said to be wide.
const MERGE_SPACING: f64 = 0.75;
/// How far a field reaches from its middle beyond half a swath: one road driven many times with the
/// noise of a plain receiver does not, m ...
const ROAD_M: f64 = 3.75;
/// ... and beyond a swath and what is merged: two ways side by side, there and back, do not, m.
const TWO_WAYS_M: f64 = 0.25;
/// Fields are back at their edge after shrinking and growing; corners need this much more.
const BACK: f64 = 1.25;
/// Holes up to this between passes are ground that was missed, if narrower than a swath, m2.
const MISS_M2: f64 = 2000.0;
/// A plot is too narrow for a field anywhere up to so many times what a field needs.
const NARROW: f64 = 1.3;
/// A plot is worked where slow driving covers at least this part of it ...
const PLOT_SHARE: f64 = 0.6;
/// ... in so many lines beside each other: one way through, there and back, is no work.
const PLOT_LINES: usize = 3;
/// Edges are taken so coarsely: a field is not found by its last decimetres, m.
const COARSE_M: f64 = 0.3;
/// Smaller than half a mu is no field but a yard, m2.
const LEAST_FIELD_M2: f64 = 300.0;
/// Strips narrower than twice this, m, ...
const STRIP_M: f64 = 7.5;
/// ... are fields up to this length only: longer ones are roads driven many times, m.
const STRIP_LENGTH_M: f64 = 400.0;
/// Work in a field takes at least this, s.
const LEAST_WORK_S: f64 = 60.0;
/// A turn from one pass to the next the other way takes no longer, s.
const TURN_S: f64 = 45.0;
/// The cosine between two courses that are opposite (150 degrees), and less its sign the same (30).
const OPPOSITE: f64 = -0.866;
/// The course at a step is that of so many seconds around it.
const COURSE_S: f64 = 6.0;

/// Whether each step is worked, by what the whole track shows, and by the plots that may have been
/// worked: they may be smaller than what is taken for a field anywhere.
pub(super) fn worked(track: &Track, steps: &[Step], setup: &Setup, plots: &[Region]) -> Vec<bool> {
    let paces = SLOWEST_WORK_MPS..=setup.machine_type.fastest_work_mps();
    let mut worked: Vec<bool> = steps
        .iter()
        .map(|step| step.sweeps() && paces.contains(&step.pace))
        .collect();
    lift_in_turns(track, steps, &mut worked);
    let passes = Passes::new(track, steps, &worked, setup);
    let driven = driven(track, steps, &worked, setup);
    let merged = in_merged(track, steps, &worked, setup, (&driven, passes.spacing_m()));
    let among = lasting(steps, &worked, &passes.in_field());
    let lines = passes.with_lines(PLOT_LINES);
    let narrow = NARROW * inner_m(setup.width_m, MERGE_M);
    let plots = plots.iter().filter(|plot| plot.grown(-narrow).is_empty());
    let in_plots = in_plots(track, steps, &lines, &driven, plots);
    let in_plots = lasting(steps, &worked, &in_plots);
    let field = merged.iter().zip(among).zip(in_plots);
    worked
        .iter()
        .zip(field)
        .map(|(worked, ((merged, among), plot))| *worked && (*merged || among || plot))
        .collect()
}

/// Steps in plots too narrow for a field anywhere, where slow driving covers the most part of the plot
/// in at least three lines.
fn in_plots<'a>(
    track: &Track,
    steps: &[Step],
    lines: &[bool],
    driven: &Region,
    plots: impl Iterator<Item = &'a Region>,
) -> Vec<bool> {
    let mut out = vec![false; steps.len()];
    for plot in plots {
        let share = driven.intersection(plot).area().m2() / plot.area().m2().max(1.0);
        if share < PLOT_SHARE {
            continue;
        }
        let lookup = plot.grown(super::start::GROWN_M).lookup();
        let inside = |step: &Step| {
            let end = track.points.get(step.end);
            end.is_some_and(|p| lookup.contains(p.place))
        };
        let inside: Vec<bool> = steps.iter().map(inside).collect();
        let both = inside.iter().zip(lines).filter(|(inside, _)| **inside);
        let (all, lined) = both.fold((0, 0), |(all, lined), (_, has)| {
            (all + 1, lined + usize::from(*has))
        });
        if 2 * lined >= all {
            out.iter_mut().zip(inside).for_each(|(o, i)| *o |= i);
        }
    }
    out
}

/// The ground that slow driving covers.
fn driven(track: &Track, steps: &[Step], slow: &[bool], setup: &Setup) -> Region {
    let treads = area::treads(track, steps, slow, false);
    let runs = area::runs(track, steps, &treads, setup, |_| None);
    area::sweep(&runs, setup.implement()).union
}

/// Steps among parallel passes, where there is a minute of them at all.
fn lasting(steps: &[Step], worked: &[bool], among: &[bool]) -> Vec<bool> {
    let both = steps.iter().zip(worked.iter().zip(among));
    let seconds: f64 = both
        .filter(|(_, (worked, among))| **worked && **among)
        .map(|(step, _)| step.seconds)
        .sum();
    let lasts = seconds >= LEAST_WORK_S;
    among.iter().map(|among| *among && lasts).collect()
}

/// Steps that end in ground where swaths merge, if they work there for a minute.
fn in_merged(
    track: &Track,
    steps: &[Step],
    worked: &[bool],
    setup: &Setup,
    (driven, spacing_m): (&Region, Option<f64>),
) -> Vec<bool> {
    let fields = fields(track, steps, worked, setup, (driven, spacing_m));
    let mut place = vec![None; steps.len()];
    for (i, field) in fields.iter().enumerate() {
        let lookup = field.lookup();
        for (step, place) in steps.iter().zip(&mut place) {
            let end = track.points.get(step.end).map(|p| p.place);
            if place.is_none() && end.is_some_and(|end| lookup.contains(end)) {
                *place = Some(i);
            }
        }
    }
    let mut seconds = vec![0.0; fields.len()];
    for ((step, worked), place) in steps.iter().zip(worked).zip(&place) {
        if let Some(sum) = place.filter(|_| *worked).and_then(|i| seconds.get_mut(i)) {
            *sum += step.seconds;
        }
    }
    let is_field = |i: usize| seconds.get(i).is_some_and(|s| *s >= LEAST_WORK_S);
    place
        .iter()
        .map(|place| place.is_some_and(is_field))
        .collect()
}

/// Where swaths of slow driving merge into ground wider than any road.
fn fields(
    track: &Track,
    steps: &[Step],
    slow: &[bool],
    setup: &Setup,
    (driven, spacing_m): (&Region, Option<f64>),
) -> Vec<Region> {
    let width_m = steps
        .iter()
        .zip(slow)
        .filter(|(_, slow)| **slow)
        .map(|(step, _)| area::width(track, step.end, setup))
        .fold(0.0, f64::max)
        .min(2.0 * setup.width_m);
    let spacing_m = spacing_m.unwrap_or(width_m);
    let merge_m = MERGE_M.max(MERGE_SPACING * (spacing_m - width_m));
    let inner_m = inner_m(width_m, merge_m);
    let ground = driven.coarse(COARSE_M).closed(merge_m);
    let ground = ground.filled(|hole| is_miss(hole, width_m));
    let middles = ground.coarse(COARSE_M).grown(-inner_m).coarse(COARSE_M);
    middles
        .pieces()
        .filter(|middle| is_field(middle, inner_m))
        .map(|middle| middle.grown(BACK * inner_m + 1.0))
        .collect()
}

/// How far a field reaches from its middle at least, m.
fn inner_m(width_m: f64, merge_m: f64) -> f64 {
    (width_m / 2.0 + ROAD_M).max(width_m + merge_m + TWO_WAYS_M)
}

/// Whether a hole is ground that was missed between passes, not a block with a road around it.
fn is_miss(hole: &Region, width_m: f64) -> bool {
    hole.area().m2() <= MISS_M2 && hole.grown(-width_m / 2.0).is_empty()
}

/// Whether what is left of some ground after shrinking is the middle of a field: not of a yard, and
/// not of a long strip that may be a road.
fn is_field(middle: &Region, inner_m: f64) -> bool {
    // Steiner's formula: what it is when grown back.
    let grown = middle.area().m2() + middle.perimeter_m() * inner_m + PI * inner_m * inner_m;
    let strip = inner_m < STRIP_M && middle.grown(inner_m - STRIP_M).is_empty();
    grown >= LEAST_FIELD_M2 && !(strip && grown > 2.0 * inner_m * STRIP_LENGTH_M)
}

/// The implement is lifted from where the course leaves that of one pass to where it joins the
/// opposite one.
fn lift_in_turns(track: &Track, steps: &[Step], worked: &mut [bool]) {
    let courses = courses(track, steps);
    let course = |i: usize| courses.get(i).copied().flatten();
    let mut i = 0;
    while i < steps.len() {
        let Some((from, turned)) = course(i).zip(opposite(steps, &courses, i)) else {
            i += 1;
            continue;
        };
        let Some(to) = course(turned) else { break };
        let along = |k: &usize, pass: Metres| course(*k).is_some_and(|c| c.dot(pass) > -OPPOSITE);
        let begin = (i..turned).rev().find(|k| along(k, from)).unwrap_or(i);
        let end = (begin + 1..=turned)
            .find(|k| along(k, to))
            .unwrap_or(turned);
        for flag in worked.iter_mut().take(end).skip(begin + 1) {
            *flag = false;
        }
        i = end.max(i + 1);
    }
}

/// The first step within a turn's time whose course is opposite to that of step `i`.
fn opposite(steps: &[Step], courses: &[Option<Metres>], i: usize) -> Option<usize> {
    let from = courses.get(i).copied().flatten()?;
    let mut elapsed = 0.0;
    for (k, step) in steps.iter().enumerate().skip(i + 1) {
        elapsed += step.seconds;
        if step.gap || elapsed > TURN_S {
            return None;
        }
        let course = courses.get(k).copied().flatten();
        if course.is_some_and(|c| c.dot(from) < OPPOSITE) {
            return Some(k);
        }
    }
    None
}

/// The direction of travel around each step, over some seconds so that noise is no turn.
fn courses(track: &Track, steps: &[Step]) -> Vec<Option<Metres>> {
    let time = |i: usize| track.points.get(i).map_or(0, |p| p.fix.at_ms);
    #[expect(clippy::cast_possible_truncation, reason = "a constant")]
    let half_ms = (COURSE_S * 500.0) as i64;
    let (mut from, mut to) = (0, 0);
    steps
        .iter()
        .map(|step| {
            while from + 1 < step.end && time(step.end) - time(from) > half_ms {
                from += 1;
            }
            to = to.max(step.end);
            while to + 1 < track.points.len() && time(to + 1) - time(step.end) <= half_ms {
                to += 1;
            }
            let place = |i: usize| track.points.get(i).map(|p| p.place);
            direction(place(from)?, place(to)?)
        })
        .collect()
}
