//! Time and result of a day's facts, live and exact, beside what distance x width would bill. Never a test: it prints and asserts nothing.
#![allow(missing_docs, reason = "criterion's macros write undocumented items")]

#[path = "../tests/sim/mod.rs"]
mod sim;

use std::{hint::black_box, io::Write as _};

use criterion::{Criterion, criterion_group, criterion_main};
use furrow_domain::{
    fieldwork::{Setup, facts, live::Live},
    geo::{plot::Plot, projection::Projection},
    track::Fix,
};
use sim::{Field, METRE_AND_A_HALF, Noise, RTK, Site};

/// Working width of the bench's machine, m.
const WIDTH_M: f64 = 9.0;
/// Eight hours at 1 Hz.
const DAY: usize = 28_800;

/// A day of passes of 500 m, its plot and its true area up to the last fix's pass.
fn day(noise: Noise) -> (Vec<Fix>, Plot) {
    let site = Site::at(116.4, 39.9);
    let field = Field::rectangle(117.0 * WIDTH_M, 500.0, WIDTH_M);
    let mut fixes = field
        .worked([-200.0, -100.0], 1000)
        .fixes(&site, noise, true, 7);
    fixes.truncate(DAY);
    (fixes, field.plot(&site, "day"))
}

/// Fix by fix, the figures after each, the closing after every tenth.
fn live(fixes: &[Fix], plot: &Plot, setup: Setup) -> (f64, f64) {
    let projection = Projection::at(plot.centre());
    let region = plot.region(&projection);
    let mut live = Live::new(setup, projection, Some(&region));
    let mut closed = 0.0;
    for (i, fix) in fixes.iter().enumerate() {
        live.push(fix);
        if i % 10 == 9 {
            closed = live.closed_m2();
        }
    }
    (live.figures().covered_m2, closed)
}

fn benches(criterion: &mut Criterion) {
    let setup = Setup::new(WIDTH_M).expect("a width");
    for (name, noise) in [("rtk", RTK), ("1.5 m", METRE_AND_A_HALF)] {
        let (fixes, plot) = day(noise);
        let exact = facts(&fixes, &setup, std::slice::from_ref(&plot));
        let mut out = std::io::stdout().lock();
        let _ = writeln!(
            out,
            "{name}: {} fixes; plot {:.0} m2; exact: covered {:.0}, closed {:.0}; live: covered {:.0}, closed {:.0}; distance x width {:.0}",
            fixes.len(),
            plot.area().m2(),
            exact.covered.m2(),
            exact.closed.m2(),
            live(&fixes, &plot, setup).0,
            live(&fixes, &plot, setup).1,
            exact.distance_x_width_m2,
        );
        criterion.bench_function(&format!("{name}: live, a day"), |b| {
            b.iter(|| live(black_box(&fixes), &plot, setup));
        });
        criterion.bench_function(&format!("{name}: exact, a day"), |b| {
            b.iter(|| facts(black_box(&fixes), &setup, std::slice::from_ref(&plot)));
        });
        let unsensed = Setup {
            use_sensor: false,
            ..setup
        };
        criterion.bench_function(&format!("{name}: exact without the sensor, a day"), |b| {
            b.iter(|| facts(black_box(&fixes), &unsensed, std::slice::from_ref(&plot)));
        });
    }
}

criterion_group! { name = day_of_work; config = Criterion::default().sample_size(10); targets = benches }
criterion_main!(day_of_work);
