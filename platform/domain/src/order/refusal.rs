//! Why a command is refused, with a code that stays and what helps to go on.

use chrono::{DateTime, Utc};
use thiserror::Error;

use super::status::Status;
use crate::money::{Fen, Overflow};

/// A refusal. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// This state knows no such step.
    #[error("this cannot be done while the order is {}", .0.name())]
    IllegalTransition(Status),
    /// Not a party of this order.
    #[error("there is no such order")]
    NotAParty,
    /// On both sides of the order.
    #[error("one cannot deal with oneself")]
    SelfDealing,
    /// An admin who is on one side.
    #[error("an admin does not decide on an order of his own")]
    ConflictOfInterest,
    /// An admin without the permission, or a role that may not.
    #[error("this needs the permission {0}")]
    Forbidden(&'static str),
    /// Too early.
    #[error("not before {0}")]
    TooEarly(DateTime<Utc>),
    /// Too late.
    #[error("it was possible until {0}")]
    TooLate(DateTime<Utc>),
    /// It begins in the past.
    #[error("it begins in the past")]
    InPast,
    /// The order moved on since it was read.
    #[error("the order has changed: version {0}")]
    VersionConflict(u32),
    /// The fee is not the one that was shown.
    #[error("the fee is {} fen now", .0.0)]
    FeeChanged(Fen),
    /// Less than a minute is left to pay.
    #[error("the time to pay is over")]
    PayWindowClosed,
    /// What was paid is not what is asked.
    #[error("the amount is not the one that is asked")]
    AmountMismatch,
    /// The machine is suspended or in repair.
    #[error("the machine cannot be let now")]
    MachineUnavailable,
    /// The machine works elsewhere.
    #[error("the machine is elsewhere, {distance_m} m away")]
    MachineElsewhere {
        /// From the plot.
        distance_m: u32,
    },
    /// Another order of the machine is in work.
    #[error("another order of the machine is in work")]
    MachineBusy,
    /// Somebody has that time.
    #[error("the time is taken")]
    SlotTaken {
        /// From when on, if known.
        next_busy_from: Option<DateTime<Utc>>,
    },
    /// It would cost more than is held.
    #[error("it would cost more than is held: make a new order")]
    NeedsNewOrder,
    /// No such proposal waits for an answer.
    #[error("the proposal is gone")]
    ProposalGone,
    /// One's own proposal, or one that is for the other side.
    #[error("the other side answers this")]
    NotYours,
    /// A claim, proposal or dispute is open.
    #[error("{0} is open")]
    StillOpen(&'static str),
    /// It was done as often as it may be.
    #[error("it was done {0} times, which is the most")]
    TooOften(u32),
    /// Something must be said.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Something that was said cannot be.
    #[error("{field}: {message}")]
    Invalid {
        /// Where.
        field: &'static str,
        /// What.
        message: &'static str,
    },
    /// The facts do not prove it.
    #[error("the track does not show it")]
    NotProven,
    /// Amounts beyond all bounds.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

impl Refusal {
    /// The code, which never changes.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::IllegalTransition(_) => "illegal_transition",
            Self::NotAParty => "not_found",
            Self::SelfDealing => "self_dealing",
            Self::ConflictOfInterest => "conflict_of_interest",
            Self::Forbidden(_) => "forbidden",
            Self::TooEarly(_) => "too_early",
            Self::TooLate(_) => "too_late",
            Self::InPast => "in_past",
            Self::VersionConflict(_) => "version_conflict",
            Self::FeeChanged(_) => "fee_changed",
            Self::PayWindowClosed => "pay_window_closed",
            Self::AmountMismatch => "amount_mismatch",
            Self::MachineUnavailable => "machine_unavailable",
            Self::MachineElsewhere { .. } => "machine_elsewhere",
            Self::MachineBusy => "machine_busy",
            Self::SlotTaken { .. } => "slot_taken",
            Self::NeedsNewOrder => "needs_new_order",
            Self::ProposalGone => "proposal_gone",
            Self::NotYours => "not_yours",
            Self::StillOpen(_) => "still_open",
            Self::TooOften(_) => "too_often",
            Self::Missing(_) => "missing",
            Self::Invalid { .. } => "invalid",
            Self::NotProven => "not_proven",
            Self::Overflow(_) => "amount_out_of_range",
        }
    }
}
