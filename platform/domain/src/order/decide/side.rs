//! Of which side somebody acts: a driver for the owner, staff for the renter by a recorded call. Never judges the step itself.

use crate::order::{
    Order,
    actor::{Actor, Role},
    command::Command,
    refusal::Refusal,
};

/// Staff that acts for a renter who called.
pub(super) const ACT_FOR: &str = "order.act_for";
/// Staff that ends an order or its work.
pub(super) const FORCE: &str = "order.force_cancel";

/// The side. Staff has the permission that its side needs; what a step of staff alone needs, the step asks.
pub(super) fn of(order: &Order, command: &Command, actor: &Actor) -> Result<Role, Refusal> {
    match actor.role {
        Role::Operator => Ok(Role::Owner),
        Role::Admin => staff(order, command, actor),
        role @ (Role::Renter | Role::Owner | Role::System | Role::Provider) => Ok(role),
    }
}

#[expect(clippy::too_many_lines, reason = "one arm a command, none left out")]
fn staff(order: &Order, command: &Command, actor: &Actor) -> Result<Role, Refusal> {
    match command {
        Command::Start {
            override_reason: Some(_),
            ..
        }
        | Command::Rule { .. }
        | Command::Void { .. }
        | Command::ForceCancel { .. }
        | Command::ReturnBill { .. }
        | Command::WaiveFee { .. } => Ok(Role::Admin),
        // Not an act of the renter's: it would count as an answer to itself.
        Command::AskReconfirm => called(actor).map(|_| Role::Admin),
        Command::Finish { .. } if actor.may(FORCE) => Ok(Role::Admin),
        Command::Withdraw if system_raised(order) => Ok(Role::Admin),
        Command::Answer { .. } => {
            let of_owner = order.proposal.as_ref().is_some_and(|p| p.by == Role::Owner);
            if actor.may(FORCE) && !(of_owner && actor.may(ACT_FOR)) {
                return Ok(Role::Admin);
            }
            called(actor)
        }
        Command::AcceptRuling | Command::Appeal => {
            let judged = order.ruling.is_some_and(|ruling| {
                let account = actor.account;
                account == Some(ruling.by) || account == ruling.second
            });
            if judged {
                return Err(Refusal::ConflictOfInterest);
            }
            called(actor)
        }
        Command::Cancel { .. }
        | Command::Reconfirm
        | Command::Propose { .. }
        | Command::Start { .. }
        | Command::ClaimNoShow
        | Command::ContestClaim
        | Command::Finish { .. }
        | Command::UndoFinish
        | Command::Pause { .. }
        | Command::Resume { .. }
        | Command::RequestReturn
        | Command::ObjectBill { .. }
        | Command::ConfirmBill { .. }
        | Command::BalanceFromDeposit
        | Command::Dispute { .. }
        | Command::Offer { .. }
        | Command::AcceptOffer { .. }
        | Command::Withdraw => called(actor),
        // Not for staff: the table says so.
        Command::Pay { .. }
        | Command::ExpireHold
        | Command::Accept { .. }
        | Command::Reject { .. }
        | Command::AcceptTimeout
        | Command::Lapse
        | Command::OwnerCancel { .. }
        | Command::Depart
        | Command::DepartedDue
        | Command::StartAskedDue
        | Command::StartProven
        | Command::ClaimDue
        | Command::NoStart
        | Command::FinishAskedDue
        | Command::AutoFinish
        | Command::ProposeBill { .. }
        | Command::ConfirmBySilence
        | Command::Settle
        | Command::BalancePaid { .. }
        | Command::TakeArrears
        | Command::RulingDue
        | Command::LatePayment { .. }
        | Command::Seal
        | Command::Remind(_) => Ok(Role::Admin),
    }
}

fn called(actor: &Actor) -> Result<Role, Refusal> {
    if actor.may(ACT_FOR) {
        Ok(Role::Renter)
    } else {
        Err(Refusal::Forbidden(ACT_FOR))
    }
}

fn system_raised(order: &Order) -> bool {
    order.open_dispute().is_some_and(|d| d.by == Role::System)
}
