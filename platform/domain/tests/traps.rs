//! Every trap of the fieldwork specification, as a day that walks into it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod sim;

use furrow_domain::{
    fieldwork::{Alarm, Facts, Reason, Setup, VerdictKind, Visit, facts, shares, survey},
    geo::{Degrees, datum::Datum, plot::Plot, plot::Repair, region::Region},
    track::{Fix, Rejection},
};
use sim::{BEGIN_MS, Drive, EXACT, Field, METRE_AND_A_HALF, Noise, RTK, Site, WHITE};

fn site() -> Site {
    Site::at(116.4, 39.9)
}

fn setup(width_m: f64) -> Setup {
    Setup::new(width_m).unwrap()
}

fn unsensed(width_m: f64) -> Setup {
    Setup {
        use_sensor: false,
        ..setup(width_m)
    }
}

/// A plot of so many metres with its south-west corner at a place.
fn square(x: f64, y: f64, side: f64) -> Plot {
    let ring = vec![[x, y], [x + side, y], [x + side, y + side], [x, y + side]];
    site().plot("square", &[ring])
}

fn nothing(facts: &Facts, what: &str) {
    let areas = [facts.union, facts.covered, facts.closed, facts.gross];
    assert!(areas.iter().all(|a| a.m2() == 0.0), "{what}: {areas:?}");
    assert_eq!(facts.started_ms, None, "{what}");
    assert_eq!(facts.finished_ms, None, "{what}");
}

#[test]
fn a_machine_parked_for_eight_hours_travels_less_than_50_m_and_covers_nothing() {
    let mut drive = Drive::from(0.0, 0.0);
    drive.stand(8 * 3600, true);
    for (noise, speeds, sensor, seed) in [
        (METRE_AND_A_HALF, true, true, 1),
        (METRE_AND_A_HALF, false, true, 2),
        (WHITE, true, true, 3),
        (WHITE, false, true, 4),
        (WHITE, false, false, 5),
        (METRE_AND_A_HALF, false, false, 6),
    ] {
        let mut fixes = drive.fixes(&site(), noise, sensor, seed);
        if !speeds {
            fixes.iter_mut().for_each(|f| f.speed_mps = None);
        }
        let facts = facts(&fixes, &setup(9.0), &[square(-100.0, -100.0, 200.0)]);
        assert!(facts.distance_m < 50.0, "{seed}: {}", facts.distance_m);
        nothing(&facts, "parked");
        assert!(facts.arrived_ms.is_some() && facts.left_ms.is_none());
        assert!(
            (facts.idle_s - 8.0 * 3600.0).abs() < 60.0,
            "{}",
            facts.idle_s
        );
    }
}

#[test]
fn the_way_after_a_stop_counts_from_the_anchor() {
    let mut drive = Drive::from(0.0, 0.0);
    drive
        .to(100.0, 0.0, 2.0, true)
        .stand(1800, true)
        .to(200.0, 0.0, 2.0, true);
    for speeds in [true, false] {
        let mut fixes = drive.fixes(&site(), RTK, true, 1);
        if !speeds {
            fixes.iter_mut().for_each(|f| f.speed_mps = None);
        }
        let facts = facts(&fixes, &setup(4.0), &[]);
        assert!(
            (facts.distance_m - 200.0).abs() < 2.0,
            "{}",
            facts.distance_m
        );
        assert!(
            (facts.union.m2() - 800.0).abs() < 12.0,
            "{}",
            facts.union.m2()
        );
    }
}

#[test]
fn jumps_wrong_first_fixes_and_null_islands_are_left_out_and_never_bridged() {
    let field = Field::rectangle(90.0, 200.0, 9.0);
    let clean = field
        .worked([-100.0, 0.0], 1000)
        .fixes(&site(), RTK, true, 1);
    let plot = [field.plot(&site(), "field")];
    let truth = facts(&clean, &setup(9.0), &plot);
    let mut dirty = clean.clone();
    dirty[0].place = site().place(4000.0, 9000.0);
    for i in (60..dirty.len() - 10).step_by(97) {
        dirty[i].place = site().place(300.0 + i as f64, -700.0);
    }
    let null = Fix {
        at_ms: BEGIN_MS + 30_500,
        place: Degrees { lon: 0.0, lat: 0.0 },
        work_on: Some(true),
        ..dirty[30]
    };
    dirty.push(null);
    let facts = facts(&dirty, &setup(9.0), &plot);
    let jumps = (60..clean.len() - 10).step_by(97).count() + 1;
    assert_eq!(facts.rejected.get(&Rejection::Jump), Some(&jumps));
    assert_eq!(facts.rejected.get(&Rejection::NullIsland), Some(&1));
    // Each jump may cost the two steps around it, never add anything.
    assert!(facts.union <= truth.union);
    assert!(facts.closed.m2() > truth.closed.m2() * 0.995);
    assert_eq!(facts.started_ms, truth.started_ms);
}

#[test]
fn a_gap_is_shown_with_what_may_be_missing_and_never_bridged() {
    let mut drive = Drive::from(0.0, 0.0);
    drive.to(0.0, 100.0, 2.0, true);
    let mut after = Drive::from(0.0, 136.0);
    after.to(0.0, 236.0, 2.0, true);
    let shift = 68_000;
    after.states.iter_mut().for_each(|s| s.at_ms += shift);
    drive.states.extend(after.states);
    let fixes = drive.fixes(&site(), EXACT, true, 1);
    let facts = facts(&fixes, &setup(5.0), &[]);
    assert!(
        (facts.union.m2() - 1000.0).abs() < 1.0,
        "{}",
        facts.union.m2()
    );
    let [gap] = facts.gaps[..] else {
        panic!("{:?}", facts.gaps)
    };
    assert!((gap.missing_s - 18.0).abs() < 1e-9 && gap.to_ms - gap.from_ms == 18_000);
    assert!((gap.missing_m2 - 180.0).abs() < 1.0);
}

#[test]
fn a_road_trip_covers_nothing_and_starts_nothing() {
    let mut drive = Drive::from(-4000.0, 0.0);
    drive
        .to(-2000.0, 300.0, 4.0, false)
        .to(0.0, 10.0, 8.0, false)
        .to(3000.0, 0.0, 3.5, false)
        .stand(900, false)
        .to(0.0, 13.0, 4.1, false)
        .to(-2000.0, 303.0, 4.0, false)
        .to(-4000.0, 3.0, 6.0, false);
    for (noise, width) in [
        (RTK, 3.0),
        (METRE_AND_A_HALF, 2.3),
        (METRE_AND_A_HALF, 12.0),
        (RTK, 24.0),
    ] {
        let plot = [square(-500.0, -60.0, 55.0), square(500.0, -100.0, 200.0)];
        let sensed = drive.fixes(&site(), noise, true, 3);
        nothing(&facts(&sensed, &setup(width), &plot), "sensor");
        nothing(&facts(&sensed, &unsensed(width), &plot), "no sensor");
    }
}

#[test]
fn a_road_driven_all_day_is_no_field() {
    let mut drive = Drive::from(0.0, 0.0);
    for trip in 0..10 {
        let lane = if trip % 2 == 0 { 0.0 } else { 0.4 };
        drive
            .to(1500.0, lane, 3.9, false)
            .stand(120, false)
            .to(1500.0, 3.5, 1.0, false)
            .to(0.0, 3.5 + lane, 3.9, false)
            .stand(240, false)
            .to(0.0, 0.0, 1.0, false);
    }
    for (noise, width, seed) in [
        (RTK, 3.0, 1),
        (METRE_AND_A_HALF, 3.0, 2),
        (METRE_AND_A_HALF, 9.0, 3),
        (RTK, 24.0, 4),
    ] {
        let fixes = drive.fixes(&site(), noise, false, seed);
        nothing(&facts(&fixes, &setup(width), &[]), "road");
    }
}

#[test]
fn a_field_that_is_only_crossed_gives_nothing_even_slowly() {
    let plot = [square(0.0, 0.0, 400.0)];
    let mut drive = Drive::from(-300.0, 150.0);
    drive
        .to(700.0, 250.0, 1.8, false)
        .stand(300, false)
        .to(200.0, 450.0, 2.5, false)
        .to(180.0, -50.0, 1.5, false);
    for (noise, width) in [
        (RTK, 3.0),
        (METRE_AND_A_HALF, 9.0),
        (METRE_AND_A_HALF, 24.0),
    ] {
        let fixes = drive.fixes(&site(), noise, true, 5);
        let with = facts(&fixes, &setup(width), &plot);
        nothing(&with, "sensor");
        assert_eq!(with.start.kind, VerdictKind::NotProvable);
        assert_eq!(with.start.reasons, vec![Reason::NoWork]);
        nothing(&facts(&fixes, &unsensed(width), &plot), "no sensor");
    }
}

#[test]
fn ponds_stay_open_even_when_the_sensor_stays_on_over_them() {
    let field = Field::with_pond(270.0, 250.0, 9.0);
    let mut blind = field.clone();
    blind.rings.truncate(1);
    let fixes = blind
        .worked([-50.0, -50.0], 1000)
        .fixes(&site(), METRE_AND_A_HALF, true, 1);
    let plot = field.plot(&site(), "field");
    let survey = survey(&fixes, &setup(9.0), std::slice::from_ref(&plot));
    let region = survey.plot.unwrap();
    let hull = blind.plot(&site(), "hull").region(&survey.projection);
    let pond = hull.difference(&region);
    assert!(pond.area().m2() > 1000.0);
    assert_eq!(survey.covered.intersection(&pond).area().m2(), 0.0);
    assert_eq!(survey.closed.intersection(&pond).area().m2(), 0.0);
    assert!(survey.facts.closed <= plot.area());
}

#[test]
fn closing_never_fills_a_hole_beyond_its_radius_without_a_plot_either() {
    // A pole with 5 m around it that nobody drives over.
    let field = Field::with_pond(270.0, 250.0, 9.0);
    let fixes = field
        .worked([-50.0, -50.0], 1000)
        .fixes(&site(), EXACT, true, 1);
    let survey = survey(&fixes, &setup(9.0), &[]);
    let holes: Vec<f64> = survey
        .closed
        .shapes()
        .iter()
        .flat_map(|shape| shape.iter().skip(1))
        .map(|hole| {
            Region::from_rings(vec![hole.iter().rev().copied().collect()])
                .area()
                .m2()
        })
        .filter(|m2| *m2 > 10.0)
        .collect();
    let [hole] = holes[..] else {
        panic!("{holes:?}")
    };
    let truth = 27.0 * 50.0;
    // The corners are rounded by the radius and passes end within a step of the edge.
    assert!((hole / truth - 1.0).abs() < 0.05, "{hole} of {truth}");
}

#[test]
fn exchanged_axes_that_are_places_either_way_are_turned_where_the_machine_was() {
    let site = Site::at(10.2, 54.6);
    let field = Field::rectangle(90.0, 200.0, 9.0);
    let right = field.plot(&site, "field");
    let ring: Vec<[f64; 2]> = field.rings[0]
        .iter()
        .map(|[x, y]| site.place(*x, *y))
        .map(|p| [p.lat, p.lon])
        .collect();
    let swapped = Plot::new("field".into(), &[ring], Datum::Wgs84).unwrap();
    let fixes = field.worked([-50.0, 0.0], 1000).fixes(&site, RTK, true, 1);
    let truth = facts(&fixes, &setup(9.0), &[right]);
    let facts = facts(&fixes, &setup(9.0), &[swapped]);
    assert_eq!(facts.closed, truth.closed);
    assert!(facts.plot_repairs.contains(&Repair::SwappedAxes));
}

#[test]
fn a_boundary_of_another_datum_is_reported_and_never_moved_silently() {
    let field = Field::rectangle(180.0, 250.0, 9.0);
    let fixes = field
        .worked([-50.0, 0.0], 1000)
        .fixes(&site(), METRE_AND_A_HALF, true, 1);
    let truth = facts(&fixes, &setup(9.0), &[field.plot(&site(), "field")]);
    for datum in [Datum::Gcj02, Datum::Bd09] {
        let drawn: Vec<[f64; 2]> = field.rings[0]
            .iter()
            .map(|[x, y]| datum.from_wgs84(site().place(*x, *y)))
            .map(|p| [p.lon, p.lat])
            .collect();
        let believed = Plot::new("field".into(), std::slice::from_ref(&drawn), Datum::Wgs84);
        let wrong = facts(&fixes, &setup(9.0), &[believed.unwrap()]);
        assert_eq!(wrong.started_ms, None);
        assert_eq!(wrong.covered.m2(), 0.0);
        let mistakes = wrong.alarms.iter().filter_map(|alarm| match alarm {
            Alarm::Datum(mistake) => Some(mistake),
            _ => None,
        });
        let mistakes = mistakes.collect::<Vec<_>>();
        assert_eq!(mistakes.len(), 1, "{datum:?}");
        assert_eq!(mistakes[0].datum, Some(datum));
        assert!((300.0..1500.0).contains(&mistakes[0].shift_m));
        let likely = |r: &Reason| matches!(r, Reason::LikelyDatumMistake { .. });
        assert!(wrong.start.reasons.iter().any(likely));
        let told = Plot::new("field".into(), &[drawn], datum).unwrap();
        let right = facts(&fixes, &setup(9.0), &[told]);
        assert!((right.closed.m2() / truth.closed.m2() - 1.0).abs() < 1e-3);
        assert_eq!(right.started_ms, truth.started_ms);
    }
}

#[test]
fn reported_speeds_in_a_wrong_unit_raise_an_alarm_and_change_nothing() {
    let field = Field::rectangle(90.0, 250.0, 9.0);
    let mut drive = field.worked([-500.0, 0.0], 1000);
    drive.stand(1200, true);
    let fixes = drive.fixes(&site(), RTK, true, 1);
    let truth = facts(&fixes, &setup(9.0), &[]);
    assert_eq!(truth.alarms, vec![]);
    for factor in [3.6, 1.944, 0.0, 0.1] {
        let mut wrong = fixes.clone();
        for fix in &mut wrong {
            fix.speed_mps = fix.speed_mps.map(|v| v * factor);
        }
        let facts = facts(&wrong, &setup(9.0), &[]);
        let alarm = facts.alarms.iter().find_map(|alarm| match alarm {
            Alarm::SpeedUnit { ratio } => Some(*ratio),
            _ => None,
        });
        let ratio = alarm.unwrap_or_else(|| panic!("{factor}: no alarm"));
        assert!(
            (ratio - factor).abs() < 0.1 * factor.max(0.1),
            "{factor}: {ratio}"
        );
        assert!((facts.union.m2() / truth.union.m2() - 1.0).abs() < 2e-3);
        assert!((facts.idle_s - truth.idle_s).abs() < 30.0);
    }
}

#[test]
fn folded_wings_and_a_wrong_implement_show_in_the_spacing_of_passes() {
    let field = Field::rectangle(180.0, 250.0, 6.0);
    let fixes = field
        .worked([-50.0, 0.0], 1000)
        .fixes(&site(), METRE_AND_A_HALF, true, 1);
    let spacing = |facts: &Facts| {
        facts.alarms.iter().find_map(|alarm| match alarm {
            Alarm::PassSpacing { spacing_m, .. } => Some(*spacing_m),
            _ => None,
        })
    };
    assert_eq!(spacing(&facts(&fixes, &setup(6.0), &[])), None);
    for told in [4.0, 10.0] {
        let facts = facts(&fixes, &setup(told), &[]);
        let spacing = spacing(&facts).unwrap_or_else(|| panic!("{told} m: no alarm"));
        assert!((spacing - 6.0).abs() < 0.8, "{told} m: {spacing}");
    }
}

#[test]
fn the_width_in_use_overrides_the_nominal_one_and_sections_count() {
    let mut drive = Drive::from(0.0, 0.0);
    drive.to(0.0, 300.0, 2.0, true);
    let mut fixes = drive.fixes(&site(), EXACT, true, 1);
    fixes.iter_mut().for_each(|f| f.width_m = Some(4.5));
    let half = facts(&fixes, &setup(9.0), &[]);
    assert!(
        (half.union.m2() - 1350.0).abs() < 0.5,
        "{}",
        half.union.m2()
    );
    fixes.iter_mut().for_each(|f| {
        f.width_m = None;
        f.sections = Some(0b0000_0111);
    });
    let sections = Setup {
        sections: Some(6),
        ..setup(9.0)
    };
    let half = facts(&fixes, &sections, &[]);
    assert!(
        (half.union.m2() - 1350.0).abs() < 0.5,
        "{}",
        half.union.m2()
    );
    assert!((half.distance_x_width_m2 - 1350.0).abs() < 0.5);
}

#[test]
fn only_on_is_on() {
    let field = Field::rectangle(90.0, 200.0, 9.0);
    let mut fixes = field
        .worked([-50.0, 0.0], 1000)
        .fixes(&site(), RTK, true, 1);
    let mut on = true;
    for fix in &mut fixes {
        // A sensor that reports errors while it works.
        if fix.work_on == Some(true) && on {
            fix.work_on = None;
        }
        on = !on;
    }
    let facts = facts(&fixes, &setup(9.0), &[]);
    let share = facts.union.m2() / field.area_m2();
    assert!((0.4..0.6).contains(&share), "{share}");
}

#[test]
fn the_antimeridian_and_70_degrees_north_change_neither_shape_nor_area() {
    let field = Field::ell(120.0, 250.0, 6.0);
    let of = |lon: f64, lat: f64| {
        let site = Site::at(lon, lat);
        let fixes = field.worked([-50.0, 0.0], 1000).fixes(&site, RTK, true, 9);
        facts(&fixes, &setup(6.0), &[field.plot(&site, "field")])
    };
    let truth = of(116.4, 39.9);
    for (lon, lat) in [
        (179.9995, -16.5),
        (-179.9999, 66.0),
        (25.0, 70.0),
        (0.0, 0.0),
        (-68.0, -54.0),
    ] {
        let facts = of(lon, lat);
        for (a, b) in [(facts.union, truth.union), (facts.closed, truth.closed)] {
            assert!(
                (a.m2() / b.m2() - 1.0).abs() < 1e-6,
                "{lon} {lat}: {a:?} {b:?}"
            );
        }
        assert_eq!(facts.started_ms, truth.started_ms);
        assert!((facts.distance_m - truth.distance_m).abs() < 0.1);
    }
}

#[test]
fn two_machines_on_one_order_share_the_union() {
    let field = Field::rectangle(180.0, 250.0, 9.0);
    let plot = field.plot(&site(), "field");
    let first = field
        .worked([-50.0, 0.0], 1000)
        .fixes(&site(), RTK, true, 1);
    // The second works the eastern half again an hour later, and a strip beyond the field.
    let mut again = Field::rectangle(90.0, 250.0, 9.0).worked([-50.0, 0.0], 1000);
    for state in &mut again.states {
        state.x += 135.0;
        state.at_ms += 3_600_000;
    }
    let second = again.fixes(&site(), RTK, true, 2);
    let visit = |fixes| Visit {
        fixes,
        setup: setup(9.0),
    };
    let (whole, parts) = shares(&[visit(&second), visit(&first)], Some(&plot));
    let sum = |of: fn(&furrow_domain::fieldwork::Share) -> f64| parts.iter().map(of).sum::<f64>();
    assert!((whole.closed.m2() / field.area_m2() - 1.0).abs() < 0.005);
    assert!((sum(|s| s.closed.m2()) - whole.closed.m2()).abs() < 1e-6);
    assert!((sum(|s| s.covered.m2()) - whole.covered.m2()).abs() < 1e-6);
    // Who came an hour earlier has it all, but for what the later one reached first in the east.
    let late = parts[0].closed.m2() / whole.closed.m2();
    assert!(late < 0.12, "{late}");
    let (alone, parts) = shares(&[visit(&second), visit(&second)], Some(&plot));
    assert_eq!((parts[0], parts[1].closed.m2()), (alone, 0.0));
}

#[test]
fn a_plot_too_narrow_for_a_field_anywhere_is_found_where_it_is_known() {
    // One mu of 9.2 m: four passes of a tiller.
    let field = Field::rectangle(9.2, 72.0, 2.3);
    let drive = field.worked([-60.0, -5.0], 1000);
    let plot = [field.plot(&site(), "one mu")];
    let fixes = drive.fixes(&site(), RTK, false, 1);
    let known = facts(&fixes, &setup(2.3), &plot);
    let off = known.closed.m2() / field.area_m2() - 1.0;
    assert!(off.abs() < 0.03, "{off}");
    assert_eq!(known.start.kind, VerdictKind::Proven);
    // Driven through there and back, it is a way.
    let mut through = Drive::from(4.6, -300.0);
    through
        .to(4.6, 300.0, 1.5, false)
        .to(4.0, -300.0, 1.5, false);
    let fixes = through.fixes(&site(), METRE_AND_A_HALF, false, 1);
    nothing(&facts(&fixes, &setup(9.0), &plot), "through");
}

#[test]
fn ten_fixes_a_second_with_plain_noise_are_no_leaps() {
    let mut drive = Drive::every(100, 0.0, 0.0);
    drive.to(0.0, 200.0, 2.0, true);
    let noise = Noise {
        rms_m: 0.6,
        ..WHITE
    };
    let fixes = drive.fixes(&site(), noise, true, 1);
    let facts = facts(&fixes, &setup(6.0), &[]);
    assert_eq!(facts.rejected.len(), 0);
    assert!(
        (0.95..1.25).contains(&(facts.union.m2() / 1200.0)),
        "{}",
        facts.union.m2()
    );
}
