//! The ten worked examples of bills, under their numbers: from usage to who gets what.

use chrono::NaiveDate;
use chrono_tz::Asia::Shanghai;
use furrow_domain::{
    id::RuleId,
    money::{Bps, Fen},
    order::{
        actor::Role,
        command::{BillSum, Command},
        status::Status,
    },
    rent::{
        Bill, ENGINE_VERSION, Overtime, Quantity, Rule, Season, ServiceMode, Snapshot, Step, Unit,
        Usage, price,
    },
};
use uuid::Uuid;

use crate::stage::{Stage, at, cancel};

fn day(d: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 5, d).unwrap()
}

fn snapshot(unit: Unit, price_fen: i64, season: Option<(u32, u32)>) -> Snapshot {
    let seasons = season.map(|(from, factor)| Season {
        from: day(from),
        to: day(31),
        factor_bps: Bps(factor),
        priority: 1,
    });
    Snapshot {
        engine: ENGINE_VERSION,
        rule_id: RuleId(Uuid::nil()),
        rule_version: 1,
        commission_bps: Bps(800),
        zone: Shanghai,
        max_factor_bps: Bps(100_000),
        travel_km: 0,
        rule: Rule {
            unit,
            unit_price_fen: Fen(price_fen),
            minimum: None,
            prepay_bps: Bps::WHOLE,
            deposit_fen: Fen::ZERO,
            service_mode: ServiceMode::Operated,
            grace_min: 15,
            overtime: Some(Overtime {
                price_fen: Fen(9_000),
                step: Step::HalfHour,
                cap_bps: Bps(5_000),
            }),
            booked_hours: false,
            seasons: seasons.into_iter().collect(),
            travel_fen_per_km: Fen::ZERO,
            discounts: vec![],
        },
    }
}

fn priced(snapshot: &Snapshot, quantity: Quantity, by_date: &[(u32, u64)], overrun: u32) -> Bill {
    let usage = Usage {
        quantity,
        by_date: by_date.iter().map(|(d, w)| (day(*d), *w)).collect(),
        overrun_min: overrun,
        minimum_waived: false,
        extras: vec![],
    };
    price(snapshot, &usage).unwrap()
}

fn amounts(bill: &Bill) -> Vec<i64> {
    bill.lines.iter().map(|l| l.amount_fen.0).collect()
}

/// 123.456 mu in 1/10,000 m².
const AREA: Quantity = Quantity::AreaE4M2(823_040_000);

#[test]
fn example_1_an_area_at_a_price() {
    let bill = priced(&snapshot(Unit::Mu, 6_500, None), AREA, &[(1, 1)], 0);
    assert_eq!(
        (bill.lines[0].quantity, amounts(&bill)),
        (12_346, vec![802_490])
    );
}

#[test]
fn example_2_the_same_over_two_dates_with_a_factor_on_the_second() {
    let snapshot = snapshot(Unit::Mu, 6_500, Some((2, 13_000)));
    let bill = priced(&snapshot, AREA, &[(1, 60_127), (2, 63_329)], 0);
    let quantities: Vec<u64> = bill.lines.iter().map(|l| l.quantity).collect();
    assert_eq!(quantities, [6_013, 6_333]);
    assert_eq!(amounts(&bill), [390_845, 535_139]);
}

#[test]
fn example_3_five_days_the_last_two_in_season() {
    let snapshot = snapshot(Unit::Day, 180_000, Some((4, 12_500)));
    let days: Vec<_> = (1..=5).map(|d| (d, 1)).collect();
    let bill = priced(&snapshot, Quantity::Units(5), &days, 0);
    assert_eq!(amounts(&bill), [540_000, 450_000]);
}

#[test]
fn example_4_hours_go_up_to_the_half_hour() {
    let snapshot = snapshot(Unit::Hour, 12_000, None);
    let bill = priced(&snapshot, Quantity::Minutes(225), &[(1, 1)], 0);
    assert_eq!(
        (bill.lines[0].quantity, amounts(&bill)),
        (240, vec![48_000])
    );
}

#[test]
fn example_5_one_rounding_a_line() {
    let snapshot = snapshot(Unit::Hour, 12_345, Some((1, 13_333)));
    let bill = priced(&snapshot, Quantity::Minutes(240), &[(1, 1)], 0);
    assert_eq!(amounts(&bill), [65_838]);
}

#[test]
fn example_6_an_hour_and_five_minutes_beyond_the_end() {
    let snapshot = snapshot(Unit::Hour, 12_000, None);
    let bill = priced(&snapshot, Quantity::Minutes(240), &[(1, 1)], 65);
    let overtime = &bill.lines[1];
    assert_eq!((overtime.quantity, overtime.amount_fen), (90, Fen(13_500)));
}

#[test]
fn example_7_our_share_by_subtraction() {
    let bill = priced(&snapshot(Unit::Mu, 6_500, None), AREA, &[(1, 1)], 0);
    assert_eq!(
        (bill.commission_fen, bill.owner_fen()),
        (Fen(64_199), Fen(738_291))
    );
}

fn billed(total: i64, damage: i64) -> Stage {
    let bill = BillSum {
        total_fen: Fen(total),
        commission_fen: Bps(700).of_rounded_down(Fen(total)).unwrap(),
        damage_fen: Fen(damage),
        needs_consent: false,
        silent: None,
    };
    Stage::new()
        .finished()
        .by(Role::Owner, &Command::ProposeBill { bill })
}

fn shared(stage: &Stage) -> (i64, i64, i64) {
    let funds = stage.order.funds;
    (funds.commission.0, funds.owner_pending.0, funds.refunds.0)
}

#[test]
fn example_8_a_bill_below_the_prepaid_rent_with_damage() {
    let done = billed(432_100, 30_000).by(Role::Renter, &Command::ConfirmBill { version: 1 });
    assert_eq!(shared(&done), (30_247, 431_853, 137_900));
    assert_eq!(30_247 + 431_853 + 137_900, 600_000);
}

#[test]
fn example_9_an_unpaid_balance_comes_out_of_the_deposit() {
    let mut owes = billed(540_000, 0).by(Role::Renter, &Command::ConfirmBill { version: 1 });
    assert_eq!(owes.order.balance_fen, Fen(40_000));
    while owes.order.status != Status::Completed {
        assert!(owes.tick());
    }
    assert_eq!(shared(&owes), (37_800, 502_200, 60_000));
}

#[test]
fn example_10_a_cancellation_at_ten_percent() {
    let done = Stage::new()
        .accepted()
        .at(at("04T08:00:01"))
        .by(Role::Renter, &cancel(50_000));
    assert_eq!(shared(&done), (3_500, 46_500, 550_000));
}
