//! J4 to J16 where they only tell: nothing of the order changes.

use chrono::{DateTime, TimeDelta, Utc};

use super::Case;
use crate::order::{
    decision::{Decision, Outcome},
    effect::{NoticeKind, Recipient, TimerKind},
    facts::Presence,
    status::{Phase, Status},
    terms::minutes,
};

/// A reminder that comes later than this after its time is dropped.
const LATE: TimeDelta = TimeDelta::minutes(10);
/// While a pause lasts, overtime is looked at so often.
const AGAIN: TimeDelta = TimeDelta::minutes(15);

pub(super) fn remind(case: &Case<'_>, kind: TimerKind) -> Outcome {
    let order = case.order;
    let stands = |status: Status| order.status == status;
    let tell = |to: Recipient, what: NoticeKind| -> Outcome {
        Decision::quiet(order, kind.name()).tell(to, what).into()
    };
    let both = |what: NoticeKind| -> Outcome {
        Decision::quiet(order, kind.name()).tell_both(what).into()
    };
    match kind {
        TimerKind::J4 if stands(Status::PendingAcceptance) => {
            tell(Recipient::Owner, NoticeKind::AcceptReminder)
        }
        TimerKind::J5Day | TimerKind::J5Hours if stands(Status::Accepted) => {
            both(NoticeKind::StartReminder)
        }
        TimerKind::J6 if stands(Status::Accepted) && silent(case) => {
            tell(Recipient::Owner, NoticeKind::DeviceSilent)
        }
        TimerKind::J7Flag if stands(Status::Accepted) => both(NoticeKind::NoShowPossible),
        TimerKind::J8 if stands(Status::InWork) && !late(case) => both(NoticeKind::EndReminder),
        TimerKind::J8b if stands(Status::InWork) => {
            let begins = overtime(case);
            if case.now < begins {
                Outcome::Postponed(begins)
            } else {
                both(NoticeKind::OvertimeRunning)
            }
        }
        TimerKind::J11Remind if order.phase == Some(Phase::BillProposed) => {
            tell(Recipient::Renter, NoticeKind::BillReady)
        }
        TimerKind::J12Remind if order.phase == Some(Phase::BalanceDue) => owes(case),
        TimerKind::J16 if stands(Status::Disputed) => Decision::quiet(order, kind.name())
            .plan(TimerKind::J16, case.now + TimeDelta::hours(24))
            .tell(Recipient::Admins, NoticeKind::DisputeOpened)
            .into(),
        TimerKind::J1
        | TimerKind::J2
        | TimerKind::J3
        | TimerKind::J4
        | TimerKind::J5Day
        | TimerKind::J5Hours
        | TimerKind::J5b
        | TimerKind::J6
        | TimerKind::J7Flag
        | TimerKind::J7Close
        | TimerKind::J8
        | TimerKind::J8b
        | TimerKind::J9
        | TimerKind::J10
        | TimerKind::J11Remind
        | TimerKind::J11
        | TimerKind::J12Remind
        | TimerKind::J12
        | TimerKind::J13
        | TimerKind::J16
        | TimerKind::Departed
        | TimerKind::StartAsked
        | TimerKind::ClaimDue
        | TimerKind::FinishAsked
        | TimerKind::RulingDue => Outcome::Skipped,
    }
}

/// Half an hour before the end is over.
fn late(case: &Case<'_>) -> bool {
    case.now > case.order.end - TimeDelta::minutes(30) + LATE
}

/// The renter is told on each of the days before the balance is taken.
fn owes(case: &Case<'_>) -> Outcome {
    let order = case.order;
    let told = Decision::quiet(order, TimerKind::J12Remind.name())
        .tell(Recipient::Renter, NoticeKind::BalanceDue);
    let last = order.balance_due_at.map(|due| due - TimeDelta::hours(24));
    match last.filter(|at| case.now < *at) {
        Some(at) => told.plan(TimerKind::J12Remind, at).into(),
        None => told.into(),
    }
}

/// When overtime begins: pauses move it, and while one lasts it is looked at again.
fn overtime(case: &Case<'_>) -> DateTime<Utc> {
    let order = case.order;
    let begins = order.end + minutes(order.terms.grace_min) + order.paused(case.now);
    if order.is_paused() {
        begins.max(case.now + AGAIN)
    } else {
        begins
    }
}

fn silent(case: &Case<'_>) -> bool {
    let spoken = case.facts.online || case.facts.presence == Presence::NoDevice;
    case.order.terms.has_device && !spoken
}
