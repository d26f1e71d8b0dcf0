//! T13 to T15: who did not come, and what never began.

use chrono::TimeDelta;

use super::{
    Case, dispute,
    ending::{cancelled, penalty, refund_all, refund_less, timed_out},
};
use crate::order::{
    Claim,
    actor::Role,
    command::DisputeCategory,
    decision::{Decision, Outcome},
    effect::{Effect, NoticeKind, Recipient, TimerKind},
    facts::Presence,
    refusal::Refusal,
    status::{CancelReason, TimeoutKind},
    terms::minutes,
};

/// The owner has so long to answer a claim.
const OWNER_ANSWERS: TimeDelta = TimeDelta::hours(4);
/// The renter has so long.
const RENTER_ANSWERS: TimeDelta = TimeDelta::hours(2);
/// The machine must have waited so long.
const WAITED_MIN: u32 = 60;

/// How long the other side may answer a claim of this one.
const fn answers(by: Role) -> TimeDelta {
    match by {
        Role::Renter => OWNER_ANSWERS,
        Role::Owner | Role::Operator | Role::Admin | Role::System | Role::Provider => {
            RENTER_ANSWERS
        }
    }
}

pub(super) fn claim(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let from = order.start + minutes(order.terms.policy.no_show_min);
    if case.now < from {
        return Err(Refusal::TooEarly(from));
    }
    match order.claim {
        Some(open) if open.by == case.side() => Ok(Outcome::AlreadyApplied),
        // Each says that the other did not come: a person must look.
        Some(_) => contest(case),
        None => {
            let by = case.side();
            let other = if by == Role::Renter {
                Recipient::Owner
            } else {
                Recipient::Renter
            };
            Ok(Decision::of(order, "claim")
                .with(|o| {
                    o.claim = Some(Claim { by, at: case.now });
                })
                .plan(TimerKind::ClaimDue, case.now + answers(by))
                .tell(other, NoticeKind::NoShowClaimed)
                .into())
        }
    }
}

pub(super) fn contest(case: &Case<'_>) -> Result<Outcome, Refusal> {
    match case.order.claim {
        None => Err(Refusal::Missing("claim")),
        Some(open) if open.by == case.side() => Err(Refusal::NotYours),
        // Nobody's own dispute: each side keeps the one that it may raise.
        Some(_) => dispute::open(case, Role::System, DisputeCategory::DidNotArrive),
    }
}

/// Nobody answered.
pub(super) fn due(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let Some(claim) = case.order.claim else {
        return Ok(Outcome::Skipped);
    };
    let due = claim.at + answers(claim.by);
    if case.now < due {
        return Ok(Outcome::Postponed(due));
    }
    let terms = &case.order.terms;
    let fees = &terms.policy.fees;
    match claim.by {
        Role::Renter if !case.facts.arrived => {
            let owed = fees.owner_no_show_penalty(terms.prepaid_fen)?;
            let decision = refund_all(Decision::of(case.order, "T13"))?;
            let decision = penalty(decision, owed)?.also(Effect::Strike);
            let decision = cancelled(decision, CancelReason::OwnerNoShow, case.now);
            Ok(decision.tell_both(NoticeKind::Cancelled).into())
        }
        Role::Owner if case.facts.present_min >= WAITED_MIN => {
            let fee = fees.renter_no_show_fee(terms.first_day_fen, terms.prepaid_fen)?;
            let decision = refund_less(Decision::of(case.order, "T14"), fee)?;
            let decision = cancelled(decision, CancelReason::RenterNoShow, case.now);
            Ok(decision.tell_both(NoticeKind::Cancelled).into())
        }
        // The track does not bear it out: a person must look.
        Role::Renter
        | Role::Owner
        | Role::Operator
        | Role::Admin
        | Role::System
        | Role::Provider => dispute::open(case, Role::System, DisputeCategory::DidNotArrive),
    }
}

pub(super) fn no_start(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let due = order.end + minutes(order.terms.policy.no_start_close_min);
    if case.now < due {
        return Ok(Outcome::Postponed(due));
    }
    if order.claim.is_some() {
        // The claim's own timer ends it.
        return Ok(Outcome::Postponed(case.now + RENTER_ANSWERS));
    }
    let shows = matches!(case.facts.presence, Presence::Started { .. });
    if shows || order.taps.proven_at.is_some() {
        return dispute::open(case, Role::System, DisputeCategory::Start);
    }
    let decision = refund_all(Decision::of(order, "T15"))?;
    let decision = timed_out(decision, TimeoutKind::NoStart, case.now);
    Ok(decision.tell(Recipient::Owner, NoticeKind::TimedOut).into())
}
