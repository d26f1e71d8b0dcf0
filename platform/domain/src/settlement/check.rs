//! Whether a claimed area agrees with the measured one. Never decides which of them is right.

use serde::{Deserialize, Serialize};

use crate::{
    money::{Bps, Fen, Overflow},
    rent::centi_mu_rounded_half_up,
};

/// A claim may differ by this share of what was measured ...
const TOLERANCE: Bps = Bps(300);
/// ... or by this much, whichever is more: half a mu, in 1/10,000 m² (1 mu = 2000/3 m²) times three.
const LEAST_E4_M2_X3: u128 = 10_000_000;

/// How good a quantity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Measured, or as agreed.
    Green,
    /// Measured as an estimate, or claimed otherwise than measured.
    Amber,
    /// Not measured well enough.
    Red,
}

impl Mark {
    /// Its word in URLs, columns and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Amber => "amber",
            Self::Red => "red",
        }
    }
}

/// Both numbers, where there are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaCheck {
    /// Measured, centi-mu; none where nothing was measured.
    pub measured_centi_mu: Option<u64>,
    /// Claimed by the owner, centi-mu.
    pub claimed_centi_mu: Option<u64>,
    /// Missed in gaps, centi-mu: shown, never billed.
    pub missing_centi_mu: u64,
    /// What the claim is above what was measured, in money.
    pub difference_fen: Fen,
}

/// Whether a claim in centi-mu is as good as the measured area in 1/10,000 m²: off by no more than 3 % of
/// what was measured, or half a mu.
pub(super) fn agrees(claimed_centi_mu: u64, measured_e4_m2: u64) -> bool {
    // 1 centi-mu is 20/3 m², 200,000/3 of 1/10,000 m². All times three, to stay whole.
    let claimed = u128::from(claimed_centi_mu) * 200_000;
    let measured = u128::from(measured_e4_m2) * 3;
    let off = claimed.abs_diff(measured);
    off <= LEAST_E4_M2_X3 || off * 10_000 <= measured * u128::from(TOLERANCE.0)
}

impl AreaCheck {
    pub(super) fn of(
        measured: Option<u64>,
        claimed: Option<u64>,
        missing: u64,
        (billed, by_track): (Fen, Fen),
    ) -> Result<Self, Overflow> {
        Ok(Self {
            measured_centi_mu: measured.map(centi_mu_rounded_half_up),
            claimed_centi_mu: claimed,
            missing_centi_mu: centi_mu_rounded_half_up(missing),
            difference_fen: billed.minus(by_track)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percent_or_half_a_mu_whichever_is_more_and_not_a_bit_beyond() {
        // 3 centi-mu are 20 m².
        let mu = |centi: u64| centi * 200_000 / 3;
        // Small: 50 centi-mu either way.
        assert!(agrees(350, mu(300)) && agrees(250, mu(300)));
        assert!(!agrees(351, mu(300)) && !agrees(249, mu(300)));
        // Large: 3 % of 300 mu are 9 mu.
        assert!(agrees(30_900, mu(30_000)) && agrees(29_100, mu(30_000)));
        assert!(!agrees(30_901, mu(30_000)) && !agrees(29_099, mu(30_000)));
        assert!(!agrees(u64::MAX, 0) && !agrees(0, u64::MAX) && agrees(50, 0));
    }
}
