//! Random rules, and random usages priced by engine and oracle alike.

use furrow_domain::{
    money::{Bps, Fen},
    rent::{Discount, Minimum, Overtime, Quantity, Rule, Snapshot, Step, Unit, Usage, price},
};
use proptest::prelude::*;

use crate::{day, frozen, oracle::oracle, rule, season, used};

pub fn rules() -> impl Strategy<Value = Rule> {
    let unit = prop::sample::select(vec![
        Unit::Mu,
        Unit::Hour,
        Unit::Day,
        Unit::HalfDay,
        Unit::Season,
    ]);
    let minimum = prop::option::of(prop_oneof![
        (1..1_000_000_i64).prop_map(|f| Minimum::AmountFen(Fen(f))),
        (1..10_000_u32).prop_map(Minimum::Quantity),
    ]);
    let overtime =
        (0..50_000_i64, any::<bool>(), 0..=20_000_u32).prop_map(|(price, half, cap)| Overtime {
            price_fen: Fen(price),
            step: if half { Step::HalfDay } else { Step::HalfHour },
            cap_bps: Bps(cap),
        });
    let seasons =
        prop::collection::vec((1..28_u32, 1..10_u32, 1..40_000_u32), 0..4).prop_map(|all| {
            (1..)
                .zip(all)
                .map(|(priority, (from, length, factor))| {
                    season(from, (from + length).min(31), factor, priority)
                })
                .collect::<Vec<_>>()
        });
    let discounts = prop::collection::btree_map(0..20_000_u32, 0..=10_000_u32, 0..3);
    let parts = (unit, 1..1_000_000_i64, minimum, prop::option::of(overtime));
    (parts, seasons, discounts, 0..1_000_i64).prop_map(|(parts, seasons, discounts, per_km)| {
        let (unit, unit_price, minimum, overtime) = parts;
        let discount = |(from_quantity, bps)| Discount {
            from_quantity,
            bps: Bps(bps),
        };
        Rule {
            minimum,
            overtime,
            seasons,
            travel_fen_per_km: Fen(per_km),
            discounts: discounts.into_iter().map(discount).collect(),
            ..rule(unit, unit_price)
        }
    })
}

fn priced() -> impl Strategy<Value = (Snapshot, Usage)> {
    let dates = prop::collection::btree_map(1..30_u32, 0..5_000_u64, 1..6);
    let numbers = (0..=2_000_u32, 5_000..30_000_u32, 0..200_u32, 0..2_000_u32);
    let raw = 0..5_000_000_000_u64;
    (rules(), numbers, dates, raw, any::<(bool, bool)>()).prop_map(
        |(rule, (commission, most, km, overrun_min), dates, raw, (declared, minimum_waived))| {
            let quantity = match rule.unit {
                Unit::Mu if declared => Quantity::CentiMu(raw / 100_000),
                Unit::Mu => Quantity::AreaE4M2(raw),
                Unit::Hour => Quantity::Minutes(raw / 1_000_000),
                Unit::Day | Unit::HalfDay | Unit::Season => Quantity::Units(raw / 50_000_000),
            };
            let mut by_date: Vec<_> = dates.into_iter().map(|(d, w)| (day(d), w)).collect();
            by_date[0].1 += 1;
            let snapshot = Snapshot {
                commission_bps: Bps(commission),
                max_factor_bps: Bps(most),
                travel_km: km,
                ..frozen(rule)
            };
            let usage = Usage {
                overrun_min,
                minimum_waived,
                ..used(quantity, &by_date)
            };
            (snapshot, usage)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn the_engine_agrees_with_exact_fractions((snapshot, usage) in priced()) {
        let bill = price(&snapshot, &usage).unwrap();
        let (total, commission) = oracle(&snapshot, &usage);
        prop_assert_eq!(i128::from(bill.total_fen.0), total);
        prop_assert_eq!(i128::from(bill.commission_fen.0), commission);
        prop_assert_eq!(bill.total_fen, Fen::sum(bill.lines.iter().map(|l| l.amount_fen)).unwrap());
        prop_assert!(bill.commission_fen <= bill.total_fen && bill.total_fen >= Fen::ZERO);
    }
}
