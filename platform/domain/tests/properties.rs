//! What holds for every track, also for tracks that no machine ever drove.
#![allow(clippy::unwrap_used, reason = "tests")]

mod sim;

use furrow_domain::{
    fieldwork::{Facts, Setup, facts, live::Live},
    geo::{Degrees, datum::Datum, plot::Plot, projection::Projection},
    track::Fix,
};
use proptest::prelude::*;
use sim::{Drive, Field, METRE_AND_A_HALF, RTK, Site};

/// Numbers that programs trip over.
fn odd() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(0.0),
        Just(-0.0),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX),
        Just(180.0),
        Just(-180.0),
        Just(90.0),
        Just(360.0),
        any::<f64>(),
    ]
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => 0_i64..600_000,
        1 => any::<i64>(),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(253_402_300_799_999)],
    ]
}

fn hostile_fix() -> impl Strategy<Value = Fix> {
    let degree = || prop_oneof![6 => -0.003..0.003_f64, 1 => odd(), 1 => -400.0..400.0_f64];
    (
        time(),
        (degree(), degree()),
        prop::option::of(prop_oneof![3 => 0.0..6.0_f64, 1 => odd()]),
        any::<u8>(),
        prop::option::of(odd()),
        prop::option::of(any::<bool>()),
        prop::option::of(prop_oneof![3 => 0.0..20.0_f64, 1 => odd()]),
        prop::option::of(any::<u32>()),
    )
        .prop_map(
            |(at_ms, (lon, lat), speed_mps, quality, accuracy_m, work_on, width_m, sections)| Fix {
                at_ms,
                place: Degrees {
                    lon: 20.0 + lon,
                    lat: 50.0 + lat,
                },
                speed_mps,
                quality: quality % 10,
                accuracy_m,
                work_on,
                width_m,
                sections,
            },
        )
}

fn hostile_plot() -> impl Strategy<Value = Option<Plot>> {
    let corner = (-0.003..0.003_f64, -0.003..0.003_f64);
    let ring = prop::collection::vec(corner.prop_map(|(x, y)| [20.0 + x, 50.0 + y]), 3..9);
    let datum = prop_oneof![Just(Datum::Wgs84), Just(Datum::Gcj02), Just(Datum::Bd09)];
    (prop::collection::vec(ring, 1..3), datum)
        .prop_map(|(rings, datum)| Plot::new("p".into(), &rings, datum).ok())
}

/// What no input may break.
fn sound(facts: &Facts, plots: &[Plot]) {
    let tolerance = 1e-3 + facts.gross.m2() * 1e-6;
    assert!(facts.union <= facts.gross);
    assert!(facts.covered.m2() <= facts.union.m2() + tolerance);
    assert!(facts.covered <= facts.closed);
    if let Some(plot) = plots.iter().find(|p| Some(&p.name) == facts.plot.as_ref()) {
        assert!(facts.closed.m2() <= plot.area().m2() * (1.0 + 1e-6) + 1e-2);
    }
    let parts = facts.covered.m2() + facts.headland.m2() + facts.outside.m2();
    assert!((parts - facts.union.m2()).abs() <= tolerance, "{facts:?}");
    for figure in [
        facts.work_s,
        facts.turn_s,
        facts.transit_s,
        facts.idle_s,
        facts.distance_m,
    ] {
        assert!(figure.is_finite() && figure >= 0.0);
    }
    for gap in &facts.gaps {
        assert!(gap.missing_s > 0.0 && gap.from_ms < gap.to_ms);
    }
    assert!(facts.start.reasons.len() <= 2 && !facts.start.reasons.is_empty());
}

/// A field with a way there, worked by the sensor or not.
fn day() -> impl Strategy<Value = (Field, Vec<Fix>)> {
    (0..3_u8, 0.0..1.5_f64, any::<u64>(), any::<bool>()).prop_map(|(shape, angle, seed, sensor)| {
        let width = 6.0;
        let mut field = match shape {
            0 => Field::rectangle(60.0, 120.0, width),
            1 => Field::ell(72.0, 140.0, width),
            _ => Field::with_pond(72.0, 120.0, width),
        };
        field.angle = angle;
        let drive = field.worked([-80.0, -20.0], 1000);
        let noise = if seed % 2 == 0 { RTK } else { METRE_AND_A_HALF };
        let fixes = drive.fixes(&Site::at(20.0, 50.0), noise, sensor, seed);
        (field, fixes)
    })
}

fn setup() -> Setup {
    Setup::new(6.0).unwrap()
}

fn plot_of(field: &Field, lon: f64) -> Plot {
    field.plot(&Site::at(lon, 50.0), "field")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_track_breaks_the_facts(
        mut fixes in prop::collection::vec(hostile_fix(), 0..120),
        plots in prop::collection::vec(hostile_plot(), 0..3),
        width in prop_oneof![0.1..100.0_f64, Just(0.1), Just(100.0)],
        sections in prop::option::of(any::<u32>()),
        offset in prop_oneof![-60.0..60.0_f64, odd()],
        use_sensor in any::<bool>(),
    ) {
        let plots: Vec<Plot> = plots.into_iter().flatten().collect();
        let Ok(nominal) = Setup::new(width) else { return Err(TestCaseError::fail("a width")) };
        let setup = Setup { sections, use_sensor, forward_m: offset, left_m: -offset, ..nominal };
        let first = facts(&fixes, &setup, &plots);
        sound(&first, &plots);
        fixes.reverse();
        // NaN is no number that equals itself: what is told of it is compared as text.
        let again = facts(&fixes, &setup, &plots);
        prop_assert_eq!(format!("{:?}", first), format!("{:?}", again));
        let mut live = Live::new(setup, Projection::at(Degrees { lon: 20.0, lat: 50.0 }), None);
        for fix in &fixes {
            live.push(fix);
            prop_assert!(live.closed_m2().is_finite());
        }
        prop_assert!(live.figures().covered_m2 >= 0.0);
    }

    #[test]
    fn absurd_widths_are_refused(width in odd()) {
        prop_assert_eq!(Setup::new(width).is_ok(), (0.1..=100.0).contains(&width));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn order_doubling_and_splitting_change_nothing(
        (field, fixes) in day(),
        cut in 1..500_usize,
        seed in any::<u64>(),
    ) {
        let plots = [plot_of(&field, 20.0)];
        let truth = facts(&fixes, &setup(), &plots);
        sound(&truth, &plots);
        let mut shuffled = fixes.clone();
        let mut dice = sim::Dice(seed);
        for i in (1..shuffled.len()).rev() {
            shuffled.swap(i, usize::try_from(dice.bits() % (i as u64 + 1)).unwrap());
        }
        prop_assert_eq!(&facts(&shuffled, &setup(), &plots), &truth);
        let at = cut.min(fixes.len() - 1);
        let (early, late) = fixes.split_at(at);
        let late_first: Vec<Fix> = late.iter().chain(early).copied().collect();
        prop_assert_eq!(&facts(&late_first, &setup(), &plots), &truth);
        let doubled: Vec<Fix> = fixes.iter().chain(&fixes).copied().collect();
        let doubled = facts(&doubled, &setup(), &plots);
        prop_assert_eq!(doubled.rejected.values().sum::<usize>(), fixes.len());
        let undoubled = Facts { rejected: truth.rejected.clone(), ..doubled };
        prop_assert_eq!(undoubled, truth);
    }

    #[test]
    fn the_same_ground_again_adds_nothing((field, fixes) in day()) {
        let once = facts(&fixes, &setup(), &[]);
        let again: Vec<Fix> = fixes
            .iter()
            .map(|fix| Fix { at_ms: fix.at_ms + 86_400_000, ..*fix })
            .chain(fixes.iter().copied())
            .collect();
        let twice = facts(&again, &setup(), &[]);
        prop_assert!(twice.union >= once.union);
        // Without a sensor a second round makes field of what once was a turn.
        if fixes.iter().any(|f| f.work_on.is_some()) {
            prop_assert!((twice.union.m2() - once.union.m2()).abs() < 1e-3);
            prop_assert!((twice.gross.m2() - 2.0 * once.gross.m2()).abs() < 1e-3);
        }
        prop_assert!(field.area_m2() > 0.0);
    }

    #[test]
    fn a_place_further_east_has_the_same_areas((field, fixes) in day(), east in -200.0..200.0_f64) {
        let truth = facts(&fixes, &setup(), &[plot_of(&field, 20.0)]);
        let moved: Vec<Fix> = fixes
            .iter()
            .map(|fix| {
                let lon = (fix.place.lon + east + 180.0).rem_euclid(360.0) - 180.0;
                Fix { place: Degrees { lon, ..fix.place }, ..*fix }
            })
            .collect();
        let lon = (20.0 + east + 180.0_f64).rem_euclid(360.0) - 180.0;
        let there = facts(&moved, &setup(), &[plot_of(&field, lon)]);
        for (a, b) in [
            (truth.union, there.union),
            (truth.gross, there.gross),
            (truth.covered, there.covered),
        ] {
            prop_assert!((a.m2() - b.m2()).abs() <= 2e-4 + 1e-9 * a.m2(), "{a:?} {b:?}");
        }
        // A corner of a round join may fall on the other side of a grid line.
        prop_assert!((truth.closed.m2() - there.closed.m2()).abs() <= 1e-6 * truth.closed.m2());
        prop_assert_eq!(truth.started_ms, there.started_ms);
    }

    #[test]
    fn a_live_bitmap_is_the_union_to_a_thousandth((field, fixes) in day()) {
        let plot = plot_of(&field, 20.0);
        let exact = facts(&fixes, &setup(), &[]);
        let mut live = Live::new(setup(), Projection::at(plot.centre()), None);
        fixes.iter().for_each(|fix| live.push(fix));
        if fixes.iter().any(|f| f.work_on.is_some()) {
            let off = live.figures().covered_m2 / exact.union.m2() - 1.0;
            prop_assert!(off.abs() <= 1e-3, "{off}");
        }
    }
}

#[test]
fn ten_thousand_fixes_within_one_second_are_read_in_time() {
    let site = Site::at(20.0, 50.0);
    let mut drive = Drive::every(1, 0.0, 0.0);
    drive.to(10.0, 0.0, 1.0, true);
    let fixes = drive.fixes(&site, RTK, true, 1);
    assert!(fixes.len() > 9_000);
    let facts = facts(&fixes, &setup(), &[]);
    assert!(facts.union.m2() > 50.0);
}
