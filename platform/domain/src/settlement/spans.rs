//! Spans of time put together and taken apart. Never knows what was done in them.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use chrono_tz::Tz;

use crate::period::{Period, local_day};

/// What of spans does not lie in others.
pub(super) fn less(spans: &[Period], holes: &[Period]) -> Vec<Period> {
    let mut left = spans.to_vec();
    for hole in holes {
        left = left
            .iter()
            .flat_map(|span| {
                let before = Period::new(span.from(), span.to().min(hole.from()));
                let after = Period::new(span.from().max(hole.to()), span.to());
                [before.ok(), after.ok()]
            })
            .flatten()
            .collect();
    }
    left
}

/// What of spans lies before an instant.
pub(super) fn until(spans: &[Period], end: DateTime<Utc>) -> Vec<Period> {
    spans
        .iter()
        .filter_map(|span| Period::new(span.from(), span.to().min(end)).ok())
        .collect()
}

/// How long spans are together. They do not overlap.
pub(super) fn length(spans: &[Period]) -> TimeDelta {
    spans.iter().map(Period::length).sum()
}

/// Milliseconds of spans on each local date that they touch.
pub(super) fn by_date(spans: &[Period], zone: Tz) -> Vec<(NaiveDate, u64)> {
    let on = |span: &Period, day: NaiveDate| {
        let part = local_day(day, zone)?.intersection(span)?;
        u64::try_from(part.length().num_milliseconds()).ok()
    };
    spans
        .iter()
        .flat_map(|span| {
            span.local_dates(zone)
                .into_iter()
                .map(move |day| (span, day))
        })
        .filter_map(|(span, day)| Some((day, on(span, day)?)))
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn span(from: i64, to: i64) -> Period {
        let at = |minute| DateTime::from_timestamp(minute * 60, 0).unwrap();
        Period::new(at(from), at(to)).unwrap()
    }

    #[test]
    fn a_hole_splits_cuts_or_takes_a_span() {
        let whole = [span(0, 60)];
        assert_eq!(less(&whole, &[span(10, 20)]), [span(0, 10), span(20, 60)]);
        assert_eq!(less(&whole, &[span(50, 90)]), [span(0, 50)]);
        assert_eq!(less(&whole, &[span(60, 90)]), whole);
        assert_eq!(less(&whole, &[span(0, 60)]), []);
        assert_eq!(until(&whole, span(0, 15).to()), [span(0, 15)]);
        assert_eq!(length(&[span(0, 5), span(9, 10)]), TimeDelta::minutes(6));
    }
}
