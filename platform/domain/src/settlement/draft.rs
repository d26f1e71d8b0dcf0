//! A bill as it is proposed: lines by the one engine, what of them the renter must say himself, damage beside them, and how it differs from the estimate. Never moves money.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use super::{
    check::{AreaCheck, Mark},
    items::{DamageLine, ItemFault, Items},
    metered::{Basis, Metered, metered},
    record::Record,
};
use crate::{
    id::RuleId,
    money::{Fen, Overflow},
    order::command::{BillSum, Silent},
    rent::{
        Bill, Difference, Line, LineKind, PriceError, Quantity, Snapshot, Unit, Usage, differences,
        price,
    },
};

/// By what a line can be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Evidence {
    /// The machine's track between two instants.
    Track {
        /// From.
        from: DateTime<Utc>,
        /// To.
        to: DateTime<Utc>,
    },
    /// The order's steps: start, finish, pauses.
    Steps,
    /// What was booked.
    Booking,
    /// The rule that the order froze.
    Rule,
    /// A photo or a paper.
    Upload {
        /// Its id.
        id: Uuid,
    },
}

/// A line of a bill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BilledLine {
    /// As the engine made it.
    #[serde(flatten)]
    pub line: Line,
    /// Only the renter's word makes it good.
    pub needs_consent: bool,
    /// By what it can be checked.
    pub evidence: Vec<Evidence>,
}

/// A bill that may be proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// By which rule.
    pub rule_id: RuleId,
    /// Its version.
    pub rule_version: u32,
    /// Version of the engine.
    pub engine: u16,
    /// On what the quantity rests.
    pub basis: Basis,
    /// How good that is.
    pub mark: Mark,
    /// Both areas, for what is billed by area.
    pub check: Option<AreaCheck>,
    /// The lines, in their order.
    pub lines: Vec<BilledLine>,
    /// B: their sum.
    pub total_fen: Fen,
    /// What the operator's share is taken of.
    pub commission_base_fen: Fen,
    /// C: the operator's share, paid by the owner out of the total.
    pub commission_fen: Fen,
    /// Damage, from the deposit.
    pub damage: Vec<DamageLine>,
    /// X: its sum.
    pub damage_fen: Fen,
    /// What a silent renter has agreed to, where lines need his word.
    pub unanswered: Option<Bill>,
    /// Where and why it is not what was estimated.
    pub differences: Vec<Difference>,
}

/// Why there is no bill.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DraftError {
    /// An item cannot be.
    #[error(transparent)]
    Item(#[from] ItemFault),
    /// There is no price.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// It grows beyond all bounds.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

impl Draft {
    /// What the order machine must know of it.
    #[must_use]
    pub fn sum(&self) -> BillSum {
        BillSum {
            total_fen: self.total_fen,
            commission_fen: self.commission_fen,
            damage_fen: self.damage_fen,
            needs_consent: self.needs_consent(),
            silent: self.unanswered.as_ref().map(|bill| Silent {
                total_fen: bill.total_fen,
                commission_fen: bill.commission_fen,
            }),
        }
    }

    /// Whether anything in it needs the renter's own word.
    #[must_use]
    pub const fn needs_consent(&self) -> bool {
        self.unanswered.is_some()
    }

    /// Numbers (from 1) of the lines that need the renter's own word.
    #[must_use]
    pub fn consent_lines(&self) -> Vec<u32> {
        (1..)
            .zip(&self.lines)
            .filter(|(_, line)| line.needs_consent)
            .map(|(number, _)| number)
            .collect()
    }
}

/// Drafts a bill: of what was measured, tapped or booked, with what the owner puts beside it.
///
/// # Errors
///
/// [`DraftError`].
pub fn draft(
    snapshot: &Snapshot,
    estimate: &Bill,
    record: &Record,
    items: &Items,
) -> Result<Draft, DraftError> {
    items.check(snapshot.rule.unit)?;
    let metered = metered(snapshot, record, items.claim);
    let bill = price(snapshot, &with_others(&metered.usage, items, |_| true))?;
    let asks = metered.needs_consent || items.others.iter().any(super::Other::needs_consent);
    let unanswered = if asks {
        let agreed = with_others(&metered.unanswered, items, |o| !o.needs_consent());
        Some(price(snapshot, &agreed)?)
    } else {
        None
    };
    let check = area_check(snapshot, record, items, &bill)?;
    Ok(Draft {
        rule_id: snapshot.rule_id,
        rule_version: snapshot.rule_version,
        engine: snapshot.engine,
        basis: metered.basis,
        mark: metered.mark,
        check,
        damage_fen: Fen::sum(items.damage.iter().map(|line| line.amount_fen))?,
        damage: items.damage.clone(),
        total_fen: bill.total_fen,
        commission_base_fen: bill.commission_base_fen,
        commission_fen: bill.commission_fen,
        unanswered,
        differences: differences(estimate, &bill, metered.usage.minimum_waived)?,
        lines: billed(bill, &metered, record, items),
    })
}

fn with_others(usage: &Usage, items: &Items, which: fn(&super::Other) -> bool) -> Usage {
    Usage {
        extras: items
            .others
            .iter()
            .filter(|other| which(other))
            .map(super::Other::extra)
            .collect(),
        ..usage.clone()
    }
}

/// Both areas and what lies between them, where there are two.
fn area_check(
    snapshot: &Snapshot,
    record: &Record,
    items: &Items,
    bill: &Bill,
) -> Result<Option<AreaCheck>, DraftError> {
    if snapshot.rule.unit != Unit::Mu {
        return Ok(None);
    }
    let claimed = match items.claim {
        Some(super::Claim::CentiMu(area)) => Some(area),
        Some(super::Claim::Minutes(_)) | None => None,
    };
    let by_track = metered(snapshot, record, None).usage;
    let by_track = match (&record.measured, by_track.quantity) {
        (Some(measured), Quantity::AreaE4M2(_) | Quantity::CentiMu(_)) => Usage {
            quantity: Quantity::AreaE4M2(measured.whole_e4_m2()),
            ..by_track
        },
        _ => by_track,
    };
    let by_track = price(snapshot, &with_others(&by_track, items, |_| true))?;
    let measured = record.measured.as_ref();
    Ok(Some(AreaCheck::of(
        measured.map(super::Measured::whole_e4_m2),
        claimed,
        measured.map_or(0, |m| m.missing_e4_m2),
        (bill.total_fen, by_track.total_fen),
    )?))
}

/// The engine's lines with what they rest on. Lines of the owner stand in the order in which he gave them.
fn billed(bill: Bill, metered: &Metered, record: &Record, items: &Items) -> Vec<BilledLine> {
    let mut others = items.others.iter();
    bill.lines
        .into_iter()
        .map(|line| {
            // The engine's own discount has no label: it is not one of the owner's lines.
            let own = match line.kind {
                LineKind::Extra | LineKind::Discount if !line.label.is_empty() => {
                    others.find(|other| other.label == line.label)
                }
                LineKind::Rent
                | LineKind::MinChargeTopup
                | LineKind::Overtime
                | LineKind::Travel
                | LineKind::Extra
                | LineKind::Discount => None,
            };
            let needs_consent = match line.kind {
                LineKind::Rent => metered.needs_consent,
                LineKind::Extra | LineKind::Discount => {
                    own.is_some_and(super::Other::needs_consent)
                }
                LineKind::MinChargeTopup | LineKind::Overtime | LineKind::Travel => false,
            };
            let evidence = match own {
                Some(other) => uploads(&other.evidence),
                None => evidence(line.kind, metered.basis, record),
            };
            BilledLine {
                line,
                needs_consent,
                evidence,
            }
        })
        .collect()
}

fn uploads(ids: &[Uuid]) -> Vec<Evidence> {
    ids.iter().map(|id| Evidence::Upload { id: *id }).collect()
}

fn evidence(kind: LineKind, basis: Basis, record: &Record) -> Vec<Evidence> {
    let track = record.measured.as_ref().map(|measured| Evidence::Track {
        from: measured.track.0,
        to: measured.track.1,
    });
    let work = match basis {
        Basis::Measured | Basis::Claimed => track.unwrap_or(Evidence::Steps),
        Basis::Tapped => Evidence::Steps,
        Basis::Booked => Evidence::Booking,
    };
    match kind {
        LineKind::Rent => vec![work, Evidence::Rule],
        LineKind::Overtime => vec![
            record
                .measured
                .as_ref()
                .map_or(Evidence::Steps, |measured| Evidence::Track {
                    from: measured.track.0,
                    to: measured.track.1,
                }),
            Evidence::Rule,
        ],
        LineKind::MinChargeTopup | LineKind::Travel | LineKind::Discount | LineKind::Extra => {
            vec![Evidence::Rule]
        }
    }
}
