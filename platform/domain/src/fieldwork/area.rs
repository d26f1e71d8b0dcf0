//! Worked area: swaths united, clipped to the plot, closed. Never measures what was not driven.

use super::{
    Setup,
    swath::{Mark, lengths, quads, thin},
};
use crate::{
    geo::{
        Area,
        region::{Region, signed_area},
    },
    track::{
        Track,
        step::{LONG_STEP_M, Step},
    },
};

/// Slivers between passes are closed by this at most, m ...
const CLOSE_M: f64 = 1.5;
/// ... and by this part of the width.
const CLOSE_WIDTHS: f64 = 0.2;
/// How far outside the plot still is its headland, m.
const HEADLAND_M: f64 = 5.0;
/// Slower than this an implement covers nothing, m/s.
pub(super) const LEAST_WORK_MPS: f64 = 0.2;

/// What a step swept, before any plot.
#[derive(Debug, Clone, Default)]
pub(super) struct Swept {
    pub union: Region,
    pub gross: Area,
    pub distance_m: f64,
    pub distance_x_width_m2: f64,
}

/// Whether a step may have covered ground at all.
pub(super) fn sweeps(step: &Step) -> bool {
    !step.gap && !step.parked && step.metres <= LONG_STEP_M && step.speed() >= LEAST_WORK_MPS
}

/// The width of the step that ends at a point, m.
pub(super) fn width(track: &Track, end: usize, setup: &Setup) -> f64 {
    let told = track.points.get(end).and_then(|p| p.fix.width_m);
    told.filter(|w| w.is_finite() && (0.0..=100.0).contains(w))
        .unwrap_or(setup.width_m)
}

/// Unites the swaths of the steps that are worked.
pub(super) fn sweep(track: &Track, steps: &[Step], worked: &[bool], setup: &Setup) -> Swept {
    let mut swept = Swept::default();
    let mut rings = Vec::new();
    let mut run: Vec<Mark> = Vec::new();
    let mut close = |run: &mut Vec<Mark>| {
        let kept = thin(run);
        let (metres, m2) = lengths(&kept);
        swept.distance_m += metres;
        swept.distance_x_width_m2 += m2;
        rings.extend(quads(&kept, setup.forward_m, setup.left_m));
        run.clear();
    };
    for (step, worked) in steps.iter().zip(worked) {
        if !worked {
            close(&mut run);
            continue;
        }
        let width_m = width(track, step.end, setup);
        let places = [step.end - 1, step.end].map(|i| track.points.get(i).map(|p| p.place));
        if let [Some(from), Some(to)] = places {
            if run.is_empty() {
                run.push(Mark {
                    place: from,
                    width_m,
                });
            }
            run.push(Mark { place: to, width_m });
        }
    }
    close(&mut run);
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
        gross: swept.gross,
        overlap: swept.gross.minus(union),
        headland: near.minus(covered),
        outside: union.minus(near.max(covered)),
    }
}
