//! What an owner puts on a bill beyond the engine's lines, and what of it cannot be. Never prices a unit.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::{
    money::Fen,
    rent::{Extra, Unit},
};

/// Most other lines, and most damage lines.
const MOST_LINES: usize = 20;
/// Most pieces of evidence of a line.
const MOST_EVIDENCE: usize = 9;
/// Longest label, characters.
const LABEL: usize = 100;
/// The largest amount of a line, fen.
const LINE_MAX: Fen = Fen(100_000_000);
/// The largest area, centi-mu.
const AREA_MAX: u64 = 100_000_000;
/// The longest time, minutes: 202 days.
const MINUTES_MAX: u64 = 202 * 1440;

/// A quantity by the owner's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Worked area, centi-mu.
    CentiMu(u64),
    /// Worked time, minutes.
    Minutes(u64),
}

/// A line of its own: fuel, an agreed extra, or (below zero) a discount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// What for.
    pub label: String,
    /// How much; below zero it is taken off.
    pub amount_fen: Fen,
    /// Photos and papers.
    pub evidence: Vec<Uuid>,
}

impl Other {
    /// Whether only the renter's word makes it good: whatever is asked for beyond the terms.
    #[must_use]
    pub fn needs_consent(&self) -> bool {
        self.amount_fen > Fen::ZERO
    }

    /// As the engine takes it. What an owner forgoes lowers what our share is taken of; what is asked for
    /// beyond the rent bears none.
    pub(super) fn extra(&self) -> Extra {
        Extra {
            label: self.label.clone(),
            amount_fen: self.amount_fen,
            commissionable: self.amount_fen < Fen::ZERO,
        }
    }
}

/// Damage, paid from the deposit and never a part of the bill's total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamageLine {
    /// What was damaged.
    pub label: String,
    /// How much it costs, above zero.
    pub amount_fen: Fen,
    /// Photos and papers.
    pub evidence: Vec<Uuid>,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Items {
    /// The quantity by the owner's word; none: as it was measured, tapped or booked.
    pub claim: Option<Claim>,
    /// Other lines.
    pub others: Vec<Other>,
    /// Damage.
    pub damage: Vec<DamageLine>,
}

/// What cannot be on a bill.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {message}")]
pub struct ItemFault {
    /// Path of the field, such as `lines[2].label`, as clients write it.
    pub field: String,
    /// What is wrong.
    pub message: &'static str,
}

impl Items {
    /// Whether they can be on a bill of a rule by this unit.
    ///
    /// # Errors
    ///
    /// The first [`ItemFault`].
    pub fn check(&self, unit: Unit) -> Result<(), ItemFault> {
        check_claim(self.claim, unit)?;
        let others = self.others.iter().map(|o| (&o.label, &o.evidence));
        check_lines("lines", self.others.len(), others)?;
        for (i, other) in self.others.iter().enumerate() {
            let amount = Fen(other.amount_fen.0.saturating_abs());
            if amount.is_zero() || amount > LINE_MAX {
                return Err(fault(
                    format!("lines[{i}].amount_fen"),
                    "must not be 0, nor beyond 100,000,000 either way",
                ));
            }
        }
        let damage = self.damage.iter().map(|d| (&d.label, &d.evidence));
        check_lines("damage", self.damage.len(), damage)?;
        for (i, line) in self.damage.iter().enumerate() {
            if !(Fen(1)..=LINE_MAX).contains(&line.amount_fen) {
                return Err(fault(
                    format!("damage[{i}].amount_fen"),
                    "must lie between 1 and 100,000,000",
                ));
            }
        }
        Ok(())
    }
}

fn fault(field: impl Into<String>, message: &'static str) -> ItemFault {
    ItemFault {
        field: field.into(),
        message,
    }
}

fn check_claim(claim: Option<Claim>, unit: Unit) -> Result<(), ItemFault> {
    let field = match claim {
        Some(Claim::Minutes(_)) => "claimed_minutes",
        Some(Claim::CentiMu(_)) | None => "claimed_centi_mu",
    };
    match (claim, unit) {
        (None, _) => Ok(()),
        (Some(Claim::CentiMu(area)), Unit::Mu) if area <= AREA_MAX => Ok(()),
        (Some(Claim::Minutes(time)), Unit::Hour) if time <= MINUTES_MAX => Ok(()),
        (Some(Claim::CentiMu(_)), Unit::Mu) | (Some(Claim::Minutes(_)), Unit::Hour) => {
            Err(fault(field, "is out of range"))
        }
        (Some(_), Unit::Mu | Unit::Hour | Unit::Day | Unit::HalfDay | Unit::Season) => {
            Err(fault(field, "is not what the order is billed by"))
        }
    }
}

fn check_lines<'a>(
    field: &str,
    count: usize,
    lines: impl Iterator<Item = (&'a String, &'a Vec<Uuid>)>,
) -> Result<(), ItemFault> {
    if count > MOST_LINES {
        return Err(fault(field, "are more than 20"));
    }
    for (i, (label, evidence)) in lines.enumerate() {
        let written = label.trim().chars().count();
        if !(1..=LABEL).contains(&written) || label.chars().any(char::is_control) {
            return Err(fault(
                format!("{field}[{i}].label"),
                "must have 1 to 100 characters in one line",
            ));
        }
        if evidence.len() > MOST_EVIDENCE {
            return Err(fault(
                format!("{field}[{i}].evidence"),
                "are more than 9 pieces",
            ));
        }
    }
    Ok(())
}
