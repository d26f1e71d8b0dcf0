//! T25 and T26: what an admin decides. It moves money when both accept it, after three days, or at once where it is final.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Case, permitted, said, verdict};
use crate::{
    id::AccountId,
    money::Fen,
    order::{
        Ruling,
        actor::Role,
        command::RulingAmounts,
        decision::{Decision, Outcome},
        effect::{NoticeKind, Recipient, TimerKind},
        refusal::Refusal,
        status::Status,
    },
};

/// A ruling takes effect so long after it was told.
const TELLS: TimeDelta = TimeDelta::days(3);
/// Above this a second admin agrees.
const ALONE: Fen = Fen(500_000);

pub(super) fn rule(
    case: &Case<'_>,
    amounts: RulingAmounts,
    reason: &str,
    approver: Option<AccountId>,
) -> Result<Outcome, Refusal> {
    permitted(case, "dispute.rule")?;
    let reason = said(reason, "reason")?;
    decided(case, amounts, false, reason, approver)
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
    let amounts = RulingAmounts {
        rent_fen: fee,
        commission_fen: order.terms.commission_bps.of_rounded_down(fee)?,
        damage_fen: Fen::ZERO,
        refund_fen: order.funds.held()?.minus(fee)?,
    };
    decided(case, amounts, true, reason, approver)
}

/// A ruling is given, or agreed to by a second admin who gives the same.
fn decided(
    case: &Case<'_>,
    amounts: RulingAmounts,
    void: bool,
    reason: String,
    approver: Option<AccountId>,
) -> Result<Outcome, Refusal> {
    let by = case
        .actor
        .account
        .ok_or(Refusal::Forbidden("dispute.rule"))?;
    let former = case.order.ruling;
    let first = appealed(former, by)?;
    verdict::lawful(case, amounts, void)?;
    // A ruling that could not be carried out in three days is refused today.
    verdict::effective(case, amounts, void)?;
    let same = |r: &Ruling| r.waits && r.by != by && r.amounts == amounts && r.void == void;
    let seconded = former.filter(same).map(|r| r.by);
    let small = [amounts.rent_fen, amounts.damage_fen, amounts.refund_fen]
        .iter()
        .all(|fen| *fen <= ALONE);
    let second = match seconded {
        Some(_) => Some(by),
        None => approver.filter(|account| *account != by),
    };
    let ruling = Ruling {
        amounts,
        void,
        by: seconded.unwrap_or(by),
        second,
        waits: !small && second.is_none(),
        first,
        at: case.now,
        renter_accepts: false,
        owner_accepts: false,
        appealed: first.is_some(),
    };
    if ruling.appealed && !ruling.waits {
        return Ok(verdict::effective(case, amounts, void)?
            .because(reason)
            .into());
    }
    let decision = Decision::of(case.order, if void { "T26" } else { "T25" })
        .with(|o| o.ruling = Some(ruling))
        .because(reason);
    Ok(if ruling.waits {
        decision.tell(Recipient::Admins, NoticeKind::DisputeOpened)
    } else {
        decision
            .plan(TimerKind::RulingDue, case.now + TELLS)
            .tell_both(NoticeKind::DisputeDecided)
    }
    .into())
}

/// Whose ruling is under appeal, if one is: nobody judges his own.
fn appealed(former: Option<Ruling>, by: AccountId) -> Result<Option<AccountId>, Refusal> {
    let Some(former) = former else {
        return Ok(None);
    };
    if former.waits {
        return if former.first == Some(by) {
            Err(Refusal::ConflictOfInterest)
        } else {
            Ok(former.first)
        };
    }
    if !former.appealed {
        return Err(Refusal::StillOpen("ruling"));
    }
    if former.by == by {
        return Err(Refusal::ConflictOfInterest);
    }
    Ok(Some(former.by))
}

/// The ruling that was told and may be accepted or appealed.
fn told(case: &Case<'_>) -> Result<Ruling, Refusal> {
    let ruling = case.order.ruling.filter(|r| !r.appealed && !r.waits);
    ruling.ok_or(Refusal::Missing("ruling"))
}

pub(super) fn accept(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let mut ruling = told(case)?;
    match case.side() {
        Role::Renter => ruling.renter_accepts = true,
        Role::Owner | Role::Operator | Role::Admin | Role::System | Role::Provider => {
            ruling.owner_accepts = true;
        }
    }
    if ruling.renter_accepts && ruling.owner_accepts {
        return Ok(verdict::effective(case, ruling.amounts, ruling.void)?.into());
    }
    Ok(Decision::of(case.order, "ruling_accepted")
        .with(|o| o.ruling = Some(ruling))
        .into())
}

pub(super) fn appeal(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let ruling = told(case)?;
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
    let Ok(ruling) = told(case) else {
        return Ok(Outcome::Skipped);
    };
    if case.now < ruling.at + TELLS {
        return Ok(Outcome::Postponed(ruling.at + TELLS));
    }
    Ok(verdict::effective(case, ruling.amounts, ruling.void)?.into())
}
