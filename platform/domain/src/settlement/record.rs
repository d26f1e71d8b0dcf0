//! What is known of an order's work when it is billed: its booking, its taps, its pauses, and what its track shows. Whole numbers only; never reads a track.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::Serialize;

use crate::{
    fieldwork::Activity,
    order::{Order, Pause, StartEvidence, Tap, Taps},
    period::Period,
    rent::ServiceMode,
};

/// A good share below this is no measurement, 1/10,000 of the fixes.
const GOOD_BPS: u32 = 8_000;
/// Gaps at work beyond this share of the time at work are no measurement, 1/10,000.
const GAPS_BPS: i64 = 500;

/// One kind of doing without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spell {
    /// From.
    pub from: DateTime<Utc>,
    /// To.
    pub to: DateTime<Utc>,
    /// What.
    pub activity: Activity,
}

/// What a track shows of the work on an order's plots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// Closed area, 1/10,000 m², by the local date that covered it first; it sums to the whole.
    pub area_e4_m2: Vec<(NaiveDate, u64)>,
    /// What the machine did on the plots, in any order.
    pub spells: Vec<Spell>,
    /// It came to the plots.
    pub arrived: Option<DateTime<Utc>>,
    /// Good fixes, 1/10,000.
    pub good_bps: u32,
    /// Seconds without fixes between the first and the last working step.
    pub missing_s: u32,
    /// What may have been worked in them, 1/10,000 m²: shown, never billed.
    pub missing_e4_m2: u64,
    /// The areas are estimates: fixes too far apart or too inexact for the working width.
    pub estimate: bool,
    /// The track that was read.
    pub track: (DateTime<Utc>, DateTime<Utc>),
}

impl Measured {
    /// All of the area, 1/10,000 m².
    #[must_use]
    pub fn whole_e4_m2(&self) -> u64 {
        self.area_e4_m2
            .iter()
            .fold(0, |sum, (_, area)| sum.saturating_add(*area))
    }

    fn at_work(&self) -> impl Iterator<Item = &Spell> {
        self.spells
            .iter()
            .filter(|spell| spell.activity == Activity::Work)
    }

    /// The first proven working step begins.
    #[must_use]
    pub fn first_work(&self) -> Option<DateTime<Utc>> {
        self.at_work().map(|spell| spell.from).min()
    }

    /// The last proven working step ends.
    #[must_use]
    pub fn last_work(&self) -> Option<DateTime<Utc>> {
        self.at_work().map(|spell| spell.to).max()
    }

    /// Whether a bill may rest on it: work was seen, four of five fixes are good, and the gaps are small
    /// against the time at work.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let Some((first, last)) = self.first_work().zip(self.last_work()) else {
            return false;
        };
        let missing = TimeDelta::seconds(i64::from(self.missing_s));
        let bound = (last - first).num_milliseconds().saturating_mul(GAPS_BPS) / 10_000;
        self.good_bps >= GOOD_BPS && missing.num_milliseconds() <= bound
    }
}

/// Why the clock stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseCause {
    /// Rain.
    Rain,
    /// The machine broke.
    Breakdown,
    /// Fuel.
    Fuel,
    /// Night.
    Night,
    /// In somebody's words.
    Other,
}

impl PauseCause {
    /// By the word that apps send as the reason; whatever is not one of them is [`PauseCause::Other`].
    #[must_use]
    pub fn of(reason: &str) -> Self {
        match reason.trim() {
            "rain" => Self::Rain,
            "breakdown" => Self::Breakdown,
            "fuel" => Self::Fuel,
            "night" => Self::Night,
            _ => Self::Other,
        }
    }
}

/// Everything that a bill rests on, beside the order's snapshot.
#[derive(Debug, Clone)]
pub struct Record {
    /// The booked slot.
    pub period: Period,
    /// When one meets.
    pub start: DateTime<Utc>,
    /// When booked work ends.
    pub end: DateTime<Utc>,
    /// The area that was asked for, centi-mu.
    pub area_centi_mu: u64,
    /// Who drives.
    pub service_mode: ServiceMode,
    /// Work began, by taps or track.
    pub started: Option<DateTime<Utc>>,
    /// Work ended, by taps or track.
    pub finished: Option<DateTime<Utc>>,
    /// How late the owner's side came by the taps.
    pub late: TimeDelta,
    /// When the clock stood.
    pub pauses: Vec<(Period, PauseCause)>,
    /// What area is measured needs the renter's word: the start rests on a photo, or the place has no outline.
    pub needs_word: bool,
    /// What the track shows; none without one.
    pub measured: Option<Measured>,
}

impl Record {
    /// Of an order that is finished, or as if it were now.
    #[must_use]
    pub fn of(
        order: &Order,
        area_centi_mu: u64,
        measured: Option<Measured>,
        now: DateTime<Utc>,
    ) -> Self {
        let until = order.finished_at.unwrap_or(now);
        let stood = |pause: &Pause| {
            let to = pause.to.unwrap_or(until).min(until);
            let period = Period::new(pause.from, to).ok()?;
            Some((period, PauseCause::of(&pause.reason)))
        };
        // An early start widens the slot, not what was booked.
        let early = order.started_at.is_some_and(|at| at < order.start);
        let booked = Period::new(order.start, order.end).ok();
        let by_time = order.period.to() - order.period.from() < TimeDelta::days(1);
        Self {
            period: booked.filter(|_| early && by_time).unwrap_or(order.period),
            start: order.start,
            end: order.end,
            area_centi_mu,
            service_mode: order.terms.service_mode,
            started: order.started_at,
            finished: order.finished_at,
            late: late_by_taps(&order.taps, order.start),
            pauses: order.pauses.iter().filter_map(stood).collect(),
            needs_word: order.start_evidence == Some(StartEvidence::Photo),
            measured,
        }
    }

    /// How late the owner's side came: by the track, or by taps where the renter's was there first.
    #[must_use]
    pub fn lateness(&self) -> TimeDelta {
        if self.service_mode == ServiceMode::SelfDrive {
            return TimeDelta::zero();
        }
        let by_track = self.measured.as_ref().and_then(|measured| measured.arrived);
        let late = by_track.map_or(self.late, |arrived| arrived - self.start);
        late.max(TimeDelta::zero())
    }

    /// When the work that is billed ended: the last proven working step, else the finish, else the booked
    /// end. Who drives himself pays until the return.
    #[must_use]
    pub fn last(&self) -> DateTime<Utc> {
        let told = self.finished.unwrap_or(self.end);
        match (&self.measured, self.service_mode) {
            (_, ServiceMode::SelfDrive) | (None, ServiceMode::Operated) => told,
            (Some(measured), ServiceMode::Operated) => measured.last_work().unwrap_or(told),
        }
    }

    /// Whether rain ended it: it was the last to stop the clock, and no work came after.
    #[must_use]
    pub fn stopped_by_rain(&self) -> bool {
        let last = self.pauses.iter().max_by_key(|(period, _)| period.to());
        last.is_some_and(|(period, cause)| *cause == PauseCause::Rain && self.last() <= period.to())
    }
}

/// The owner's side tapped after the renter, who was there.
fn late_by_taps(taps: &Taps, start: DateTime<Utc>) -> TimeDelta {
    let late = |owner: Tap, renter: Tap| (owner.at - renter.at.max(start)).max(TimeDelta::zero());
    taps.owner
        .zip(taps.renter)
        .map_or(TimeDelta::zero(), |(owner, renter)| late(owner, renter))
}
