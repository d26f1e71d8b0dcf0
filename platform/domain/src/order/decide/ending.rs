//! Ends before work: what they have in common, and those that a party asks for.

use chrono::{DateTime, Utc};

use super::{Case, said};
use crate::{
    cancellation::RenterCancels,
    money::{Fen, Overflow},
    order::{
        Order,
        decision::{Decision, Outcome},
        effect::{Effect, NoticeKind, Recipient, SlotChange, TimerKind},
        entry::{Account, Entry, EntryKind},
        refusal::Refusal,
        status::{CancelReason, Status, TimeoutKind},
    },
};

/// An order that ends before work: the slot is free in the same commit, nothing waits any more.
pub(super) fn ended(decision: Decision, status: Status, now: DateTime<Utc>) -> Decision {
    let matures = decision.order.funds.owner_pending > Fen::ZERO;
    let decision = decision
        .to(status)
        .with(|order| {
            order.closed_at = Some(now);
            order.proposal = None;
            order.claim = None;
            order.phase = None;
            for dispute in &mut order.disputes {
                dispute.closed_at.get_or_insert(now);
            }
        })
        .slot(SlotChange::Release)
        .clear(&TimerKind::ALL);
    match decision.order.maturity() {
        Some(maturity) if matures => decision.plan(TimerKind::J13, maturity),
        _ => decision,
    }
}

pub(super) fn cancelled(decision: Decision, reason: CancelReason, now: DateTime<Utc>) -> Decision {
    ended(decision, Status::Cancelled, now).with(|order| order.cancel_reason = Some(reason))
}

pub(super) fn timed_out(decision: Decision, kind: TimeoutKind, now: DateTime<Utc>) -> Decision {
    ended(decision, Status::TimedOut, now)
        .with(|order| order.timeout_kind = Some(kind))
        .tell(Recipient::Renter, NoticeKind::TimedOut)
}

/// E5 for a fee within the rent, E4 without one.
pub(super) fn refund_less(decision: Decision, fee: Fen) -> Result<Decision, Overflow> {
    let bps = decision.order.terms.commission_bps;
    let entry = decision.order.funds.refund_less(fee, bps)?;
    Ok(decision.money(entry)?.with(|order| order.funds.fee = fee))
}

/// E4.
pub(super) fn refund_all(decision: Decision) -> Result<Decision, Overflow> {
    let entry = decision.order.funds.refund_all();
    decision.money(entry)
}

/// E6: what the owner pays becomes the renter's credit.
pub(super) fn penalty(decision: Decision, fen: Fen) -> Result<Decision, Overflow> {
    decision.money(Entry::of(
        EntryKind::E6,
        &[(Account::OwnerDues, fen)],
        &[(Account::RenterCredit, fen)],
    ))
}

/// What a renter would pay who cancels now.
///
/// # Errors
///
/// [`Overflow`].
pub fn renter_fee(order: &Order, arrived: bool, now: DateTime<Utc>) -> Result<Fen, Overflow> {
    if order.status != Status::Accepted {
        return Ok(Fen::ZERO);
    }
    let of = RenterCancels {
        prepaid_fen: order.terms.prepaid_fen,
        start: order.start,
        departed: order.departed_at.is_some() && order.terms.has_device,
        arrived,
    };
    order.terms.policy.fees.renter_fee(&of, now)
}

/// What an owner would pay who cancels now.
///
/// # Errors
///
/// [`Overflow`].
pub fn owner_penalty(order: &Order, now: DateTime<Utc>) -> Result<Fen, Overflow> {
    let fees = &order.terms.policy.fees;
    fees.owner_penalty(order.terms.prepaid_fen, order.start, now)
}

pub(super) fn cancel(case: &Case<'_>, shown: Option<Fen>) -> Result<Outcome, Refusal> {
    let decision = match case.order.status {
        Status::PendingPayment => Decision::of(case.order, "T04").also(Effect::CloseAtProvider),
        Status::PendingAcceptance => refund_all(Decision::of(case.order, "T08"))?
            .tell(Recipient::Owner, NoticeKind::Cancelled),
        Status::Accepted => {
            let fee = renter_fee(case.order, case.facts.arrived, case.now)?;
            if shown != Some(fee) {
                return Err(Refusal::FeeChanged(fee));
            }
            refund_less(Decision::of(case.order, "T09"), fee)?
                .tell(Recipient::Owner, NoticeKind::Cancelled)
        }
        status @ (Status::InWork
        | Status::PendingSettlement
        | Status::Completed
        | Status::Cancelled
        | Status::TimedOut
        | Status::Disputed) => return Err(Refusal::IllegalTransition(status)),
    };
    Ok(cancelled(decision, CancelReason::Renter, case.now).into())
}

pub(super) fn owner_cancel(case: &Case<'_>, reason: &str, shown: Fen) -> Result<Outcome, Refusal> {
    let reason = said(reason, "reason")?;
    let due = owner_penalty(case.order, case.now)?;
    if shown != due {
        return Err(Refusal::FeeChanged(due));
    }
    let decision = refund_all(Decision::of(case.order, "T10"))?;
    let decision = penalty(decision, due)?.because(reason).also(Effect::Strike);
    let decision = cancelled(decision, CancelReason::Owner, case.now);
    Ok(decision
        .tell(Recipient::Renter, NoticeKind::Cancelled)
        .into())
}
