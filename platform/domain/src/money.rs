//! Money in whole fen and shares in basis points. Never a fraction: whatever rounds says so by its name.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An amount in fen (1/100 yuan). Between -[`Fen::MAX`] and [`Fen::MAX`] wherever it comes from
/// outside; arithmetic is checked.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fen(pub i64);

/// An amount beyond [`Fen::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an amount is beyond {} fen", Fen::MAX.0)]
pub struct Overflow;

impl Fen {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount that anything may reach: 10^12 fen.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// From a count that may be too large.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn new(fen: i128) -> Result<Self, Overflow> {
        let bound = i128::from(Self::MAX.0);
        if !(-bound..=bound).contains(&fen) {
            return Err(Overflow);
        }
        i64::try_from(fen).map(Self).map_err(|_| Overflow)
    }

    /// The sum.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        Self::new(i128::from(self.0) + i128::from(other.0))
    }

    /// The difference.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn minus(self, other: Self) -> Result<Self, Overflow> {
        Self::new(i128::from(self.0) - i128::from(other.0))
    }

    /// The sum of many.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn sum(amounts: impl IntoIterator<Item = Self>) -> Result<Self, Overflow> {
        Self::new(amounts.into_iter().map(|fen| i128::from(fen.0)).sum())
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Never below zero.
    #[must_use]
    pub fn or_zero(self) -> Self {
        self.max(Self::ZERO)
    }

    /// As people write it: `8024.90`; the sign in front.
    #[must_use]
    pub fn yuan(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let fen = self.0.unsigned_abs();
        format!("{sign}{}.{:02}", fen / 100, fen % 100)
    }
}

/// A share in 1/10,000.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bps(pub u32);

impl Bps {
    /// The whole.
    pub const WHOLE: Self = Self(10_000);

    /// This share of an amount that is not negative, fractions dropped.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn of_rounded_down(self, amount: Fen) -> Result<Fen, Overflow> {
        Fen::new((i128::from(amount.0) * i128::from(self.0)).div_euclid(10_000))
    }

    /// This share of an amount, a half upwards.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn of_rounded_half_up(self, amount: Fen) -> Result<Fen, Overflow> {
        divided_half_up(i128::from(amount.0) * i128::from(self.0), 10_000)
    }
}

/// `dividend / divisor` in fen, a half upwards (towards plus infinity). `divisor` is above zero.
///
/// # Errors
///
/// [`Overflow`], also for a divisor that is not above zero.
pub fn divided_half_up(dividend: i128, divisor: i128) -> Result<Fen, Overflow> {
    if divisor <= 0 {
        return Err(Overflow);
    }
    let twice = dividend.checked_mul(2).ok_or(Overflow)?;
    let shifted = twice.checked_add(divisor).ok_or(Overflow)?;
    Fen::new(shifted.div_euclid(divisor.checked_mul(2).ok_or(Overflow)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_as_their_names_say() {
        assert_eq!(Bps(800).of_rounded_down(Fen(802_490)), Ok(Fen(64_199)));
        assert_eq!(Bps(1).of_rounded_half_up(Fen(5_000)), Ok(Fen(1)));
        assert_eq!(Bps(1).of_rounded_half_up(Fen(4_999)), Ok(Fen(0)));
        assert_eq!(divided_half_up(-1, 2), Ok(Fen(0)));
        assert_eq!(divided_half_up(-3, 2), Ok(Fen(-1)));
        assert_eq!(divided_half_up(1, 0), Err(Overflow));
    }

    #[test]
    fn nothing_grows_beyond_the_bound() {
        assert_eq!(Fen::MAX.plus(Fen(1)), Err(Overflow));
        assert_eq!(Fen(-1).minus(Fen::MAX), Err(Overflow));
        assert_eq!(Fen::sum([Fen::MAX, Fen(1), Fen(-1)]), Ok(Fen::MAX));
        assert_eq!(divided_half_up(i128::MAX, 1), Err(Overflow));
    }

    #[test]
    fn people_read_yuan() {
        assert_eq!(Fen(802_490).yuan(), "8024.90");
        assert_eq!(Fen(-5).yuan(), "-0.05");
    }
}
