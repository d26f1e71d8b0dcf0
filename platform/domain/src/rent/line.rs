//! Lines of an estimate or a bill, what they sum to, and how two of them differ.

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

/// Why a bill is not what was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceReason {
    /// More or less was done.
    Quantity,
    /// It was done on dates of another factor.
    Dates,
    /// A line that was not estimated.
    Added,
    /// A line that fell away.
    Dropped,
    /// The amount differs for a reason of its kind.
    Amount,
}

/// A difference between estimate and bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Of which lines.
    pub kind: LineKind,
    /// Estimated.
    pub estimated_fen: Fen,
    /// Billed.
    pub billed_fen: Fen,
    /// Why.
    pub reason: DifferenceReason,
}

/// Where a bill differs from its estimate, kind by kind.
#[must_use]
pub fn differences(estimate: &Bill, bill: &Bill) -> Vec<Difference> {
    let kinds = [
        LineKind::Rent,
        LineKind::MinChargeTopup,
        LineKind::Overtime,
        LineKind::Travel,
        LineKind::Extra,
        LineKind::Discount,
    ];
    kinds
        .into_iter()
        .filter_map(|kind| {
            let (before, after) = (Sum::of(estimate, kind), Sum::of(bill, kind));
            if before.amount == after.amount {
                return None;
            }
            let reason = match (before.lines, after.lines) {
                (0, _) => DifferenceReason::Added,
                (_, 0) => DifferenceReason::Dropped,
                _ if before.quantity != after.quantity => DifferenceReason::Quantity,
                _ if kind == LineKind::Rent => DifferenceReason::Dates,
                _ => DifferenceReason::Amount,
            };
            Some(Difference {
                kind,
                estimated_fen: before.amount,
                billed_fen: after.amount,
                reason,
            })
        })
        .collect()
}

struct Sum {
    lines: usize,
    quantity: u64,
    amount: Fen,
}

impl Sum {
    fn of(bill: &Bill, kind: LineKind) -> Self {
        let lines = || bill.lines.iter().filter(|l| l.kind == kind);
        Self {
            lines: lines().count(),
            quantity: lines().map(|l| l.quantity).sum(),
            amount: Fen::sum(lines().map(|l| l.amount_fen)).unwrap_or(Fen::MAX),
        }
    }
}
