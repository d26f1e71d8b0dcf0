//! What may be paid for an order now, and until when. Never takes a payment.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{
    Order,
    command::DisputeCategory,
    refusal::Refusal,
    status::{Phase, Status},
    terms::minutes,
};
use crate::money::Fen;

/// For what a payment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Prepaid rent and deposit.
    Booking,
    /// What the bill is above the prepaid rent.
    Balance,
}

/// A payment that may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payable {
    /// For what.
    pub purpose: Purpose,
    /// How much, above zero.
    pub amount_fen: Fen,
    /// The last moment to pay, for the provider as well.
    pub until: DateTime<Utc>,
}

impl Order {
    /// The payment that may be begun now.
    ///
    /// # Errors
    ///
    /// `pay_window_closed` with less than the policy's least time left; `illegal_transition` where nothing
    /// is to be paid.
    pub fn payable(&self, now: DateTime<Utc>) -> Result<Payable, Refusal> {
        let policy = &self.terms.policy;
        let arrears = self.open_dispute().map(|d| d.category) == Some(DisputeCategory::Arrears);
        let owes = self.phase == Some(Phase::BalanceDue);
        let (purpose, amount_fen, until) = match self.status {
            Status::PendingPayment => (
                Purpose::Booking,
                self.terms.payable_fen(),
                self.pay_deadline,
            ),
            Status::PendingSettlement if owes => (
                Purpose::Balance,
                self.balance_fen,
                self.balance_due_at.unwrap_or(now),
            ),
            // As long as nobody has ruled: a cashier is open for as long as at a booking.
            Status::Disputed if arrears => (
                Purpose::Balance,
                self.balance_fen,
                now + minutes(policy.pay_min),
            ),
            status @ (Status::PendingAcceptance
            | Status::Accepted
            | Status::InWork
            | Status::PendingSettlement
            | Status::Completed
            | Status::Cancelled
            | Status::TimedOut
            | Status::Disputed) => return Err(Refusal::IllegalTransition(status)),
        };
        if amount_fen.is_zero() {
            return Err(Refusal::IllegalTransition(self.status));
        }
        if until - now < TimeDelta::seconds(i64::from(policy.pay_least_s)) {
            return Err(Refusal::PayWindowClosed);
        }
        Ok(Payable {
            purpose,
            amount_fen,
            until,
        })
    }
}
