//! T19 to T22: the bill, its confirmation, the balance, the settlement.

use chrono::TimeDelta;

use super::{Case, chain, dispute, permitted, said};
use crate::{
    money::{Bps, Fen},
    order::{
        ProposedBill, StartEvidence,
        actor::Role,
        command::{BillSum, DisputeCategory},
        decision::{Decision, Outcome},
        effect::{NoticeKind, Recipient, TimerKind},
        entry::{Account, Entry, EntryKind},
        refusal::Refusal,
        status::{Phase, Status},
        terms::minutes,
    },
};

/// Most versions of a bill.
const VERSIONS: u32 = 5;
/// Most objections; the next is a dispute.
const OBJECTIONS: u32 = 3;
/// A bill over this share of the estimate needs the renter's own word.
const CAP: Bps = Bps(15_000);
/// Silence waits for announced frames so long after the bill.
const FRAMES: TimeDelta = TimeDelta::days(7);
/// How long it looks again.
const AGAIN: TimeDelta = TimeDelta::hours(1);

fn proposed(case: &Case<'_>) -> Result<ProposedBill, Refusal> {
    let illegal = Refusal::IllegalTransition(case.order.status);
    if case.order.phase != Some(Phase::BillProposed) {
        return Err(illegal);
    }
    case.order.bill.ok_or(illegal)
}

pub(super) fn propose(case: &Case<'_>, sum: BillSum) -> Result<Outcome, Refusal> {
    let order = case.order;
    if !matches!(order.phase, Some(Phase::AwaitingBill | Phase::BillProposed)) {
        return Err(Refusal::IllegalTransition(order.status));
    }
    let by_owner = case.side() == Role::Owner;
    if by_owner && order.bill_versions >= VERSIONS {
        return Err(Refusal::TooOften(VERSIONS));
    }
    lawful(case, &sum)?;
    if sum.damage_fen > order.funds.deposit_frozen {
        return Err(Refusal::Invalid {
            field: "damage_fen",
            message: "is more than the deposit",
        });
    }
    let cap = CAP.of_rounded_half_up(order.terms.estimate_fen)?;
    // Where nobody but the track said that work began, the renter says what it is worth.
    let unwitnessed = order.start_evidence == Some(StartEvidence::TelemetryAlone);
    let needs_consent =
        sum.needs_consent || unwitnessed || sum.total_fen > cap || !sum.damage_fen.is_zero();
    let policy = &order.terms.policy;
    Ok(Decision::of(order, "T19")
        .with(|o| {
            o.bill_versions += 1;
            o.phase = Some(Phase::BillProposed);
            o.bill = Some(ProposedBill {
                version: o.bill_versions,
                sum: BillSum {
                    needs_consent,
                    ..sum
                },
                at: case.now,
                consented: false,
            });
        })
        .clear(&[TimerKind::J10, TimerKind::J11Remind, TimerKind::J11])
        .plan(TimerKind::J11Remind, case.now + TimeDelta::hours(48))
        .plan(TimerKind::J11, case.now + minutes(policy.auto_confirm_min))
        .tell(Recipient::Renter, NoticeKind::BillReady)
        .into())
}

/// Whether a bill's amounts can be.
fn lawful(case: &Case<'_>, sum: &BillSum) -> Result<(), Refusal> {
    let invalid = |message| Refusal::Invalid {
        field: "bill",
        message,
    };
    let bounds = Fen::ZERO..=Fen::MAX;
    let silent = sum.silent.map(|s| (s.total_fen, s.commission_fen));
    let pairs = [Some((sum.total_fen, sum.commission_fen)), silent];
    let bps = case.order.terms.commission_bps;
    for (total, share) in pairs.into_iter().flatten() {
        if ![total, share, sum.damage_fen]
            .iter()
            .all(|fen| bounds.contains(fen))
        {
            return Err(invalid("amounts must lie between 0 and 10^12 fen"));
        }
        if share > bps.of_rounded_down(total)? {
            return Err(invalid("gives a share above the order's terms"));
        }
    }
    Ok(())
}

/// Staff sends back what is over the operator's bounds: the owner, or the clock, proposes anew.
pub(super) fn send_back(case: &Case<'_>, reason: &str) -> Result<Outcome, Refusal> {
    permitted(case, "bill.review")?;
    proposed(case)?;
    let reason = said(reason, "reason")?;
    if !case.facts.bill_in_review {
        return Err(Refusal::Missing("review"));
    }
    Ok(awaits_bill(case, "T19 returned").because(reason).into())
}

/// The bill that was shown is none: another one is due.
fn awaits_bill(case: &Case<'_>, transition: &'static str) -> Decision {
    let due = case.now + minutes(case.order.terms.policy.bill_due_min);
    Decision::of(case.order, transition)
        .with(|o| o.phase = Some(Phase::AwaitingBill))
        .clear(&[TimerKind::J11Remind, TimerKind::J11])
        .plan(TimerKind::J10, due)
        .tell(Recipient::Owner, NoticeKind::BillObjected)
}

pub(super) fn object(case: &Case<'_>, text: &str) -> Result<Outcome, Refusal> {
    proposed(case)?;
    let text = said(text, "text")?;
    if case.order.objections >= OBJECTIONS {
        return dispute::by_objection(case, text);
    }
    Ok(awaits_bill(case, "T19b")
        .with(|o| o.objections += 1)
        .because(text)
        .into())
}

pub(super) fn confirm(case: &Case<'_>, version: u32) -> Result<Outcome, Refusal> {
    let bill = proposed(case)?;
    if bill.version != version {
        return Err(Refusal::VersionConflict(bill.version));
    }
    if case.facts.bill_in_review {
        return Err(Refusal::StillOpen("review"));
    }
    let cap = CAP.of_rounded_half_up(case.order.terms.estimate_fen)?;
    let own_word = !bill.sum.damage_fen.is_zero() || bill.sum.total_fen > cap;
    if own_word && case.actor.role == Role::Admin {
        // Not by a call: this needs the renter's own hand.
        return Err(Refusal::NotYours);
    }
    confirmed(
        case,
        ProposedBill {
            consented: true,
            ..bill
        },
    )
}

/// Silence approves what it may: never damage, never what is far above the estimate.
pub(super) fn by_silence(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let Ok(bill) = proposed(case) else {
        return Ok(Outcome::Skipped);
    };
    let due = bill.at + minutes(order.terms.policy.auto_confirm_min);
    if case.now < due {
        return Ok(Outcome::Postponed(due));
    }
    if case.facts.frames_missing && case.now < bill.at + FRAMES {
        return Ok(Outcome::Postponed(case.now + AGAIN));
    }
    if case.facts.bill_in_review {
        return dispute::open(case, Role::System, DisputeCategory::OverCap);
    }
    if !bill.sum.damage_fen.is_zero() {
        return dispute::open(case, Role::System, DisputeCategory::Damage);
    }
    if bill.sum.total_fen > CAP.of_rounded_half_up(order.terms.estimate_fen)? {
        return dispute::open(case, Role::System, DisputeCategory::OverCap);
    }
    let sum = unanswered(case, bill.sum)?;
    confirmed(case, ProposedBill { sum, ..bill })
}

/// What silence agrees to: what needs no word, and of a quantity that does not more than was estimated.
fn unanswered(case: &Case<'_>, sum: BillSum) -> Result<BillSum, Refusal> {
    if !sum.needs_consent {
        return Ok(sum);
    }
    let terms = &case.order.terms;
    let unwitnessed = case.order.start_evidence == Some(StartEvidence::TelemetryAlone);
    let (total, share) = match sum.silent {
        Some(silent) if unwitnessed => (
            silent.total_fen.min(terms.estimate_fen),
            silent.commission_fen,
        ),
        Some(silent) => (silent.total_fen, silent.commission_fen),
        None => (sum.total_fen.min(terms.estimate_fen), sum.commission_fen),
    };
    let total_fen = total.min(sum.total_fen);
    Ok(BillSum {
        total_fen,
        commission_fen: share.min(terms.commission_bps.of_rounded_down(total_fen)?),
        ..sum
    })
}

/// T20, and T22 where nothing is owed.
fn confirmed(case: &Case<'_>, bill: ProposedBill) -> Result<Outcome, Refusal> {
    let order = case.order;
    let owed = bill.sum.total_fen.minus(order.funds.rent_escrow)?.or_zero();
    let due = case.now + minutes(order.terms.policy.balance_due_min);
    let decision = Decision::of(order, "T20")
        .with(|o| {
            o.bill = Some(bill);
            o.balance_fen = owed;
            o.balance_due_at = Some(due);
            o.phase = Some(Phase::BalanceDue);
        })
        .clear(&[TimerKind::J11Remind, TimerKind::J11]);
    if owed.is_zero() {
        let next = settle(&case.after(&decision.order))?;
        return Ok(chain(decision.clone(), next));
    }
    Ok(decision
        .plan(TimerKind::J12Remind, case.now + TimeDelta::hours(24))
        .plan(TimerKind::J12, due)
        .tell(Recipient::Renter, NoticeKind::BalanceDue)
        .into())
}

/// What of the deposit may pay arrears: all but damage that was agreed.
fn for_arrears(case: &Case<'_>) -> Result<Fen, Refusal> {
    let damage = case.order.bill.map_or(Fen::ZERO, |b| b.sum.damage_fen);
    Ok(case.order.funds.deposit_frozen.minus(damage)?.or_zero())
}

fn owes(case: &Case<'_>) -> Result<Fen, Refusal> {
    match case.order.phase {
        Some(Phase::BalanceDue) => Ok(case.order.balance_fen),
        Some(Phase::AwaitingBill | Phase::BillProposed) | None => {
            Err(Refusal::IllegalTransition(case.order.status))
        }
    }
}

/// E7.
fn from_deposit(decision: Decision, amount: Fen) -> Result<Decision, Refusal> {
    let entry = Entry::of(
        EntryKind::E7,
        &[(Account::DepositFrozen, amount)],
        &[(Account::RentEscrow, amount)],
    );
    let left = decision.order.balance_fen.minus(amount)?;
    Ok(decision.money(entry)?.with(|o| o.balance_fen = left))
}

pub(super) fn balance_paid(case: &Case<'_>, amount: Fen) -> Result<Outcome, Refusal> {
    let order = case.order;
    let arrears = order.open_dispute().map(|d| d.category) == Some(DisputeCategory::Arrears);
    let disputed = order.status == Status::Disputed;
    if disputed && !arrears {
        return Err(Refusal::IllegalTransition(order.status));
    }
    let owed = if disputed {
        order.balance_fen
    } else {
        owes(case)?
    };
    if amount != owed || owed.is_zero() {
        return Err(Refusal::AmountMismatch);
    }
    let entry = Entry::of(
        EntryKind::E1b,
        &[(Account::Psp, amount)],
        &[(Account::RentEscrow, amount)],
    );
    let decision = Decision::of(order, "T21")
        .to(Status::PendingSettlement)
        .money(entry)?
        .with(|o| {
            o.balance_fen = Fen::ZERO;
            o.phase = Some(Phase::BalanceDue);
            o.dispute_from = None;
            for dispute in &mut o.disputes {
                dispute.closed_at.get_or_insert(case.now);
            }
        })
        .clear(&[TimerKind::J12Remind, TimerKind::J12, TimerKind::J16]);
    let next = settle(&case.after(&decision.order))?;
    Ok(chain(decision.clone(), next))
}

pub(super) fn balance_from_deposit(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let owed = owes(case)?;
    if owed > for_arrears(case)? {
        return Err(Refusal::Invalid {
            field: "balance",
            message: "is more than the deposit",
        });
    }
    let decision = from_deposit(Decision::of(case.order, "T21"), owed)?;
    let next = settle(&case.after(&decision.order))?;
    Ok(chain(decision.clone(), next))
}

pub(super) fn take_arrears(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let Ok(owed) = owes(case) else {
        return Ok(Outcome::Skipped);
    };
    if let Some(due) = case.order.balance_due_at.filter(|due| case.now < *due) {
        return Ok(Outcome::Postponed(due));
    }
    let taken = owed.min(for_arrears(case)?);
    let decision = from_deposit(Decision::of(case.order, "J12"), taken)?;
    let then = case.after(&decision.order);
    let next = if taken == owed {
        settle(&then)?
    } else {
        dispute::open(&then, Role::System, DisputeCategory::Arrears)?
    };
    Ok(chain(decision.clone(), next))
}

/// T22: E9, E10, E11.
pub(super) fn settle(case: &Case<'_>) -> Result<Outcome, Refusal> {
    let order = case.order;
    let illegal = Refusal::IllegalTransition(order.status);
    let bill = order.bill.ok_or(illegal.clone())?;
    if order.phase != Some(Phase::BalanceDue) || order.funds.rent_escrow < bill.sum.total_fen {
        return Err(illegal);
    }
    let damage = if bill.consented {
        bill.sum.damage_fen
    } else {
        Fen::ZERO
    };
    let decision = Decision::of(order, "T22");
    let decision = settled(
        decision,
        bill.sum.total_fen,
        bill.sum.commission_fen,
        damage,
    )?;
    Ok(completed(decision, case)
        .tell_both(NoticeKind::Completed)
        .into())
}

/// E9, E10 and E11: everything that is held goes to whom it belongs.
pub(super) fn settled(
    decision: Decision,
    total: Fen,
    commission: Fen,
    damage: Fen,
) -> Result<Decision, Refusal> {
    let funds = decision.order.funds;
    let rest = funds.deposit_frozen.minus(damage)?;
    let rent = Entry::of(
        EntryKind::E9,
        &[(Account::RentEscrow, funds.rent_escrow)],
        &[
            (Account::OwnerPending, total.minus(commission)?),
            (Account::Commission, commission),
            (Account::RefundPayable, funds.rent_escrow.minus(total)?),
        ],
    );
    let damage = Entry::of(
        EntryKind::E10,
        &[(Account::DepositFrozen, damage)],
        &[(Account::OwnerPending, damage)],
    );
    let deposit = Entry::of(
        EntryKind::E11,
        &[(Account::DepositFrozen, rest)],
        &[(Account::RefundPayable, rest)],
    );
    Ok(decision.money(rent)?.money(damage)?.money(deposit)?)
}

/// Over; the money matures.
pub(super) fn completed(decision: Decision, case: &Case<'_>) -> Decision {
    let decision = decision
        .to(Status::Completed)
        .with(|o| {
            o.phase = None;
            o.closed_at = Some(case.now);
            o.dispute_from = None;
            o.ruling = None;
            o.offer = None;
            for dispute in &mut o.disputes {
                dispute.closed_at.get_or_insert(case.now);
            }
        })
        .clear(&TimerKind::ALL);
    match decision.order.maturity() {
        Some(maturity) => decision.plan(TimerKind::J13, maturity),
        None => decision,
    }
}
