//! The facts of one machine's track: put together from its parts, the same from every caller. Never reads or prints.

use std::collections::BTreeMap;

use super::{
    Alarm, PlotConflict, Setup, Verdict,
    activity::{self, Times},
    alarm,
    area::{self, Areas},
    choice::{self, Ground},
    passes::Passes,
    presence::{self, Presence},
    verdict,
};
use crate::{
    geo::{
        Area, Degrees,
        plot::{Plot, Repair},
        projection::Projection,
        region::{Lookup, Region},
    },
    track::{
        Fix, Rejection, Track,
        step::{Step, median, steps},
    },
};

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
    /// What may have been worked in it, m2: the straight way x width between two worked steps. Shown,
    /// never billed.
    pub missing_m2: f64,
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
    /// What was mended on its boundary.
    pub plot_repairs: Vec<Repair>,
    /// A second one with over 10 % of the work.
    pub plot_conflict: Option<PlotConflict>,
    /// On the start.
    pub start: Verdict,
    /// How far to trust it.
    pub quality: Quality,
    /// Median distance between neighbouring passes, m.
    pub pass_spacing_m: Option<f64>,
    /// What looks wrong.
    pub alarms: Vec<Alarm>,
}

/// Facts, and the ground they rest on.
#[derive(Debug, Clone)]
pub struct Survey {
    /// The figures.
    pub facts: Facts,
    /// Of which the local metres below are.
    pub projection: Projection,
    /// All swaths.
    pub union: Region,
    /// Inside the plot.
    pub covered: Region,
    /// Closed.
    pub closed: Region,
    /// The plot that was worked.
    pub plot: Option<Region>,
    /// What each kept fix's step was, with the time of the fix (ms since 1970 UTC); None for gaps.
    pub activities: Vec<(i64, Option<super::Activity>)>,
}

/// The facts of fixes in any order, for a machine and the plots that it may have worked.
#[must_use]
pub fn facts(fixes: &[Fix], setup: &Setup, plots: &[Plot]) -> Facts {
    survey(fixes, setup, plots).facts
}

/// The facts of fixes in any order, with the regions that they rest on.
#[must_use]
pub fn survey(fixes: &[Fix], setup: &Setup, plots: &[Plot]) -> Survey {
    let middle = choice::median_place(fixes);
    let plots = choice::turned(plots, middle);
    let projection = Projection::at(centre(&plots, middle));
    let track = Track::new(fixes, &projection);
    let steps = steps(&track);
    let regions: Vec<Region> = plots.iter().map(|p| p.region(&projection)).collect();
    let worked = activity::worked(&track, &steps, setup, &regions);
    let lookups: Vec<Lookup> = regions.iter().map(Region::lookup).collect();
    let swept = sweep(&track, &steps, &worked, setup, &lookups);
    let grounds: Vec<Ground> = plots
        .into_iter()
        .zip(regions)
        .map(|(plot, region)| Ground::of(plot, region, &swept.union))
        .collect();
    let chosen = choice::choose(&grounds, &track);
    let ground = chosen.and_then(|i| grounds.get(i));
    let areas = area::measure(&swept, ground.map(|g| &g.region), setup.width_m);
    let mut whole = Facts::measured(&areas, &swept, Times::of(&track, &steps, &worked, setup));
    whole.plot_conflict = choice::conflict(&grounds, chosen);
    let datum = choice::datum_mistake(&grounds, &swept.union, &projection);
    whole.pass_spacing_m = Passes::new(&track, &steps, &worked, setup).spacing_m();
    whole.alarms = alarm::alarms(&track, whole.pass_spacing_m, &swept, datum.as_ref(), setup);
    whole.tell_track(&track, &steps);
    whole.quality = quality(&track, &steps, &worked, setup);
    let sensor = activity::has_sensor(&track, setup);
    let plot = ground.map(|g| (&g.region, whole.tell_presence(&track, &steps, &worked, g)));
    if plot.is_none() {
        whole.finished_ms = finished(&track, &steps, &worked, |_| true);
    }
    let judged = verdict::judge(
        &track,
        &steps,
        &worked,
        (setup, sensor),
        plot,
        datum.as_ref(),
    );
    (whole.started_ms, whole.start) = judged;
    Survey {
        activities: labels(&track, &steps, &worked),
        plot: ground.map(|g| g.region.clone()),
        facts: whole,
        projection,
        union: swept.union,
        covered: areas.covered_region,
        closed: areas.closed_region,
    }
}

/// The middle of the first plot, else of the fixes.
fn centre(plots: &[Plot], middle: Option<Degrees>) -> Degrees {
    let nowhere = Degrees { lon: 0.0, lat: 0.0 };
    plots
        .first()
        .map(Plot::centre)
        .or(middle)
        .unwrap_or(nowhere)
}

fn sweep(
    track: &Track,
    steps: &[Step],
    worked: &[bool],
    setup: &Setup,
    plots: &[Lookup],
) -> area::Swept {
    let plot_of = |i: usize| {
        // With one plot there is no other to go over into.
        let place = track.points.get(i).filter(|_| plots.len() > 1)?.place;
        plots.iter().position(|plot| plot.contains(place))
    };
    let treads = area::treads(track, steps, worked, activity::has_sensor(track, setup));
    let runs = area::runs(track, steps, &treads, setup, plot_of);
    area::sweep(&runs, setup.implement())
}

fn labels(track: &Track, steps: &[Step], worked: &[bool]) -> Vec<(i64, Option<super::Activity>)> {
    let at = |step: &Step| track.points.get(step.end).map_or(0, |p| p.fix.at_ms);
    let activities = activity::activities(track, steps, worked);
    steps.iter().map(at).zip(activities).collect()
}

impl Facts {
    fn measured(areas: &Areas, swept: &area::Swept, times: Times) -> Self {
        Self {
            union: areas.union,
            covered: areas.covered,
            closed: areas.closed,
            gross: areas.gross,
            overlap: areas.overlap,
            headland: areas.headland,
            outside: areas.outside,
            work_distance_m: swept.distance_m,
            distance_x_width_m2: swept.distance_x_width_m2,
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
            plot_repairs: vec![],
            plot_conflict: None,
            start: Verdict {
                kind: verdict::VerdictKind::None,
                reasons: vec![],
            },
            quality: Quality {
                good_share: 0.0,
                interval_s: None,
                estimate: false,
            },
            pass_spacing_m: None,
            alarms: vec![],
        }
    }

    fn tell_track(&mut self, track: &Track, steps: &[Step]) {
        self.fixes = track.points.len();
        for (_, reason) in &track.rejected {
            *self.rejected.entry(*reason).or_default() += 1;
        }
        let travelled = steps.iter().filter(|s| s.travels()).map(|s| s.metres);
        self.distance_m = travelled.fold(0.0, |sum, m| sum + m);
    }

    /// When the machine was at the plot that was worked.
    fn tell_presence(
        &mut self,
        track: &Track,
        steps: &[Step],
        worked: &[bool],
        ground: &Ground,
    ) -> Presence {
        let grown = |m: f64| ground.region.grown(m).lookup();
        let far = grown(presence::LEAVE_GROWN_M);
        let presence = presence::presence(track, &grown(presence::ARRIVE_GROWN_M), &far);
        self.arrived_ms = presence.arrived_ms;
        self.left_ms = presence.left_ms;
        self.finished_ms = finished(track, steps, worked, |point| {
            let gone = presence.left_ms.is_some_and(|left| point.fix.at_ms > left);
            !gone && far.contains(point.place)
        });
        self.plot = Some(ground.plot.name.clone());
        self.plot_repairs.clone_from(&ground.plot.repairs);
        presence
    }
}

/// End of the last worked step that counts.
fn finished(
    track: &Track,
    steps: &[Step],
    worked: &[bool],
    counts: impl Fn(&crate::track::Point) -> bool,
) -> Option<i64> {
    steps
        .iter()
        .zip(worked)
        .filter(|(_, worked)| **worked)
        .filter_map(|(step, _)| track.points.get(step.end))
        .rfind(|point| counts(point))
        .map(|point| point.fix.at_ms)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of fixes")]
fn quality(track: &Track, steps: &[Step], worked: &[bool], setup: &Setup) -> Quality {
    let good = track.points.iter().filter(|p| p.fix.good()).count();
    let at_work = steps
        .iter()
        .zip(worked)
        .filter(|(_, w)| **w)
        .map(|(s, _)| s);
    let moving = steps.iter().filter(|s| !s.parked && !s.gap);
    let interval_s =
        median(at_work.clone().map(|s| s.seconds)).or_else(|| median(moving.map(|s| s.seconds)));
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
