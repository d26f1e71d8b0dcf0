//! T27, T31, J13: what staff and the clock do with an order outside its usual way.

use super::{
    Case,
    ending::{cancelled, refund_less},
    permitted, said,
};
use crate::{
    money::Fen,
    order::{
        decision::{Decision, Outcome},
        effect::{Effect, NoticeKind, Recipient},
        entry::{Account, Entry, EntryKind},
        refusal::Refusal,
        status::{CancelReason, Status},
    },
};

pub(super) fn force_cancel(case: &Case<'_>, fee: Fen, reason: &str) -> Result<Outcome, Refusal> {
    permitted(case, "order.force_cancel")?;
    let reason = said(reason, "reason")?;
    let order = case.order;
    if !(Fen::ZERO..=order.funds.rent_escrow).contains(&fee) {
        return Err(Refusal::Invalid {
            field: "fee_fen",
            message: "must lie within the rent that is held",
        });
    }
    let mut decision = Decision::of(order, "T27");
    if order.status == Status::PendingPayment {
        decision = decision.also(Effect::CloseAtProvider);
    }
    let decision = refund_less(decision, fee)?.because(reason);
    let decision = cancelled(decision, CancelReason::Admin, case.now);
    Ok(decision.tell_both(NoticeKind::Cancelled).into())
}

/// E19: part of a fee goes back, our share with it.
pub(super) fn waive_fee(case: &Case<'_>, amount: Fen, reason: &str) -> Result<Outcome, Refusal> {
    permitted(case, "order.waive_fee")?;
    let reason = said(reason, "reason")?;
    let funds = case.order.funds;
    if !(Fen(1)..=funds.fee).contains(&amount) {
        return Err(Refusal::Invalid {
            field: "amount_fen",
            message: "must lie within the fee",
        });
    }
    let left = funds.fee.minus(amount)?;
    let share_left = case.order.terms.commission_bps.of_rounded_down(left)?;
    let share = funds.commission.minus(share_left)?;
    let entry = Entry::of(
        EntryKind::E19,
        &[
            (Account::OwnerPending, amount.minus(share)?),
            (Account::Commission, share),
        ],
        &[(Account::RefundPayable, amount)],
    );
    Ok(Decision::of(case.order, "T31")
        .money(entry)?
        .with(|o| o.funds.fee = left)
        .because(reason)
        .tell_both(NoticeKind::FeeWaived)
        .into())
}

/// E12: the owner's part is free.
pub(super) fn seal(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let Some(maturity) = case.order.maturity() else {
        return Ok(Outcome::Skipped);
    };
    if case.now < maturity {
        return Ok(Outcome::Postponed(maturity));
    }
    let part = case.order.funds.owner_pending;
    let entry = Entry::of(
        EntryKind::E12,
        &[(Account::OwnerPending, part)],
        &[(Account::OwnerAvailable, part)],
    );
    let decision = Decision::of(case.order, "J13")
        .money(entry)?
        .with(|o| o.sealed_at = Some(case.now));
    Ok(if part.is_zero() {
        decision.into()
    } else {
        decision
            .tell(Recipient::Owner, NoticeKind::Completed)
            .into()
    })
}
