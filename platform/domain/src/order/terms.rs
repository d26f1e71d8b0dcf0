//! The windows and amounts that an order froze when it was made, and the instants that follow from them.

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::{
    cancellation::FeeTable,
    money::{Bps, Fen},
    period::Period,
    rent::ServiceMode,
};

/// The operator's windows, all in minutes. A version of them is frozen by each order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Which version.
    pub version: u32,
    /// Before the start: not accepted by then is closed.
    pub cutoff_min: u32,
    /// To pay.
    pub pay_min: u32,
    /// To pay where staff books for a farmer.
    pub pay_on_behalf_min: u32,
    /// To accept before the cutoff.
    pub accept_before_cutoff_min: u32,
    /// To accept at most.
    pub accept_min: u32,
    /// Callbacks in flight keep the slot held for so long after the pay deadline.
    pub hold_grace_min: u32,
    /// A payment with less left than this is not begun, seconds.
    pub pay_least_s: u32,
    /// Work may start so long before.
    pub start_early_min: u32,
    /// Presence counts within so many metres of the plot.
    pub geofence_m: u32,
    /// After the start: no-show may be claimed.
    pub no_show_min: u32,
    /// After the end: an order that never started is closed.
    pub no_start_close_min: u32,
    /// After the finish: the system proposes the bill.
    pub bill_due_min: u32,
    /// After the bill: it is confirmed by silence where that is allowed.
    pub auto_confirm_min: u32,
    /// After the confirmation: the balance is taken from the deposit.
    pub balance_due_min: u32,
    /// A bill above this share of the estimate is looked at by staff before it counts.
    pub review_over_bps: Bps,
    /// So is one above this.
    pub review_total_fen: Fen,
    /// After the close: money matures and disputes end.
    pub maturity_min: u32,
    /// Most unpaid holds of a renter.
    pub unpaid_holds: u32,
    /// Unanswered reconfirmation ends the order.
    pub lapse: bool,
    /// Most reschedules.
    pub reschedules: u8,
    /// Fees and penalties.
    pub fees: FeeTable,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            version: 1,
            cutoff_min: 120,
            pay_min: 15,
            pay_on_behalf_min: 120,
            accept_before_cutoff_min: 30,
            accept_min: 24 * 60,
            hold_grace_min: 2,
            pay_least_s: 60,
            start_early_min: 60,
            geofence_m: 300,
            no_show_min: 60,
            no_start_close_min: 12 * 60,
            bill_due_min: 24 * 60,
            auto_confirm_min: 72 * 60,
            balance_due_min: 72 * 60,
            review_over_bps: Bps(13_000),
            review_total_fen: Fen(5_000_000),
            maturity_min: 7 * 24 * 60,
            unpaid_holds: 5,
            lapse: true,
            reschedules: 3,
            fees: FeeTable::default(),
        }
    }
}

/// So many minutes.
#[must_use]
pub const fn minutes(count: u32) -> TimeDelta {
    TimeDelta::minutes(count as i64)
}

impl Policy {
    /// Earliest start of an order that is made now.
    #[must_use]
    pub const fn min_lead(&self, auto_accept: bool) -> TimeDelta {
        let accept = if auto_accept {
            0
        } else {
            self.accept_before_cutoff_min
        };
        minutes(self.cutoff_min + self.pay_min + accept)
    }
}

/// What an order froze.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The operator's windows.
    pub policy: Policy,
    /// The machine accepts by itself.
    pub auto_accept: bool,
    /// Who drives.
    pub service_mode: ServiceMode,
    /// Where the machine's local dates are.
    pub zone: Tz,
    /// What it was estimated to cost.
    pub estimate_fen: Fen,
    /// R: prepaid rent.
    pub prepaid_fen: Fen,
    /// D: deposit.
    pub deposit_fen: Fen,
    /// The greater of minimum charge and first day: what a renter's no-show is measured by.
    pub first_day_fen: Fen,
    /// The operator's share.
    pub commission_bps: Bps,
    /// Beyond the booked end this is free, minutes.
    pub grace_min: u32,
    /// The machine has a device.
    pub has_device: bool,
}

impl Terms {
    /// P: what is paid at booking.
    #[must_use]
    pub fn payable_fen(&self) -> Fen {
        Fen(self.prepaid_fen.0.saturating_add(self.deposit_fen.0))
    }

    /// At or after this instant an order that is not accepted is closed.
    #[must_use]
    pub fn cutoff(&self, start: DateTime<Utc>) -> DateTime<Utc> {
        start - minutes(self.policy.cutoff_min)
    }

    /// Until when it may be paid.
    #[must_use]
    pub fn pay_deadline(
        &self,
        created: DateTime<Utc>,
        start: DateTime<Utc>,
        on_behalf: bool,
    ) -> DateTime<Utc> {
        let window = if on_behalf {
            self.policy.pay_on_behalf_min
        } else {
            self.policy.pay_min
        };
        let accept = if self.auto_accept && !on_behalf {
            0
        } else {
            self.policy.accept_before_cutoff_min
        };
        (created + minutes(window)).min(self.cutoff(start) - minutes(accept))
    }

    /// Until when the slot is held for a payment in flight.
    #[must_use]
    pub fn hold_expires_at(&self, pay_deadline: DateTime<Utc>) -> DateTime<Utc> {
        pay_deadline + minutes(self.policy.hold_grace_min)
    }

    /// Until when the owner may accept.
    #[must_use]
    pub fn accept_deadline(&self, paid: DateTime<Utc>, start: DateTime<Utc>) -> DateTime<Utc> {
        (paid + minutes(self.policy.accept_min)).min(self.cutoff(start))
    }

    /// When work may start.
    #[must_use]
    pub fn start_window(&self, start: DateTime<Utc>, end: DateTime<Utc>) -> Option<Period> {
        Period::new(start - minutes(self.policy.start_early_min), end).ok()
    }
}
