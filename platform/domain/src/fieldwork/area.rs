//! Worked area: swaths united, clipped to the plot, closed. Never measures what was not driven.

use super::{
    Setup,
    swath::{Implement, Mark, lengths, quads, thin},
};
use crate::{
    geo::{
        Area,
        region::{Region, signed_area},
    },
    track::{
        Point, Track,
        step::{LONG_STEP_M, Step},
    },
};

/// Slivers between passes are closed by this at most, m ...
pub(super) const CLOSE_M: f64 = 1.5;
/// ... and by this part of the width.
pub(super) const CLOSE_WIDTHS: f64 = 0.2;
/// How far outside the plot still is its headland, m.
const HEADLAND_M: f64 = 5.0;
/// What a step swept, before any plot.
#[derive(Debug, Clone, Default)]
pub(super) struct Swept {
    pub union: Region,
    pub gross: Area,
    pub distance_m: f64,
    pub distance_x_width_m2: f64,
}

/// The width of the step that ends at a point, m.
pub(super) fn width(track: &Track, end: usize, setup: &Setup) -> f64 {
    let told = track.points.get(end).and_then(|p| p.fix.width_m);
    told.filter(|w| w.is_finite() && (0.0..=100.0).contains(w))
        .unwrap_or(setup.width_m)
}

/// What an implement does in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tread {
    /// Covers ground.
    Sweeps,
    /// Waits in its pass: the machine hardly moves. What it moves counts from where it waited.
    Holds,
    /// Is not at work, or nothing is known of it: the run is over.
    Lifted,
}

/// What the implement does in each step, given which are worked.
pub(super) fn treads(track: &Track, steps: &[Step], worked: &[bool], sensor: bool) -> Vec<Tread> {
    let on = |step: &Step| {
        let end = track.points.get(step.end);
        !sensor || end.is_some_and(|p| p.fix.work_on == Some(true))
    };
    steps
        .iter()
        .zip(worked)
        .map(|(step, worked)| {
            if *worked && step.sweeps() {
                Tread::Sweeps
            } else if step.creeps() && on(step) {
                Tread::Holds
            } else {
                Tread::Lifted
            }
        })
        .collect()
}

/// The runs of sweeping steps as marks: cut where work pauses, and where `plot_of` says that the
/// machine went over into another plot.
pub(super) fn runs(
    track: &Track,
    steps: &[Step],
    treads: &[Tread],
    setup: &Setup,
    plot_of: impl Fn(usize) -> Option<usize>,
) -> Vec<Vec<Mark>> {
    let mut runs: Vec<Vec<Mark>> = Vec::new();
    let mut open = false;
    let mut plot = None;
    for (step, tread) in steps.iter().zip(treads) {
        match tread {
            Tread::Sweeps => {}
            Tread::Holds => continue,
            Tread::Lifted => {
                open = false;
                continue;
            }
        }
        let pair = (track.points.get(step.end - 1), track.points.get(step.end));
        let (Some(from), Some(to)) = pair else {
            continue;
        };
        let mark = |point: &Point| Mark {
            place: point.place,
            at_ms: point.fix.at_ms,
            width_m: width(track, step.end, setup),
            sections: to.fix.sections,
        };
        let here = plot_of(step.end);
        let over = here.is_some() && plot.is_some() && here != plot;
        plot = here.or(plot);
        let last = runs.last().and_then(|run| run.last()).filter(|_| open);
        let near = last.is_some_and(|last| last.place.distance(to.place) <= LONG_STEP_M);
        if !near || over {
            runs.push(vec![mark(from)]);
        }
        open = true;
        runs.last_mut()
            .into_iter()
            .for_each(|run| run.push(mark(to)));
    }
    runs
}

/// Unites the swaths of runs.
pub(super) fn sweep(runs: &[Vec<Mark>], implement: Implement) -> Swept {
    let mut swept = Swept::default();
    let mut rings = Vec::new();
    for run in runs {
        let kept = thin(run);
        let (metres, m2) = lengths(&kept, implement);
        swept.distance_m += metres;
        swept.distance_x_width_m2 += m2;
        rings.extend(quads(&kept, implement).into_iter().map(|(_, ring)| ring));
    }
    swept.gross = Area::from_m2(rings.iter().map(|ring| signed_area(ring)).sum());
    swept.union = Region::from_rings(rings);
    swept
}

/// The areas of fieldwork.md section 2.8.
#[derive(Debug, Clone, Default)]
pub(super) struct Areas {
    pub union: Area,
    pub covered: Area,
    pub closed: Area,
    pub gross: Area,
    pub overlap: Area,
    pub headland: Area,
    pub outside: Area,
    pub covered_region: Region,
    pub closed_region: Region,
}

/// Measures what was swept, inside `plot` where there is one.
pub(super) fn measure(swept: &Swept, plot: Option<&Region>, width_m: f64) -> Areas {
    let union = swept.union.area();
    let radius = CLOSE_M.min(CLOSE_WIDTHS * width_m);
    let covered_region = plot.map_or_else(
        || swept.union.clone(),
        |plot| swept.union.intersection(plot),
    );
    let closed_region = match plot {
        None => covered_region.closed(radius),
        Some(plot) => covered_region.closed(radius).intersection(plot),
    };
    let covered = covered_region.area();
    let near = plot.map_or(union, |plot| {
        swept.union.intersection(&plot.grown(HEADLAND_M)).area()
    });
    Areas {
        union,
        covered,
        closed: closed_region.area().max(covered),
        gross: swept.gross.max(union),
        overlap: swept.gross.minus(union),
        headland: near.minus(covered),
        outside: union.minus(near.max(covered)),
        covered_region,
        closed_region,
    }
}
