//! Tells work, turn, transit and idle apart, step by step. Never counts a gap as any of them.

use std::collections::HashMap;

use serde::Serialize;

use super::{MachineType, Setup, area};
use crate::{
    geo::Metres,
    track::{
        Track,
        step::{Step, direction},
    },
};

/// What a step was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Ground was covered.
    Work,
    /// From one pass to the next.
    Turn,
    /// On the way.
    Transit,
    /// Standing.
    Idle,
}

/// Slowest work, m/s; slower is manoeuvring.
const SLOWEST_WORK_MPS: f64 = 0.3;
/// Other passes within so many metres make a place a field ...
const PASS_RADIUS_M: f64 = 15.0;
/// ... or within so many widths: beside an outermost pass lie the next three.
const PASS_RADIUS_WIDTHS: f64 = 3.2;
/// How many other passes it takes.
const PASSES: usize = 3;
/// Passes are told apart by buckets of time, s.
const BUCKET_MS: i64 = 60_000;
/// A turn is over within so many seconds.
const TURN_S: f64 = 120.0;
/// Passes before and after a turn point opposite ways: the cosine between them is below this.
const ANTIPARALLEL: f64 = -0.5;

/// Whether each step is worked: by the sensor where there is one, else inferred.
pub(super) fn worked(track: &Track, steps: &[Step], setup: &Setup) -> Vec<bool> {
    let has_sensor = setup.use_sensor && track.points.iter().any(|p| p.fix.work_on.is_some());
    if has_sensor {
        let on = |step: &Step| {
            track
                .points
                .get(step.end)
                .is_some_and(|p| p.fix.work_on == Some(true))
        };
        return steps
            .iter()
            .map(|step| on(step) && area::sweeps(step))
            .collect();
    }
    let field = on_field(track, setup);
    let mut worked: Vec<bool> = steps
        .iter()
        .map(|step| {
            let speed = step.speed();
            area::sweeps(step)
                && field.get(step.end).copied().unwrap_or(false)
                && (SLOWEST_WORK_MPS..=fastest(setup.machine_type)).contains(&speed)
        })
        .collect();
    lift_in_turns(track, steps, &mut worked);
    worked
}

fn fastest(machine_type: MachineType) -> f64 {
    machine_type.fastest_work_mps()
}

/// Whether a point has passes of other times beside it: fields are covered in passes, roads are not
/// (rule baseline of fieldwork.md section 4).
fn on_field(track: &Track, setup: &Setup) -> Vec<bool> {
    let radius = PASS_RADIUS_M.max(PASS_RADIUS_WIDTHS * setup.width_m);
    let cell = |place: Metres| {
        (
            (place.x / radius).floor() as i64,
            (place.y / radius).floor() as i64,
        )
    };
    let bucket = |at_ms: i64| at_ms.div_euclid(BUCKET_MS);
    let mut grid: HashMap<(i64, i64), Vec<(i64, Metres)>> = HashMap::new();
    for point in track.points.iter().filter(|p| !p.parked) {
        let here = grid.entry(cell(point.place)).or_default();
        let of = bucket(point.fix.at_ms);
        // Points closer than 3 m in one bucket say nothing new.
        if here
            .iter()
            .rev()
            .take(8)
            .all(|(b, p)| *b != of || p.distance(point.place) >= 3.0)
        {
            here.push((of, point.place));
        }
    }
    track
        .points
        .iter()
        .map(|point| {
            let (cx, cy) = cell(point.place);
            let of = bucket(point.fix.at_ms);
            let mut seen: Vec<i64> = Vec::with_capacity(PASSES);
            for neighbour in (cx - 1..=cx + 1).flat_map(|x| (cy - 1..=cy + 1).map(move |y| (x, y)))
            {
                for (b, place) in grid.get(&neighbour).map_or(&[][..], Vec::as_slice) {
                    let other = (b - of).abs() > 1 && seen.iter().all(|s| (s - b).abs() > 1);
                    if other && place.distance(point.place) <= radius {
                        seen.push(*b);
                        if seen.len() >= PASSES {
                            return true;
                        }
                    }
                }
            }
            false
        })
        .collect()
}

/// Heading changes that make a turn, as the cosine of 60 degrees.
const TURN_COS: f64 = 0.5;
/// ... within so many seconds.
const TURN_WITHIN_S: f64 = 20.0;
/// The fall of speed that goes with it, as a part of the median speed at work.
const TURN_SPEED: f64 = 0.8;

/// Without a sensor: the implement is lifted where the machine turns over 60 degrees within 20 s and
/// slows down for it.
fn lift_in_turns(track: &Track, steps: &[Step], worked: &mut [bool]) {
    let usual = crate::track::step::median(
        steps
            .iter()
            .zip(worked.iter())
            .filter(|(_, w)| **w)
            .map(|(s, _)| s.speed()),
    );
    let Some(usual) = usual else { return };
    let headings: Vec<Option<Metres>> = steps.iter().map(|step| heading(track, step)).collect();
    let mut ahead = 0;
    let mut elapsed = 0.0;
    for i in 0..steps.len() {
        while ahead < steps.len() && elapsed < TURN_WITHIN_S {
            elapsed += steps.get(ahead).map_or(0.0, |s| s.seconds);
            ahead += 1;
        }
        let turned = headings
            .get(i)
            .copied()
            .flatten()
            .zip(headings.get(ahead.saturating_sub(1)).copied().flatten());
        if turned.is_some_and(|(a, b)| a.dot(b) < -TURN_COS) {
            for j in i..ahead {
                let slow = steps.get(j).is_some_and(|s| s.speed() < TURN_SPEED * usual);
                if slow && let Some(flag) = worked.get_mut(j) {
                    *flag = false;
                }
            }
        }
        elapsed -= steps.get(i).map_or(0.0, |s| s.seconds);
    }
}

fn heading(track: &Track, step: &Step) -> Option<Metres> {
    let from = track.points.get(step.end.checked_sub(1)?)?.place;
    direction(from, track.points.get(step.end)?.place)
}

/// What each step was; None for gaps.
pub(super) fn activities(track: &Track, steps: &[Step], worked: &[bool]) -> Vec<Option<Activity>> {
    let mut out: Vec<Option<Activity>> = steps
        .iter()
        .zip(worked)
        .map(|(step, worked)| match (step.gap, *worked, step.parked) {
            (true, ..) => None,
            (_, true, _) => Some(Activity::Work),
            (_, _, true) => Some(Activity::Idle),
            _ => Some(Activity::Transit),
        })
        .collect();
    let mut i = 0;
    while i < out.len() {
        let end = (i..out.len())
            .find(|j| out.get(*j) != Some(&Some(Activity::Transit)))
            .unwrap_or(out.len());
        if end > i && is_turn(track, steps, &out, i, end) {
            for activity in out.iter_mut().take(end).skip(i) {
                *activity = Some(Activity::Turn);
            }
        }
        i = end.max(i + 1);
    }
    out
}

/// Steps `begin..end` lead from one pass to one the other way within two minutes.
fn is_turn(
    track: &Track,
    steps: &[Step],
    activities: &[Option<Activity>],
    begin: usize,
    end: usize,
) -> bool {
    let work = |i: usize| activities.get(i) == Some(&Some(Activity::Work));
    let between = begin > 0 && work(begin - 1) && work(end);
    let seconds: f64 = steps
        .get(begin..end)
        .unwrap_or_default()
        .iter()
        .map(|s| s.seconds)
        .sum();
    if !between || seconds > TURN_S {
        return false;
    }
    let pass = |steps: &mut dyn Iterator<Item = &Step>| {
        steps
            .take(5)
            .filter_map(|s| heading(track, s))
            .reduce(|a, b| Metres {
                x: a.x + b.x,
                y: a.y + b.y,
            })?
            .unit()
    };
    let before = pass(&mut steps.get(..begin).unwrap_or_default().iter().rev());
    let after = pass(&mut steps.get(end..).unwrap_or_default().iter());
    before
        .zip(after)
        .is_some_and(|(a, b)| a.dot(b) < ANTIPARALLEL)
}
