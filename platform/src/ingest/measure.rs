//! What a machine's stored track shows of an order's whole work, in whole numbers that a bill can rest on: area by date, spells, gaps. Never prices and never rounds to mu.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use furrow_domain::{
    fieldwork::{Activity, Setup, Survey, Visit, shares, survey},
    geo::{datum::Datum, plot::Plot},
    settlement::{Measured, Spell},
    track::Fix,
};

use super::{
    fixes,
    witness::{Fence, Tracks, outlines, plots, time},
};
use crate::{
    app::{fault::Fault, witness::Work},
    db::{frames, machines},
};

/// Longer works are not measured: their fixes would not fit into memory.
const LONGEST: TimeDelta = TimeDelta::days(31);
/// Work counts within so many metres of the plots ...
const WORK_M: f64 = 10.0;
/// ... turns and stops within so many.
const TURN_M: f64 = 30.0;

impl Tracks {
    /// What the track shows of a whole work; nothing without a device, a place or a fix.
    pub(super) async fn measured(&self, work: &Work) -> Result<Option<Measured>, Fault> {
        if work.from >= work.to || work.to - work.from > LONGEST {
            return Ok(None);
        }
        let (device, machine) = {
            let mut connection = self.pool.acquire().await?;
            let at = |at| (work.machine, at);
            let mut device = None;
            // Moved to another machine since, or bound only after it came: either binding will do.
            for (machine, at) in [at(work.to), at(work.from)] {
                if device.is_none() {
                    device = machines::device(&mut connection, machine, at).await?;
                }
            }
            let machine = machines::by_id(&mut connection, work.machine).await?;
            (device, machine)
        };
        let (Some(device), Some(machine)) = (device, machine) else {
            return Ok(None);
        };
        let stored =
            frames::read_window(&self.tracks, device.cast_unsigned(), work.from, work.to).await?;
        let window = work.from.timestamp_millis()..work.to.timestamp_millis();
        let Ok(mut setup) = Setup::new(f64::from(machine.working_width_cm) / 100.0) else {
            return Ok(None);
        };
        setup.machine_type = furrow_domain::fieldwork::MachineType::named(&machine.machine_type);
        let work = work.clone();
        // Geometry of many days' fixes is too much for the runtime's threads.
        let found = tokio::task::spawn_blocking(move || {
            let fixes = fixes::of_frames(&stored, window).unwrap_or_default();
            measured(&work, &fixes, &setup)
        });
        found
            .await
            .map_err(|error| Fault::Broken(error.to_string()))
    }
}

/// The ground: outlines as one plot, or only a place.
struct Ground {
    plot: Option<Plot>,
    fence: Fence,
    /// Within which work, and turns, count.
    bounds_m: (f64, f64),
}

impl Ground {
    fn of(work: &Work) -> Option<Self> {
        let known = plots(&work.plots);
        let fence = Fence::new(&known, f64::from(work.geofence_m))?;
        let parts: Vec<_> = work.plots.iter().filter_map(outlines).flatten().collect();
        let plot = Plot::of_parts("plots".into(), &parts, Datum::Wgs84).ok();
        // A place has an area and no outline: what was worked around it is what was worked.
        let around = f64::from(work.geofence_m);
        let bounds_m = if plot.is_some() {
            (WORK_M, TURN_M)
        } else {
            (around, around)
        };
        Some(Self {
            plot,
            fence,
            bounds_m,
        })
    }

    fn near(&self, fix: &Fix, bound_m: f64) -> bool {
        self.fence.distance_m(fix.place) <= bound_m
    }
}

fn measured(work: &Work, fixes: &[Fix], setup: &Setup) -> Option<Measured> {
    let ground = Ground::of(work)?;
    let mut days: BTreeMap<NaiveDate, Vec<Fix>> = BTreeMap::new();
    for fix in fixes {
        // Without an outline nothing clips what was worked elsewhere.
        if ground.plot.is_some() || ground.near(fix, ground.bounds_m.0) {
            let day = time(fix.at_ms)?.with_timezone(&work.zone).date_naive();
            days.entry(day).or_default().push(*fix);
        }
    }
    let surveys: Vec<Survey> = days
        .values()
        .map(|fixes| survey(fixes, setup, ground.plot.as_slice()))
        .collect();
    let visits: Vec<Visit<'_>> = days
        .values()
        .map(|fixes| Visit {
            fixes,
            setup: *setup,
        })
        .collect();
    let (_, parts) = shares(&visits, ground.plot.as_ref());
    let areas = parts
        .iter()
        .map(|share| share.closed.e4_m2().max(0).unsigned_abs());
    let spells: Vec<Spell> = days
        .values()
        .zip(&surveys)
        .flat_map(|(fixes, survey)| spells(&ground, fixes, survey))
        .collect();
    let arrived = surveys.iter().filter_map(|s| s.facts.arrived_ms).min();
    let mut all = Measured {
        area_e4_m2: days.keys().copied().zip(areas).collect(),
        spells,
        arrived: arrived.and_then(time),
        good_bps: good_bps(&surveys),
        missing_s: 0,
        missing_e4_m2: 0,
        estimate: surveys.iter().any(|s| s.facts.quality.estimate),
        track: (
            time(fixes.iter().map(|f| f.at_ms).min()?)?,
            time(fixes.iter().map(|f| f.at_ms).max()?)?,
        ),
    };
    (all.missing_s, all.missing_e4_m2) = missing(&surveys, all.first_work(), all.last_work());
    Some(all)
}

/// What the machine did, step by step and put together; work and turns elsewhere are the way.
fn spells(ground: &Ground, fixes: &[Fix], survey: &Survey) -> Vec<Spell> {
    let places: HashMap<i64, &Fix> = fixes.iter().map(|fix| (fix.at_ms, fix)).collect();
    let near = |at_ms: &i64, bound_m| {
        let fix = places.get(at_ms);
        fix.is_some_and(|fix| ground.near(fix, bound_m))
    };
    let (work_m, turn_m) = ground.bounds_m;
    let mut all: Vec<Spell> = Vec::new();
    let ends = survey.activities.iter();
    let begins = survey.activities.iter().map(|(at_ms, _)| *at_ms);
    for (begin_ms, (end_ms, activity)) in begins.zip(ends.skip(1)) {
        let Some(activity) = activity else { continue };
        let activity = match activity {
            Activity::Work if near(end_ms, work_m) => Activity::Work,
            Activity::Turn if near(end_ms, turn_m) => Activity::Turn,
            Activity::Idle if near(end_ms, turn_m) => Activity::Idle,
            Activity::Work | Activity::Turn | Activity::Idle | Activity::Transit => {
                Activity::Transit
            }
        };
        let (Some(from), Some(to)) = (time(begin_ms), time(*end_ms)) else {
            continue;
        };
        match all.last_mut() {
            Some(last) if last.activity == activity && last.to == from => last.to = to,
            _ => all.push(Spell { from, to, activity }),
        }
    }
    all
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share between 0 and 1 of a count of fixes"
)]
fn good_bps(surveys: &[Survey]) -> u32 {
    let kept: usize = surveys.iter().map(|s| s.facts.fixes).sum();
    let good = surveys
        .iter()
        .map(|s| s.facts.quality.good_share * s.facts.fixes as f64)
        .sum::<f64>();
    if kept == 0 {
        return 0;
    }
    (good / kept as f64 * 10_000.0).clamp(0.0, 10_000.0) as u32
}

/// Seconds and area of the gaps between the first and the last working step.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds and square metres of a field, not below zero"
)]
fn missing(
    surveys: &[Survey],
    first: Option<DateTime<Utc>>,
    last: Option<DateTime<Utc>>,
) -> (u32, u64) {
    let (Some(first), Some(last)) = (first, last) else {
        return (0, 0);
    };
    let at_work = first.timestamp_millis()..last.timestamp_millis();
    let gaps = || {
        let all = surveys.iter().flat_map(|s| &s.facts.gaps);
        all.filter(|gap| at_work.contains(&gap.from_ms))
    };
    let seconds: f64 = gaps().map(|gap| gap.missing_s).sum();
    let area: f64 = gaps().map(|gap| gap.missing_m2).sum();
    (seconds.ceil() as u32, (area * 10_000.0).round() as u64)
}
