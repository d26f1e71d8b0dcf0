//! T12: three witnesses, the two sides' taps and the track. The track never starts work against a "no", and nobody starts it against the track.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Case, permitted, said, tapped, work};
use crate::{
    order::{
        StartEvidence, Tap, Taps,
        actor::Role,
        decision::{Decision, Outcome},
        effect::{NoticeKind, Recipient, SlotChange, TimerKind},
        facts::Presence,
        refusal::Refusal,
        status::Status,
        terms::minutes,
    },
    period::Period,
    rent::ServiceMode,
};

/// With one tap the silent side has so long.
const ONE_TAP: TimeDelta = TimeDelta::minutes(15);
/// Without any tap both have so long.
const NO_TAP: TimeDelta = TimeDelta::minutes(60);
/// A departure counts from so long before the start ...
const DEPART: TimeDelta = TimeDelta::hours(6);
/// ... once the machine has moved farther than this, metres; ...
const DEPARTED_M: u32 = 1000;
/// ... for which one looks so often.
const LOOK: TimeDelta = TimeDelta::minutes(10);

pub(super) fn depart(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let from = case.order.start - DEPART;
    if case.now < from {
        return Err(Refusal::TooEarly(from));
    }
    let decision = Decision::of(case.order, "go")
        .with(|o| o.go_at = Some(case.now))
        .tell(Recipient::Renter, NoticeKind::MachineDeparted);
    Ok(if case.order.terms.has_device {
        decision.plan(TimerKind::Departed, case.now + LOOK)
    } else {
        decision
    }
    .into())
}

/// Whether the machine has really set off: on a tap alone no fee rests.
pub(super) fn departed(case: &Case<'_>) -> Outcome {
    let order = case.order;
    if order.go_at.is_none() || order.departed_at.is_some() || case.now >= order.start {
        return Outcome::Skipped;
    }
    if case.facts.moved_m <= DEPARTED_M {
        return Outcome::Postponed(case.now + LOOK);
    }
    Decision::of(order, "departed")
        .with(|o| o.departed_at = Some(case.now))
        .into()
}

fn in_window(case: &Case<'_>, at: DateTime<Utc>) -> Result<(), Refusal> {
    let order = case.order;
    let window = order.terms.start_window(order.start, order.end);
    match window {
        Some(window) if at < window.from() => Err(Refusal::TooEarly(window.from())),
        Some(window) if at < window.to() => Ok(()),
        Some(_) | None => Err(Refusal::TooLate(order.end)),
    }
}

pub(super) fn tap(
    case: &Case<'_>,
    photo: bool,
    override_reason: Option<&str>,
    acted_at: Option<DateTime<Utc>>,
) -> Result<Outcome, Refusal> {
    let now = tapped(case, acted_at, case.order.accepted_at.unwrap_or(case.now));
    in_window(case, now)?;
    if case.facts.other_in_work {
        return Err(Refusal::MachineBusy);
    }
    if case.side() == Role::Admin {
        permitted(case, "order.override_start")?;
        let reason = said(override_reason.unwrap_or_default(), "reason")?;
        let decision = started(case, case.order.taps, StartEvidence::Override, now);
        return Ok(decision.because(reason).into());
    }
    if let Presence::Elsewhere { distance_m } = case.facts.presence {
        return Err(Refusal::MachineElsewhere { distance_m });
    }
    let mut taps = case.order.taps;
    let before = own(case, &taps).copied();
    let tap = Tap {
        at: before.map_or(now, |tap| tap.at),
        photo: photo || before.is_some_and(|tap| tap.photo),
    };
    if case.side() == Role::Renter {
        taps.renter = Some(tap);
    } else {
        taps.owner = Some(tap);
    }
    match (taps.owner, taps.renter) {
        (Some(owner), Some(renter)) => both(case, taps, &owner, &renter),
        (Some(_), None) | (None, Some(_)) => Ok(one(case, taps, before != Some(tap))),
        (None, None) => Err(Refusal::Missing("tap")),
    }
}

fn own<'a>(case: &Case<'_>, taps: &'a Taps) -> Option<&'a Tap> {
    if case.side() == Role::Renter {
        taps.renter.as_ref()
    } else {
        taps.owner.as_ref()
    }
}

/// What the track shows; a start that it showed once stays shown when the device falls silent.
fn shown(case: &Case<'_>) -> Presence {
    match (case.facts.presence, case.order.taps.proven_at) {
        (Presence::NoDevice | Presence::Silent | Presence::Poor | Presence::AtPlot, Some(at)) => {
            Presence::Started { at }
        }
        (presence, _) => presence,
    }
}

/// Both say so: with the later of their taps, or with the first proven step.
fn both(case: &Case<'_>, taps: Taps, owner: &Tap, renter: &Tap) -> Result<Outcome, Refusal> {
    let photos = (owner.photo, renter.photo);
    let later = owner.at.max(renter.at);
    let handed_over = case.order.terms.service_mode == ServiceMode::SelfDrive;
    if handed_over && photos != (true, true) {
        // The machine goes into the renter's hands: both show in what state.
        return Err(Refusal::Missing("photo"));
    }
    let (evidence, at) = match shown(case) {
        Presence::Started { at } => (StartEvidence::Taps, at),
        Presence::AtPlot => (StartEvidence::Taps, later),
        Presence::NoDevice | Presence::Silent | Presence::Poor if photos != (false, false) => {
            (StartEvidence::Photo, later)
        }
        Presence::NoDevice | Presence::Silent | Presence::Poor => {
            return Err(Refusal::Missing("photo"));
        }
        Presence::Elsewhere { distance_m } => {
            return Err(Refusal::MachineElsewhere { distance_m });
        }
    };
    Ok(started(case, taps, evidence, at).into())
}

/// One says so: the tap is kept and the other side asked, once; the clock runs only if the track shows a
/// start.
fn one(case: &Case<'_>, mut taps: Taps, news: bool) -> Outcome {
    let other = if case.side() == Role::Renter {
        Recipient::Owner
    } else {
        Recipient::Renter
    };
    let mut decision = Decision::of(case.order, "tap");
    if let Presence::Started { at } = shown(case) {
        taps.proven_at.get_or_insert(at);
        taps.asked_at.get_or_insert(case.now);
    }
    if !news && taps == case.order.taps {
        return Outcome::AlreadyApplied;
    }
    if let Some(due) = silence_ends(&taps) {
        decision = decision.plan(TimerKind::StartAsked, due);
    }
    decision
        .with(|o| o.taps = taps)
        .tell(other, NoticeKind::StartAsked)
        .into()
}

/// Until when the silent sides may answer that were asked.
fn silence_ends(taps: &Taps) -> Option<DateTime<Utc>> {
    let asked = taps.asked_at?;
    let tapped = taps.owner.or(taps.renter).map(|tap| tap.at);
    let one = tapped.map(|at| at.max(asked) + ONE_TAP);
    Some(one.map_or(asked + NO_TAP, |one| one.min(asked + NO_TAP)))
}

/// The track shows a start: whoever has not tapped is asked, once.
pub(super) fn proven(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let Presence::Started { at } = case.facts.presence else {
        return Err(Refusal::NotProven);
    };
    if in_window(case, case.now).is_err()
        || case.order.taps.asked_at.is_some()
        || case.facts.other_in_work
    {
        return Ok(Outcome::Skipped);
    }
    let taps = Taps {
        proven_at: Some(at),
        asked_at: Some(case.now),
        ..case.order.taps
    };
    let mut decision = Decision::of(case.order, "start_proven").with(|o| o.taps = taps);
    if let Some(due) = silence_ends(&taps) {
        decision = decision.plan(TimerKind::StartAsked, due);
    }
    if taps.owner.is_none() {
        decision = decision.tell(Recipient::Owner, NoticeKind::StartAsked);
    }
    if taps.renter.is_none() {
        decision = decision.tell(Recipient::Renter, NoticeKind::StartAsked);
    }
    Ok(decision.into())
}

pub(super) fn asked_due(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let taps = case.order.taps;
    let shown = match case.facts.presence {
        Presence::Started { at } => taps.proven_at.or(Some(at)),
        Presence::NoDevice
        | Presence::Silent
        | Presence::Poor
        | Presence::AtPlot
        | Presence::Elsewhere { .. } => taps.proven_at,
    };
    let (Some(at), Some(due)) = (shown, silence_ends(&taps)) else {
        return Ok(Outcome::Skipped);
    };
    if case.now < due {
        return Ok(Outcome::Postponed(due));
    }
    if case.facts.other_in_work {
        // It cannot work in two places: looked at again until the order is closed for never having begun.
        let close = case.order.end + minutes(case.order.terms.policy.no_start_close_min);
        return Ok(if case.now < close {
            Outcome::Postponed(case.now + ONE_TAP)
        } else {
            Outcome::Skipped
        });
    }
    let evidence = if taps.owner.is_some() || taps.renter.is_some() {
        StartEvidence::Telemetry
    } else {
        StartEvidence::TelemetryAlone
    };
    Ok(started(case, taps, evidence, at).into())
}

/// Work begins; metering from `at`, the first proven working step or the tap.
fn started(case: &Case<'_>, taps: Taps, evidence: StartEvidence, at: DateTime<Utc>) -> Decision {
    let slot = case.order.period;
    let mut decision = Decision::of(case.order, "T12")
        .to(Status::InWork)
        .with(|o| {
            o.taps = taps;
            o.start_evidence = Some(evidence);
            o.started_at = Some(at);
            o.claim = None;
            o.proposal = None;
        });
    if case.now < slot.from()
        && let Ok(wider) = Period::new(case.now, slot.to())
    {
        decision = decision
            .with(|o| o.period = wider)
            .slot(SlotChange::WidenFrom(case.now));
    }
    let done = [
        TimerKind::J5Day,
        TimerKind::J5Hours,
        TimerKind::J5b,
        TimerKind::J6,
        TimerKind::J7Flag,
        TimerKind::J7Close,
        TimerKind::StartAsked,
        TimerKind::ClaimDue,
        TimerKind::Departed,
    ];
    work::while_working(decision.clear(&done), case.now).tell_both(NoticeKind::Started)
}
