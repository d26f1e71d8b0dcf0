//! Where a bill differs from its estimate and why, as data and in words; the parts sum to the whole difference. Never prices.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    line::{Bill, Line, LineKind},
    rule::Unit,
    text,
};
use crate::money::{Fen, Overflow, divided_half_up};

/// Why a bill is not what was estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum DifferenceReason {
    /// More or less was done, in the engine's unit.
    Quantity {
        /// Of what.
        unit: Unit,
        /// Estimated.
        estimated: u64,
        /// Billed.
        billed: u64,
    },
    /// It was done on dates of another factor.
    Dates,
    /// The rent is nearer to the least that is charged, or further from it.
    Minimum {
        /// The rent as billed.
        rent_fen: Fen,
    },
    /// Rain stopped it within the hour.
    MinimumWaived,
    /// It went on beyond the booked end.
    Overrun {
        /// Minutes as they count.
        minutes: u64,
    },
    /// The rule's discount is of another rent.
    Share {
        /// The rent as billed.
        rent_fen: Fen,
    },
    /// A line of the owner's.
    Agreed {
        /// What for.
        label: String,
    },
    /// Another amount for the same.
    Amount,
}

/// A difference between estimate and bill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Of which lines.
    pub kind: LineKind,
    /// Estimated, or what the difference before this one came to.
    pub estimated_fen: Fen,
    /// Billed, or what this difference alone comes to.
    pub billed_fen: Fen,
    /// Why.
    #[serde(flatten)]
    pub reason: DifferenceReason,
    /// Why, in Chinese.
    pub text_zh: String,
    /// Why, in English.
    pub text_en: String,
}

impl Difference {
    fn of(kind: LineKind, from: Fen, to: Fen, reason: DifferenceReason) -> Option<Self> {
        let (text_zh, text_en) = text::difference(&reason);
        (from != to).then_some(Self {
            kind,
            estimated_fen: from,
            billed_fen: to,
            reason,
            text_zh,
            text_en,
        })
    }
}

/// Where a bill differs from its estimate. `billed_fen - estimated_fen` of all sums to the difference of the
/// totals.
///
/// # Errors
///
/// [`Overflow`].
pub fn differences(
    estimate: &Bill,
    bill: &Bill,
    minimum_waived: bool,
) -> Result<Vec<Difference>, Overflow> {
    let mut all = rent(estimate, bill)?;
    let rent_fen = sum(bill, |l| l.kind == LineKind::Rent)?;
    let minutes = quantity(bill, LineKind::Overtime);
    let of_rule = [
        (
            LineKind::MinChargeTopup,
            if minimum_waived {
                DifferenceReason::MinimumWaived
            } else {
                DifferenceReason::Minimum { rent_fen }
            },
        ),
        (LineKind::Overtime, DifferenceReason::Overrun { minutes }),
        (LineKind::Travel, DifferenceReason::Amount),
        (LineKind::Discount, DifferenceReason::Share { rent_fen }),
    ];
    for (kind, reason) in of_rule {
        let engines = |line: &Line| line.kind == kind && line.label.is_empty();
        let (from, to) = (sum(estimate, engines)?, sum(bill, engines)?);
        all.extend(Difference::of(kind, from, to, reason));
    }
    let labelled = |bill: &Bill| -> BTreeSet<(LineKind, String)> {
        let own = bill.lines.iter().filter(|line| is_own(line));
        own.map(|line| (line.kind, line.label.clone())).collect()
    };
    for (kind, label) in &labelled(estimate) | &labelled(bill) {
        let same = |line: &Line| is_own(line) && line.kind == kind && line.label == label;
        let (from, to) = (sum(estimate, same)?, sum(bill, same)?);
        let reason = DifferenceReason::Agreed {
            label: label.clone(),
        };
        all.extend(Difference::of(kind, from, to, reason));
    }
    Ok(all)
}

/// Whether a line is of a person, not of the engine.
fn is_own(line: &Line) -> bool {
    match line.kind {
        LineKind::Extra => true,
        LineKind::Discount => !line.label.is_empty(),
        LineKind::Rent | LineKind::MinChargeTopup | LineKind::Overtime | LineKind::Travel => false,
    }
}

/// The rent: first what another quantity costs at the estimated price, then what its dates change of that.
fn rent(estimate: &Bill, bill: &Bill) -> Result<Vec<Difference>, Overflow> {
    let (estimated, billed) = (
        quantity(estimate, LineKind::Rent),
        quantity(bill, LineKind::Rent),
    );
    let from = sum(estimate, |l| l.kind == LineKind::Rent)?;
    let to = sum(bill, |l| l.kind == LineKind::Rent)?;
    let lines = estimate.lines.iter().chain(&bill.lines);
    let unit = lines
        .filter(|line| line.kind == LineKind::Rent)
        .find_map(|line| line.unit);
    let between = if estimated == billed {
        from
    } else if estimated == 0 || single_factor(estimate, bill) {
        to
    } else {
        let product = i128::from(from.0)
            .checked_mul(i128::from(billed))
            .ok_or(Overflow)?;
        divided_half_up(product, i128::from(estimated))?
    };
    let reason = unit.map_or(DifferenceReason::Amount, |unit| {
        DifferenceReason::Quantity {
            unit,
            estimated,
            billed,
        }
    });
    let more = Difference::of(LineKind::Rent, from, between, reason);
    let dates = Difference::of(LineKind::Rent, between, to, DifferenceReason::Dates);
    Ok(more.into_iter().chain(dates).collect())
}

/// Whether one factor is on all rent lines of both: then dates change nothing but a rounding.
fn single_factor(estimate: &Bill, bill: &Bill) -> bool {
    let lines = estimate.lines.iter().chain(&bill.lines);
    let factors: BTreeSet<_> = lines
        .filter(|line| line.kind == LineKind::Rent)
        .map(|line| line.factor_bps)
        .collect();
    factors.len() <= 1
}

fn sum(bill: &Bill, of: impl Fn(&Line) -> bool) -> Result<Fen, Overflow> {
    let lines = bill.lines.iter().filter(|line| of(line));
    Fen::sum(lines.map(|line| line.amount_fen))
}

fn quantity(bill: &Bill, kind: LineKind) -> u64 {
    bill.lines
        .iter()
        .filter(|line| line.kind == kind)
        .fold(0, |sum, line| sum.saturating_add(line.quantity))
}
