//! Simulated fields of known area, under the noise of real receivers: the aims of the fieldwork specification.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod sim;

use furrow_domain::{
    fieldwork::{Activity, Facts, Setup, VerdictKind, facts, live::Live, survey},
    geo::projection::Projection,
};
use sim::{EXACT, Field, METRE_AND_A_HALF, Noise, RTK, Site};

/// Fields of 3 to 8 ha and three shapes, in many directions, for implements from 6 to 24 m.
fn fields() -> Vec<Field> {
    let mut fields = Vec::new();
    for (i, width) in [6.0_f64, 9.0, 12.0, 24.0].into_iter().enumerate() {
        for shape in 0..3 {
            for size in 0..3 {
                let across = ((180.0 + 40.0 * f64::from(size)) / width).round() * width;
                let along = 250.0 + 30.0 * f64::from(size);
                let mut field = match shape {
                    0 => Field::rectangle(across, along, width),
                    1 => Field::ell(across * 1.2_f64.round(), along * 1.2, width),
                    _ => Field::with_pond(across, along, width),
                };
                field.angle = 0.37 * f64::from(size) + 0.9 * f64::from(u8::try_from(i).unwrap());
                fields.push(field);
            }
        }
    }
    fields.retain(|field| field.area_m2() >= 30_000.0);
    fields
}

fn work(field: &Field, noise: Noise, sensor: bool, seed: u64) -> Facts {
    let site = Site::at(116.4, 39.9);
    let fixes = field
        .worked([-400.0, -300.0], 1000)
        .fixes(&site, noise, sensor, seed);
    let setup = Setup::new(field.width_m).unwrap();
    facts(&fixes, &setup, &[field.plot(&site, "field")])
}

/// Errors of the closed area, as ratios.
fn errors(noise: Noise, sensor: bool) -> Vec<f64> {
    let fields = fields();
    assert!(fields.len() > 25, "{}", fields.len());
    let error = |(i, field): (usize, &Field)| {
        let facts = work(field, noise, sensor, 17 + i as u64);
        assert_eq!(facts.start.kind, VerdictKind::Proven);
        facts.closed.m2() / field.area_m2() - 1.0
    };
    fields.iter().enumerate().map(error).collect()
}

/// Mean and largest absolute error.
fn mean_and_worst(errors: &[f64], name: &str) -> (f64, f64) {
    let mean = errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len() as f64;
    let worst = errors.iter().map(|e| e.abs()).fold(0.0, f64::max);
    eprintln!(
        "{name}: {} fields, mean {:.3} %, worst {:.3} %",
        errors.len(),
        mean * 100.0,
        worst * 100.0
    );
    (mean, worst)
}

#[test]
fn with_rtk_every_field_is_right_within_half_a_percent() {
    let (_, worst) = mean_and_worst(&errors(RTK, true), "rtk");
    assert!(worst <= 0.005);
}

#[test]
fn with_a_metre_and_a_half_of_noise_fields_are_right_within_two_percent_on_average() {
    let (mean, worst) = mean_and_worst(&errors(METRE_AND_A_HALF, true), "1.5 m");
    assert!(mean <= 0.02 && worst <= 0.04);
}

#[test]
fn without_a_sensor_fields_have_nearly_the_area_that_they_have_with_one() {
    let (mean, worst) = mean_and_worst(&errors(METRE_AND_A_HALF, false), "1.5 m, no sensor");
    assert!(mean <= 0.03 && worst <= 0.05);
}

#[test]
fn with_five_seconds_between_fixes_little_is_lost_and_it_is_called_an_estimate() {
    let field = Field::rectangle(180.0, 300.0, 9.0);
    let site = Site::at(10.0, 50.0);
    let setup = Setup::new(9.0).unwrap();
    for (interval_ms, most, estimate) in [
        (1000, 0.005, false),
        (5000, 0.05, false),
        (6000, 0.06, true),
    ] {
        let fixes = field
            .worked([-50.0, -50.0], interval_ms)
            .fixes(&site, RTK, true, 4);
        let facts = facts(&fixes, &setup, &[field.plot(&site, "field")]);
        let error = facts.closed.m2() / field.area_m2() - 1.0;
        assert!(error.abs() < most, "{interval_ms} ms: {error}");
        assert_eq!(facts.quality.estimate, estimate, "{interval_ms} ms");
        assert_eq!(facts.quality.interval_s, Some(interval_ms as f64 / 1000.0));
    }
}

#[test]
fn live_figures_are_within_a_thousandth_of_the_exact_ones() {
    let site = Site::at(116.4, 39.9);
    for (field, seed) in [
        (Field::rectangle(92.0, 300.0, 2.3), 1),
        (Field::ell(180.0, 250.0, 9.0), 2),
        (Field::with_pond(240.0, 250.0, 24.0), 3),
    ] {
        let setup = Setup::new(field.width_m).unwrap();
        let plot = field.plot(&site, "field");
        let fixes = field
            .worked([-300.0, 0.0], 1000)
            .fixes(&site, METRE_AND_A_HALF, true, seed);
        let exact = survey(&fixes, &setup, std::slice::from_ref(&plot));
        for (clip, truth) in [(false, exact.facts.union), (true, exact.facts.covered)] {
            let projection = Projection::at(plot.centre());
            let region = plot.region(&projection);
            let mut live = Live::new(setup, projection, clip.then_some(&region));
            for (i, fix) in fixes.iter().enumerate() {
                live.push(fix);
                if i % 10 == 0 {
                    let _ = live.closed_m2();
                }
            }
            let figures = live.figures();
            let off = figures.covered_m2 / truth.m2() - 1.0;
            assert!(off.abs() <= 1e-3, "{} m, {clip}: {off}", field.width_m);
            assert!((figures.work_s - exact.facts.work_s).abs() < 5.0);
            assert!((figures.distance_m / exact.facts.distance_m - 1.0).abs() < 0.01);
            if clip {
                let off = live.closed_m2() / exact.facts.closed.m2() - 1.0;
                // Slivers of whole cells: coarse for an implement of nine cells.
                let most = if field.width_m < 6.0 { 0.03 } else { 0.01 };
                assert!(off.abs() < most, "{} m closed: {off}", field.width_m);
            }
        }
    }
}

#[test]
fn turns_and_the_way_are_told_apart_and_sum_to_the_whole_time() {
    let field = Field::rectangle(180.0, 200.0, 9.0);
    let site = Site::at(10.0, 50.0);
    let mut drive = field.worked([-600.0, 0.0], 1000);
    drive.stand(600, false).silence(120).stand(60, false);
    let fixes = drive.fixes(&site, EXACT, true, 1);
    let facts = facts(&fixes, &Setup::new(9.0).unwrap(), &[]);
    let on = drive.states.iter().filter(|s| s.on).count() as f64;
    let standing = 600.0 + 60.0;
    assert!((facts.work_s - on).abs() <= 1.0, "{}", facts.work_s);
    assert!((facts.idle_s - standing).abs() <= 20.0, "{}", facts.idle_s);
    let last = drive.last().at_ms - sim::BEGIN_MS;
    let sum = facts.work_s + facts.turn_s + facts.transit_s + facts.idle_s;
    assert_eq!(facts.gaps.len(), 1);
    assert!((facts.gaps[0].missing_s - 120.0).abs() < 1e-9);
    assert!((sum + 120.0 - last as f64 / 1000.0).abs() < 1e-6);
    // 19 turns between 20 passes; the road is 1.3 km at 6 m/s.
    assert!((facts.turn_s / 19.0 - 12.0).abs() < 3.0, "{}", facts.turn_s);
    assert!(
        (200.0..260.0).contains(&facts.transit_s),
        "{}",
        facts.transit_s
    );
}

/// Adds the work of a field, further east; what lies between its first and last work is field.
fn add(drive: &mut sim::Drive, field: &mut Vec<bool>, part: sim::Drive, east: f64) {
    let begin = drive.last().at_ms + drive.interval_ms - sim::BEGIN_MS;
    let first = part.states.iter().position(|s| s.on).unwrap();
    let last = part.states.iter().rposition(|s| s.on).unwrap();
    for (i, mut state) in part.states.into_iter().enumerate() {
        state.at_ms += begin;
        state.x += east;
        drive.states.push(state);
        field.push((first..=last).contains(&i));
    }
}

/// A machine-day: two fields, the roads between them at tractor speeds, stops, a wait in a yard.
fn machine_day(interval_ms: i64, seed: u64) -> (sim::Drive, Vec<bool>) {
    let mut first = Field::rectangle(72.0 + 6.0 * (seed % 5) as f64, 180.0, 6.0);
    first.angle = 0.4 * seed as f64;
    let mut drive = sim::Drive::every(interval_ms, -1500.0, -900.0);
    drive
        .stand(300, false)
        .to(-900.0, -850.0, 3.8, false)
        .to(-400.0, -300.0, 7.5, false);
    let mut field = vec![false; drive.states.len()];
    add(
        &mut drive,
        &mut field,
        first.worked([-400.0, -300.0], interval_ms),
        0.0,
    );
    let second = Field::ell(96.0, 200.0, 6.0).worked([-60.0, -400.0], interval_ms);
    let mut road = sim::Drive::every(interval_ms, -400.0, -300.0);
    road.to(300.0, -700.0, 3.5, false)
        .to(1200.0, -760.0, 6.0, false)
        .to(2140.0, -400.0, 4.0, false);
    let road: Vec<_> = road.states.into_iter().skip(1).collect();
    let begin = drive.last().at_ms - sim::BEGIN_MS;
    for mut state in road {
        state.at_ms += begin;
        drive.states.push(state);
        field.push(false);
    }
    add(&mut drive, &mut field, second, 2200.0);
    drive
        .to(300.0, -705.0, 4.1, false)
        .to(-1500.0, -900.0, 7.0, false);
    field.resize(drive.states.len(), false);
    (drive, field)
}

#[test]
fn without_a_sensor_field_and_road_are_told_apart_on_tracks_of_one_to_five_seconds() {
    let site = Site::at(116.4, 39.9);
    for interval_ms in [1000, 2000, 5000] {
        // Right and wrong: [field as field, field as road, road as field, road as road].
        let mut counts = [0_u32; 4];
        for seed in 0..6 {
            let (drive, truth) = machine_day(interval_ms, seed);
            let fixes = drive.fixes(&site, METRE_AND_A_HALF, false, seed);
            let survey = survey(&fixes, &Setup::new(6.0).unwrap(), &[]);
            for ((at_ms, activity), (state, field)) in survey
                .activities
                .iter()
                .zip(drive.states.iter().zip(&truth).skip(1))
            {
                assert_eq!(*at_ms, state.at_ms);
                let told = match activity {
                    Some(Activity::Work | Activity::Turn) => true,
                    Some(Activity::Transit) => false,
                    Some(Activity::Idle) | None => continue,
                };
                counts[2 * usize::from(!field) + usize::from(!told)] += 1;
            }
        }
        let [ff, fr, rf, rr] = counts.map(f64::from);
        let accuracy = (ff + rr) / (ff + fr + rf + rr);
        let f1_road = 2.0 * rr / (2.0 * rr + fr + rf);
        eprintln!("{interval_ms} ms: accuracy {accuracy:.3}, F1 road {f1_road:.3}, {counts:?}");
        assert!(accuracy >= 0.93 && f1_road >= 0.75);
    }
}
