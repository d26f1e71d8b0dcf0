//! Which plot a machine worked, when it arrived, started, finished and left, and what of that can be proven.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod sim;

use furrow_domain::{
    fieldwork::{Reason, Setup, VerdictKind, facts},
    geo::plot::Plot,
    track::Fix,
};
use sim::{Field, METRE_AND_A_HALF, Noise, RTK, Site};

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

#[test]
fn the_plot_with_most_of_the_work_is_chosen_and_a_second_one_reported() {
    let field = Field::rectangle(180.0, 250.0, 9.0);
    let fixes = field
        .worked([-50.0, 0.0], 1000)
        .fixes(&site(), RTK, true, 1);
    let plot = |name: &str, from: f64, to: f64| {
        let ring = vec![[from, 0.0], [to, 0.0], [to, 250.0], [from, 250.0]];
        site().plot(name, &[ring])
    };
    let plots = [plot("west", 0.0, 54.0), plot("east", 54.0, 180.0)];
    let facts = facts(&fixes, &setup(9.0), &plots);
    assert_eq!(facts.plot.as_deref(), Some("east"));
    let conflict = facts.plot_conflict.unwrap();
    assert_eq!(conflict.plot, "west");
    assert!((conflict.share - 0.3).abs() < 0.01);
    assert!((facts.covered.m2() / (126.0 * 250.0) - 1.0).abs() < 0.005);
    assert!((facts.outside.m2() + facts.headland.m2() - 54.0 * 250.0).abs() < 400.0);
}

#[test]
fn arrival_start_finish_and_leaving_are_when_they_were() {
    let field = Field::rectangle(180.0, 250.0, 9.0);
    let mut drive = field.worked([-600.0, 4.0], 1000);
    drive.to(-5000.0, 4.0, 6.0, false);
    let states = &drive.states;
    let first = states.iter().find(|s| s.on).unwrap().at_ms;
    let last = states.iter().rfind(|s| s.on).unwrap().at_ms;
    let left = states.iter().rfind(|s| s.x > -30.0).unwrap().at_ms;
    let arrived = states.iter().find(|s| s.x > -10.0).unwrap().at_ms;
    for noise in [RTK, METRE_AND_A_HALF] {
        let fixes = drive.fixes(&site(), noise, true, 2);
        let plot = [field.plot(&site(), "field")];
        let facts = facts(&fixes, &setup(9.0), &plot);
        let near = |ours: Option<i64>, truth: i64| (ours.unwrap() - truth).abs() <= 2000;
        assert!(
            near(facts.arrived_ms, arrived),
            "{:?} {arrived}",
            facts.arrived_ms
        );
        assert!(
            near(facts.started_ms, first),
            "{:?} {first}",
            facts.started_ms
        );
        assert!(
            near(facts.finished_ms, last),
            "{:?} {last}",
            facts.finished_ms
        );
        assert!(near(facts.left_ms, left), "{:?} {left}", facts.left_ms);
    }
}

#[test]
fn work_elsewhere_contradicts_the_start_and_tells_only_the_distance() {
    let field = Field::rectangle(180.0, 250.0, 9.0);
    let fixes = field
        .worked([-50.0, 0.0], 1000)
        .fixes(&site(), RTK, true, 1);
    let facts = facts(&fixes, &setup(9.0), &[square(2180.0, 0.0, 200.0)]);
    assert_eq!(facts.start.kind, VerdictKind::Contradicted);
    let [Reason::Elsewhere { nearest_m }] = facts.start.reasons[..] else {
        panic!("{:?}", facts.start)
    };
    assert!((nearest_m - 2000.0).abs() < 20.0, "{nearest_m}");
    assert_eq!(
        (facts.started_ms, facts.finished_ms, facts.arrived_ms),
        (None, None, None)
    );
    assert_eq!(facts.covered.m2(), 0.0);
    assert!(facts.union.m2() > 40_000.0);
}

#[test]
fn a_touching_neighbour_gets_no_start() {
    let field = Field::rectangle(180.0, 250.0, 9.0);
    let fixes = field
        .worked([-50.0, 0.0], 1000)
        .fixes(&site(), METRE_AND_A_HALF, true, 1);
    let ring = vec![[180.0, 0.0], [380.0, 0.0], [380.0, 250.0], [180.0, 250.0]];
    for s in [setup(9.0), unsensed(9.0)] {
        let facts = facts(
            &fixes,
            &s,
            &[site().plot("beside", std::slice::from_ref(&ring))],
        );
        assert_eq!(facts.started_ms, None);
        assert_ne!(facts.start.kind, VerdictKind::Proven);
    }
}

#[test]
fn poor_sparse_and_missing_fixes_prove_nothing_and_say_why() {
    let field = Field::rectangle(180.0, 250.0, 9.0);
    let plot = [field.plot(&site(), "field")];
    let drive = field.worked([-50.0, 0.0], 1000);
    let poor = Noise {
        quality: 6,
        ..METRE_AND_A_HALF
    };
    let of = |fixes: &[Fix]| facts(fixes, &setup(9.0), &plot).start;
    let start = of(&drive.fixes(&site(), poor, true, 1));
    assert_eq!(start.kind, VerdictKind::NotProvable);
    assert!(matches!(start.reasons[..], [Reason::PoorFixes { good_share }] if good_share == 0.0));
    let sparse = field
        .worked([-50.0, 0.0], 15_000)
        .fixes(&site(), RTK, true, 1);
    let start = of(&sparse);
    assert_eq!(start.kind, VerdictKind::NotProvable);
    assert_eq!(
        start.reasons,
        vec![Reason::SparseFixes { interval_s: 15.0 }]
    );
    let start = of(&[]);
    assert_eq!(start.kind, VerdictKind::NotProvable);
    assert_eq!(start.reasons, vec![Reason::Silent]);
    let none = facts(&drive.fixes(&site(), RTK, true, 1), &setup(9.0), &[]).start;
    assert_eq!(
        (none.kind, &none.reasons[..]),
        (VerdictKind::None, &[Reason::NoPlot][..])
    );
}
