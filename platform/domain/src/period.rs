//! Half-open spans of time, and the local days they touch: the only place that knows zones. Never reads a clock.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A span of time `[from, to)`, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Period {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

/// What cannot be a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PeriodError {
    /// Begin and end are the same.
    #[error("the range is empty")]
    Empty,
    /// The end lies before the begin.
    #[error("the range ends before it begins")]
    Reversed,
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Bounds {
            from: DateTime<Utc>,
            to: DateTime<Utc>,
        }
        let bounds = Bounds::deserialize(deserializer)?;
        Self::new(bounds.from, bounds.to).map_err(serde::de::Error::custom)
    }
}

impl Period {
    /// `[from, to)`.
    ///
    /// # Errors
    ///
    /// [`PeriodError`].
    pub fn new(from: DateTime<Utc>, to: DateTime<Utc>) -> Result<Self, PeriodError> {
        match from.cmp(&to) {
            std::cmp::Ordering::Less => Ok(Self { from, to }),
            std::cmp::Ordering::Equal => Err(PeriodError::Empty),
            std::cmp::Ordering::Greater => Err(PeriodError::Reversed),
        }
    }

    /// The first instant in it.
    #[must_use]
    pub const fn from(&self) -> DateTime<Utc> {
        self.from
    }

    /// The first instant after it.
    #[must_use]
    pub const fn to(&self) -> DateTime<Utc> {
        self.to
    }

    /// How long it is.
    #[must_use]
    pub fn length(&self) -> TimeDelta {
        self.to - self.from
    }

    /// Whether an instant lies in it.
    #[must_use]
    pub fn contains(&self, at: DateTime<Utc>) -> bool {
        self.from <= at && at < self.to
    }

    /// Whether all of another lies in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    /// Whether they have an instant in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }

    /// What both have in common.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        Self::new(self.from.max(other.from), self.to.min(other.to)).ok()
    }

    /// The local dates that it touches, in their order; an end at midnight does not touch that date.
    #[must_use]
    pub fn local_dates(&self, zone: Tz) -> Vec<NaiveDate> {
        let first = self.from.with_timezone(&zone).date_naive();
        let last = (self.to - TimeDelta::nanoseconds(1))
            .with_timezone(&zone)
            .date_naive();
        first.iter_days().take_while(|day| *day <= last).collect()
    }
}

/// The instant of a wall time. Where clocks go back the earlier one counts; a wall time that is
/// skipped is read by the offset before the skip, so that order among wall times is kept.
#[must_use]
pub fn instant(wall: NaiveDateTime, zone: Tz) -> DateTime<Utc> {
    if let Some(at) = zone.from_local_datetime(&wall).earliest() {
        return at.with_timezone(&Utc);
    }
    // Skipped: no zone has ever skipped more than a day.
    let before = (1..=96)
        .map(|quarters| wall - TimeDelta::minutes(15 * quarters))
        .find_map(|earlier| Some((earlier, zone.from_local_datetime(&earlier).latest()?)));
    match before {
        Some((earlier, at)) => (at + (wall - earlier)).with_timezone(&Utc),
        None => wall.and_utc(),
    }
}

/// The first instant of a local date.
#[must_use]
pub fn midnight(day: NaiveDate, zone: Tz) -> DateTime<Utc> {
    instant(day.and_time(NaiveTime::MIN), zone)
}

/// A whole local date.
#[must_use]
pub fn local_day(day: NaiveDate, zone: Tz) -> Option<Period> {
    Period::new(midnight(day, zone), midnight(day.succ_opt()?, zone)).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use chrono_tz::{America::New_York, Asia::Shanghai};

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_whole_local_day_is_one_date_wherever_the_server_stands() {
        let day = NaiveDate::from_ymd_opt(2026, 5, 15).unwrap();
        let period = local_day(day, Shanghai).unwrap();
        assert_eq!(period.from(), at("2026-05-14T16:00:00Z"));
        assert_eq!(period.to(), at("2026-05-15T16:00:00Z"));
        assert_eq!(period.local_dates(Shanghai), [day]);
    }

    #[test]
    fn neighbours_do_not_overlap_and_empty_or_reversed_is_none() {
        let (a, b, c) = (
            at("2026-05-01T08:00:00Z"),
            at("2026-05-01T12:00:00Z"),
            at("2026-05-01T14:00:00Z"),
        );
        let first = Period::new(a, b).unwrap();
        let second = Period::new(b, c).unwrap();
        assert!(!first.overlaps(&second) && !second.overlaps(&first));
        assert_eq!(first.intersection(&second), None);
        assert_eq!(Period::new(a, a), Err(PeriodError::Empty));
        assert_eq!(Period::new(b, a), Err(PeriodError::Reversed));
        let json = serde_json::json!({"from": a, "to": a});
        assert!(serde_json::from_value::<Period>(json).is_err());
    }

    #[test]
    fn a_skipped_wall_time_is_read_by_the_offset_before_and_a_double_one_is_its_first() {
        let wall = |text: &str| text.parse::<NaiveDateTime>().unwrap();
        assert_eq!(
            instant(wall("2026-03-08T02:30:00"), New_York),
            at("2026-03-08T07:30:00Z")
        );
        assert_eq!(
            instant(wall("2026-11-01T01:30:00"), New_York),
            at("2026-11-01T05:30:00Z")
        );
        let day = NaiveDate::from_ymd_opt(2026, 3, 8).unwrap();
        assert_eq!(
            local_day(day, New_York).unwrap().length(),
            TimeDelta::hours(23)
        );
    }
}
