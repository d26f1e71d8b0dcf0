//! How much is billed, on what it rests, and whether the renter must say so himself. Whole numbers only; never prices.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{
    check::{Mark, agrees},
    items::Claim,
    record::{Measured, PauseCause, Record},
    spans,
};
use crate::{
    availability::{AFTERNOON, MORNING},
    fieldwork::Activity,
    period::{Period, instant, local_day},
    rent::{Quantity, Snapshot, Unit, Usage, centi_mu_rounded_half_up},
};

/// Standing longer than this between two passes is no work.
const IDLE_MOST: TimeDelta = TimeDelta::minutes(10);
/// Rain within so much work: the minimum is not charged.
const RAIN_WITHIN: TimeDelta = TimeDelta::hours(1);
/// Hours count by so many minutes: claims that round to the same are the same.
const HOUR_STEP_MIN: u64 = 30;

/// On what a quantity rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The track.
    Measured,
    /// Start and finish as they were told.
    Tapped,
    /// The booking.
    Booked,
    /// The owner's word.
    Claimed,
}

impl Basis {
    /// Its word in columns and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Tapped => "tapped",
            Self::Booked => "booked",
            Self::Claimed => "claimed",
        }
    }
}

/// What is billed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metered {
    /// For the engine.
    pub usage: Usage,
    /// On what it rests.
    pub basis: Basis,
    /// How good that is.
    pub mark: Mark,
    /// Only the renter's word makes it good.
    pub needs_consent: bool,
    /// What a silent renter has agreed to: the lesser of this quantity and the booked one. The same as
    /// `usage` where no word is needed.
    pub unanswered: Usage,
}

/// What counts of an order's work.
#[must_use]
pub fn metered(snapshot: &Snapshot, record: &Record, claim: Option<Claim>) -> Metered {
    let chosen = match snapshot.rule.unit {
        Unit::Mu => area(snapshot, record, claim),
        Unit::Hour => hours(snapshot, record, claim),
        Unit::Day | Unit::HalfDay | Unit::Season => units(snapshot, record),
    };
    let booked = Usage::booked(snapshot, &record.period, record.area_centi_mu);
    let unanswered = if chosen.needs_consent {
        lesser(chosen.quantity, booked.quantity)
    } else {
        chosen.quantity
    };
    let by_date = if chosen.by_date.iter().any(|(_, weight)| *weight > 0) {
        chosen.by_date
    } else {
        booked.by_date
    };
    let usage = Usage {
        quantity: chosen.quantity,
        by_date,
        overrun_min: overrun_min(snapshot.rule.unit, record),
        minimum_waived: record.stopped_by_rain() && worked(record) < RAIN_WITHIN,
        extras: vec![],
    };
    Metered {
        unanswered: Usage {
            quantity: unanswered,
            ..usage.clone()
        },
        usage,
        basis: chosen.basis,
        mark: chosen.mark,
        needs_consent: chosen.needs_consent,
    }
}

struct Chosen {
    quantity: Quantity,
    by_date: Vec<(NaiveDate, u64)>,
    basis: Basis,
    mark: Mark,
    needs_consent: bool,
}

/// The lesser of two quantities of one kind; the first where they are not.
fn lesser(a: Quantity, b: Quantity) -> Quantity {
    match (a, b) {
        (Quantity::CentiMu(x), Quantity::CentiMu(y)) => Quantity::CentiMu(x.min(y)),
        (Quantity::AreaE4M2(x), Quantity::CentiMu(y)) => {
            if centi_mu_rounded_half_up(x) <= y {
                a
            } else {
                b
            }
        }
        (Quantity::Minutes(x), Quantity::Minutes(y)) => Quantity::Minutes(x.min(y)),
        (Quantity::Units(x), Quantity::Units(y)) => Quantity::Units(x.min(y)),
        (
            Quantity::AreaE4M2(_)
            | Quantity::CentiMu(_)
            | Quantity::Minutes(_)
            | Quantity::Units(_),
            _,
        ) => a,
    }
}

/// D.1 and the area check: the track's area where it is sound and the claim agrees with it.
fn area(snapshot: &Snapshot, record: &Record, claim: Option<Claim>) -> Chosen {
    let claimed = match claim {
        Some(Claim::CentiMu(area)) => Some(area),
        Some(Claim::Minutes(_)) | None => None,
    };
    let sound = record.measured.as_ref().filter(|m| m.is_sound());
    let dates = |measured: &Measured| measured.area_e4_m2.clone();
    match (sound, claimed) {
        (Some(measured), claimed)
            if claimed.is_none_or(|area| agrees(area, measured.whole_e4_m2())) =>
        {
            Chosen {
                quantity: Quantity::AreaE4M2(measured.whole_e4_m2()),
                by_date: dates(measured),
                basis: Basis::Measured,
                mark: if measured.estimate {
                    Mark::Amber
                } else {
                    Mark::Green
                },
                needs_consent: record.needs_word,
            }
        }
        (measured, claimed) => Chosen {
            quantity: Quantity::CentiMu(claimed.unwrap_or(record.area_centi_mu)),
            by_date: measured.map_or_else(|| spans::by_date(&told(record), snapshot.zone), dates),
            basis: claimed.map_or(Basis::Booked, |_| Basis::Claimed),
            mark: measured.map_or(Mark::Red, |_| Mark::Amber),
            needs_consent: true,
        },
    }
}

/// D.1: hours of the track, else of the taps, or the booked ones by rule.
fn hours(snapshot: &Snapshot, record: &Record, claim: Option<Claim>) -> Chosen {
    let booked = Usage::booked(snapshot, &record.period, record.area_centi_mu);
    if snapshot.rule.booked_hours {
        return Chosen {
            quantity: booked.quantity,
            by_date: booked.by_date,
            basis: Basis::Booked,
            mark: Mark::Green,
            needs_consent: false,
        };
    }
    let sound = record.measured.as_ref().filter(|m| m.is_sound());
    let spans = counted(snapshot.rule.unit, record);
    let found = minutes(spans::length(&spans));
    let (basis, mark) = match sound {
        Some(measured) if measured.estimate => (Basis::Measured, Mark::Amber),
        Some(_) => (Basis::Measured, Mark::Green),
        None if record.finished.is_none() => (Basis::Booked, Mark::Green),
        // There is a track, and it is too poor to rest on.
        None if record.measured.is_some() => (Basis::Tapped, Mark::Amber),
        None => (Basis::Tapped, Mark::Green),
    };
    let claimed = match claim {
        Some(Claim::Minutes(claimed)) => Some(claimed),
        Some(Claim::CentiMu(_)) | None => None,
    };
    let steps = |minutes: u64| minutes.div_ceil(HOUR_STEP_MIN);
    let by_date = spans::by_date(&spans, snapshot.zone);
    match claimed.filter(|claimed| steps(*claimed) != steps(found)) {
        None => Chosen {
            quantity: Quantity::Minutes(found),
            by_date,
            basis,
            mark,
            needs_consent: false,
        },
        Some(claimed) => Chosen {
            quantity: Quantity::Minutes(claimed),
            by_date,
            basis: Basis::Claimed,
            mark: Mark::Amber,
            needs_consent: true,
        },
    }
}

/// Local dates, or mornings and afternoons, that the work touched; a season is one.
fn units(snapshot: &Snapshot, record: &Record) -> Chosen {
    let rule = &snapshot.rule;
    let booked = Usage::booked(snapshot, &record.period, record.area_centi_mu);
    let by_booking = rule.unit == Unit::Season || rule.booked_hours;
    if by_booking {
        return Chosen {
            quantity: booked.quantity,
            by_date: booked.by_date,
            basis: Basis::Booked,
            mark: Mark::Green,
            needs_consent: false,
        };
    }
    let end = overtime_from(rule.unit, record);
    let touched = spans::until(&told(record), end);
    let on = |day: NaiveDate| -> u64 {
        let parts = parts_of(day, rule.unit, snapshot.zone);
        let count = parts
            .iter()
            .filter(|p| touched.iter().any(|t| t.overlaps(p)));
        u64::try_from(count.count()).unwrap_or(0)
    };
    let days: std::collections::BTreeSet<NaiveDate> = touched
        .iter()
        .flat_map(|span| span.local_dates(snapshot.zone))
        .collect();
    let by_date: Vec<_> = days.into_iter().map(|day| (day, on(day))).collect();
    let measured = record.measured.as_ref().is_some_and(Measured::is_sound);
    Chosen {
        quantity: Quantity::Units(by_date.iter().map(|(_, count)| count).sum()),
        by_date,
        basis: if measured {
            Basis::Measured
        } else {
            Basis::Tapped
        },
        mark: Mark::Green,
        needs_consent: false,
    }
}

/// The parts of a local date that are billed one by one.
fn parts_of(day: NaiveDate, unit: Unit, zone: chrono_tz::Tz) -> Vec<Period> {
    if unit != Unit::HalfDay {
        return local_day(day, zone).into_iter().collect();
    }
    let at = |minute: u16| {
        let wall = day.and_hms_opt(u32::from(minute / 60), u32::from(minute % 60), 0)?;
        Some(instant(wall, zone))
    };
    [MORNING, AFTERNOON]
        .iter()
        .filter_map(|(from, to)| Period::new(at(*from)?, at(*to)?).ok())
        .collect()
}

/// From start to finish as they were told, less the pauses.
fn told(record: &Record) -> Vec<Period> {
    let from = record.started.unwrap_or(record.start);
    // A track may have seen its last work before the taps said that it began: it began all the same.
    let least = from + TimeDelta::milliseconds(1);
    let whole = Period::new(from, record.finished.unwrap_or(record.end).max(least));
    spans::less(whole.ok().as_slice(), &stood(record))
}

fn stood(record: &Record) -> Vec<Period> {
    record.pauses.iter().map(|(period, _)| *period).collect()
}

/// What counts as worked time: work, turns and short stops on the plots between the first and the last
/// working step, or start to finish; less the pauses.
fn done(record: &Record) -> Vec<Period> {
    let Some(measured) = record.measured.as_ref().filter(|m| m.is_sound()) else {
        return told(record);
    };
    let (Some(first), Some(last)) = (measured.first_work(), measured.last_work()) else {
        return told(record);
    };
    let inside = |spell: &&(Period, Activity)| spell.0.from() >= first && spell.0.to() <= last;
    let counts = |(period, activity): &(Period, Activity)| match activity {
        Activity::Work | Activity::Turn => true,
        Activity::Idle => period.length() <= IDLE_MOST,
        Activity::Transit => false,
    };
    let spells: Vec<Period> = whole_spells(measured)
        .iter()
        .filter(inside)
        .filter(|spell| counts(spell))
        .map(|(period, _)| *period)
        .collect();
    spans::less(&spells, &stood(record))
}

/// Spells in their order, those of one kind that touch put together: ten short stops in a row are a long one.
fn whole_spells(measured: &Measured) -> Vec<(Period, Activity)> {
    let mut spells = measured.spells.clone();
    spells.sort_by_key(|spell| (spell.from, spell.to));
    let mut whole: Vec<(Period, Activity)> = Vec::new();
    for spell in spells {
        let from = whole
            .last()
            .map_or(spell.from, |(p, _)| spell.from.max(p.to()));
        let Ok(period) = Period::new(from, spell.to) else {
            continue;
        };
        match whole.last_mut() {
            Some((last, activity)) if *activity == spell.activity && last.to() == from => {
                if let Ok(longer) = Period::new(last.from(), spell.to) {
                    *last = longer;
                }
            }
            _ => whole.push((period, spell.activity)),
        }
    }
    whole
}

/// What counts as the base: what was done before overtime begins.
fn counted(unit: Unit, record: &Record) -> Vec<Period> {
    spans::until(&done(record), overtime_from(unit, record))
}

fn worked(record: &Record) -> TimeDelta {
    spans::length(&done(record))
}

/// When overtime begins: the booked end, later by as much as the owner was late and the clock stood. Nights
/// are a part of what is let by days.
fn overtime_from(unit: Unit, record: &Record) -> DateTime<Utc> {
    let by_days = matches!(unit, Unit::Day | Unit::HalfDay | Unit::Season);
    let mut pauses: Vec<Period> = record
        .pauses
        .iter()
        .filter(|(_, cause)| !(by_days && *cause == PauseCause::Night))
        // What stood before one was to meet takes nothing of the booked time.
        .filter_map(|(pause, _)| Period::new(pause.from().max(record.start), pause.to()).ok())
        .collect();
    pauses.sort();
    let mut begin = record.end + record.lateness();
    for pause in pauses {
        if pause.from() < begin {
            begin += pause.length();
        }
    }
    begin
}

/// Minutes beyond the begin of overtime, a begun one whole, less pauses in it.
fn overrun_min(unit: Unit, record: &Record) -> u32 {
    let begin = overtime_from(unit, record);
    let Ok(over) = Period::new(begin, record.last()) else {
        return 0;
    };
    // What already moved the begin lies before it.
    let left = spans::length(&spans::less(&[over], &stood(record)));
    let minutes = u64::try_from(left.num_milliseconds())
        .unwrap_or(0)
        .div_ceil(60_000);
    u32::try_from(minutes).unwrap_or(u32::MAX)
}

/// Whole minutes; one that is only begun does not count.
fn minutes(length: TimeDelta) -> u64 {
    u64::try_from(length.num_minutes()).unwrap_or(0)
}
