//! Where an order stands, and why it ended. Nine states; phases only inside settlement.

use serde::{Deserialize, Serialize};

/// A state. Users and reports see these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A slot is held until it is paid.
    PendingPayment,
    /// Paid; the owner answers.
    PendingAcceptance,
    /// Both agreed; the work is to come.
    Accepted,
    /// The machine works.
    InWork,
    /// The work is done; the bill is made, confirmed, paid.
    PendingSettlement,
    /// Settled.
    Completed,
    /// Ended by somebody before work.
    Cancelled,
    /// Ended by the clock before work.
    TimedOut,
    /// A person must decide.
    Disputed,
}

impl Status {
    /// All of them, in the order of an order's life.
    pub const ALL: [Self; 9] = [
        Self::PendingPayment,
        Self::PendingAcceptance,
        Self::Accepted,
        Self::InWork,
        Self::PendingSettlement,
        Self::Completed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Disputed,
    ];

    /// The name in columns, URLs and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PendingPayment => "pending_payment",
            Self::PendingAcceptance => "pending_acceptance",
            Self::Accepted => "accepted",
            Self::InWork => "in_work",
            Self::PendingSettlement => "pending_settlement",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Disputed => "disputed",
        }
    }

    /// Whether nothing more happens by itself but sealing.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Completed | Self::Cancelled | Self::TimedOut => true,
            Self::PendingPayment
            | Self::PendingAcceptance
            | Self::Accepted
            | Self::InWork
            | Self::PendingSettlement
            | Self::Disputed => false,
        }
    }

    /// What the machine's slot must be in this state.
    #[must_use]
    pub const fn slot(self) -> SlotState {
        match self {
            Self::PendingPayment => SlotState::Hold,
            Self::PendingAcceptance | Self::Accepted | Self::InWork => SlotState::Booking,
            // Past rows harm nobody and prove history.
            Self::PendingSettlement | Self::Completed | Self::Disputed => SlotState::Booking,
            Self::Cancelled | Self::TimedOut => SlotState::Released,
        }
    }
}

/// What a slot's row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// Live, until it expires.
    Hold,
    /// Live.
    Booking,
    /// Not live.
    Released,
}

/// Inside settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The owner makes the bill.
    AwaitingBill,
    /// The renter answers it.
    BillProposed,
    /// The renter owes the rest.
    BalanceDue,
}

/// Why an order was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// By the renter.
    Renter,
    /// The owner did not take it.
    OwnerRejected,
    /// By the owner, after taking it.
    Owner,
    /// Both agreed.
    Mutual,
    /// Rain and the like; nobody's fault.
    Weather,
    /// The machine broke; nobody's fault.
    Breakdown,
    /// The machine did not come.
    OwnerNoShow,
    /// Nobody was there for the machine.
    RenterNoShow,
    /// By ruling.
    AdminRuling,
    /// By an admin.
    Admin,
}

/// Which clock ended an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutKind {
    /// Not paid in time.
    Pay,
    /// Not accepted in time.
    Accept,
    /// Too near to the start.
    Cutoff,
    /// The renter did not reconfirm.
    Unconfirmed,
    /// The work never started.
    NoStart,
}
