//! The one decision: an order, a command, who asks, what the world shows, and now; what comes of it. Pure.

mod admin;
mod answer;
mod change;
mod claim;
mod dispute;
mod ending;
mod offer;
mod payment;
mod reminder;
mod ruling;
mod settlement;
mod side;
mod start;
mod verdict;
mod work;

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    Order,
    actor::{Actor, Role},
    command::Command,
    decision::{Decision, Outcome},
    effect::TimerKind,
    facts::Facts,
    refusal::Refusal,
    status::{CancelReason, Phase, Status},
    table,
};

pub use ending::{owner_penalty, renter_fee};

/// Taps that were kept on a phone count until so long after the end.
const LATEST_WORD: TimeDelta = TimeDelta::hours(12);

/// What every step sees.
struct Case<'a> {
    order: &'a Order,
    actor: &'a Actor,
    side: Role,
    facts: &'a Facts,
    now: DateTime<Utc>,
}

impl<'a> Case<'a> {
    /// The same for an order that a step has just changed.
    const fn after(&self, order: &'a Order) -> Self {
        Self {
            order,
            actor: self.actor,
            side: self.side,
            facts: self.facts,
            now: self.now,
        }
    }

    /// Of which side the actor is: staff may stand in for the renter.
    const fn side(&self) -> Role {
        self.side
    }
}

/// Decides. What is not in the table is refused and changes nothing.
///
/// # Errors
///
/// [`Refusal`].
pub fn decide(
    order: &Order,
    command: &Command,
    actor: &Actor,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Result<Outcome, Refusal> {
    actor.check(order)?;
    let side = side::of(order, command, actor)?;
    if already(order, command, side) {
        return Ok(Outcome::AlreadyApplied);
    }
    // What a provider did is a fact, whenever it comes.
    let sealed = order.sealed_at.is_some() && command.kind() != table::Kind::LatePayment;
    if sealed || !table::allows(command.kind(), order.status, actor.role) {
        return Err(Refusal::IllegalTransition(order.status));
    }
    let case = Case {
        order,
        actor,
        side,
        facts,
        now,
    };
    let mut outcome = apply(&case, command)?;
    if let (Outcome::Applied(steps), Role::Renter) = (&mut outcome, side) {
        for step in steps {
            step.order.renter_acted_at = Some(now);
        }
    }
    Ok(outcome)
}

/// What a timer does that is due: one whose order has moved on ends as skipped.
///
/// # Errors
///
/// [`Refusal`], where something is wrong that a person must see.
pub fn fire(
    order: &Order,
    kind: TimerKind,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Result<Outcome, Refusal> {
    let command = kind.command(order.status);
    if order.sealed_at.is_some() || !table::allows(command.kind(), order.status, Role::System) {
        return Ok(Outcome::Skipped);
    }
    decide(order, &command, &Actor::system(), facts, now)
}

fn apply(case: &Case<'_>, command: &Command) -> Result<Outcome, Refusal> {
    match command {
        Command::Pay { amount_fen } => payment::pay(case, *amount_fen),
        Command::ExpireHold => payment::expire(case),
        Command::Cancel { shown_fee_fen } => ending::cancel(case, *shown_fee_fen),
        Command::Accept { seen_version } => answer::accept(case, *seen_version),
        Command::Reject { reason } => answer::reject(case, reason),
        Command::AcceptTimeout => answer::timeout(case),
        Command::AskReconfirm => answer::ask_reconfirm(case),
        Command::Reconfirm => answer::reconfirm(case),
        Command::Lapse => answer::lapse(case),
        Command::OwnerCancel {
            reason,
            shown_penalty_fen,
        } => ending::owner_cancel(case, reason, *shown_penalty_fen),
        Command::Propose { id, proposed } => change::propose(case, *id, proposed),
        Command::Answer { id, agree } => change::answer(case, *id, *agree),
        Command::Depart => start::depart(case),
        Command::DepartedDue => Ok(start::departed(case)),
        Command::Start {
            photo,
            override_reason,
            acted_at,
        } => start::tap(case, *photo, override_reason.as_deref(), *acted_at),
        Command::StartProven => start::proven(case),
        Command::StartAskedDue => start::asked_due(case),
        Command::ClaimNoShow => claim::claim(case),
        Command::ContestClaim => claim::contest(case),
        Command::ClaimDue => claim::due(case),
        Command::NoStart => claim::no_start(case),
        Command::Finish { reason, acted_at } => work::finish(case, reason.as_deref(), *acted_at),
        Command::FinishAskedDue => work::finish_stands(case),
        Command::AutoFinish => work::auto_finish(case),
        Command::UndoFinish => work::undo(case),
        Command::Pause { reason, acted_at } => work::pause(case, reason, *acted_at),
        Command::Resume { acted_at } => work::resume(case, *acted_at),
        Command::RequestReturn => work::request_return(case),
        Command::ProposeBill { bill } => settlement::propose(case, *bill),
        Command::ReturnBill { reason } => settlement::send_back(case, reason),
        Command::ObjectBill { text } => settlement::object(case, text),
        Command::ConfirmBill { version } => settlement::confirm(case, *version),
        Command::ConfirmBySilence => settlement::by_silence(case),
        Command::Settle => settlement::settle(case),
        Command::BalancePaid { amount_fen } => settlement::balance_paid(case, *amount_fen),
        Command::BalanceFromDeposit => settlement::balance_from_deposit(case),
        Command::TakeArrears => settlement::take_arrears(case),
        Command::Dispute { category, text } => dispute::raise(case, *category, text),
        Command::Withdraw => dispute::withdraw(case),
        Command::Offer { shares } => offer::offer(case, *shares),
        Command::AcceptOffer { shares } => offer::accept(case, *shares),
        Command::Rule {
            amounts,
            reason,
            approver,
        } => ruling::rule(case, *amounts, reason, *approver),
        Command::AcceptRuling => ruling::accept(case),
        Command::Appeal => ruling::appeal(case),
        Command::RulingDue => ruling::due(case),
        Command::Void {
            fee_fen,
            reason,
            approver,
        } => ruling::void(case, *fee_fen, reason, *approver),
        Command::ForceCancel { fee_fen, reason } => admin::force_cancel(case, *fee_fen, reason),
        Command::WaiveFee { amount_fen, reason } => admin::waive_fee(case, *amount_fen, reason),
        Command::LatePayment { amount_fen } => payment::late(case, *amount_fen),
        Command::Seal => admin::seal(case),
        Command::Remind(kind) => Ok(reminder::remind(case, *kind)),
    }
}

/// Whether a command has been applied before, by this side: it is repeated in its own target state.
#[expect(clippy::too_many_lines, reason = "one arm a command, none left out")]
fn already(order: &Order, command: &Command, role: Role) -> bool {
    let cancelled =
        |reason| order.status == Status::Cancelled && order.cancel_reason == Some(reason);
    match command {
        Command::Accept { .. } => order.status == Status::Accepted && role == Role::Owner,
        Command::Reject { .. } => cancelled(CancelReason::OwnerRejected) && role == Role::Owner,
        Command::Cancel { .. } => cancelled(CancelReason::Renter) && role == Role::Renter,
        Command::OwnerCancel { .. } => cancelled(CancelReason::Owner) && role == Role::Owner,
        Command::ForceCancel { .. } => cancelled(CancelReason::Admin) && role == Role::Admin,
        Command::Start { .. } => {
            let party = matches!(
                role,
                Role::Owner | Role::Operator | Role::Renter | Role::Admin
            );
            order.status == Status::InWork && party
        }
        Command::Finish { .. } => {
            let party = matches!(
                role,
                Role::Owner | Role::Operator | Role::Renter | Role::Admin
            );
            let fresh = order.phase == Some(Phase::AwaitingBill);
            order.status == Status::PendingSettlement && fresh && party
        }
        Command::ConfirmBill { version } => {
            let confirmed = order
                .bill
                .is_some_and(|b| b.version == *version && b.consented);
            let over = order.status == Status::Completed || order.phase == Some(Phase::BalanceDue);
            confirmed && over && role == Role::Renter
        }
        Command::Depart => order.status == Status::Accepted && order.go_at.is_some(),
        Command::RequestReturn => {
            order.status == Status::InWork && order.return_requested_at.is_some()
        }
        Command::Reconfirm => {
            let answered = order.reconfirm.is_some_and(|r| r.answered);
            order.status == Status::Accepted && answered
        }
        Command::Pay { .. }
        | Command::ExpireHold
        | Command::AcceptTimeout
        | Command::AskReconfirm
        | Command::Lapse
        | Command::Propose { .. }
        | Command::Answer { .. }
        | Command::DepartedDue
        | Command::StartProven
        | Command::StartAskedDue
        | Command::ClaimNoShow
        | Command::ContestClaim
        | Command::ClaimDue
        | Command::NoStart
        | Command::FinishAskedDue
        | Command::AutoFinish
        | Command::UndoFinish
        | Command::Pause { .. }
        | Command::Resume { .. }
        | Command::ProposeBill { .. }
        | Command::ReturnBill { .. }
        | Command::ObjectBill { .. }
        | Command::ConfirmBySilence
        | Command::Settle
        | Command::BalancePaid { .. }
        | Command::BalanceFromDeposit
        | Command::TakeArrears
        | Command::Dispute { .. }
        | Command::Withdraw
        | Command::Offer { .. }
        | Command::AcceptOffer { .. }
        | Command::Rule { .. }
        | Command::AcceptRuling
        | Command::Appeal
        | Command::RulingDue
        | Command::Void { .. }
        | Command::WaiveFee { .. }
        | Command::LatePayment { .. }
        | Command::Seal
        | Command::Remind(_) => false,
    }
}

/// When something was tapped: by the phone if its word came in time and lies between `since` and now, else now.
fn tapped(case: &Case<'_>, acted_at: Option<DateTime<Utc>>, since: DateTime<Utc>) -> DateTime<Utc> {
    let in_time = case.now <= case.order.end + LATEST_WORD;
    let acted = acted_at.filter(|at| in_time && since <= *at && *at <= case.now);
    acted.unwrap_or(case.now)
}

/// One step after another, in one transaction.
fn chain(first: Decision, next: Outcome) -> Outcome {
    let mut steps = vec![first];
    if let Outcome::Applied(more) = next {
        steps.extend(more);
    }
    Outcome::Applied(steps)
}

/// Something must be said.
fn said(text: &str, what: &'static str) -> Result<String, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Refusal::Missing(what));
    }
    if text.chars().count() > 2000 {
        return Err(Refusal::Invalid {
            field: what,
            message: "is longer than 2,000 characters",
        });
    }
    Ok(text.to_owned())
}

/// A permission that only an admin can have.
fn permitted(case: &Case<'_>, permission: &'static str) -> Result<(), Refusal> {
    if case.actor.may(permission) {
        Ok(())
    } else {
        Err(Refusal::Forbidden(permission))
    }
}
