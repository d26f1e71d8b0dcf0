//! What each of several visits or machines covered first, so that the shares make up the union. Never counts a square metre twice.

use super::{
    Setup, activity,
    area::{self, Swept},
    bitmap::Bitmap,
    choice,
    swath::{quads, thin},
};
use crate::{
    geo::{
        Area, Degrees,
        plot::Plot,
        projection::Projection,
        region::{Region, signed_area},
    },
    track::{Fix, Track, step::steps},
};

/// One machine's fixes, or those of one visit.
#[derive(Debug, Clone)]
pub struct Visit<'a> {
    /// In any order.
    pub fixes: &'a [Fix],
    /// The machine.
    pub setup: Setup,
}

/// What one visit covered before any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Of the covered area.
    pub covered: Area,
    /// Of the closed area.
    pub closed: Area,
}

/// The closed area of all visits to a plot (or to no plot in particular) and each one's share by
/// first coverage, in the order given. The shares sum to the whole to the last 1e-4 m2.
#[must_use]
pub fn shares(visits: &[Visit<'_>], plot: Option<&Plot>) -> (Share, Vec<Share>) {
    let middle = visits.iter().find_map(|v| choice::median_place(v.fixes));
    let nowhere = Degrees { lon: 0.0, lat: 0.0 };
    let centre = plot.map(Plot::centre).or(middle).unwrap_or(nowhere);
    let projection = Projection::at(centre);
    let region = plot.map(|plot| plot.region(&projection));
    let mut pieces: Vec<(i64, usize, Vec<[f64; 2]>)> = Vec::new();
    for (i, visit) in visits.iter().enumerate() {
        let swept = pieces_of(visit, &projection, region.as_ref());
        pieces.extend(swept.into_iter().map(|(at_ms, ring)| (at_ms, i, ring)));
    }
    pieces.sort_by_key(|(at_ms, visit, _)| (*at_ms, *visit));
    // The narrowest implement decides: closing must not give what a wider one would not have covered.
    let narrowest = visits
        .iter()
        .map(|v| v.setup.width_m)
        .fold(f64::INFINITY, f64::min);
    let mut bitmap = Bitmap::new(narrowest, region.as_ref());
    let mut first = vec![0_u64; visits.len()];
    for (_, visit, ring) in &pieces {
        if let Some(cells) = first.get_mut(*visit) {
            *cells += bitmap.fill(ring);
        }
    }
    let gross = Area::from_m2(pieces.iter().map(|(.., ring)| signed_area(ring)).sum());
    let union = Region::from_rings(pieces.into_iter().map(|(.., ring)| ring).collect());
    let swept = Swept {
        union,
        gross,
        ..Swept::default()
    };
    let areas = area::measure(&swept, region.as_ref(), narrowest.min(f64::MAX));
    let covered = areas.covered.split(&first);
    let closed = areas.closed.split(&first);
    let shares = covered.into_iter().zip(closed);
    (
        Share {
            covered: areas.covered,
            closed: areas.closed,
        },
        shares
            .map(|(covered, closed)| Share { covered, closed })
            .collect(),
    )
}

fn pieces_of(
    visit: &Visit<'_>,
    projection: &Projection,
    plot: Option<&Region>,
) -> Vec<(i64, Vec<[f64; 2]>)> {
    let track = Track::new(visit.fixes, projection);
    let steps = steps(&track);
    let worked = activity::worked(
        &track,
        &steps,
        &visit.setup,
        plot.map_or(&[], std::slice::from_ref),
    );
    let sensor = activity::has_sensor(&track, &visit.setup);
    let treads = area::treads(&track, &steps, &worked, sensor);
    let runs = area::runs(&track, &steps, &treads, &visit.setup, |_| None);
    runs.iter()
        .flat_map(|run| quads(&thin(run), visit.setup.implement()))
        .collect()
}
