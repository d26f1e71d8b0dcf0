//! The facts of one machine's track: put together from its parts, the same from every caller. Never reads or prints.

use std::collections::BTreeMap;

use super::{
    Activity, Reason, Setup, Verdict, VerdictKind, activity,
    area::{self, Areas},
    presence::{self, Presence},
    start::{self, Ground},
};
use crate::{
    geo::{
        Area, Degrees, Metres,
        plot::Plot,
        projection::{Projection, middle},
        region::Region,
    },
    track::{
        Fix, Rejection, Track,
        step::{Step, median, steps},
    },
};

/// A second plot with more than this share of the work is reported.
const CONFLICT_SHARE: f64 = 0.1;
/// Figures are estimates when the accuracy is worse than this part of the width ...
const ESTIMATE_WIDTHS: f64 = 0.15;
/// ... or the median interval at work longer than this, s.
const ESTIMATE_INTERVAL_S: f64 = 5.0;

/// A span without fixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// Last fix before, ms since 1970 UTC.
    pub from_ms: i64,
    /// First fix after, ms since 1970 UTC.
    pub to_ms: i64,
    /// Seconds of it.
    pub missing_s: f64,
}

/// How far the figures can be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Share of good fixes among the kept ones.
    pub good_share: f64,
    /// Median interval at work, s; of all moving steps where nothing was worked.
    pub interval_s: Option<f64>,
    /// Whether the areas are estimates.
    pub estimate: bool,
}

/// Another plot with much of the work.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotConflict {
    /// Its name.
    pub plot: String,
    /// Its share of the work in all plots.
    pub share: f64,
}

/// The facts.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Swaths united, no plot.
    pub union: Area,
    /// Inside the plot (all without one).
    pub covered: Area,
    /// Covered and closed: the bill rests on it.
    pub closed: Area,
    /// Sum of the swaths.
    pub gross: Area,
    /// Gross less union.
    pub overlap: Area,
    /// Outside the plot within 5 m.
    pub headland: Area,
    /// Outside the plot and beyond 5 m.
    pub outside: Area,
    /// Way at work, m.
    pub work_distance_m: f64,
    /// What a simple tracker would bill, m2.
    pub distance_x_width_m2: f64,
    /// All the way, m.
    pub distance_m: f64,
    /// ms since 1970 UTC, like the next three.
    pub arrived_ms: Option<i64>,
    /// Start of work at the plot.
    pub started_ms: Option<i64>,
    /// End of the last worked step.
    pub finished_ms: Option<i64>,
    /// Leaving.
    pub left_ms: Option<i64>,
    /// Seconds of work; the four sum to last - first - gaps.
    pub work_s: f64,
    /// Seconds of turns.
    pub turn_s: f64,
    /// Seconds on the way.
    pub transit_s: f64,
    /// Seconds standing.
    pub idle_s: f64,
    /// Fixes kept.
    pub fixes: usize,
    /// Fixes left out, by reason.
    pub rejected: BTreeMap<Rejection, usize>,
    /// Spans without fixes.
    pub gaps: Vec<Gap>,
    /// The plot that was worked.
    pub plot: Option<String>,
    /// A second one with over 10 % of the work.
    pub plot_conflict: Option<PlotConflict>,
    /// On the start.
    pub start: Verdict,
    /// How far to trust it.
    pub quality: Quality,
}

/// The facts of fixes in any order, for a machine and the plots that it may have worked.
#[must_use]
pub fn facts(fixes: &[Fix], setup: &Setup, plots: &[Plot]) -> Facts {
    let projection = Projection::at(centre(fixes, plots));
    let track = Track::new(fixes, &projection);
    let steps = steps(&track);
    let worked = activity::worked(&track, &steps, setup);
    let swept = area::sweep(&track, &steps, &worked, setup);
    let regions: Vec<Region> = plots.iter().map(|plot| plot.region(&projection)).collect();
    let chosen = choose(&swept.union, &regions, &track);
    let region = chosen.and_then(|i| regions.get(i));
    let areas = area::measure(&swept, region, setup.width_m);
    let presence = region.map_or(Presence::default(), |region| {
        let grown = |m: f64| region.grown(m).lookup();
        presence::presence(
            &track,
            &grown(presence::ARRIVE_GROWN_M),
            &grown(presence::LEAVE_GROWN_M),
        )
    });
    let (started_ms, start) = judge_start(&track, &steps, &worked, setup, region);
    let times = Times::of(&track, &steps, &worked);
    Facts {
        work_distance_m: swept.distance_m,
        distance_x_width_m2: swept.distance_x_width_m2,
        distance_m: steps
            .iter()
            .filter(|s| !s.gap && !s.parked)
            .map(|s| s.metres)
            .sum(),
        arrived_ms: presence.arrived_ms,
        started_ms,
        finished_ms: finished(&track, &steps, &worked, presence.left_ms),
        left_ms: presence.left_ms,
        fixes: track.points.len(),
        rejected: count(&track.rejected),
        plot: chosen.and_then(|i| plots.get(i)).map(|p| p.name.clone()),
        plot_conflict: conflict(&swept.union, &regions, plots, chosen),
        start,
        quality: quality(&track, &steps, &worked, setup),
        ..Facts::measured(&areas, times)
    }
}

impl Facts {
    fn measured(areas: &Areas, times: Times) -> Self {
        Self {
            union: areas.union,
            covered: areas.covered,
            closed: areas.closed,
            gross: areas.gross,
            overlap: areas.overlap,
            headland: areas.headland,
            outside: areas.outside,
            work_distance_m: 0.0,
            distance_x_width_m2: 0.0,
            distance_m: 0.0,
            arrived_ms: None,
            started_ms: None,
            finished_ms: None,
            left_ms: None,
            work_s: times.work_s,
            turn_s: times.turn_s,
            transit_s: times.transit_s,
            idle_s: times.idle_s,
            fixes: 0,
            rejected: BTreeMap::new(),
            gaps: times.gaps,
            plot: None,
            plot_conflict: None,
            start: Verdict {
                kind: VerdictKind::None,
                reasons: vec![],
            },
            quality: Quality {
                good_share: 0.0,
                interval_s: None,
                estimate: false,
            },
        }
    }
}

/// The middle of the first plot, else of the fixes.
fn centre(fixes: &[Fix], plots: &[Plot]) -> Degrees {
    let sound = |place: &Degrees| {
        place.lat.is_finite()
            && place.lon.is_finite()
            && place.lat.abs() <= 90.0
            && (place.lat.abs() > 1e-5 || place.lon.abs() > 1e-5)
    };
    // Of the fixes' places the median stands: a wrong one far away must not move the centre.
    let median_place = || {
        let places: Vec<Degrees> = fixes.iter().map(|f| f.place).filter(sound).collect();
        let origin = places.first()?.lon;
        let near = |lon: f64| (lon - origin + 180.0).rem_euclid(360.0) - 180.0;
        let lat = median(places.iter().map(|p| p.lat))?;
        let lon = median(places.iter().map(|p| near(p.lon)))?;
        Some(Degrees {
            lon: origin + lon,
            lat,
        })
    };
    plots
        .first()
        .and_then(Plot::centre)
        .or_else(median_place)
        .or_else(|| middle(fixes.iter().map(|f| f.place).filter(sound)))
        .unwrap_or(Degrees { lon: 0.0, lat: 0.0 })
}

/// The plot with the largest worked area; without work the one where the machine was for longest.
fn choose(union: &Region, regions: &[Region], track: &Track) -> Option<usize> {
    let worked = |region: &Region| union.intersection(region).area();
    let best = regions
        .iter()
        .enumerate()
        .map(|(i, r)| (worked(r), i))
        .max_by_key(|(a, i)| (*a, std::cmp::Reverse(*i)))?;
    if best.0 > Area::default() {
        return Some(best.1);
    }
    let stayed = |region: &Region| {
        let lookup = region.grown(presence::ARRIVE_GROWN_M).lookup();
        track
            .points
            .iter()
            .filter(|p| lookup.contains(p.place))
            .count()
    };
    regions
        .iter()
        .enumerate()
        .max_by_key(|(i, r)| (stayed(r), std::cmp::Reverse(*i)))
        .map(|(i, _)| i)
}

fn conflict(
    union: &Region,
    regions: &[Region],
    plots: &[Plot],
    chosen: Option<usize>,
) -> Option<PlotConflict> {
    let worked: Vec<f64> = regions
        .iter()
        .map(|r| union.intersection(r).area().m2())
        .collect();
    let total: f64 = worked.iter().sum();
    let (share, i) = worked
        .iter()
        .enumerate()
        .filter(|(i, _)| Some(*i) != chosen)
        .map(|(i, m2)| (m2 / total.max(1e-9), i))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (share > CONFLICT_SHARE).then(|| PlotConflict {
        plot: plots.get(i).map(|p| p.name.clone()).unwrap_or_default(),
        share,
    })
}

fn judge_start(
    track: &Track,
    steps: &[Step],
    worked: &[bool],
    setup: &Setup,
    region: Option<&Region>,
) -> (Option<i64>, Verdict) {
    let verdict = |kind, reason| Verdict {
        kind,
        reasons: vec![reason],
    };
    let Some(region) = region else {
        return (None, verdict(VerdictKind::None, Reason::NoPlot));
    };
    if track.points.is_empty() {
        return (None, verdict(VerdictKind::NotProvable, Reason::Silent));
    }
    let inside = region.grown(start::GROWN_M).lookup();
    let ground = Ground {
        track,
        steps,
        worked,
        setup,
        inside: &inside,
        plot_m2: region.area().m2(),
    };
    match ground.start() {
        Ok((at_ms, seconds)) => (
            Some(at_ms),
            verdict(VerdictKind::Proven, Reason::WorkSeen { seconds }),
        ),
        Err(reason) => {
            let near = region.grown(presence::LEAVE_GROWN_M).lookup();
            let good = track.points.iter().any(|p| p.fix.good());
            if good && !track.points.iter().any(|p| near.contains(p.place)) {
                let nearest_m = nearest(track, region);
                (
                    None,
                    verdict(VerdictKind::Contradicted, Reason::Elsewhere { nearest_m }),
                )
            } else {
                (None, verdict(VerdictKind::NotProvable, reason))
            }
        }
    }
}

/// Least distance of any point to the plot's edge, m.
fn nearest(track: &Track, region: &Region) -> f64 {
    let edges: Vec<[Metres; 2]> = region
        .shapes()
        .iter()
        .flatten()
        .flat_map(|ring| ring.iter().zip(ring.iter().cycle().skip(1)))
        .map(|(a, b)| [Metres { x: a[0], y: a[1] }, Metres { x: b[0], y: b[1] }])
        .collect();
    let to_edge = |p: Metres, [a, b]: &[Metres; 2]| {
        let along = a.to(*b);
        let t = (a.to(p).dot(along) / along.dot(along).max(1e-12)).clamp(0.0, 1.0);
        a.moved(along, t).distance(p)
    };
    let of = |p: Metres| {
        edges
            .iter()
            .map(|e| to_edge(p, e))
            .fold(f64::INFINITY, f64::min)
    };
    track
        .points
        .iter()
        .map(|p| of(p.place))
        .fold(f64::INFINITY, f64::min)
}

/// End of the last worked step before leaving.
fn finished(track: &Track, steps: &[Step], worked: &[bool], left_ms: Option<i64>) -> Option<i64> {
    steps
        .iter()
        .zip(worked)
        .filter(|(_, worked)| **worked)
        .filter_map(|(step, _)| track.points.get(step.end).map(|p| p.fix.at_ms))
        .filter(|at| left_ms.is_none_or(|left| *at <= left))
        .next_back()
}

struct Times {
    work_s: f64,
    turn_s: f64,
    transit_s: f64,
    idle_s: f64,
    gaps: Vec<Gap>,
}

impl Times {
    fn of(track: &Track, steps: &[Step], worked: &[bool]) -> Self {
        let activities = activity::activities(track, steps, worked);
        let seconds = |of: Activity| {
            steps
                .iter()
                .zip(&activities)
                .filter(|(_, a)| **a == Some(of))
                .map(|(s, _)| s.seconds)
                .sum::<f64>()
        };
        let at = |i: usize| track.points.get(i).map_or(0, |p| p.fix.at_ms);
        let gap = |s: &Step| Gap {
            from_ms: at(s.end - 1),
            to_ms: at(s.end),
            missing_s: s.seconds,
        };
        Self {
            work_s: seconds(Activity::Work),
            turn_s: seconds(Activity::Turn),
            transit_s: seconds(Activity::Transit),
            idle_s: seconds(Activity::Idle),
            gaps: steps.iter().filter(|s| s.gap).map(gap).collect(),
        }
    }
}

fn count(rejected: &[(Fix, Rejection)]) -> BTreeMap<Rejection, usize> {
    let mut counts = BTreeMap::new();
    for (_, reason) in rejected {
        *counts.entry(*reason).or_default() += 1;
    }
    counts
}

#[expect(clippy::cast_precision_loss, reason = "numbers of fixes")]
fn quality(track: &Track, steps: &[Step], worked: &[bool], setup: &Setup) -> Quality {
    let good = track.points.iter().filter(|p| p.fix.good()).count();
    let at_work = steps
        .iter()
        .zip(worked)
        .filter(|(_, w)| **w)
        .map(|(s, _)| s);
    let interval_s = median(at_work.clone().map(|s| s.seconds)).or_else(|| {
        median(
            steps
                .iter()
                .filter(|s| !s.parked && !s.gap)
                .map(|s| s.seconds),
        )
    });
    let accuracy = median(
        at_work
            .filter_map(|s| track.points.get(s.end))
            .map(|p| p.fix.accuracy()),
    )
    .or_else(|| median(track.points.iter().map(|p| p.fix.accuracy())));
    Quality {
        good_share: if track.points.is_empty() {
            0.0
        } else {
            good as f64 / track.points.len() as f64
        },
        interval_s,
        estimate: accuracy.is_some_and(|m| m > ESTIMATE_WIDTHS * setup.width_m)
            || interval_s.is_some_and(|s| s > ESTIMATE_INTERVAL_S),
    }
}
