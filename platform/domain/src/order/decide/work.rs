//! T16 and what happens while the machine works: finish, undo, pause, return.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Case, dispute, said, tapped};
use crate::{
    order::{
        Order, Pause,
        actor::Role,
        command::DisputeCategory,
        decision::{Decision, Outcome},
        effect::{NoticeKind, Recipient, SlotChange, TimerKind},
        refusal::Refusal,
        status::{Phase, Status},
        terms::minutes,
    },
    rent::ServiceMode,
};

/// A finish sooner than this after the start says why.
const SOON: TimeDelta = TimeDelta::minutes(15);
/// A renter's finish so near to a working step asks the owner, who has `SOON` to answer.
const STILL_WORKING: TimeDelta = TimeDelta::minutes(5);
/// A finish may be taken back so long.
const UNDO: TimeDelta = TimeDelta::minutes(10);
/// The machine must stand still so long before the clock finishes.
const STANDS: TimeDelta = TimeDelta::minutes(30);
/// At the latest the clock finishes so long after the end.
const LATEST: TimeDelta = TimeDelta::hours(12);

/// J8, J8b and J9.
pub(super) fn while_working(decision: Decision, now: DateTime<Utc>) -> Decision {
    let Order { start, end, .. } = decision.order;
    let grace = minutes(decision.order.terms.grace_min);
    let mut decision = decision.clear(&[TimerKind::J8, TimerKind::J8b, TimerKind::J9]);
    if end - start >= TimeDelta::minutes(30) && end - TimeDelta::minutes(30) > now {
        decision = decision.plan(TimerKind::J8, end - TimeDelta::minutes(30));
    }
    decision
        .plan(TimerKind::J8b, end + grace)
        .plan(TimerKind::J9, end + STANDS)
}

pub(super) fn finish(
    case: &Case<'_>,
    reason: Option<&str>,
    acted_at: Option<DateTime<Utc>>,
) -> Result<Outcome, Refusal> {
    let order = case.order;
    let renter = case.side() == Role::Renter;
    if renter && order.terms.service_mode == ServiceMode::SelfDrive {
        return request_return(case);
    }
    let started = order.started_at.unwrap_or(order.start);
    let acted = tapped(case, acted_at, started);
    let staff = case.side() == Role::Admin;
    let reason = match reason {
        None if staff || acted < started + SOON => return Err(Refusal::Missing("reason")),
        None => None,
        Some(text) => Some(said(text, "reason")?),
    };
    let working = case
        .facts
        .last_work_at
        .is_some_and(|at| at > acted - STILL_WORKING);
    if renter && working {
        return Ok(asks_to_finish(case));
    }
    let end = case.facts.last_work_at.unwrap_or(acted);
    let mut decision = finished(case, end);
    decision.reason = reason;
    Ok(decision.into())
}

/// The machine still works: the owner is asked, and silence agrees.
fn asks_to_finish(case: &Case<'_>) -> Outcome {
    if case.order.finish_asked_at.is_some() {
        return Outcome::AlreadyApplied;
    }
    Decision::of(case.order, "finish_asked")
        .with(|o| o.finish_asked_at = Some(case.now))
        .plan(TimerKind::FinishAsked, case.now + SOON)
        .tell(Recipient::Owner, NoticeKind::FinishAsked)
        .into()
}

pub(super) fn finish_stands(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let Some(asked) = case.order.finish_asked_at else {
        return Ok(Outcome::Skipped);
    };
    if case.now < asked + SOON {
        return Ok(Outcome::Postponed(asked + SOON));
    }
    Ok(finished(case, case.facts.last_work_at.unwrap_or(asked)).into())
}

/// By the clock: never at the job's own time.
pub(super) fn auto_finish(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let late = case.now >= order.end + LATEST;
    if order.terms.service_mode == ServiceMode::SelfDrive {
        if late {
            return dispute::open(case, Role::System, DisputeCategory::NotReturned);
        }
        return Ok(Outcome::Postponed(
            (case.now + STANDS).min(order.end + LATEST),
        ));
    }
    let since = case.facts.stopped_since;
    let stands = since.is_some_and(|at| at + STANDS <= case.now);
    let done = late || (stands && case.now >= order.end + STANDS);
    if !done {
        return Ok(Outcome::Postponed(
            (case.now + STANDS).min(order.end + LATEST),
        ));
    }
    Ok(finished(case, case.facts.last_work_at.unwrap_or(order.end)).into())
}

/// T16: work ended at `end`.
pub(super) fn finished(case: &Case<'_>, end: DateTime<Utc>) -> Decision {
    let order = case.order;
    let started = order.started_at.unwrap_or(order.start);
    let end = end.max(started);
    let least = order.period.from().min(started) + TimeDelta::minutes(30);
    Decision::of(order, "T16")
        .to(Status::PendingSettlement)
        .with(|o| {
            o.phase = Some(Phase::AwaitingBill);
            o.finished_at = Some(end);
            o.finish_told_at = Some(case.now);
            o.finish_asked_at = None;
            o.proposal = None;
            if let Some(pause) = o.pauses.last_mut() {
                pause.to.get_or_insert(end.max(pause.from));
            }
        })
        .slot(SlotChange::TrimTo(end.max(least)))
        .clear(&[
            TimerKind::J8,
            TimerKind::J8b,
            TimerKind::J9,
            TimerKind::FinishAsked,
        ])
        .plan(
            TimerKind::J10,
            case.now + minutes(order.terms.policy.bill_due_min),
        )
        .tell_both(NoticeKind::Finished)
}

pub(super) fn undo(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let told = order.finish_told_at.unwrap_or(case.now);
    if order.phase != Some(Phase::AwaitingBill) || order.bill_versions > 0 {
        return Err(Refusal::IllegalTransition(order.status));
    }
    if case.now >= told + UNDO {
        return Err(Refusal::TooLate(told + UNDO));
    }
    if !case.facts.slot_free {
        return Err(Refusal::SlotTaken {
            next_busy_from: case.facts.next_busy_from,
        });
    }
    let decision = Decision::of(order, "T16 undone")
        .to(Status::InWork)
        .with(|o| {
            o.phase = None;
            o.finished_at = None;
            o.finish_told_at = None;
        })
        .slot(SlotChange::MoveTo {
            period: order.period,
            machine: None,
        })
        .clear(&[TimerKind::J10])
        .tell_both(NoticeKind::Changed);
    Ok(while_working(decision, case.now).into())
}

pub(super) fn pause(
    case: &Case<'_>,
    reason: &str,
    acted_at: Option<DateTime<Utc>>,
) -> Result<Outcome, Refusal> {
    let reason = said(reason, "reason")?;
    if case.order.is_paused() {
        return Ok(Outcome::AlreadyApplied);
    }
    let former = case.order.pauses.last().and_then(|pause| pause.to);
    let since = former.or(case.order.started_at).unwrap_or(case.order.start);
    let from = tapped(case, acted_at, since);
    Ok(Decision::of(case.order, "pause")
        .with(|o| {
            o.pauses.push(Pause {
                from,
                to: None,
                reason: reason.clone(),
            });
        })
        .because(reason.clone())
        .tell_both(NoticeKind::PauseChanged)
        .into())
}

pub(super) fn resume(case: &Case<'_>, acted_at: Option<DateTime<Utc>>) -> Result<Outcome, Refusal> {
    let open = case.order.pauses.last().filter(|pause| pause.to.is_none());
    let Some(since) = open.map(|pause| pause.from) else {
        return Ok(Outcome::AlreadyApplied);
    };
    let to = tapped(case, acted_at, since);
    Ok(Decision::of(case.order, "resume")
        .with(|o| {
            if let Some(pause) = o.pauses.last_mut() {
                pause.to = Some(to);
            }
        })
        .tell_both(NoticeKind::PauseChanged)
        .into())
}

pub(super) fn request_return(case: &Case<'_>) -> Result<Outcome, Refusal> {
    if case.order.return_requested_at.is_some() {
        return Ok(Outcome::AlreadyApplied);
    }
    Ok(Decision::of(case.order, "return")
        .with(|o| o.return_requested_at = Some(case.now))
        .tell(Recipient::Owner, NoticeKind::ReturnRequested)
        .into())
}
