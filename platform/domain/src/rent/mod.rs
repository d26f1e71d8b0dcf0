//! Rent: what an owner asks (rule), what an order freezes of it (snapshot), and the one engine that prices estimate and bill alike. Integers only.

mod difference;
mod line;
mod price;
mod rule;
mod slices;
mod text;
mod usage;

pub use difference::{Difference, DifferenceReason, differences};
pub use line::{Bill, Line, LineKind};
pub use price::{ENGINE_VERSION, PriceError, price, terms_of};
pub use rule::{
    Discount, Minimum, Overtime, Rule, RuleFault, Season, ServiceMode, Snapshot, Step, Unit,
};
pub use usage::{Extra, Quantity, Usage};

/// Centi-mu of an area in 1/10,000 m², rounded half up: 1 mu = 2000/3 m².
#[must_use]
pub fn centi_mu_rounded_half_up(area_e4_m2: u64) -> u64 {
    // centi-mu = m² x 3/20.
    let twice = u128::from(area_e4_m2) * 6;
    u64::try_from((twice + 200_000) / 400_000).unwrap_or(u64::MAX)
}

/// Minutes that an area takes at a machine's capacity, rounded up to the half hour. None where the
/// capacity is zero or the time beyond 202 days.
///
/// `capacity` is in centi-mu an hour.
#[must_use]
pub fn needed_minutes(area_centi_mu: u64, capacity_centi_mu_h: u32) -> Option<u32> {
    let half_hours = u128::from(area_centi_mu)
        .checked_mul(2)?
        .checked_add(u128::from(capacity_centi_mu_h).checked_sub(1)?)?
        / u128::from(capacity_centi_mu_h);
    let minutes = u32::try_from(half_hours.max(1) * 30).ok()?;
    (minutes <= 202 * 1440).then_some(minutes)
}
