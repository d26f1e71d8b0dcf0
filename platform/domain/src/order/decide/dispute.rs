//! T23 and T24: a dispute is opened, by a party or by the clock, and withdrawn.

use chrono::TimeDelta;

use super::{Case, answer, chain, said, work};
use crate::{
    money::Fen,
    order::{
        Dispute,
        actor::Role,
        command::DisputeCategory,
        decision::{Decision, Outcome},
        effect::{NoticeKind, Recipient, SlotChange, TimerKind},
        entry::{Account, Entry, EntryKind},
        refusal::Refusal,
        status::{Phase, Status},
        terms::minutes,
    },
};

/// A machine under dispute before work stays blocked so long.
const BLOCKED: TimeDelta = TimeDelta::hours(24);
/// After a withdrawal nothing is due sooner.
const BREATH: TimeDelta = TimeDelta::hours(24);

/// By a party.
pub(super) fn raise(
    case: &Case<'_>,
    category: DisputeCategory,
    text: &str,
) -> Result<Outcome, Refusal> {
    let text = said(text, "text")?;
    let order = case.order;
    let side = case.side();
    if order.ruled_at.is_some() {
        // What was ruled is not disputed again.
        return Err(Refusal::IllegalTransition(order.status));
    }
    if order.status == Status::Accepted {
        // Before the start only a contested start is a matter of dispute: otherwise one cancels.
        let contested = category == DisputeCategory::Start && order.taps.asked_at.is_some();
        if case.now < order.start && !contested {
            return Err(Refusal::TooEarly(order.start));
        }
    }
    if matches!(
        category,
        DisputeCategory::Arrears | DisputeCategory::OverCap
    ) {
        // Paying would end the one, and the clock alone sees the other.
        return Err(Refusal::Invalid {
            field: "category",
            message: "is not for a party to choose",
        });
    }
    if raised_before(case, side) {
        return Err(Refusal::TooOften(1));
    }
    Ok(in_words(open(case, side, category)?, text))
}

fn raised_before(case: &Case<'_>, side: Role) -> bool {
    case.order.disputes.iter().any(|d| d.by == side)
}

fn in_words(mut outcome: Outcome, text: String) -> Outcome {
    if let Outcome::Applied(steps) = &mut outcome
        && let Some(last) = steps.last_mut()
    {
        last.reason = Some(text);
    }
    outcome
}

/// The renter objects once more than one may: a dispute of his, if he has not had one.
pub(super) fn by_objection(case: &Case<'_>, text: String) -> Result<Outcome, Refusal> {
    let by = if raised_before(case, Role::Renter) {
        Role::System
    } else {
        Role::Renter
    };
    Ok(in_words(open(case, by, DisputeCategory::Other)?, text))
}

/// By whomever: freezes the money, suspends the timers, asks for a person.
pub(super) fn open(
    case: &Case<'_>,
    by: Role,
    category: DisputeCategory,
) -> Result<Outcome, Refusal> {
    let order = case.order;
    if order.open_dispute().is_some() {
        return Err(Refusal::StillOpen("dispute"));
    }
    if order.status == Status::InWork {
        // The work clock stops first, so that the machine is free.
        let end = case.facts.last_work_at.unwrap_or(case.now.min(order.end));
        let finished = work::finished(case, end);
        let next = open(&case.after(&finished.order), by, category)?;
        return Ok(chain(finished.clone(), next));
    }
    if order.status == Status::Completed {
        match order.maturity() {
            Some(maturity) if case.now < maturity => {}
            Some(maturity) => return Err(Refusal::TooLate(maturity)),
            None => return Err(Refusal::IllegalTransition(order.status)),
        }
    }
    let mut decision = Decision::of(order, "T23")
        .to(Status::Disputed)
        .with(|o| {
            o.dispute_from = Some((order.status, order.phase));
            o.claim = None;
            o.proposal = None;
            o.disputes.push(Dispute {
                by,
                category,
                at: case.now,
                closed_at: None,
            });
        })
        .clear(&TimerKind::ALL)
        .plan(TimerKind::J16, case.now + TimeDelta::hours(24))
        .tell_both(NoticeKind::DisputeOpened)
        .tell(Recipient::Admins, NoticeKind::DisputeOpened);
    if order.status == Status::Accepted {
        let until = order.end.min(case.now + BLOCKED);
        let least = order.period.from() + TimeDelta::minutes(30);
        decision = decision.slot(SlotChange::TrimTo(until.max(least)));
    }
    if order.status == Status::Completed {
        let frozen = order.funds.owner_pending;
        decision = decision.money(Entry::of(
            EntryKind::E15a,
            &[(Account::OwnerPending, frozen)],
            &[(Account::DisputeHold, frozen)],
        ))?;
    }
    Ok(decision.into())
}

pub(super) fn withdraw(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let Some((from, phase)) = order.dispute_from else {
        return Err(Refusal::IllegalTransition(order.status));
    };
    let Some(dispute) = order.open_dispute() else {
        return Err(Refusal::IllegalTransition(order.status));
    };
    let raised = match dispute.by {
        Role::System => case.actor.may("dispute.rule"),
        by @ (Role::Renter | Role::Owner | Role::Operator | Role::Admin | Role::Provider) => {
            by == case.side()
        }
    };
    if !raised {
        return Err(Refusal::NotYours);
    }
    if order.ruling.is_some_and(|ruling| !ruling.waits) {
        // Nobody takes a dispute back because its ruling does not please him.
        return Err(Refusal::StillOpen("ruling"));
    }
    if from == Status::Accepted && case.now >= order.end {
        return Err(Refusal::TooLate(order.end));
    }
    if from == Status::Accepted && !case.facts.slot_free {
        return Err(Refusal::SlotTaken {
            next_busy_from: case.facts.next_busy_from,
        });
    }
    let back = Decision::of(order, "T24")
        .to(from)
        .with(|o| {
            o.phase = phase;
            o.dispute_from = None;
            o.ruling = None;
            o.offer = None;
            for dispute in &mut o.disputes {
                dispute.closed_at.get_or_insert(case.now);
            }
        })
        .clear(&[TimerKind::J16, TimerKind::RulingDue])
        .tell_both(NoticeKind::DisputeWithdrawn);
    let hold = order.funds.dispute_hold;
    let back = if hold > Fen::ZERO {
        back.money(Entry::of(
            EntryKind::E15aReversed,
            &[(Account::DisputeHold, hold)],
            &[(Account::OwnerPending, hold)],
        ))?
    } else {
        back
    };
    Ok(timers_again(back, case).into())
}

/// What waited before waits again: as long as it had, and for a day at least.
fn timers_again(back: Decision, case: &Case<'_>) -> Decision {
    let soonest = case.now + BREATH;
    let order = &back.order;
    let policy = &order.terms.policy;
    match (order.status, order.phase) {
        (Status::Accepted, _) => {
            let period = order.period;
            let close = (order.end + minutes(policy.no_start_close_min)).max(soonest);
            let change = SlotChange::MoveTo {
                period,
                machine: None,
            };
            answer::before_work(back.slot(change), case).plan(TimerKind::J7Close, close)
        }
        (Status::PendingSettlement, Some(Phase::AwaitingBill)) => {
            back.plan(TimerKind::J10, soonest)
        }
        (Status::PendingSettlement, Some(Phase::BillProposed)) => {
            let silence = minutes(policy.auto_confirm_min);
            let due = order.bill.map_or(soonest, |bill| bill.at + silence);
            back.plan(TimerKind::J11, due.max(soonest))
        }
        (Status::PendingSettlement, Some(Phase::BalanceDue)) => {
            let due = order.balance_due_at.unwrap_or(soonest).max(soonest);
            back.with(|o| o.balance_due_at = Some(due))
                .plan(TimerKind::J12, due)
        }
        (Status::Completed, _) => {
            let maturity = order.maturity().unwrap_or(soonest);
            back.plan(TimerKind::J13, maturity.max(soonest))
        }
        (
            Status::PendingPayment
            | Status::PendingAcceptance
            | Status::InWork
            | Status::PendingSettlement
            | Status::Cancelled
            | Status::TimedOut
            | Status::Disputed,
            _,
        ) => back,
    }
}
