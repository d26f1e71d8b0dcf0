//! A rent rule as an owner writes it, with what makes it unlawful, and what an order freezes of it.

use chrono::NaiveDate;
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    availability::Span,
    id::RuleId,
    money::{Bps, Fen},
    period::Period,
};

/// Most seasons and discounts of a rule.
const MOST: usize = 32;
/// The largest peak factor: ten times.
const FACTOR_MAX: u32 = 100_000;
/// The largest price of a unit and the largest deposit, fen.
const PRICE_MAX: Fen = Fen(100_000_000);

/// By what a machine is let.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Worked area, in centi-mu.
    Mu,
    /// Hours, in minutes.
    Hour,
    /// Local dates.
    Day,
    /// Mornings and afternoons.
    HalfDay,
    /// All of it for one price.
    Season,
}

impl Unit {
    /// How many of the engine's units are one of the price's.
    #[must_use]
    pub const fn scale(self) -> u32 {
        match self {
            Self::Mu => 100,
            Self::Hour => 60,
            Self::Day | Self::HalfDay | Self::Season => 1,
        }
    }

    /// What a booking of it spans. Area is booked in hours unless the renter books days.
    #[must_use]
    pub const fn span(self) -> Span {
        match self {
            Self::Mu | Self::Hour => Span::Time,
            Self::HalfDay => Span::HalfDays,
            Self::Day | Self::Season => Span::Days,
        }
    }
}

/// Who drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceMode {
    /// The owner's people.
    #[default]
    Operated,
    /// The renter: fetched from and returned to the machine's home.
    SelfDrive,
}

/// The least that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Minimum {
    /// An amount.
    AmountFen(Fen),
    /// So much of the engine's unit (centi-mu, minutes, days) at the plain price.
    Quantity(u32),
}

/// How overtime counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Each half hour that is begun; the price is an hour's.
    HalfHour,
    /// Each half-day (6 h) that is begun; the price is a half-day's.
    HalfDay,
}

impl Step {
    /// Its length and the length that the price is for, minutes.
    #[must_use]
    pub const fn minutes(self) -> (u32, u32) {
        match self {
            Self::HalfHour => (30, 60),
            Self::HalfDay => (360, 360),
        }
    }
}

/// What time beyond the booked end costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overtime {
    /// Price of an hour or a half-day, by `step`.
    pub price_fen: Fen,
    /// How it counts.
    pub step: Step,
    /// At most this share of the rent; 5,000 is usual.
    pub cap_bps: Bps,
}

/// Dates with a factor on the price.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Season {
    /// First local date.
    pub from: NaiveDate,
    /// First local date after it.
    pub to: NaiveDate,
    /// 13,000 is 1.3 times.
    pub factor_bps: Bps,
    /// Of several on a date the highest counts.
    pub priority: u8,
}

/// Less for much.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discount {
    /// From this quantity on (engine's unit).
    pub from_quantity: u32,
    /// So much of the rent lines.
    pub bps: Bps,
}

/// A rent rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// By what.
    pub unit: Unit,
    /// Price of a mu, hour, day, half-day or season.
    pub unit_price_fen: Fen,
    /// The least.
    #[serde(default)]
    pub minimum: Option<Minimum>,
    /// Share of the estimate that is paid at booking.
    #[serde(default = "whole")]
    pub prepay_bps: Bps,
    /// Deposit; may be nothing.
    #[serde(default)]
    pub deposit_fen: Fen,
    /// Who drives.
    #[serde(default)]
    pub service_mode: ServiceMode,
    /// Overrun up to this is free, minutes.
    #[serde(default = "quarter")]
    pub grace_min: u16,
    /// What more costs; none, and it costs nothing.
    #[serde(default)]
    pub overtime: Option<Overtime>,
    /// Hours are billed as booked rather than as worked.
    #[serde(default)]
    pub booked_hours: bool,
    /// Peak factors.
    #[serde(default)]
    pub seasons: Vec<Season>,
    /// For the way, per km.
    #[serde(default)]
    pub travel_fen_per_km: Fen,
    /// Less for much; the largest threshold that is reached counts.
    #[serde(default)]
    pub discounts: Vec<Discount>,
}

const fn whole() -> Bps {
    Bps::WHOLE
}

const fn quarter() -> u16 {
    15
}

/// What is wrong with a rule, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {message}")]
pub struct RuleFault {
    /// Path of the field, such as `seasons[2].to`.
    pub field: String,
    /// What is wrong.
    pub message: &'static str,
}

fn fault(field: impl Into<String>, message: &'static str) -> RuleFault {
    RuleFault {
        field: field.into(),
        message,
    }
}

impl Rule {
    /// Whether the rule can be saved.
    ///
    /// # Errors
    ///
    /// The first [`RuleFault`].
    pub fn check(&self) -> Result<(), RuleFault> {
        if !(Fen(1)..=PRICE_MAX).contains(&self.unit_price_fen) {
            return Err(fault(
                "unit_price_fen",
                "must lie between 1 and 100,000,000",
            ));
        }
        if !(Fen::ZERO..=PRICE_MAX).contains(&self.deposit_fen) {
            return Err(fault("deposit_fen", "must lie between 0 and 100,000,000"));
        }
        if !(Fen::ZERO..=Fen(100_000)).contains(&self.travel_fen_per_km) {
            return Err(fault("travel_fen_per_km", "must lie between 0 and 100,000"));
        }
        if self.prepay_bps > Bps::WHOLE {
            return Err(fault("prepay_bps", "must lie between 0 and 10,000"));
        }
        if self.grace_min > 240 {
            return Err(fault("grace_min", "must lie between 0 and 240"));
        }
        self.check_minimum()?;
        self.check_overtime()?;
        self.check_seasons()?;
        self.check_discounts()
    }

    fn check_minimum(&self) -> Result<(), RuleFault> {
        let lawful = match self.minimum {
            None => true,
            Some(Minimum::AmountFen(fen)) => (Fen(1)..=PRICE_MAX).contains(&fen),
            Some(Minimum::Quantity(quantity)) => (1..=1_000_000).contains(&quantity),
        };
        if lawful {
            Ok(())
        } else {
            Err(fault("minimum", "is out of range"))
        }
    }

    fn check_overtime(&self) -> Result<(), RuleFault> {
        let Some(overtime) = &self.overtime else {
            return Ok(());
        };
        if !(Fen::ZERO..=PRICE_MAX).contains(&overtime.price_fen) {
            return Err(fault(
                "overtime.price_fen",
                "must lie between 0 and 100,000,000",
            ));
        }
        if overtime.cap_bps > Bps(20_000) {
            return Err(fault("overtime.cap_bps", "must lie between 0 and 20,000"));
        }
        Ok(())
    }

    fn check_seasons(&self) -> Result<(), RuleFault> {
        if self.seasons.len() > MOST {
            return Err(fault("seasons", "are too many"));
        }
        for (i, season) in self.seasons.iter().enumerate() {
            if season.from >= season.to {
                return Err(fault(format!("seasons[{i}].to"), "must lie after from"));
            }
            if !(Bps(1)..=Bps(FACTOR_MAX)).contains(&season.factor_bps) {
                return Err(fault(
                    format!("seasons[{i}].factor_bps"),
                    "must lie between 1 and 100,000",
                ));
            }
            let rivals = self.seasons.iter().take(i);
            let overlaps = |other: &&Season| {
                other.priority == season.priority
                    && other.from < season.to
                    && season.from < other.to
            };
            if rivals.clone().any(|other| overlaps(&other)) {
                return Err(fault(
                    format!("seasons[{i}].priority"),
                    "overlaps a season of the same priority",
                ));
            }
        }
        Ok(())
    }

    fn check_discounts(&self) -> Result<(), RuleFault> {
        if self.discounts.len() > MOST {
            return Err(fault("discounts", "are too many"));
        }
        for (i, discount) in self.discounts.iter().enumerate() {
            if discount.bps > Bps::WHOLE {
                return Err(fault(
                    format!("discounts[{i}].bps"),
                    "must lie between 0 and 10,000",
                ));
            }
            let twice = self.discounts.iter().take(i);
            if twice
                .clone()
                .any(|d| d.from_quantity == discount.from_quantity)
            {
                return Err(fault(
                    format!("discounts[{i}].from_quantity"),
                    "is given twice",
                ));
            }
        }
        Ok(())
    }

    /// The factor of a local date: of the seasons on it the one of the highest priority.
    #[must_use]
    pub fn factor(&self, day: NaiveDate) -> Bps {
        self.seasons
            .iter()
            .filter(|s| s.from <= day && day < s.to)
            .max_by_key(|s| s.priority)
            .map_or(Bps::WHOLE, |s| s.factor_bps)
    }
}

/// What an order freezes: the rule and all else that prices rest on. Never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Version of the engine that prices it.
    pub engine: u16,
    /// Which rule.
    pub rule_id: RuleId,
    /// Its version.
    pub rule_version: u32,
    /// The rule.
    pub rule: Rule,
    /// The operator's share.
    pub commission_bps: Bps,
    /// Where local dates are.
    pub zone: Tz,
    /// The highest factor inside the quoted range: work on another date never costs more.
    pub max_factor_bps: Bps,
    /// Way that is charged, whole km.
    pub travel_km: u32,
}

impl Snapshot {
    /// The same for a time that the renter has agreed to since: the highest factor inside it bounds what work
    /// on any date costs.
    #[must_use]
    pub fn moved_to(&self, period: &Period) -> Self {
        let dates = period.local_dates(self.zone);
        let highest = dates.iter().map(|day| self.rule.factor(*day)).max();
        Self {
            max_factor_bps: highest.unwrap_or(Bps::WHOLE),
            ..self.clone()
        }
    }

    /// The factor that a date is priced by.
    #[must_use]
    pub fn factor(&self, day: NaiveDate) -> Bps {
        self.rule.factor(day).min(self.max_factor_bps)
    }
}
