//! When a machine can be booked: the one predicate that calendar, search, quote and booking share. Never decides who may book.

mod calendar;
mod free;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Timelike as _, Utc, Weekday};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::period::{Period, instant};

pub use calendar::{Cell, CellState};
pub use free::Wanted;

/// The calendar's grid, minutes of local wall time.
pub const GRID_MIN: u32 = 30;
/// Minutes of a day.
pub const DAY_MIN: u16 = 1440;
/// A half-day in the morning, minutes of local wall time.
pub const MORNING: (u16, u16) = (360, 720);
/// A half-day in the afternoon, minutes of local wall time.
pub const AFTERNOON: (u16, u16) = (720, 1080);

/// Open every week on a weekday, `[start_min, end_min)` of local wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weekly {
    /// The day.
    pub weekday: Weekday,
    /// First minute, 0 ..= 1439.
    pub start_min: u16,
    /// First minute after, above `start_min`, at most 1440: the end of the day.
    pub end_min: u16,
}

/// A local date that differs from its week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// The date.
    pub day: NaiveDate,
    /// First minute, 0 ..= 1439.
    pub start_min: u16,
    /// First minute after, above `start_min`, at most 1440.
    pub end_min: u16,
    /// Open then; otherwise closed. Closed outranks open.
    pub open: bool,
}

/// Why the machine is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// The owner blocked it, for maintenance say.
    Block,
    /// Somebody is about to pay.
    Hold,
    /// An order.
    Booking,
}

/// A time when the machine is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Busy {
    /// When.
    pub period: Period,
    /// Why.
    pub taken: Taken,
}

/// What is booked at a time: hours, or whole units whose nights are blocked but need not be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// From minute to minute; all of it must be open.
    Time,
    /// Mornings and afternoons.
    HalfDays,
    /// Local dates.
    Days,
}

/// A machine's calendar as far as it matters for the asked time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// Where its wall clock is.
    pub zone: Tz,
    /// Its week.
    pub weekly: Vec<Weekly>,
    /// Dates that differ.
    pub exceptions: Vec<Exception>,
    /// When it is taken. Expired holds are left out by whoever reads it, with the same instant as everywhere.
    pub busy: Vec<Busy>,
}

/// Why a time cannot be booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// Begin or end does not lie on the grid or on a unit's edge.
    #[error("begin and end must lie on {0}")]
    OffGrid(&'static str),
    /// Somebody has it.
    #[error("taken from {} to {}", .0.from(), .0.to())]
    Taken(Period, Taken),
    /// The owner does not work then.
    #[error("not open from {} to {}", .0.from(), .0.to())]
    Closed(Period),
}

/// Why a week or an exception cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("minutes must be 0 <= start < end <= 1440, on the half hour")]
pub struct BadMinutes;

/// Whether minutes of a day make a window.
///
/// # Errors
///
/// [`BadMinutes`].
pub const fn check_minutes(start_min: u16, end_min: u16) -> Result<(), BadMinutes> {
    if start_min < end_min
        && end_min <= DAY_MIN
        && (start_min as u32).is_multiple_of(GRID_MIN)
        && (end_min as u32).is_multiple_of(GRID_MIN)
    {
        Ok(())
    } else {
        Err(BadMinutes)
    }
}

/// Minutes of a local date as instants. An end of 1440 is the next midnight.
fn window(day: NaiveDate, start_min: u16, end_min: u16, zone: Tz) -> Option<Period> {
    let at = |minute: u16| -> Option<DateTime<Utc>> {
        let day = if minute == DAY_MIN {
            day.succ_opt()?
        } else {
            day
        };
        let seconds = u32::from(minute % DAY_MIN) * 60;
        let time = NaiveTime::from_num_seconds_from_midnight_opt(seconds, 0)?;
        Some(instant(day.and_time(time), zone))
    };
    Period::new(at(start_min)?, at(end_min)?).ok()
}

impl Calendar {
    /// When it is open inside a time, in order, neighbours merged: Monday 24:00 and Tuesday 00:00 are one.
    #[must_use]
    pub fn open(&self, within: &Period) -> Vec<Period> {
        let mut open = Vec::new();
        for day in within.local_dates(self.zone) {
            let week = self
                .weekly
                .iter()
                .filter(|w| w.weekday == chrono::Datelike::weekday(&day));
            let windows = week.map(|w| (w.start_min, w.end_min)).chain(
                self.exceptions
                    .iter()
                    .filter(|e| e.open && e.day == day)
                    .map(|e| (e.start_min, e.end_min)),
            );
            open.extend(windows.filter_map(|(a, b)| window(day, a, b, self.zone)));
        }
        let closed: Vec<Period> = self
            .exceptions
            .iter()
            .filter(|e| !e.open)
            .filter_map(|e| window(e.day, e.start_min, e.end_min, self.zone))
            .collect();
        let open = subtract(merge(open), &closed);
        open.iter().filter_map(|p| p.intersection(within)).collect()
    }

    /// When it is open and nobody has it, inside a time, in order.
    #[must_use]
    pub fn free(&self, within: &Period) -> Vec<Period> {
        let busy: Vec<Period> = self.busy.iter().map(|b| b.period).collect();
        subtract(self.open(within), &busy)
    }

    /// Whether a time can be booked. The answer for search, quote, booking and calendar alike.
    ///
    /// # Errors
    ///
    /// [`Unavailable`], the first reason in time.
    pub fn may_book(&self, wanted: &Period, span: Span) -> Result<(), Unavailable> {
        self.on_grid(wanted, span)?;
        let taken = self.busy.iter().filter(|b| b.period.overlaps(wanted));
        if let Some(first) = taken.min_by_key(|b| (b.period.from(), b.taken)) {
            return Err(Unavailable::Taken(first.period, first.taken));
        }
        match span {
            Span::Time => {
                let open = self.open(wanted);
                match subtract(vec![*wanted], &open).first() {
                    None => Ok(()),
                    Some(missing) => Err(Unavailable::Closed(*missing)),
                }
            }
            Span::HalfDays | Span::Days => self
                .units(wanted, span)
                .into_iter()
                .find(|unit| self.open(unit).is_empty())
                .map_or(Ok(()), |unit| Err(Unavailable::Closed(unit))),
        }
    }

    /// The units of a time: mornings and afternoons, or dates, that it touches; for hours the time itself.
    #[must_use]
    pub fn units(&self, period: &Period, span: Span) -> Vec<Period> {
        let windows: &[(u16, u16)] = match span {
            Span::Time => return vec![*period],
            Span::HalfDays => &[MORNING, AFTERNOON],
            Span::Days => &[(0, DAY_MIN)],
        };
        period
            .local_dates(self.zone)
            .into_iter()
            .flat_map(|day| {
                windows
                    .iter()
                    .filter_map(move |(a, b)| window(day, *a, *b, self.zone))
            })
            .filter(|unit| unit.overlaps(period))
            .collect()
    }

    /// When one meets and when work ends in a booking of units: the first and the last open minute of
    /// its first and last unit. For hours the booking's own bounds.
    #[must_use]
    pub fn meet_and_end(&self, period: &Period, span: Span) -> (DateTime<Utc>, DateTime<Utc>) {
        let units = self.units(period, span);
        let meet = units
            .first()
            .and_then(|u| Some(self.open(u).first()?.from()));
        let end = units.last().and_then(|u| Some(self.open(u).last()?.to()));
        match span {
            Span::Time => (period.from(), period.to()),
            Span::HalfDays | Span::Days => {
                (meet.unwrap_or(period.from()), end.unwrap_or(period.to()))
            }
        }
    }

    fn on_grid(&self, wanted: &Period, span: Span) -> Result<(), Unavailable> {
        let minute = |at: DateTime<Utc>| {
            let wall = at.with_timezone(&self.zone).time();
            let whole = wall.second() == 0 && wall.nanosecond() == 0;
            whole.then(|| wall.hour() * 60 + wall.minute())
        };
        let (begin, end) = (minute(wanted.from()), minute(wanted.to()));
        let (lawful, edge) = match span {
            Span::Time => {
                let on = |m: Option<u32>| m.is_some_and(|m| m.is_multiple_of(GRID_MIN));
                (on(begin) && on(end), "the half hour")
            }
            Span::HalfDays => {
                let starts = [Some(360), Some(720)];
                let ends = [Some(720), Some(1080)];
                let lawful = starts.contains(&begin) && ends.contains(&end);
                (lawful, "06:00, 12:00 or 18:00")
            }
            Span::Days => {
                // Where midnight is skipped, a day begins with its first minute.
                let day = |at: DateTime<Utc>| {
                    let date = at.with_timezone(&self.zone).date_naive();
                    crate::period::midnight(date, self.zone) == at
                };
                (day(wanted.from()) && day(wanted.to()), "midnight")
            }
        };
        if lawful {
            Ok(())
        } else {
            Err(Unavailable::OffGrid(edge))
        }
    }
}

/// Periods in order, those that touch or overlap made one.
fn merge(mut periods: Vec<Period>) -> Vec<Period> {
    periods.sort();
    let mut merged: Vec<Period> = Vec::with_capacity(periods.len());
    for next in periods {
        match merged.last_mut() {
            Some(last) if next.from() <= last.to() => {
                if let Ok(both) = Period::new(last.from(), last.to().max(next.to())) {
                    *last = both;
                }
            }
            _ => merged.push(next),
        }
    }
    merged
}

/// What is left of periods in order without others.
fn subtract(from: Vec<Period>, others: &[Period]) -> Vec<Period> {
    let others = merge(others.to_vec());
    let mut left = Vec::new();
    for period in from {
        let mut begin = period.from();
        for other in others.iter().filter(|o| o.overlaps(&period)) {
            left.extend(Period::new(begin, other.from()).ok());
            begin = begin.max(other.to());
        }
        left.extend(Period::new(begin, period.to()).ok());
    }
    left
}

/// The next instant on the grid, or this one.
fn up_to_grid(at: DateTime<Utc>, zone: Tz) -> DateTime<Utc> {
    let wall = at.with_timezone(&zone).time();
    let into = TimeDelta::minutes(i64::from(wall.minute() % GRID_MIN))
        + TimeDelta::seconds(i64::from(wall.second()))
        + TimeDelta::nanoseconds(i64::from(wall.nanosecond()));
    if into.is_zero() {
        at
    } else {
        at + TimeDelta::minutes(i64::from(GRID_MIN)) - into
    }
}
