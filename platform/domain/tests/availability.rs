//! The one predicate of availability: shapes, days, half-days, zones, and its agreement with the calendar and the next free times.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use chrono::{DateTime, NaiveDate, TimeDelta, Utc, Weekday};
use chrono_tz::{America::New_York, Asia::Shanghai, Tz};
use furrow_domain::{
    availability::{
        Busy, Calendar, CellState, Exception, Span, Taken, Unavailable, Wanted, Weekly,
    },
    period::{Period, local_day},
};
use proptest::prelude::*;

fn at(text: &str) -> DateTime<Utc> {
    format!("2026-05-{text}+08:00").parse().unwrap()
}

fn period(from: &str, to: &str) -> Period {
    Period::new(at(from), at(to)).unwrap()
}

fn booked(from: &str, to: &str) -> Busy {
    Busy {
        period: period(from, to),
        taken: Taken::Booking,
    }
}

const WEEK: [Weekday; 7] = [
    Weekday::Mon,
    Weekday::Tue,
    Weekday::Wed,
    Weekday::Thu,
    Weekday::Fri,
    Weekday::Sat,
    Weekday::Sun,
];

fn every_day(windows: &[(u16, u16)]) -> Vec<Weekly> {
    WEEK.iter()
        .flat_map(|weekday| {
            windows.iter().map(|(start_min, end_min)| Weekly {
                weekday: *weekday,
                start_min: *start_min,
                end_min: *end_min,
            })
        })
        .collect()
}

fn always(zone: Tz, busy: Vec<Busy>) -> Calendar {
    Calendar {
        zone,
        weekly: every_day(&[(0, 1440)]),
        exceptions: vec![],
        busy,
    }
}

#[test]
fn s04_of_the_thirteen_ways_to_lie_beside_a_booking_only_four_are_free() {
    let calendar = always(Shanghai, vec![booked("04T10:00:00", "04T12:00:00")]);
    for (from, to, free) in [
        ("04T08:00:00", "04T09:00:00", true),  // before
        ("04T09:00:00", "04T10:00:00", true),  // meets
        ("04T12:00:00", "04T13:00:00", true),  // met by
        ("04T13:00:00", "04T14:00:00", true),  // after
        ("04T09:00:00", "04T11:00:00", false), // overlaps
        ("04T11:00:00", "04T13:00:00", false), // overlapped by
        ("04T10:00:00", "04T11:00:00", false), // starts
        ("04T10:00:00", "04T13:00:00", false), // started by
        ("04T10:30:00", "04T11:30:00", false), // during
        ("04T09:00:00", "04T13:00:00", false), // contains
        ("04T11:00:00", "04T12:00:00", false), // finishes
        ("04T09:00:00", "04T12:00:00", false), // finished by
        ("04T10:00:00", "04T12:00:00", false), // equals
    ] {
        let found = calendar.may_book(&period(from, to), Span::Time);
        assert_eq!(found.is_ok(), free, "{from} {to}");
    }
}

#[test]
fn monday_midnight_and_tuesday_midnight_are_one_opening() {
    let mut calendar = always(Shanghai, vec![]);
    let night = period("04T22:00:00", "05T03:00:00");
    assert_eq!(calendar.may_book(&night, Span::Time), Ok(()));
    calendar.weekly = every_day(&[(480, 660), (840, 1080)]);
    assert_eq!(
        calendar.may_book(&period("04T08:00:00", "04T11:00:00"), Span::Time),
        Ok(())
    );
    let noon = period("04T10:00:00", "04T15:00:00");
    let closed = Unavailable::Closed(period("04T11:00:00", "04T14:00:00"));
    assert_eq!(calendar.may_book(&noon, Span::Time), Err(closed));
    // Days need an opening each, and no open night.
    let days = period("04T00:00:00", "06T00:00:00");
    assert_eq!(calendar.may_book(&days, Span::Days), Ok(()));
    assert_eq!(
        calendar.meet_and_end(&days, Span::Days),
        (at("04T08:00:00"), at("05T18:00:00"))
    );
}

#[test]
fn closed_outranks_open_and_an_exception_opens_what_the_week_does_not() {
    let day = NaiveDate::from_ymd_opt(2026, 5, 4).unwrap();
    let exception = |start_min, end_min, open| Exception {
        day,
        start_min,
        end_min,
        open,
    };
    let calendar = Calendar {
        weekly: vec![],
        exceptions: vec![exception(480, 1080, true), exception(600, 660, false)],
        ..always(Shanghai, vec![])
    };
    let open = calendar.open(&period("03T00:00:00", "06T00:00:00"));
    assert_eq!(
        open,
        [
            period("04T08:00:00", "04T10:00:00"),
            period("04T11:00:00", "04T18:00:00")
        ]
    );
}

#[test]
fn s11_half_days_from_noon_to_noon_block_what_lies_between_and_nothing_else() {
    let calendar = always(Shanghai, vec![]);
    let stay = period("01T12:00:00", "03T12:00:00");
    assert_eq!(calendar.may_book(&stay, Span::HalfDays), Ok(()));
    assert_eq!(calendar.units(&stay, Span::HalfDays).len(), 4);
    let calendar = always(
        Shanghai,
        vec![Busy {
            period: stay,
            taken: Taken::Booking,
        }],
    );
    let half = |from, to| calendar.may_book(&period(from, to), Span::HalfDays).is_ok();
    assert!(!half("02T06:00:00", "02T12:00:00") && !half("02T12:00:00", "02T18:00:00"));
    assert!(half("01T06:00:00", "01T12:00:00") && half("03T12:00:00", "03T18:00:00"));
    assert!(matches!(
        calendar.may_book(&period("05T07:00:00", "05T12:00:00"), Span::HalfDays),
        Err(Unavailable::OffGrid(_))
    ));
}

#[test]
fn s03_at_the_granularity_of_days_neighbours_fit() {
    let calendar = always(Shanghai, vec![booked("03T00:00:00", "06T00:00:00")]);
    assert_eq!(
        calendar.may_book(&period("06T00:00:00", "08T00:00:00"), Span::Days),
        Ok(())
    );
    assert!(
        calendar
            .may_book(&period("05T00:00:00", "07T00:00:00"), Span::Days)
            .is_err()
    );
}

#[test]
fn a_day_is_the_machines_local_day_also_where_clocks_change() {
    for (zone, day, hours) in [
        (Shanghai, (2026, 5, 15), 24),
        (New_York, (2026, 3, 8), 23),
        (New_York, (2026, 11, 1), 25),
    ] {
        let day = NaiveDate::from_ymd_opt(day.0, day.1, day.2).unwrap();
        let calendar = always(zone, vec![]);
        let whole = local_day(day, zone).unwrap();
        assert_eq!(whole.length(), TimeDelta::hours(hours));
        assert_eq!(calendar.may_book(&whole, Span::Days), Ok(()));
        assert_eq!(calendar.may_book(&whole, Span::Time), Ok(()));
        assert_eq!(calendar.units(&whole, Span::Days), [whole]);
    }
}

#[test]
fn off_the_grid_is_refused() {
    let calendar = always(Shanghai, vec![]);
    for (from, to) in [
        ("04T08:01:00", "04T09:00:00"),
        ("04T08:00:00", "04T09:00:01"),
    ] {
        let found = calendar.may_book(&period(from, to), Span::Time);
        assert!(matches!(found, Err(Unavailable::OffGrid(_))));
    }
}

fn calendars() -> impl Strategy<Value = Calendar> {
    let weekly = (0..7_usize, 0..48_u16, 1..=24_u16).prop_map(|(day, start, length)| Weekly {
        weekday: WEEK[day],
        start_min: start * 30,
        end_min: ((start + length) * 30).min(1440),
    });
    let exception =
        (0..14_u32, 0..48_u16, 1..=48_u16, any::<bool>()).prop_map(|(day, start, length, open)| {
            Exception {
                day: NaiveDate::from_ymd_opt(2026, 5, 1 + day).unwrap(),
                start_min: start * 30,
                end_min: ((start + length) * 30).min(1440),
                open,
            }
        });
    let busy = (0..14 * 48_i64, 1..100_i64, 0..3_u8).prop_map(|(start, length, taken)| {
        let from = at("01T00:00:00") + TimeDelta::minutes(start * 30);
        Busy {
            period: Period::new(from, from + TimeDelta::minutes(length * 30)).unwrap(),
            taken: [Taken::Block, Taken::Hold, Taken::Booking][usize::from(taken)],
        }
    });
    (
        prop::collection::vec(weekly, 0..20),
        prop::collection::vec(exception, 0..6),
        prop::collection::vec(busy, 0..8),
    )
        .prop_map(|(weekly, exceptions, busy)| Calendar {
            zone: Shanghai,
            weekly,
            exceptions,
            busy,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn predicate_cells_and_next_free_times_agree(
        calendar in calendars(),
        start in 0..13 * 48_i64,
        length in 1..20_i64,
    ) {
        let from = at("01T00:00:00") + TimeDelta::minutes(start * 30);
        let wanted = Period::new(from, from + TimeDelta::minutes(length * 30)).unwrap();
        let free = calendar.may_book(&wanted, Span::Time).is_ok();
        let cells = calendar.cells(&wanted);
        prop_assert_eq!(free, cells.iter().all(|c| c.state == CellState::Free));
        prop_assert_eq!(free, calendar.free(&wanted) == vec![wanted]);
        let minutes = u32::try_from(length * 30).unwrap();
        let next = calendar.next_free(Wanted::Minutes(minutes), &wanted, 1);
        prop_assert_eq!(free, next == vec![wanted]);
        let month = Period::new(at("01T00:00:00"), at("20T00:00:00")).unwrap();
        for offered in calendar.next_free(Wanted::Minutes(minutes), &month, 3) {
            prop_assert!(calendar.may_book(&offered, Span::Time).is_ok());
        }
        for wanted in [Wanted::Days(1), Wanted::Days(3), Wanted::HalfDays(1), Wanted::HalfDays(4)] {
            for offered in calendar.next_free(wanted, &month, 3) {
                prop_assert!(calendar.may_book(&offered, wanted.span()).is_ok());
            }
        }
    }
}
