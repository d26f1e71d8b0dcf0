//! T11, T17, T18: what one side proposes and the other answers within a day.

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    Case,
    answer::before_work,
    ending::{cancelled, refund_all},
    said, work,
};
use crate::{
    id::{MachineId, ProposalId},
    money::Fen,
    order::{
        Proposal, Taps,
        actor::Role,
        command::{NoFault, Proposed},
        create::{FARTHEST, LONGEST, check_range},
        decision::{Decision, Outcome},
        effect::{Effect, NoticeKind, Recipient, SlotChange, TimerKind},
        refusal::Refusal,
        status::{CancelReason, Status},
        terms::minutes,
    },
    period::Period,
};

/// A proposal lives so long.
const LIFE: TimeDelta = TimeDelta::hours(24);
/// An accepted order may be moved to begin so soon.
const SOONEST: TimeDelta = TimeDelta::minutes(30);

/// A new time.
struct Move {
    period: Period,
    start: DateTime<Utc>,
    end: DateTime<Utc>,
    machine: Option<MachineId>,
}

pub(super) fn propose(
    case: &Case<'_>,
    id: ProposalId,
    proposed: &Proposed,
) -> Result<Outcome, Refusal> {
    let open = case.order.proposal.as_ref();
    let fresh = open.filter(|p| case.now < p.at + LIFE);
    if fresh.is_some_and(|p| p.by != case.side()) {
        return Err(Refusal::StillOpen("proposal"));
    }
    check(case, proposed)?;
    let other = match case.side() {
        Role::Renter => Recipient::Owner,
        Role::Owner | Role::Operator | Role::Admin | Role::System | Role::Provider => {
            Recipient::Renter
        }
    };
    Ok(Decision::of(case.order, "propose")
        .with(|o| {
            o.proposal = Some(Proposal {
                id,
                by: case.side(),
                at: case.now,
                proposed: proposed.clone(),
            });
        })
        .tell(other, NoticeKind::Proposed)
        .into())
}

/// Whether a proposal is possible now: asked when it is made, and again when it is answered.
fn check(case: &Case<'_>, proposed: &Proposed) -> Result<(), Refusal> {
    let status = case.order.status;
    match proposed {
        Proposed::NoFault(fault) => {
            if status != Status::Accepted {
                return Err(Refusal::IllegalTransition(status));
            }
            if let NoFault::Weather { place, .. } = fault {
                said(place, "place")?;
            }
            Ok(())
        }
        Proposed::Extend { end } => {
            if !matches!(status, Status::Accepted | Status::InWork) {
                return Err(Refusal::IllegalTransition(status));
            }
            longer(case, *end)?;
            affordable(case).map(|_| ())
        }
        Proposed::Reschedule {
            period, start, end, ..
        } => {
            if !matches!(status, Status::PendingAcceptance | Status::Accepted) {
                return Err(Refusal::IllegalTransition(status));
            }
            if case.order.claim.is_some() {
                return Err(Refusal::StillOpen("claim"));
            }
            let most = case.order.terms.policy.reschedules;
            if case.order.reschedules >= most {
                return Err(Refusal::TooOften(u32::from(most)));
            }
            let terms = &case.order.terms;
            let lead = if status == Status::PendingAcceptance {
                terms.policy.min_lead(terms.auto_accept)
            } else {
                SOONEST
            };
            check_range(period, *start, *end, lead, case.now)?;
            affordable(case).map(|_| ())
        }
    }
}

/// A later end, within the bounds of every booking.
fn longer(case: &Case<'_>, end: DateTime<Utc>) -> Result<(), Refusal> {
    let invalid = |message| Refusal::Invalid {
        field: "end",
        message,
    };
    if end <= case.now {
        return Err(Refusal::InPast);
    }
    if end <= case.order.end {
        return Err(invalid("must lie after the present one"));
    }
    if end - case.order.period.from() > LONGEST {
        return Err(invalid("makes it longer than 200 days"));
    }
    if end > case.now + FARTHEST {
        return Err(invalid("lies more than 300 days from now"));
    }
    Ok(())
}

/// The exposure guard: what it would cost is held already, and the calendar takes it.
fn affordable(case: &Case<'_>) -> Result<Fen, Refusal> {
    if !case.facts.slot_free {
        return Err(Refusal::SlotTaken {
            next_busy_from: case.facts.next_busy_from,
        });
    }
    let estimate = case
        .facts
        .new_estimate_fen
        .ok_or(Refusal::Missing("estimate"))?;
    let held: Fen = case.order.terms.payable_fen();
    if estimate > held {
        return Err(Refusal::NeedsNewOrder);
    }
    Ok(estimate)
}

pub(super) fn answer(case: &Case<'_>, id: ProposalId, agree: bool) -> Result<Outcome, Refusal> {
    let open = case.order.proposal.as_ref().filter(|p| p.id == id);
    let Some(proposal) = open.filter(|p| case.now < p.at + LIFE) else {
        return Err(Refusal::ProposalGone);
    };
    let no_fault = matches!(proposal.proposed, Proposed::NoFault(_));
    // Staff may stand in for whoever does not answer, but only to end it without fault.
    if proposal.by == case.side() || (case.side() == Role::Admin && !no_fault) {
        return Err(Refusal::NotYours);
    }
    if !agree {
        return Ok(Decision::of(case.order, "decline")
            .with(|o| o.proposal = None)
            .tell_both(NoticeKind::ProposalAnswered)
            .into());
    }
    check(case, &proposal.proposed)?;
    match &proposal.proposed {
        Proposed::NoFault(fault) => end_without_fault(case, fault, proposal.by),
        Proposed::Extend { end } => extended(case, *end),
        Proposed::Reschedule {
            period,
            start,
            end,
            machine,
        } => {
            let to = Move {
                period: *period,
                start: *start,
                end: *end,
                machine: *machine,
            };
            rescheduled(case, &to)
        }
    }
}

fn end_without_fault(case: &Case<'_>, fault: &NoFault, by: Role) -> Result<Outcome, Refusal> {
    let reason = match fault {
        NoFault::Mutual => CancelReason::Mutual,
        NoFault::Weather { .. } => CancelReason::Weather,
        NoFault::Breakdown { .. } => CancelReason::Breakdown,
    };
    let mut decision = refund_all(Decision::of(case.order, "T11"))?;
    if *fault == (NoFault::Breakdown { proven: false }) && by == Role::Owner {
        decision = decision.also(Effect::Strike);
    }
    let decision = cancelled(decision, reason, case.now);
    Ok(decision.tell_both(NoticeKind::Cancelled).into())
}

fn extended(case: &Case<'_>, end: DateTime<Utc>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let period = Period::new(order.period.from(), order.period.to().max(end));
    let period = period.map_err(|_| Refusal::Invalid {
        field: "end",
        message: "must lie after the begin",
    })?;
    let to = Move {
        period,
        start: order.start,
        end,
        machine: None,
    };
    let decision = moved(case, "T17", &to, affordable(case)?);
    Ok(planned_anew(decision, case).into())
}

fn rescheduled(case: &Case<'_>, to: &Move) -> Result<Outcome, Refusal> {
    let decision = moved(case, "T18", to, affordable(case)?)
        .with(|o| {
            o.reschedules += 1;
            // Asked anew, if at all; and for the new time nobody has set off, tapped or worked.
            o.reconfirm = None;
            o.go_at = None;
            o.departed_at = None;
            o.taps = Taps::default();
        })
        .clear(&[TimerKind::StartAsked, TimerKind::Departed]);
    Ok(planned_anew(decision, case).into())
}

fn moved(case: &Case<'_>, id: &'static str, to: &Move, estimate: Fen) -> Decision {
    let change = SlotChange::MoveTo {
        period: to.period,
        machine: to.machine,
    };
    Decision::of(case.order, id)
        .with(|o| {
            o.epoch += 1;
            o.period = to.period;
            o.start = to.start;
            o.end = to.end;
            o.machine = to.machine.unwrap_or(o.machine);
            o.proposal = None;
            // What is prepaid stays: the difference settles in the bill, which is measured by this.
            o.terms.estimate_fen = estimate;
        })
        .slot(change)
        .tell_both(NoticeKind::Changed)
}

/// Timers of the new epoch.
fn planned_anew(decision: Decision, case: &Case<'_>) -> Decision {
    let order = &decision.order;
    match order.status {
        Status::PendingAcceptance => {
            let paid = order.paid_at.unwrap_or(case.now);
            let deadline = order.terms.accept_deadline(paid, order.start);
            let cutoff = order.terms.cutoff(order.start);
            let remind = (deadline - minutes(30)).max(case.now + minutes(5));
            decision
                .clear(&[TimerKind::J2, TimerKind::J3, TimerKind::J4])
                .plan(TimerKind::J2, deadline)
                .plan(TimerKind::J3, cutoff)
                .plan(TimerKind::J4, remind)
        }
        Status::InWork => work::while_working(decision, case.now),
        Status::PendingPayment
        | Status::Accepted
        | Status::PendingSettlement
        | Status::Completed
        | Status::Cancelled
        | Status::TimedOut
        | Status::Disputed => {
            let timers = [
                TimerKind::J5Day,
                TimerKind::J5Hours,
                TimerKind::J5b,
                TimerKind::J6,
                TimerKind::J7Flag,
                TimerKind::J7Close,
            ];
            before_work(decision.clear(&timers), case)
        }
    }
}
