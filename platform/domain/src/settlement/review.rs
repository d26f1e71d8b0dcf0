//! Which bills a member of staff looks at before they count. Never holds one up itself.

use serde::{Deserialize, Serialize};

use crate::{
    money::{Fen, Overflow},
    order::terms::Policy,
};

/// Why somebody should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum ReviewReason {
    /// Far above the estimate.
    OverEstimate {
        /// The bill.
        total_fen: Fen,
        /// From here on it is looked at.
        bound_fen: Fen,
    },
    /// Large whatever the estimate was.
    Large {
        /// The bill.
        total_fen: Fen,
        /// From here on it is looked at.
        bound_fen: Fen,
    },
}

/// Why a bill of this total is looked at; empty where it is not.
///
/// # Errors
///
/// [`Overflow`].
pub fn review(
    policy: &Policy,
    estimate_fen: Fen,
    total_fen: Fen,
) -> Result<Vec<ReviewReason>, Overflow> {
    let mut reasons = Vec::new();
    let bound_fen = policy.review_over_bps.of_rounded_half_up(estimate_fen)?;
    if total_fen > bound_fen {
        reasons.push(ReviewReason::OverEstimate {
            total_fen,
            bound_fen,
        });
    }
    if total_fen > policy.review_total_fen {
        reasons.push(ReviewReason::Large {
            total_fen,
            bound_fen: policy.review_total_fen,
        });
    }
    Ok(reasons)
}
