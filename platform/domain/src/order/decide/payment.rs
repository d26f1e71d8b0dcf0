//! T02, T03, T28: what decides is the order's state under lock, never a callback's own time.

use super::{Case, answer, chain, ending::timed_out};
use crate::{
    money::Fen,
    order::{
        decision::{Decision, Outcome},
        effect::{Effect, NoticeKind, Recipient, SlotChange, TimerKind},
        entry::{Account, Entry, EntryKind},
        refusal::Refusal,
        status::{Status, TimeoutKind},
        terms::minutes,
    },
};

pub(super) fn pay(case: &Case<'_>, amount: Fen) -> Result<Outcome, Refusal> {
    let order = case.order;
    let terms = &order.terms;
    if amount != terms.payable_fen() {
        return Err(Refusal::AmountMismatch);
    }
    let entry = Entry::of(
        EntryKind::E1,
        &[(Account::Psp, amount)],
        &[
            (Account::RentEscrow, terms.prepaid_fen),
            (Account::DepositHeld, terms.deposit_fen),
        ],
    );
    let deadline = terms.accept_deadline(case.now, order.start);
    let remind = (deadline - minutes(30)).max(case.now + minutes(5));
    let paid = Decision::of(order, "T02")
        .to(Status::PendingAcceptance)
        .with(|o| o.paid_at = Some(case.now))
        .slot(SlotChange::Book)
        .money(entry)?
        .clear(&[TimerKind::J1])
        .plan(TimerKind::J2, deadline)
        .plan(TimerKind::J3, terms.cutoff(order.start))
        .tell(Recipient::Renter, NoticeKind::PaymentReceived);
    if !terms.auto_accept {
        return Ok(paid
            .plan(TimerKind::J4, remind)
            .tell(Recipient::Owner, NoticeKind::OrderRequested)
            .into());
    }
    let then = case.after(&paid.order);
    let next = if case.now < terms.cutoff(order.start) && case.facts.machine_usable {
        told_owner(answer::accept(&then, None)?)
    } else {
        answer::closed(&then)?
    };
    Ok(chain(paid.clone(), next))
}

/// T28: never revives an order, whose time may be sold; all of it goes back.
pub(super) fn late(case: &Case<'_>, amount: Fen) -> Result<Outcome, Refusal> {
    if !(Fen(1)..=Fen::MAX).contains(&amount) {
        return Err(Refusal::AmountMismatch);
    }
    let came = Entry::of(
        EntryKind::E2,
        &[(Account::Psp, amount)],
        &[(Account::Suspense, amount)],
    );
    let goes = Entry::of(
        EntryKind::E2,
        &[(Account::Suspense, amount)],
        &[(Account::RefundPayable, amount)],
    );
    Ok(Decision::of(case.order, "T28")
        .money(came)?
        .money(goes)?
        .tell(Recipient::Renter, NoticeKind::PaymentReturned)
        .into())
}

/// Nobody asked the owner, who must still prepare the machine.
fn told_owner(mut accepted: Outcome) -> Outcome {
    if let Outcome::Applied(steps) = &mut accepted
        && let Some(step) = steps.last_mut()
    {
        let notice = Effect::Notice(Recipient::Owner, NoticeKind::OrderBooked);
        step.effects.push(notice);
    }
    accepted
}

pub(super) fn expire(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let expires = order.terms.hold_expires_at(order.pay_deadline);
    let due = expires.min(order.terms.cutoff(order.start));
    if case.now < due {
        return Ok(Outcome::Postponed(due));
    }
    let decision = Decision::of(order, "T03").also(Effect::CloseAtProvider);
    Ok(timed_out(decision, TimeoutKind::Pay, case.now).into())
}
