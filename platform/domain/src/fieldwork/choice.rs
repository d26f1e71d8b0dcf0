//! Which plot was worked, which other one too, and whether a boundary was drawn on a map of another datum. Never moves a boundary silently.

use serde::Serialize;

use crate::{
    geo::{
        Area, Degrees, Metres, datum::Datum, plot::Plot, projection::Projection, region::Region,
    },
    track::{Fix, Track},
};

use super::presence;

/// A second plot with more than this share of the work is reported.
const CONFLICT_SHARE: f64 = 0.1;
/// A boundary further from the machine than this may have its axes exchanged, m ...
const FAR_M: f64 = 100_000.0;
/// ... if it then lies this near, m.
const NEAR_M: f64 = 20_000.0;
/// Shifts that datums make, m: 32-676 between GCJ-02 and WGS-84, BD-09 up to 1,200 further.
const SHIFT_M: std::ops::RangeInclusive<f64> = 30.0..=1900.0;
/// Shapes are equal when what they share is this part of what they cover together ...
const EQUAL: f64 = 0.75;
/// ... and unequal where they lie when it is that much less.
const WORSE: f64 = 0.2;
/// Shapes are compared without slivers up to twice this, m ...
const MERGE_M: f64 = 2.5;
/// ... and without the last decimetres of their edges, m.
const COARSE_M: f64 = 0.3;
/// A shift is that of a datum within so many metres ...
const SAME_SHIFT_M: f64 = 20.0;
/// ... and this part of it.
const SAME_SHIFT: f64 = 0.1;

/// Another plot with much of the work.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotConflict {
    /// Its name.
    pub plot: String,
    /// Its share of the work in all plots.
    pub share: f64,
}

/// The work has the shape of the plot and lies beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatumMistake {
    /// The plot's name.
    pub plot: String,
    /// From the plot's centre to the work's, m.
    pub shift_m: f64,
    /// The datum whose map would explain it.
    pub datum: Option<Datum>,
}

/// A plot in local metres, with the work in it.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub plot: Plot,
    pub region: Region,
    pub worked: Area,
}

impl Ground {
    pub(super) fn of(plot: Plot, region: Region, union: &Region) -> Self {
        let worked = union.intersection(&region).area();
        Self {
            plot,
            region,
            worked,
        }
    }
}

/// Plots whose numbers are places either way round are turned where the machine was, and told.
pub(super) fn turned(plots: &[Plot], fixes: Option<Degrees>) -> Vec<Plot> {
    let turn = |plot: &Plot| {
        let fixes = fixes?;
        let far = |plot: &Plot| Projection::at(fixes).metres(plot.centre());
        let distance = |plot: &Plot| far(plot).distance(Metres::default());
        if distance(plot) < FAR_M {
            return None;
        }
        plot.exchanged().filter(|other| distance(other) < NEAR_M)
    };
    plots
        .iter()
        .map(|plot| turn(plot).unwrap_or_else(|| plot.clone()))
        .collect()
}

/// The plot with the largest worked area; without work the one where the machine was for longest.
pub(super) fn choose(grounds: &[Ground], track: &Track) -> Option<usize> {
    let worked = grounds
        .iter()
        .enumerate()
        .map(|(i, ground)| (ground.worked, std::cmp::Reverse(i)))
        .max()?;
    if worked.0 > Area::default() {
        return Some(worked.1.0);
    }
    let stayed = |region: &Region| {
        let lookup = region.grown(presence::ARRIVE_GROWN_M).lookup();
        let inside = |p: &&crate::track::Point| lookup.contains(p.place);
        track.points.iter().filter(inside).count()
    };
    grounds
        .iter()
        .enumerate()
        .map(|(i, ground)| (stayed(&ground.region), std::cmp::Reverse(i)))
        .max()
        .map(|(_, i)| i.0)
}

/// The other plot with most of the work, if that is much.
pub(super) fn conflict(grounds: &[Ground], chosen: Option<usize>) -> Option<PlotConflict> {
    let total: f64 = grounds.iter().map(|g| g.worked.m2()).sum();
    let (worked, i) = grounds
        .iter()
        .enumerate()
        .filter(|(i, _)| Some(*i) != chosen)
        .map(|(i, ground)| (ground.worked, std::cmp::Reverse(i)))
        .max()?;
    let share = worked.m2() / total.max(1e-9);
    let plot = grounds.get(i.0)?;
    (share > CONFLICT_SHARE).then(|| PlotConflict {
        plot: plot.plot.name.clone(),
        share,
    })
}

/// Whether the work is one of the plots, moved. The largest likeness stands.
pub(super) fn datum_mistake(
    grounds: &[Ground],
    union: &Region,
    projection: &Projection,
) -> Option<DatumMistake> {
    let fits = |ground: &Ground| likeness(&ground.region, union) > EQUAL;
    if union.is_empty() || grounds.is_empty() || grounds.iter().any(fits) {
        return None;
    }
    let work = union.coarse(COARSE_M).closed(MERGE_M);
    let work = work.pieces().max_by_key(Region::area)?;
    grounds
        .iter()
        .filter_map(|ground| mistake(ground, &work, projection))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, mistake)| mistake)
}

fn mistake(ground: &Ground, work: &Region, projection: &Projection) -> Option<(f64, DatumMistake)> {
    let shift = ground.region.centroid()?.to(work.centroid()?);
    let shift_m = shift.distance(Metres::default());
    if !SHIFT_M.contains(&shift_m) {
        return None;
    }
    let moved = likeness(&ground.region.moved(shift), work);
    if moved < EQUAL || likeness(&ground.region, work) > moved - WORSE {
        return None;
    }
    let explains = |datum: &Datum| {
        let there = ground.plot.mistaken(*datum).region(projection);
        let by = ground
            .region
            .centroid()
            .zip(there.centroid())
            .map(|(from, to)| from.to(to));
        by.is_some_and(|by| by.distance(shift) < SAME_SHIFT_M + SAME_SHIFT * shift_m)
    };
    let datum = [Datum::Gcj02, Datum::Bd09].into_iter().find(explains);
    let plot = ground.plot.name.clone();
    Some((
        moved,
        DatumMistake {
            plot,
            shift_m,
            datum,
        },
    ))
}

/// What two regions share, as a part of what they cover together.
fn likeness(a: &Region, b: &Region) -> f64 {
    let shared = a.intersection(b).area().m2();
    shared / (a.area().m2() + b.area().m2() - shared).max(1e-9)
}

/// The middle of a track that single wrong fixes do not move: the median place.
pub(super) fn median_place(fixes: &[Fix]) -> Option<Degrees> {
    let sound = |place: &Degrees| {
        place.lat.abs() <= 90.0
            && place.lon.abs() <= 360.0
            && (place.lat.abs() > 1e-5 || place.lon.abs() > 1e-5)
    };
    let mut places: Vec<Degrees> = fixes.iter().map(|f| f.place).filter(sound).collect();
    // The unwrapping begins at the same place in whatever order the fixes came.
    places.sort_by(|a, b| a.lon.total_cmp(&b.lon).then(a.lat.total_cmp(&b.lat)));
    let origin = places.first()?.lon;
    let east = |lon: f64| crate::geo::projection::unwrap(lon - origin);
    let lat = crate::track::step::median(places.iter().map(|p| p.lat))?;
    let lon = crate::track::step::median(places.iter().map(|p| east(p.lon)))?;
    Some(Degrees {
        lon: crate::geo::projection::unwrap(origin + lon),
        lat,
    })
}
