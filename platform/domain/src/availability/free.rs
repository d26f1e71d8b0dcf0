//! The next times that can be booked. Never offers one that the predicate refuses.

use chrono::{DateTime, Days, TimeDelta, Utc};

use super::{AFTERNOON, Calendar, MORNING, Span, up_to_grid, window};
use crate::period::{Period, midnight};

/// How much is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Minutes in a row.
    Minutes(u32),
    /// Half-days in a row.
    HalfDays(u32),
    /// Local dates in a row.
    Days(u32),
}

impl Wanted {
    /// What a booking of it spans.
    #[must_use]
    pub const fn span(self) -> Span {
        match self {
            Self::Minutes(_) => Span::Time,
            Self::HalfDays(_) => Span::HalfDays,
            Self::Days(_) => Span::Days,
        }
    }
}

impl Calendar {
    /// The first times of so much that can be booked inside a window, at most `most`, in order; they may
    /// overlap each other.
    #[must_use]
    pub fn next_free(&self, wanted: Wanted, within: &Period, most: usize) -> Vec<Period> {
        self.candidates(wanted, within)
            .into_iter()
            .filter(|p| within.covers(p) && self.may_book(p, wanted.span()).is_ok())
            .take(most)
            .collect()
    }

    /// Where a booking could begin: with each free time for hours, with each unit otherwise.
    fn candidates(&self, wanted: Wanted, within: &Period) -> Vec<Period> {
        match wanted {
            Wanted::Minutes(minutes) => {
                let length = TimeDelta::minutes(i64::from(minutes));
                self.free(within)
                    .iter()
                    .filter_map(|free| {
                        let begin = up_to_grid(free.from(), self.zone);
                        Period::new(begin, begin + length).ok()
                    })
                    .collect()
            }
            Wanted::Days(count) => {
                let Some(after) = count.checked_sub(1) else {
                    return vec![];
                };
                let days = within.local_dates(self.zone).into_iter();
                days.filter_map(|day| {
                    let last = day.checked_add_days(Days::new(u64::from(after)))?;
                    let to = midnight(last.succ_opt()?, self.zone);
                    Period::new(midnight(day, self.zone), to).ok()
                })
                .collect()
            }
            Wanted::HalfDays(count) => self.half_days(count, within),
        }
    }

    fn half_days(&self, count: u32, within: &Period) -> Vec<Period> {
        let Some(after) = count.checked_sub(1) else {
            return vec![];
        };
        let mut found = Vec::new();
        for day in within.local_dates(self.zone) {
            for (index, first) in [(0, MORNING), (1, AFTERNOON)] {
                let last = index + after;
                let end = if last.is_multiple_of(2) {
                    MORNING
                } else {
                    AFTERNOON
                };
                let to = |days: u32| -> Option<DateTime<Utc>> {
                    let day = day.checked_add_days(Days::new(u64::from(days)))?;
                    Some(window(day, end.0, end.1, self.zone)?.to())
                };
                let from = window(day, first.0, first.1, self.zone).map(|w| w.from());
                if let (Some(from), Some(to)) = (from, to(last / 2)) {
                    found.extend(Period::new(from, to).ok());
                }
            }
        }
        found
    }
}
