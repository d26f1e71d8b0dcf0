//! T05 to T09b: the owner's answer, and whether the renter still means it.

use chrono::TimeDelta;

use super::{
    Case,
    ending::{cancelled, refund_all, refund_less, timed_out},
    said,
};
use crate::order::{
    Order, Reconfirm,
    decision::{Decision, Outcome},
    effect::{Effect, NoticeKind, Recipient, TimerKind},
    entry::{Account, Entry, EntryKind},
    refusal::Refusal,
    status::{CancelReason, Status, TimeoutKind},
    terms::minutes,
};

/// A lapse is only carried out so soon after the cutoff: later it would come out of nowhere.
const LAPSE_WINDOW: TimeDelta = TimeDelta::minutes(15);
/// Orders made nearer to their start than this never lapse.
const LAPSE_AHEAD: TimeDelta = TimeDelta::hours(48);
/// The question must be this old at the cutoff.
const LAPSE_ASKED: TimeDelta = TimeDelta::hours(12);

pub(super) fn accept(case: &Case<'_>, seen: Option<u32>) -> Result<Outcome, Refusal> {
    let order = case.order;
    if seen.is_some_and(|version| version != order.version) {
        return Err(Refusal::VersionConflict(order.version));
    }
    let deadline = order
        .terms
        .accept_deadline(order.paid_at.unwrap_or(case.now), order.start);
    if case.now >= deadline {
        return Err(Refusal::TooLate(deadline));
    }
    if !case.facts.machine_usable {
        return Err(Refusal::MachineUnavailable);
    }
    let entry = Entry::of(
        EntryKind::E3,
        &[(Account::DepositHeld, order.funds.deposit_held)],
        &[(Account::DepositFrozen, order.funds.deposit_held)],
    );
    let decision = Decision::of(order, "T05")
        .to(Status::Accepted)
        .with(|o| o.accepted_at = Some(case.now))
        .money(entry)?
        .clear(&[TimerKind::J2, TimerKind::J3, TimerKind::J4])
        .also(Effect::IssueStartCode)
        .tell(Recipient::Renter, NoticeKind::Accepted);
    Ok(before_work(decision, case).into())
}

/// J5 to J7 of an accepted order; of J5 to J7Flag those whose time is over are left out.
pub(super) fn before_work(mut decision: Decision, case: &Case<'_>) -> Decision {
    let Order { start, end, .. } = decision.order;
    let policy = &decision.order.terms.policy;
    let (flag, close) = (policy.no_show_min, policy.no_start_close_min);
    let cutoff = decision.order.terms.cutoff(start);
    if decision
        .order
        .reconfirm
        .is_some_and(|asked| !asked.answered)
        && cutoff > case.now
    {
        decision = decision.plan(TimerKind::J5b, cutoff);
    }
    for (kind, due) in [
        (TimerKind::J5Day, start - TimeDelta::hours(24)),
        (TimerKind::J5Hours, start - TimeDelta::hours(2)),
        (TimerKind::J6, start - TimeDelta::minutes(60)),
        (TimerKind::J7Flag, start + minutes(flag)),
        (TimerKind::J7Close, end + minutes(close)),
    ] {
        if due > case.now || kind == TimerKind::J7Close {
            decision = decision.plan(kind, due);
        }
    }
    decision
}

pub(super) fn reject(case: &Case<'_>, reason: &str) -> Result<Outcome, Refusal> {
    let reason = said(reason, "reason")?;
    let decision = refund_all(Decision::of(case.order, "T06"))?.because(reason);
    let decision = cancelled(decision, CancelReason::OwnerRejected, case.now);
    Ok(decision
        .tell(Recipient::Renter, NoticeKind::Rejected)
        .into())
}

pub(super) fn timeout(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let deadline = order
        .terms
        .accept_deadline(order.paid_at.unwrap_or(case.now), order.start);
    if case.now < deadline {
        return Ok(Outcome::Postponed(deadline));
    }
    closed(case)
}

/// T07.
pub(super) fn closed(case: &Case<'_>) -> Result<Outcome, Refusal> {
    // Which of the two came first, not when somebody looked.
    let order = case.order;
    let cutoff = order.terms.cutoff(order.start);
    let paid = order.paid_at.unwrap_or(case.now);
    let at_cutoff = order.terms.accept_deadline(paid, order.start) == cutoff;
    let kind = if at_cutoff && case.now >= cutoff {
        TimeoutKind::Cutoff
    } else {
        TimeoutKind::Accept
    };
    let decision = refund_all(Decision::of(case.order, "T07"))?;
    let decision = timed_out(decision, kind, case.now);
    Ok(decision.tell(Recipient::Owner, NoticeKind::TimedOut).into())
}

pub(super) fn ask_reconfirm(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let cutoff = case.order.terms.cutoff(case.order.start);
    if case.now >= cutoff {
        return Err(Refusal::TooLate(cutoff));
    }
    if case.order.reconfirm.is_some() {
        return Ok(Outcome::AlreadyApplied);
    }
    Ok(Decision::of(case.order, "T09a")
        .with(|o| {
            o.reconfirm = Some(Reconfirm {
                asked_at: case.now,
                answered: false,
            });
        })
        .plan(TimerKind::J5b, cutoff)
        .tell(Recipient::Renter, NoticeKind::ReconfirmAsked)
        .into())
}

pub(super) fn reconfirm(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let cutoff = case.order.terms.cutoff(case.order.start);
    if case.now >= cutoff {
        return Err(Refusal::TooLate(cutoff));
    }
    let Some(asked) = case.order.reconfirm else {
        return Err(Refusal::Missing("question"));
    };
    Ok(Decision::of(case.order, "T09a")
        .with(|o| {
            o.reconfirm = Some(Reconfirm {
                answered: true,
                ..asked
            });
        })
        .clear(&[TimerKind::J5b])
        .into())
}

pub(super) fn lapse(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let cutoff = order.terms.cutoff(order.start);
    if case.now < cutoff {
        return Ok(Outcome::Postponed(cutoff));
    }
    let Some(asked) = order.reconfirm else {
        return Ok(Outcome::Skipped);
    };
    let acted = order.renter_acted_at.is_some_and(|at| at > asked.asked_at);
    let lapses = order.terms.policy.lapse
        && !asked.answered
        && !acted
        && !order.on_behalf
        && order.go_at.is_none()
        && order.start - order.created_at > LAPSE_AHEAD
        && cutoff - asked.asked_at >= LAPSE_ASKED
        && case.now < cutoff + LAPSE_WINDOW;
    if !lapses {
        return Ok(Outcome::Skipped);
    }
    let fee = order.terms.policy.fees.lapse_fee(order.terms.prepaid_fen)?;
    let decision = refund_less(Decision::of(order, "T09b"), fee)?;
    let decision = timed_out(decision, TimeoutKind::Unconfirmed, case.now);
    Ok(decision.tell(Recipient::Owner, NoticeKind::TimedOut).into())
}
