//! Lines of an estimate or a bill, and what they sum to. Never prices.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::rule::Unit;
use crate::money::{Bps, Fen};

/// What a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// The rent.
    Rent,
    /// Up to the minimum charge.
    MinChargeTopup,
    /// Beyond the booked end.
    Overtime,
    /// The way.
    Travel,
    /// Fuel and others, agreed.
    Extra,
    /// Less for much.
    Discount,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What for.
    pub kind: LineKind,
    /// As people wrote it; empty where the kind says all.
    pub label: String,
    /// How much, in the engine's unit.
    pub quantity: u64,
    /// Of what; none for plain amounts.
    pub unit: Option<Unit>,
    /// Price of a whole unit.
    pub unit_price_fen: Fen,
    /// Factor on it.
    pub factor_bps: Bps,
    /// First local date that it is for.
    pub local_date: Option<NaiveDate>,
    /// What it comes to.
    pub amount_fen: Fen,
    /// Whether the operator's share is taken of it.
    pub commissionable: bool,
    /// How it was calculated, Chinese.
    pub text_zh: String,
    /// How it was calculated, English.
    pub text_en: String,
}

/// Lines and what they come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bill {
    /// The lines.
    pub lines: Vec<Line>,
    /// Their sum, never below zero.
    pub total_fen: Fen,
    /// What the operator's share is taken of.
    pub commission_base_fen: Fen,
    /// The operator's share, paid by the owner out of the total.
    pub commission_fen: Fen,
}

impl Bill {
    /// What the owner gets.
    #[must_use]
    pub fn owner_fen(&self) -> Fen {
        self.total_fen
            .minus(self.commission_fen)
            .unwrap_or(Fen::ZERO)
    }
}
