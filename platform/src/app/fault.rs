//! Why a use case says no, with a code that stays. One type for all of them; the human door turns it into a problem, once.

use furrow_domain::{money::Overflow, order::refusal::Refusal};
use serde_json::{Value, json};
use thiserror::Error;

use crate::db::DbError;

/// What sort of no it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Cannot be parsed.
    Unreadable,
    /// Nobody is signed in, or not well enough.
    Unauthorized,
    /// Signed in, and it is said openly that this may not be done.
    Forbidden,
    /// Does not exist, or not for this one.
    NotFound,
    /// The state of things is against it.
    Conflict,
    /// A value is out of range.
    Invalid,
    /// Too often.
    TooMany,
}

/// A no.
#[derive(Debug, Error)]
pub enum Fault {
    /// By a rule.
    #[error("{detail}")]
    Refused {
        /// What sort.
        sort: Sort,
        /// The code, which never changes.
        code: &'static str,
        /// For people.
        detail: String,
        /// What helps to go on.
        data: Value,
    },
    /// The database.
    #[error("database")]
    Database(#[from] DbError),
    /// Our own fault.
    #[error("{0}")]
    Broken(String),
}

impl Fault {
    /// A no with nothing beside it.
    #[must_use]
    pub fn new(sort: Sort, code: &'static str, detail: impl Into<String>) -> Self {
        Self::Refused {
            sort,
            code,
            detail: detail.into(),
            data: Value::Null,
        }
    }

    /// There is no such thing, or not for this one: the same words for both.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(Sort::NotFound, "not_found", "there is nothing here")
    }

    /// A field's value.
    #[must_use]
    pub fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        Self::Refused {
            sort: Sort::Invalid,
            code: "invalid",
            detail: format!("{field}: {message}"),
            data: json!({ "field": field }),
        }
    }

    /// The state of things is against it.
    #[must_use]
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(Sort::Conflict, code, detail)
    }

    /// The code, where a rule said no.
    #[must_use]
    pub const fn code(&self) -> Option<&'static str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            Self::Database(_) | Self::Broken(_) => None,
        }
    }
}

impl From<Overflow> for Fault {
    fn from(overflow: Overflow) -> Self {
        Self::new(Sort::Invalid, "amount_out_of_range", overflow.to_string())
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let sort = match &refusal {
            Refusal::NotAParty => return Self::not_found(),
            Refusal::SelfDealing | Refusal::ConflictOfInterest | Refusal::Forbidden(_) => {
                Sort::Forbidden
            }
            Refusal::InPast
            | Refusal::TooEarly(_)
            | Refusal::Missing(_)
            | Refusal::Invalid { .. }
            | Refusal::Overflow(_) => Sort::Invalid,
            Refusal::IllegalTransition(_)
            | Refusal::TooLate(_)
            | Refusal::VersionConflict(_)
            | Refusal::FeeChanged(_)
            | Refusal::PayWindowClosed
            | Refusal::AmountMismatch
            | Refusal::MachineUnavailable
            | Refusal::MachineElsewhere { .. }
            | Refusal::MachineBusy
            | Refusal::SlotTaken { .. }
            | Refusal::NeedsNewOrder
            | Refusal::ProposalGone
            | Refusal::NotYours
            | Refusal::StillOpen(_)
            | Refusal::TooOften(_)
            | Refusal::NotProven => Sort::Conflict,
        };
        let data = match &refusal {
            Refusal::FeeChanged(fen) => json!({ "fee_fen": fen }),
            Refusal::VersionConflict(version) => json!({ "version": version }),
            Refusal::SlotTaken { next_busy_from } => json!({ "next_busy_from": next_busy_from }),
            Refusal::MachineElsewhere { distance_m } => json!({ "distance_m": distance_m }),
            Refusal::TooEarly(at) => json!({ "from": at }),
            Refusal::TooLate(at) => json!({ "until": at }),
            Refusal::Missing(field) | Refusal::Invalid { field, .. } => json!({ "field": field }),
            _ => Value::Null,
        };
        Self::Refused {
            sort,
            code: refusal.code(),
            detail: refusal.to_string(),
            data,
        }
    }
}
