//! T12: three witnesses, the two sides' taps and the track. The track never starts work against a "no", and nobody starts it against the track.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Case, permitted, said, work};
use crate::order::{
    StartEvidence, Tap, Taps,
    actor::Role,
    decision::{Decision, Outcome},
    effect::{NoticeKind, Recipient, SlotChange, TimerKind},
    facts::Presence,
    refusal::Refusal,
    status::Status,
};

/// With one tap the silent side has so long.
const ONE_TAP: TimeDelta = TimeDelta::minutes(15);
/// Without any tap both have so long.
const NO_TAP: TimeDelta = TimeDelta::minutes(60);
/// A departure counts from so long before the start.
const DEPART: TimeDelta = TimeDelta::hours(6);

pub(super) fn depart(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let from = case.order.start - DEPART;
    if case.now < from {
        return Err(Refusal::TooEarly(from));
    }
    Ok(Decision::of(case.order, "go")
        .with(|o| o.departed_at = Some(case.now))
        .tell(Recipient::Renter, NoticeKind::MachineDeparted)
        .into())
}

fn in_window(case: &Case<'_>) -> Result<(), Refusal> {
    let order = case.order;
    let window = order.terms.start_window(order.start, order.end);
    match window {
        Some(window) if case.now < window.from() => Err(Refusal::TooEarly(window.from())),
        Some(window) if case.now < window.to() => Ok(()),
        Some(_) | None => Err(Refusal::TooLate(order.end)),
    }
}

pub(super) fn tap(
    case: &Case<'_>,
    photo: bool,
    override_reason: Option<&str>,
) -> Result<Outcome, Refusal> {
    in_window(case)?;
    if case.facts.other_in_work {
        return Err(Refusal::MachineBusy);
    }
    if case.side() == Role::Admin {
        permitted(case, "order.override_start")?;
        let reason = said(override_reason.unwrap_or_default(), "reason")?;
        let decision = started(case, case.order.taps, StartEvidence::Override, case.now);
        return Ok(decision.because(reason).into());
    }
    if let Presence::Elsewhere { distance_m } = case.facts.presence {
        return Err(Refusal::MachineElsewhere { distance_m });
    }
    let mut taps = case.order.taps;
    let tap = Tap {
        at: case.now,
        photo: photo || own(case, &taps).is_some_and(|t| t.photo),
    };
    if case.side() == Role::Renter {
        taps.renter = Some(tap);
    } else {
        taps.owner = Some(tap);
    }
    match (taps.owner, taps.renter) {
        (Some(owner), Some(renter)) => both(case, taps, owner.photo || renter.photo),
        (Some(_), None) | (None, Some(_)) => Ok(one(case, taps)),
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

/// Both say so.
fn both(case: &Case<'_>, taps: Taps, photo: bool) -> Result<Outcome, Refusal> {
    let (evidence, at) = match case.facts.presence {
        Presence::Started { at } => (StartEvidence::Taps, at),
        Presence::AtPlot => (StartEvidence::Taps, case.now),
        Presence::NoDevice | Presence::Silent | Presence::Poor if photo => {
            (StartEvidence::Photo, case.now)
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

/// One says so: the tap is kept and the other side asked; the clock runs only if the track shows a start.
fn one(case: &Case<'_>, mut taps: Taps) -> Outcome {
    let other = if case.side() == Role::Renter {
        Recipient::Owner
    } else {
        Recipient::Renter
    };
    let mut decision = Decision::of(case.order, "tap");
    if let Presence::Started { at } = case.facts.presence {
        taps.proven_at = Some(at);
        taps.asked_at = Some(case.now);
        decision = decision.plan(TimerKind::StartAsked, case.now + ONE_TAP);
    }
    decision
        .with(|o| o.taps = taps)
        .tell(other, NoticeKind::StartAsked)
        .into()
}

/// The track shows a start: whoever has not tapped is asked, once.
pub(super) fn proven(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let Presence::Started { at } = case.facts.presence else {
        return Err(Refusal::NotProven);
    };
    if in_window(case).is_err() || case.order.taps.asked_at.is_some() || case.facts.other_in_work {
        return Ok(Outcome::Skipped);
    }
    let taps = case.order.taps;
    let wait = if taps.owner.is_none() && taps.renter.is_none() {
        NO_TAP
    } else {
        ONE_TAP
    };
    let mut decision = Decision::of(case.order, "start_proven")
        .with(|o| {
            o.taps.proven_at = Some(at);
            o.taps.asked_at = Some(case.now);
        })
        .plan(TimerKind::StartAsked, case.now + wait);
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
        Presence::Started { at } => Some(at),
        Presence::NoDevice
        | Presence::Silent
        | Presence::Poor
        | Presence::AtPlot
        | Presence::Elsewhere { .. } => taps.proven_at,
    };
    let (Some(at), false) = (shown, case.facts.other_in_work) else {
        return Ok(Outcome::Skipped);
    };
    let evidence = if taps.owner.is_some() || taps.renter.is_some() {
        StartEvidence::Telemetry
    } else {
        StartEvidence::TelemetryAlone
    };
    Ok(started(case, taps, evidence, at).into())
}

/// Work begins; metering from `at`, the first proven working step or the tap.
fn started(case: &Case<'_>, taps: Taps, evidence: StartEvidence, at: DateTime<Utc>) -> Decision {
    let begin = case.order.period.from();
    let mut decision = Decision::of(case.order, "T12")
        .to(Status::InWork)
        .with(|o| {
            o.taps = taps;
            o.start_evidence = Some(evidence);
            o.started_at = Some(at);
            o.claim = None;
            o.proposal = None;
        });
    if case.now < begin {
        decision = decision.slot(SlotChange::WidenFrom(case.now.min(at)));
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
    ];
    work::while_working(decision.clear(&done), case.now).tell_both(NoticeKind::Started)
}
