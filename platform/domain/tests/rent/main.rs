//! The pricing engine and the bills it makes: worked examples, oracles that share no code with it, and what must hold for every price.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bills;
mod metered;
mod oracle;
mod random;

use std::{fs, path::Path};

use chrono::NaiveDate;
use chrono_tz::Asia::Shanghai;
use furrow_domain::{
    id::RuleId,
    money::{Bps, Fen},
    period::Period,
    rent::{
        Bill, Discount, ENGINE_VERSION, Extra, LineKind, Minimum, Overtime, Quantity, Rule, Season,
        ServiceMode, Snapshot, Step, Unit, Usage, differences, needed_minutes, price,
    },
};
use uuid::Uuid;

fn day(d: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 5, d).unwrap()
}

fn rule(unit: Unit, price: i64) -> Rule {
    Rule {
        unit,
        unit_price_fen: Fen(price),
        minimum: None,
        prepay_bps: Bps::WHOLE,
        deposit_fen: Fen::ZERO,
        service_mode: ServiceMode::Operated,
        grace_min: 15,
        overtime: None,
        booked_hours: false,
        seasons: vec![],
        travel_fen_per_km: Fen::ZERO,
        discounts: vec![],
    }
}

fn season(from: u32, to: u32, factor: u32, priority: u8) -> Season {
    Season {
        from: day(from),
        to: day(to),
        factor_bps: Bps(factor),
        priority,
    }
}

fn frozen(rule: Rule) -> Snapshot {
    rule.check().unwrap();
    Snapshot {
        engine: ENGINE_VERSION,
        rule_id: RuleId(Uuid::nil()),
        rule_version: 1,
        rule,
        commission_bps: Bps(800),
        zone: Shanghai,
        max_factor_bps: Bps(100_000),
        travel_km: 0,
    }
}

fn used(quantity: Quantity, by_date: &[(NaiveDate, u64)]) -> Usage {
    Usage {
        quantity,
        by_date: by_date.to_vec(),
        overrun_min: 0,
        minimum_waived: false,
        extras: vec![],
    }
}

fn amounts(bill: &Bill) -> Vec<i64> {
    bill.lines.iter().map(|l| l.amount_fen.0).collect()
}

#[test]
fn area_is_rounded_once_and_then_split_over_the_dates() {
    // 123.456 mu are 82,304 m².
    let area = Quantity::AreaE4M2(823_040_000);
    let mut rule = rule(Unit::Mu, 6500);
    let one = price(&frozen(rule.clone()), &used(area, &[(day(1), 1)])).unwrap();
    assert_eq!(one.lines[0].quantity, 12_346);
    assert_eq!(amounts(&one), [802_490]);
    assert_eq!(
        (one.commission_fen, one.owner_fen()),
        (Fen(64_199), Fen(738_291))
    );
    rule.seasons = vec![season(2, 3, 13_000, 1)];
    let two = used(area, &[(day(1), 60_127), (day(2), 63_329)]);
    let two = price(&frozen(rule), &two).unwrap();
    let quantities: Vec<u64> = two.lines.iter().map(|l| l.quantity).collect();
    assert_eq!(quantities, [6_013, 6_333]);
    assert_eq!(amounts(&two), [390_845, 535_139]);
    assert_eq!(
        two.lines[1].text_zh,
        "63.33 亩 × 65.00 元 × 1.3 = 5351.39 元"
    );
    assert_eq!(two.lines[1].text_en, "63.33 mu × ¥65.00 × 1.3 = ¥5351.39");
}

#[test]
fn days_of_one_factor_are_one_line() {
    let mut rule = rule(Unit::Day, 180_000);
    rule.seasons = vec![season(4, 6, 12_500, 1)];
    let days: Vec<_> = (1..=5).map(|d| (day(d), 1)).collect();
    let bill = price(&frozen(rule), &used(Quantity::Units(5), &days)).unwrap();
    assert_eq!(amounts(&bill), [540_000, 450_000]);
}

#[test]
fn hours_go_up_to_the_half_hour_and_one_rounding_is_made() {
    let worked = |price_fen, minutes, factor| {
        let mut rule = rule(Unit::Hour, price_fen);
        rule.seasons = vec![season(1, 2, factor, 1)];
        let usage = used(Quantity::Minutes(minutes), &[(day(1), 1)]);
        price(&frozen(rule), &usage).unwrap().total_fen
    };
    assert_eq!(worked(12_000, 225, 10_000), Fen(48_000));
    assert_eq!(worked(12_345, 240, 13_333), Fen(65_838));
}

#[test]
fn overtime_counts_whole_once_it_is_beyond_the_grace_and_is_capped() {
    let mut rule = rule(Unit::Hour, 100_000);
    rule.overtime = Some(Overtime {
        price_fen: Fen(9_000),
        step: Step::HalfHour,
        cap_bps: Bps(5_000),
    });
    let snapshot = frozen(rule);
    let overtime = |overrun_min| {
        let mut usage = used(Quantity::Minutes(60), &[(day(1), 1)]);
        usage.overrun_min = overrun_min;
        let bill = price(&snapshot, &usage).unwrap();
        let line = bill.lines.iter().find(|l| l.kind == LineKind::Overtime);
        line.map(|l| l.amount_fen.0)
    };
    assert_eq!(overtime(15), None);
    assert_eq!(overtime(16), Some(4_500));
    assert_eq!(overtime(65), Some(13_500));
    assert_eq!(overtime(100_000), Some(50_000));
}

#[test]
fn minimum_travel_extras_and_discounts_have_lines_of_their_own() {
    let mut rule = rule(Unit::Mu, 6500);
    rule.minimum = Some(Minimum::Quantity(1000));
    rule.travel_fen_per_km = Fen(300);
    rule.discounts = vec![
        Discount {
            from_quantity: 5_000,
            bps: Bps(500),
        },
        Discount {
            from_quantity: 10_000,
            bps: Bps(1_000),
        },
    ];
    let mut snapshot = frozen(rule);
    snapshot.travel_km = 12;
    let small = price(&snapshot, &used(Quantity::CentiMu(400), &[(day(1), 1)])).unwrap();
    assert_eq!(amounts(&small), [26_000, 39_000, 3_600]);
    assert_eq!(small.commission_base_fen, Fen(65_000), "not of the way");
    let mut waived = used(Quantity::CentiMu(400), &[(day(1), 1)]);
    waived.minimum_waived = true;
    assert_eq!(price(&snapshot, &waived).unwrap().total_fen, Fen(29_600));
    let large = price(&snapshot, &used(Quantity::CentiMu(10_000), &[(day(1), 1)])).unwrap();
    assert_eq!(amounts(&large), [650_000, 3_600, -65_000]);
    assert_eq!(large.commission_base_fen, Fen(585_000));
    let found = differences(&small, &large, false).unwrap();
    let kinds: Vec<_> = found.iter().map(|d| d.kind).collect();
    assert_eq!(
        kinds,
        [LineKind::Rent, LineKind::MinChargeTopup, LineKind::Discount]
    );
}

#[test]
fn credits_never_make_a_bill_negative() {
    let mut usage = used(Quantity::CentiMu(100), &[(day(1), 1)]);
    for amount in [-4_000, -9_000] {
        usage.extras.push(Extra {
            label: "credit".into(),
            amount_fen: Fen(amount),
            commissionable: false,
        });
    }
    let bill = price(&frozen(rule(Unit::Mu, 6500)), &usage).unwrap();
    assert_eq!(amounts(&bill), [6_500, -4_000, -2_500]);
    assert_eq!(
        (bill.total_fen, bill.commission_fen),
        (Fen::ZERO, Fen::ZERO)
    );
}

#[test]
fn the_highest_priority_counts_and_never_more_than_was_quoted() {
    let mut rule = rule(Unit::Day, 100);
    rule.seasons = vec![season(1, 20, 20_000, 1), season(5, 6, 5_000, 9)];
    assert_eq!(
        (rule.factor(day(4)), rule.factor(day(5))),
        (Bps(20_000), Bps(5_000))
    );
    let mut snapshot = frozen(rule.clone());
    snapshot.max_factor_bps = Bps(12_000);
    assert_eq!(snapshot.factor(day(4)), Bps(12_000));
    rule.seasons.push(season(19, 21, 9_000, 1));
    let fault = rule.check().unwrap_err();
    assert_eq!(fault.field, "seasons[2].priority");
}

#[test]
fn a_booking_is_its_minutes_days_or_half_days_by_local_date() {
    let span = |from: &str, to: &str| {
        let at = |t: &str| format!("2026-05-{t}+08:00").parse().unwrap();
        Period::new(at(from), at(to)).unwrap()
    };
    let of = |unit, period: &Period| {
        let usage = Usage::booked(&frozen(rule(unit, 100)), period, 5_000);
        (usage.quantity, usage.by_date)
    };
    let night = span("01T22:00:00", "02T01:00:00");
    assert_eq!(
        of(Unit::Hour, &night),
        (Quantity::Minutes(180), vec![(day(1), 120), (day(2), 60)])
    );
    assert_eq!(of(Unit::Mu, &night).0, Quantity::CentiMu(5_000));
    let s09 = span("15T00:00:00", "16T00:00:00");
    assert_eq!(
        of(Unit::Day, &s09),
        (Quantity::Units(1), vec![(day(15), 1)])
    );
    let s11 = span("01T12:00:00", "03T12:00:00");
    assert_eq!(
        of(Unit::HalfDay, &s11),
        (
            Quantity::Units(4),
            vec![(day(1), 1), (day(2), 2), (day(3), 1)]
        )
    );
    assert_eq!(
        of(Unit::Season, &s11),
        (Quantity::Units(1), vec![(day(1), 1)])
    );
}

#[test]
fn an_area_takes_its_time_at_a_capacity() {
    assert_eq!(needed_minutes(5_000, 1_000), Some(300));
    assert_eq!(needed_minutes(5_001, 1_000), Some(330));
    assert_eq!(needed_minutes(1, 1_000_000), Some(30));
    assert_eq!(needed_minutes(1, 0), None);
    assert_eq!(needed_minutes(u64::MAX, 1), None);
}

#[test]
fn s27_absurd_quantities_overflow_and_never_wrap() {
    let snapshot = frozen(rule(Unit::Mu, 100_000_000));
    for quantity in [u64::MAX, u64::MAX / 2, 1 << 63] {
        let usage = used(Quantity::CentiMu(quantity), &[(day(1), 1)]);
        assert!(price(&snapshot, &usage).is_err());
    }
    let hours = frozen(rule(Unit::Hour, 1));
    assert!(price(&hours, &used(Quantity::Minutes(u64::MAX), &[(day(1), 1)])).is_err());
    assert!(price(&hours, &used(Quantity::CentiMu(1), &[(day(1), 1)])).is_err());
}

#[test]
fn no_fraction_comes_near_money() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut open = vec![
        root.join("money.rs"),
        root.join("rent"),
        root.join("settlement"),
        root.join("order"),
        root.join("cancellation.rs"),
    ];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
        } else if path.exists() {
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                !text.contains("f64") && !text.contains("f32"),
                "{}",
                path.display()
            );
        }
    }
}
