//! What it costs to end an order before work, for renter and owner. Pure; the preview and the command call the same function.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::money::{Bps, Fen, Overflow};

/// Fees and penalties, shares of the prepaid rent unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeeTable {
    /// Cancelling is free with at least this lead, minutes.
    pub free_lead_min: u32,
    /// Below this lead the late fee counts, minutes.
    pub late_lead_min: u32,
    /// Between the two.
    pub middle_bps: Bps,
    /// Late, or the machine is on its way.
    pub late_bps: Bps,
    /// Not reconfirmed.
    pub lapse_bps: Bps,
    /// The renter did not come: of the greater of minimum charge and first day.
    pub renter_no_show_bps: Bps,
    /// Below this lead the owner pays, minutes.
    pub owner_late_lead_min: u32,
    /// The owner cancels late.
    pub owner_late_bps: Bps,
    /// The machine did not come.
    pub owner_no_show_bps: Bps,
}

impl Default for FeeTable {
    fn default() -> Self {
        Self {
            free_lead_min: 24 * 60,
            late_lead_min: 120,
            middle_bps: Bps(1_000),
            late_bps: Bps(3_000),
            lapse_bps: Bps(1_000),
            renter_no_show_bps: Bps(5_000),
            owner_late_lead_min: 24 * 60,
            owner_late_bps: Bps(1_000),
            owner_no_show_bps: Bps(2_000),
        }
    }
}

/// The owner never pays more than this share of the prepaid rent.
const OWNER_MAX: Bps = Bps(2_000);

/// What a renter's cancellation rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenterCancels {
    /// R.
    pub prepaid_fen: Fen,
    /// When the work was to start.
    pub start: DateTime<Utc>,
    /// The machine's departure is recorded.
    pub departed: bool,
    /// The machine is, or was, at the plot.
    pub arrived: bool,
}

fn lead(start: DateTime<Utc>, now: DateTime<Utc>) -> TimeDelta {
    start - now
}

fn minutes(count: u32) -> TimeDelta {
    TimeDelta::minutes(i64::from(count))
}

impl FeeTable {
    /// What a renter pays who cancels an accepted order now.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn renter_fee(&self, of: &RenterCancels, now: DateTime<Utc>) -> Result<Fen, Overflow> {
        // The machine did not come in time: the owner is late, not the renter.
        if now >= of.start && !of.arrived {
            return Ok(Fen::ZERO);
        }
        let lead = lead(of.start, now);
        let bps = if of.departed || of.arrived || lead < minutes(self.late_lead_min) {
            self.late_bps
        } else if lead < minutes(self.free_lead_min) {
            self.middle_bps
        } else {
            return Ok(Fen::ZERO);
        };
        Ok(bps.of_rounded_half_up(of.prepaid_fen)?.min(of.prepaid_fen))
    }

    /// What a renter pays who did not reconfirm.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn lapse_fee(&self, prepaid: Fen) -> Result<Fen, Overflow> {
        Ok(self.lapse_bps.of_rounded_half_up(prepaid)?.min(prepaid))
    }

    /// What a renter pays who was not there.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn renter_no_show_fee(&self, first_day: Fen, prepaid: Fen) -> Result<Fen, Overflow> {
        let fee = self.renter_no_show_bps.of_rounded_half_up(first_day)?;
        Ok(fee.min(prepaid))
    }

    /// What an owner pays who cancels an accepted order now.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn owner_penalty(
        &self,
        prepaid: Fen,
        start: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<Fen, Overflow> {
        if lead(start, now) >= minutes(self.owner_late_lead_min) {
            return Ok(Fen::ZERO);
        }
        self.owner_late_bps
            .min(OWNER_MAX)
            .of_rounded_half_up(prepaid)
    }

    /// What an owner pays whose machine did not come.
    ///
    /// # Errors
    ///
    /// [`Overflow`].
    pub fn owner_no_show_penalty(&self, prepaid: Fen) -> Result<Fen, Overflow> {
        self.owner_no_show_bps
            .min(OWNER_MAX)
            .of_rounded_half_up(prepaid)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn start() -> DateTime<Utc> {
        "2026-05-10T00:00:00Z".parse().unwrap()
    }

    fn fee(lead: TimeDelta, departed: bool, arrived: bool) -> i64 {
        let of = RenterCancels {
            prepaid_fen: Fen(500_000),
            start: start(),
            departed,
            arrived,
        };
        let fee = FeeTable::default().renter_fee(&of, start() - lead).unwrap();
        fee.0
    }

    #[test]
    fn the_renters_fee_changes_at_its_bounds_to_the_millisecond() {
        let ms = TimeDelta::milliseconds(1);
        let (day, two) = (TimeDelta::hours(24), TimeDelta::hours(2));
        assert_eq!(
            [day + ms, day, day - ms].map(|l| fee(l, false, false)),
            [0, 0, 50_000]
        );
        let late = [two + ms, two, two - ms].map(|l| fee(l, false, false));
        assert_eq!(late, [50_000, 50_000, 150_000]);
        // After the start, and no machine: nothing.
        let around = [ms, TimeDelta::zero(), -ms].map(|l| fee(l, true, false));
        assert_eq!(around, [150_000, 0, 0]);
        assert_eq!(fee(-ms, true, true), 150_000);
        assert_eq!(fee(day * 2, true, false), 150_000, "on its way");
    }

    #[test]
    fn the_owners_penalty_changes_at_its_bound_and_has_an_end() {
        let table = FeeTable::default();
        let at = |lead: TimeDelta| {
            let penalty = table.owner_penalty(Fen(500_000), start(), start() - lead);
            penalty.unwrap().0
        };
        let (day, ms) = (TimeDelta::hours(24), TimeDelta::milliseconds(1));
        assert_eq!([day + ms, day, day - ms].map(at), [0, 0, 50_000]);
        let greedy = FeeTable {
            owner_no_show_bps: Bps(9_000),
            ..table
        };
        assert_eq!(greedy.owner_no_show_penalty(Fen(500_000)), Ok(Fen(100_000)));
        assert_eq!(
            table.renter_no_show_fee(Fen(900_000), Fen(300_000)),
            Ok(Fen(300_000))
        );
    }
}
