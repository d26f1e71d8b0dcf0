//! T25 and T26: what an admin decides. It moves money when both accept it, after three days, or at once where it is final.

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    Case,
    ending::{cancelled, refund_less},
    permitted, said,
    settlement::{completed, settled},
};
use crate::{
    id::AccountId,
    money::Fen,
    order::{
        Ruling,
        actor::Role,
        command::RulingAmounts,
        decision::{Decision, Outcome},
        effect::{NoticeKind, TimerKind},
        entry::{Account, Entry, EntryKind},
        refusal::Refusal,
        status::{CancelReason, Status},
    },
};

/// A ruling takes effect so long after it was told.
const TELLS: TimeDelta = TimeDelta::days(3);
/// Above this a second admin agrees.
const ALONE: Fen = Fen(500_000);

fn two_eyes(
    case: &Case<'_>,
    amounts: &[Fen],
    approver: Option<AccountId>,
) -> Result<AccountId, Refusal> {
    let by = case
        .actor
        .account
        .ok_or(Refusal::Forbidden("dispute.rule"))?;
    if amounts.iter().any(|fen| *fen > ALONE) && approver.is_none_or(|a| a == by) {
        return Err(Refusal::Missing("approver"));
    }
    Ok(by)
}

pub(super) fn rule(
    case: &Case<'_>,
    amounts: RulingAmounts,
    reason: &str,
    approver: Option<AccountId>,
) -> Result<Outcome, Refusal> {
    permitted(case, "dispute.rule")?;
    let reason = said(reason, "reason")?;
    let RulingAmounts {
        rent_fen,
        commission_fen,
        damage_fen,
        refund_fen,
    } = amounts;
    let all = [rent_fen, commission_fen, damage_fen, refund_fen];
    if all.iter().any(|fen| *fen < Fen::ZERO) || commission_fen > rent_fen {
        return Err(Refusal::Invalid {
            field: "amounts",
            message: "must not be negative, and the share within the rent",
        });
    }
    let sum = rent_fen.plus(damage_fen)?.plus(refund_fen)?;
    if sum != case.order.funds.held()? {
        return Err(Refusal::Invalid {
            field: "amounts",
            message: "must sum to all that is held",
        });
    }
    let by = two_eyes(case, &[rent_fen, damage_fen, refund_fen], approver)?;
    if let Some(former) = case.order.ruling {
        if !former.appealed {
            return Err(Refusal::StillOpen("ruling"));
        }
        if former.by == by {
            return Err(Refusal::ConflictOfInterest);
        }
        return Ok(effective(case, amounts)?.because(reason).into());
    }
    Ok(Decision::of(case.order, "T25")
        .with(|o| {
            o.ruling = Some(Ruling {
                amounts,
                by,
                at: case.now,
                renter_accepts: false,
                owner_accepts: false,
                appealed: false,
            });
        })
        .because(reason)
        .plan(TimerKind::RulingDue, case.now + TELLS)
        .tell_both(NoticeKind::DisputeDecided)
        .into())
}

fn waiting(case: &Case<'_>) -> Result<Ruling, Refusal> {
    let ruling = case.order.ruling.filter(|r| !r.appealed);
    ruling.ok_or(Refusal::Missing("ruling"))
}

pub(super) fn accept(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let mut ruling = waiting(case)?;
    match case.side() {
        Role::Renter => ruling.renter_accepts = true,
        Role::Owner | Role::Operator | Role::Admin | Role::System | Role::Provider => {
            ruling.owner_accepts = true;
        }
    }
    if ruling.renter_accepts && ruling.owner_accepts {
        return Ok(effective(case, ruling.amounts)?.into());
    }
    Ok(Decision::of(case.order, "ruling_accepted")
        .with(|o| o.ruling = Some(ruling))
        .into())
}

pub(super) fn appeal(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let ruling = waiting(case)?;
    let until: DateTime<Utc> = ruling.at + TELLS;
    if case.now >= until {
        return Err(Refusal::TooLate(until));
    }
    Ok(Decision::of(case.order, "appeal")
        .with(|o| {
            o.ruling = Some(Ruling {
                appealed: true,
                ..ruling
            });
        })
        .clear(&[TimerKind::RulingDue])
        .plan(TimerKind::J16, case.now + TimeDelta::hours(24))
        .tell_both(NoticeKind::DisputeOpened)
        .into())
}

pub(super) fn due(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let Ok(ruling) = waiting(case) else {
        return Ok(Outcome::Skipped);
    };
    if case.now < ruling.at + TELLS {
        return Ok(Outcome::Postponed(ruling.at + TELLS));
    }
    Ok(effective(case, ruling.amounts)?.into())
}

/// The ruling moves money and state.
fn effective(case: &Case<'_>, amounts: RulingAmounts) -> Result<Decision, Refusal> {
    let order = case.order;
    let decision = Decision::of(order, "T25");
    let decision = if matches!(order.dispute_from, Some((Status::Completed, _))) {
        after_settlement(decision, amounts)?
    } else {
        before_settlement(decision, amounts)?
    };
    let decision = completed(decision, case).with(|o| o.balance_fen = Fen::ZERO);
    Ok(decision.tell_both(NoticeKind::DisputeDecided))
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

pub(super) fn void(
    case: &Case<'_>,
    fee: Fen,
    reason: &str,
    approver: Option<AccountId>,
) -> Result<Outcome, Refusal> {
    permitted(case, "dispute.rule")?;
    let reason = said(reason, "reason")?;
    let order = case.order;
    if !matches!(order.dispute_from, Some((Status::Accepted, _))) {
        return Err(Refusal::IllegalTransition(order.status));
    }
    if !(Fen::ZERO..=order.funds.rent_escrow).contains(&fee) {
        return Err(Refusal::Invalid {
            field: "fee_fen",
            message: "must lie within the rent",
        });
    }
    let back = order.funds.held()?.minus(fee)?;
    two_eyes(case, &[fee, back], approver)?;
    let decision = refund_less(Decision::of(order, "T26"), fee)?.because(reason);
    let decision = cancelled(decision, CancelReason::AdminRuling, case.now);
    Ok(decision
        .with(|o| {
            o.dispute_from = None;
            o.ruling = None;
        })
        .tell_both(NoticeKind::DisputeDecided)
        .into())
}
