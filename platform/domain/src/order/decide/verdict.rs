//! What a ruling, or an agreement in its place, does to money and state. Never asks who may give one.

use super::{
    Case,
    ending::{cancelled, refund_less},
    settlement::{completed, settled},
};
use crate::{
    money::{Fen, Overflow},
    order::{
        Order,
        command::RulingAmounts,
        decision::Decision,
        effect::NoticeKind,
        entry::{Account, Entry, EntryKind},
        refusal::Refusal,
        status::{CancelReason, Status},
    },
};

/// Whether amounts share all that is held, and damage stays within the deposit.
pub(super) fn lawful(case: &Case<'_>, amounts: RulingAmounts, void: bool) -> Result<(), Refusal> {
    let RulingAmounts {
        rent_fen,
        commission_fen,
        damage_fen,
        refund_fen,
    } = amounts;
    let invalid = |message| Refusal::Invalid {
        field: "amounts",
        message,
    };
    let all = [rent_fen, commission_fen, damage_fen, refund_fen];
    let bounds = Fen::ZERO..=Fen::MAX;
    if !all.iter().all(|fen| bounds.contains(fen)) || commission_fen > rent_fen {
        return Err(invalid(
            "must not be negative, and the share within the rent",
        ));
    }
    let funds = case.order.funds;
    if rent_fen.plus(damage_fen)?.plus(refund_fen)? != funds.held()? {
        return Err(invalid("must sum to all that is held"));
    }
    let settled = matches!(case.order.dispute_from, Some((Status::Completed, _)));
    let damage_free = if settled {
        funds.dispute_hold.min(case.order.terms.deposit_fen)
    } else {
        let lacking = rent_fen.minus(funds.rent_escrow)?.or_zero();
        funds.deposit_frozen.minus(lacking)?.or_zero()
    };
    if damage_fen > damage_free {
        return Err(invalid("give more damage than the deposit covers"));
    }
    if void && rent_fen > funds.rent_escrow {
        return Err(invalid("give a fee beyond the rent"));
    }
    Ok(())
}

/// Our share of a rent that the parties agree on: in proportion to the bill's, which knows its lines, and by
/// the order's terms where there is none.
pub(super) fn share(order: &Order, rent: Fen) -> Result<Fen, Overflow> {
    let at_most = order.terms.commission_bps.of_rounded_down(rent)?;
    let (commission, of) = if matches!(order.dispute_from, Some((Status::Completed, _))) {
        let damage = order.bill.map_or(Fen::ZERO, |bill| bill.sum.damage_fen);
        let part = order.funds.dispute_hold.minus(damage)?;
        (order.funds.commission, part)
    } else {
        match order.bill {
            Some(bill) => (bill.sum.commission_fen, bill.sum.total_fen),
            None => return Ok(at_most),
        }
    };
    if of <= Fen::ZERO {
        return Ok(at_most);
    }
    let settled = i128::from(commission.0) * i128::from(rent.0);
    Ok(Fen::new(settled.div_euclid(i128::from(of.0)))?.min(rent))
}

/// Money and state move.
pub(super) fn effective(
    case: &Case<'_>,
    amounts: RulingAmounts,
    void: bool,
) -> Result<Decision, Refusal> {
    let order = case.order;
    if void {
        let decision = refund_less(Decision::of(order, "T26"), amounts.rent_fen)?;
        let decision = cancelled(decision, CancelReason::AdminRuling, case.now);
        return Ok(last_word(decision, case));
    }
    let decision = Decision::of(order, "T25");
    let decision = if matches!(order.dispute_from, Some((Status::Completed, _))) {
        after_settlement(decision, amounts)?
    } else {
        before_settlement(decision, amounts)?
    };
    let decision = completed(decision, case).with(|o| o.balance_fen = Fen::ZERO);
    Ok(last_word(decision, case))
}

fn last_word(decision: Decision, case: &Case<'_>) -> Decision {
    decision
        .with(|o| {
            o.dispute_from = None;
            o.ruling = None;
            o.offer = None;
            o.ruled_at = Some(case.now);
        })
        .tell_both(NoticeKind::DisputeDecided)
}

/// E7 for what the rent exceeds the escrow, then E9, E10, E11.
fn before_settlement(decision: Decision, amounts: RulingAmounts) -> Result<Decision, Refusal> {
    let funds = decision.order.funds;
    // A dispute before acceptance does not exist: the deposit is frozen.
    let lacking = amounts.rent_fen.minus(funds.rent_escrow)?.or_zero();
    let decision = decision.money(Entry::of(
        EntryKind::E7,
        &[(Account::DepositFrozen, lacking)],
        &[(Account::RentEscrow, lacking)],
    ))?;
    settled(
        decision,
        amounts.rent_fen,
        amounts.commission_fen,
        amounts.damage_fen,
    )
}

/// E15b: out of what the dispute holds. The rent is the owner's part as it was held, our share left out;
/// what our share shrinks by goes to the renter as well.
fn after_settlement(decision: Decision, amounts: RulingAmounts) -> Result<Decision, Refusal> {
    let funds = decision.order.funds;
    let owner = amounts.rent_fen.plus(amounts.damage_fen)?;
    let ruled = Entry::of(
        EntryKind::E15b,
        &[(Account::DisputeHold, funds.dispute_hold)],
        &[
            (Account::OwnerPending, owner),
            (Account::RefundPayable, amounts.refund_fen),
        ],
    );
    let share = funds.commission.minus(amounts.commission_fen)?.or_zero();
    let reversed = Entry::of(
        EntryKind::E15b,
        &[(Account::Commission, share)],
        &[(Account::RefundPayable, share)],
    );
    Ok(decision.money(ruled)?.money(reversed)?)
}
