//! What was booked or done, as the engine takes it. Whole numbers only.

use chrono::{NaiveDate, TimeDelta};
use serde::{Deserialize, Serialize};

use super::rule::{Snapshot, Unit};
use crate::{
    availability::{AFTERNOON, MORNING},
    money::Fen,
    period::{Period, instant, local_day},
};

/// How much, before it is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Area, 1/10,000 m².
    AreaE4M2(u64),
    /// Area, centi-mu, as people declare it.
    CentiMu(u64),
    /// Minutes; rounded up to the half hour.
    Minutes(u64),
    /// Days, half-days or seasons.
    Units(u64),
}

/// Something beyond the rent, from the snapshot or agreed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra {
    /// What for, as people wrote it.
    pub label: String,
    /// How much; below zero is a credit.
    pub amount_fen: Fen,
    /// Whether the operator's share is taken of it.
    pub commissionable: bool,
}

/// What is priced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// In all.
    pub quantity: Quantity,
    /// On which local dates, by weight: the quantity is split by them after it was rounded.
    pub by_date: Vec<(NaiveDate, u64)>,
    /// Minutes beyond the booked end that the renter answers for.
    pub overrun_min: u32,
    /// The minimum is not charged: rain stopped it within the hour.
    pub minimum_waived: bool,
    /// Fuel and others.
    pub extras: Vec<Extra>,
}

impl Usage {
    /// Of a booking: the area or the time that was asked for, spread over its local dates.
    #[must_use]
    pub fn booked(snapshot: &Snapshot, period: &Period, area_centi_mu: u64) -> Self {
        let unit = snapshot.rule.unit;
        let by_date = dates(snapshot, period, unit);
        let total: u64 = by_date.iter().map(|(_, weight)| weight).sum();
        let quantity = match unit {
            Unit::Mu => Quantity::CentiMu(area_centi_mu),
            Unit::Hour => Quantity::Minutes(minutes(period.length())),
            Unit::Day | Unit::HalfDay => Quantity::Units(total),
            Unit::Season => Quantity::Units(1),
        };
        Self {
            quantity,
            by_date,
            overrun_min: 0,
            minimum_waived: false,
            extras: vec![],
        }
    }
}

/// Weights of the dates of a period: its minutes there, its half-days there, or one.
fn dates(snapshot: &Snapshot, period: &Period, unit: Unit) -> Vec<(NaiveDate, u64)> {
    let zone = snapshot.zone;
    let of = |day: NaiveDate| -> u64 {
        match unit {
            Unit::Day => 1,
            Unit::HalfDay => [MORNING, AFTERNOON]
                .iter()
                .filter_map(|(a, b)| {
                    let at = |m: u16| day.and_hms_opt(u32::from(m / 60), u32::from(m % 60), 0);
                    Period::new(instant(at(*a)?, zone), instant(at(*b)?, zone)).ok()
                })
                .filter(|half| half.overlaps(period))
                .count()
                .try_into()
                .unwrap_or(0),
            Unit::Mu | Unit::Hour => local_day(day, zone)
                .and_then(|whole| whole.intersection(period))
                .map_or(0, |part| minutes(part.length())),
            // One price: it is priced by its first date.
            Unit::Season => 0,
        }
    };
    let mut dates: Vec<_> = period
        .local_dates(zone)
        .into_iter()
        .map(|d| (d, of(d)))
        .collect();
    if unit == Unit::Season {
        dates.truncate(1);
        dates.iter_mut().for_each(|(_, weight)| *weight = 1);
    }
    dates
}

fn minutes(length: TimeDelta) -> u64 {
    u64::try_from(length.num_minutes()).unwrap_or(0)
}
