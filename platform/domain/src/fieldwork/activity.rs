//! Tells work, turn, transit and idle apart, step by step. Never counts a gap as any of them.

use serde::Serialize;

use super::{Gap, Setup, infer};
use crate::{
    geo::{Metres, region::Region},
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

/// A turn is over within so many seconds of driving.
const TURN_S: f64 = 120.0;
/// In a turn the heading changes over 60 degrees (its cosine) ...
const TURN_COS: f64 = 0.5;
/// ... within so many seconds.
const TURN_WITHIN_S: f64 = 20.0;
/// Passes before and after a turn point opposite ways: the cosine between them is below this.
const ANTIPARALLEL: f64 = -0.5;
/// Steps of a pass that show its direction.
const PASS_STEPS: usize = 5;

/// Whether a track has a work sensor that is listened to.
pub(super) fn has_sensor(track: &Track, setup: &Setup) -> bool {
    setup.use_sensor && track.points.iter().any(|p| p.fix.work_on.is_some())
}

/// Whether each step is worked: by the sensor where there is one, else inferred. Only "on" is on.
pub(super) fn worked(track: &Track, steps: &[Step], setup: &Setup, plots: &[Region]) -> Vec<bool> {
    if !has_sensor(track, setup) {
        return infer::worked(track, steps, setup, plots);
    }
    let on = |step: &Step| {
        track
            .points
            .get(step.end)
            .is_some_and(|p| p.fix.work_on == Some(true))
    };
    steps
        .iter()
        .map(|step| on(step) && step.may_work())
        .collect()
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
    let is_between = |activity: Option<&Option<Activity>>| {
        matches!(activity, Some(Some(Activity::Transit | Activity::Idle)))
    };
    let mut i = 0;
    while i < out.len() {
        let end = (i..out.len())
            .find(|j| !is_between(out.get(*j)))
            .unwrap_or(out.len());
        if end > i && is_turn(track, steps, &out, i, end) {
            let between = out.iter_mut().take(end).skip(i);
            between
                .filter(|activity| **activity == Some(Activity::Transit))
                .for_each(|activity| *activity = Some(Activity::Turn));
        }
        i = end.max(i + 1);
    }
    out
}

/// Steps `begin..end` lead from one pass to one the other way within two minutes of driving, with a
/// sharp change of heading and a fall of speed.
fn is_turn(
    track: &Track,
    steps: &[Step],
    activities: &[Option<Activity>],
    begin: usize,
    end: usize,
) -> bool {
    let work = |i: usize| activities.get(i) == Some(&Some(Activity::Work));
    let between = steps.get(begin..end).unwrap_or_default();
    let driving = between.iter().filter(|s| !s.parked);
    let seconds: f64 = driving.clone().map(|s| s.seconds).sum();
    if !(begin > 0 && work(begin - 1) && work(end)) || seconds > TURN_S {
        return false;
    }
    let before = steps.get(begin.saturating_sub(PASS_STEPS)..begin);
    let after = steps.get(end..(end + PASS_STEPS).min(steps.len()));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let opposite = pass(track, before)
        .zip(pass(track, after))
        .is_some_and(|(a, b)| a.dot(b) < ANTIPARALLEL);
    let around: Vec<&Step> = before.iter().chain(between).chain(after).collect();
    opposite && bends(track, &around) && slows(before, between, after)
}

/// The direction of a pass.
fn pass(track: &Track, steps: &[Step]) -> Option<Metres> {
    let sum = steps
        .iter()
        .filter_map(|s| heading(track, s))
        .reduce(|a, b| a.moved(b, 1.0))?;
    sum.unit()
}

/// Whether the heading changes over 60 degrees within 20 s.
fn bends(track: &Track, steps: &[&Step]) -> bool {
    steps.iter().enumerate().any(|(i, first)| {
        let Some(from) = heading(track, first) else {
            return false;
        };
        let mut elapsed = 0.0;
        steps.iter().skip(i + 1).any(|step| {
            elapsed += step.seconds;
            elapsed <= TURN_WITHIN_S.max(step.seconds)
                && heading(track, step).is_some_and(|to| from.dot(to) < TURN_COS)
        })
    })
}

/// Whether the machine is slower between two passes than at its fastest in them.
fn slows(before: &[Step], between: &[Step], after: &[Step]) -> bool {
    let fastest = before.iter().chain(after).map(Step::speed);
    let slowest = between
        .iter()
        .map(Step::speed)
        .fold(f64::INFINITY, f64::min);
    slowest < fastest.fold(0.0, f64::max)
}

/// Seconds of each activity, and the gaps: together the time from the first fix to the last.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    pub work_s: f64,
    pub turn_s: f64,
    pub transit_s: f64,
    pub idle_s: f64,
    pub gaps: Vec<Gap>,
}

impl Times {
    pub(super) fn of(track: &Track, steps: &[Step], worked: &[bool], setup: &Setup) -> Self {
        let activities = activities(track, steps, worked);
        let seconds = |of: Activity| {
            let steps = steps.iter().zip(&activities);
            // Milliseconds are whole: their sum is the same in any grouping.
            let sum: f64 = steps
                .filter(|(_, a)| **a == Some(of))
                .map(|(s, _)| (s.seconds * 1000.0).round())
                .sum();
            sum.max(0.0) / 1000.0
        };
        Self {
            work_s: seconds(Activity::Work),
            turn_s: seconds(Activity::Turn),
            transit_s: seconds(Activity::Transit),
            idle_s: seconds(Activity::Idle),
            gaps: gaps(track, steps, worked, setup),
        }
    }
}

fn gaps(track: &Track, steps: &[Step], worked: &[bool], setup: &Setup) -> Vec<Gap> {
    let at = |i: usize| track.points.get(i).map_or(0, |p| p.fix.at_ms);
    let at_work = |i: Option<usize>| i.and_then(|i| worked.get(i)).copied() == Some(true);
    steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.gap)
        .map(|(i, step)| Gap {
            from_ms: at(step.end - 1),
            to_ms: at(step.end),
            missing_s: step.seconds,
            // With work before and after, the straight way between is a fair guess of what is missing.
            missing_m2: if at_work(i.checked_sub(1)) && at_work(Some(i + 1)) {
                step.metres * setup.width_m
            } else {
                0.0
            },
        })
        .collect()
}
