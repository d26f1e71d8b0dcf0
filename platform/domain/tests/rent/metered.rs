//! What counts: cases with names, to the millisecond where there is a bound.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    fieldwork::Activity::{self, Idle, Transit, Turn, Work},
    period::Period,
    rent::{Quantity, ServiceMode, Unit},
    settlement::{Basis, Claim, Mark, Measured, Metered, PauseCause, Record, Spell, metered},
};

use crate::{day, frozen, rule};

const MS: TimeDelta = TimeDelta::milliseconds(1);

fn at(text: &str) -> DateTime<Utc> {
    format!("2026-05-{text}+08:00").parse().unwrap()
}

fn span(from: &str, to: &str) -> Period {
    Period::new(at(from), at(to)).unwrap()
}

/// Booked and done from 08:00 to 12:00 on the first of May, without a device.
fn tapped() -> Record {
    Record {
        period: span("01T08:00:00", "01T12:00:00"),
        start: at("01T08:00:00"),
        end: at("01T12:00:00"),
        area_centi_mu: 5_000,
        service_mode: ServiceMode::Operated,
        started: Some(at("01T08:00:00")),
        finished: Some(at("01T12:00:00")),
        late: TimeDelta::zero(),
        pauses: vec![],
        needs_word: false,
        measured: None,
    }
}

fn spells(parts: &[(Activity, DateTime<Utc>, DateTime<Utc>)]) -> Measured {
    Measured {
        area_e4_m2: vec![(day(1), 300_000_000)],
        spells: parts
            .iter()
            .map(|(activity, from, to)| Spell {
                from: *from,
                to: *to,
                activity: *activity,
            })
            .collect(),
        arrived: None,
        good_bps: 10_000,
        missing_s: 0,
        missing_e4_m2: 0,
        estimate: false,
        track: (at("01T07:00:00"), at("01T13:00:00")),
    }
}

fn of(unit: Unit, record: &Record) -> Metered {
    metered(&frozen(rule(unit, 100)), record, None)
}

fn minutes(record: &Record) -> Quantity {
    of(Unit::Hour, record).usage.quantity
}

#[test]
fn hours_are_work_turns_and_short_stops_between_the_first_and_the_last_working_step() {
    let mut record = tapped();
    record.measured = Some(spells(&[
        (Transit, at("01T07:30:00"), at("01T07:50:00")),
        (Idle, at("01T07:50:00"), at("01T08:00:00")),
        (Work, at("01T08:00:00"), at("01T09:00:00")),
        (Turn, at("01T09:00:00"), at("01T09:05:00")),
        (Work, at("01T09:05:00"), at("01T10:00:00")),
        (Idle, at("01T10:00:00"), at("01T10:10:00")),
        (Work, at("01T10:10:00"), at("01T10:30:00")),
        (Transit, at("01T10:30:00"), at("01T10:40:00")),
        (Work, at("01T10:40:00"), at("01T11:00:00")),
        (Idle, at("01T11:00:00"), at("01T11:05:00")),
    ]));
    assert_eq!(
        minutes(&record),
        Quantity::Minutes(60 + 5 + 55 + 10 + 20 + 20)
    );
    assert_eq!(of(Unit::Hour, &record).basis, Basis::Measured);
}

#[test]
fn a_stop_of_ten_minutes_counts_and_a_millisecond_more_does_not() {
    let stop = at("01T09:00:00");
    for (length, counted) in [
        (TimeDelta::minutes(10) - MS, 69),
        (TimeDelta::minutes(10), 70),
        (TimeDelta::minutes(10) + MS, 60),
    ] {
        let mut record = tapped();
        // In two halves: what touches is one stop.
        let half = stop + TimeDelta::minutes(4);
        record.measured = Some(spells(&[
            (Work, at("01T08:30:00"), stop),
            (Idle, stop, half),
            (Idle, half, stop + length),
            (Work, stop + length, stop + length + TimeDelta::minutes(30)),
        ]));
        assert_eq!(minutes(&record), Quantity::Minutes(counted), "{length}");
    }
}

#[test]
fn overtime_begins_after_the_grace_and_is_whole_then() {
    let snapshot = |overrun| {
        let mut hours = rule(Unit::Hour, 100_000);
        hours.overtime = Some(furrow_domain::rent::Overtime {
            price_fen: furrow_domain::money::Fen(9_000),
            step: furrow_domain::rent::Step::HalfHour,
            cap_bps: furrow_domain::money::Bps(5_000),
        });
        let mut record = tapped();
        record.finished = Some(record.end + overrun);
        let found = metered(&frozen(hours.clone()), &record, None);
        let bill = furrow_domain::rent::price(&frozen(hours), &found.usage).unwrap();
        (bill.lines[0].quantity, bill.total_fen.0 - 400_000)
    };
    let grace = TimeDelta::minutes(15);
    assert_eq!(
        [
            grace - MS,
            grace,
            grace + MS,
            TimeDelta::minutes(30),
            TimeDelta::minutes(30) + MS
        ]
        .map(snapshot),
        [(240, 0), (240, 0), (240, 4_500), (240, 4_500), (240, 9_000)]
    );
}

#[test]
fn the_owners_late_arrival_rain_and_breakdown_cost_no_overtime() {
    let late = |record: &Record| {
        let found = of(Unit::Hour, record).usage;
        (found.quantity, found.overrun_min)
    };
    let mut record = tapped();
    record.finished = Some(at("01T13:00:00"));
    assert_eq!(late(&record), (Quantity::Minutes(240), 60));
    for cause in [PauseCause::Rain, PauseCause::Breakdown, PauseCause::Other] {
        let mut stood = record.clone();
        stood.pauses = vec![(span("01T09:00:00", "01T10:00:00"), cause)];
        assert_eq!(late(&stood), (Quantity::Minutes(240), 0));
    }
    let mut by_track = record.clone();
    let mut measured = spells(&[(Work, at("01T09:00:00"), at("01T13:00:00"))]);
    measured.arrived = Some(at("01T09:00:00"));
    by_track.measured = Some(measured);
    assert_eq!(late(&by_track), (Quantity::Minutes(240), 0));
    let mut by_taps = record.clone();
    by_taps.started = Some(at("01T09:00:00"));
    by_taps.late = TimeDelta::hours(1);
    assert_eq!(late(&by_taps), (Quantity::Minutes(240), 0));
    let mut own = by_taps;
    own.service_mode = ServiceMode::SelfDrive;
    assert_eq!(
        late(&own),
        (Quantity::Minutes(180), 60),
        "who fetches is not late for itself"
    );
}

#[test]
fn rain_within_the_hour_waives_the_minimum() {
    let waived = |worked: TimeDelta, cause, more: TimeDelta| {
        let mut record = tapped();
        let stops = record.start + worked;
        record.finished = Some(stops + TimeDelta::hours(1) + more);
        let pause = Period::new(stops, stops + TimeDelta::hours(1)).unwrap();
        record.pauses = vec![(pause, cause)];
        of(Unit::Hour, &record).usage.minimum_waived
    };
    let hour = TimeDelta::hours(1);
    let none = TimeDelta::zero();
    let found = [hour - MS, hour, hour + MS].map(|w| waived(w, PauseCause::Rain, none));
    assert_eq!(found, [true, false, false]);
    assert!(!waived(hour - MS, PauseCause::Breakdown, none));
    assert!(
        !waived(hour / 2, PauseCause::Rain, MS),
        "it went on after the rain"
    );
}

#[test]
fn days_are_the_local_dates_that_work_touched() {
    let mut record = tapped();
    record.period = span("01T00:00:00", "06T00:00:00");
    record.end = at("05T18:00:00");
    let mut days = |finished: DateTime<Utc>| {
        record.finished = Some(finished);
        of(Unit::Day, &record).usage.quantity
    };
    let midnight = at("04T00:00:00");
    assert_eq!(
        [midnight - MS, midnight, midnight + MS].map(&mut days),
        [Quantity::Units(3), Quantity::Units(3), Quantity::Units(4)]
    );
    assert_eq!(days(at("05T18:00:00")), Quantity::Units(5));
    // Beyond the booked end it is overtime, not a day.
    assert_eq!(days(at("06T10:00:00")), Quantity::Units(5));
    record.finished = Some(at("05T18:00:00"));
    record.pauses = vec![
        (span("02T00:00:00", "03T00:00:00"), PauseCause::Rain),
        (span("04T00:00:00", "04T23:59:00"), PauseCause::Rain),
    ];
    let found = of(Unit::Day, &record).usage;
    assert_eq!(found.quantity, Quantity::Units(4), "one day stood wholly");
    let dates: Vec<_> = found.by_date.iter().map(|(date, _)| *date).collect();
    assert_eq!(dates, [day(1), day(3), day(4), day(5)]);
}

#[test]
fn half_days_are_mornings_and_afternoons_and_a_season_is_one() {
    let mut record = tapped();
    record.period = span("01T06:00:00", "03T12:00:00");
    record.end = at("03T12:00:00");
    record.finished = Some(at("02T12:00:00"));
    assert_eq!(
        of(Unit::HalfDay, &record).usage.quantity,
        Quantity::Units(3)
    );
    record.finished = Some(at("02T12:00:00") + MS);
    assert_eq!(
        of(Unit::HalfDay, &record).usage.quantity,
        Quantity::Units(4)
    );
    assert_eq!(of(Unit::Season, &record).usage.quantity, Quantity::Units(1));
    // Nights are a part of what is let by days; hours would end later for them.
    record.finished = Some(at("03T13:00:00"));
    record.pauses = vec![(span("01T20:00:00", "02T06:00:00"), PauseCause::Night)];
    assert_eq!(of(Unit::HalfDay, &record).usage.overrun_min, 60);
}

#[test]
fn an_area_is_green_amber_or_red() {
    // 45 mu were measured.
    let area = |good_bps, missing_s, claim: Option<u64>| {
        let mut record = tapped();
        let mut measured = spells(&[(Work, at("01T08:00:00"), at("01T10:00:00"))]);
        (measured.good_bps, measured.missing_s) = (good_bps, missing_s);
        record.measured = Some(measured);
        let found = metered(
            &frozen(rule(Unit::Mu, 100)),
            &record,
            claim.map(Claim::CentiMu),
        );
        (
            found.mark,
            found.basis,
            found.needs_consent,
            found.usage.quantity,
        )
    };
    let measured = Quantity::AreaE4M2(300_000_000);
    let green = (Mark::Green, Basis::Measured, false, measured);
    for claim in [None, Some(4_635), Some(4_365)] {
        assert_eq!(area(8_000, 360, claim), green, "{claim:?}");
    }
    for claim in [4_636, 4_364] {
        let amber = (Mark::Amber, Basis::Claimed, true, Quantity::CentiMu(claim));
        assert_eq!(area(10_000, 0, Some(claim)), amber);
    }
    for (good_bps, missing_s) in [(7_999, 0), (10_000, 361)] {
        let red = (Mark::Red, Basis::Booked, true, Quantity::CentiMu(5_000));
        assert_eq!(area(good_bps, missing_s, None), red);
        let claimed = (Mark::Red, Basis::Claimed, true, Quantity::CentiMu(4_500));
        assert_eq!(area(good_bps, missing_s, Some(4_500)), claimed);
    }
}

#[test]
fn silence_agrees_to_the_lesser_of_claim_and_booking() {
    let agreed = |claim| {
        let found = metered(
            &frozen(rule(Unit::Mu, 100)),
            &tapped(),
            Some(Claim::CentiMu(claim)),
        );
        found.unanswered.quantity
    };
    let found = [4_999, 5_000, 5_001].map(agreed);
    assert_eq!(found, [4_999, 5_000, 5_000].map(Quantity::CentiMu));
}

#[test]
fn a_photo_makes_a_measured_area_a_question_and_hours_none() {
    let mut record = tapped();
    record.needs_word = true;
    record.measured = Some(spells(&[(Work, at("01T08:00:00"), at("01T10:00:00"))]));
    let found = of(Unit::Mu, &record);
    assert!(found.needs_consent);
    assert_eq!(found.unanswered.quantity, Quantity::AreaE4M2(300_000_000));
    assert!(!of(Unit::Hour, &record).needs_consent);
}

#[test]
fn booked_hours_are_billed_as_booked_by_rule() {
    let mut record = tapped();
    record.finished = Some(at("01T09:00:00"));
    let mut booked = rule(Unit::Hour, 100);
    booked.booked_hours = true;
    let found = metered(&frozen(booked), &record, Some(Claim::Minutes(600)));
    assert_eq!(
        (found.usage.quantity, found.basis),
        (Quantity::Minutes(240), Basis::Booked)
    );
}
