//! The bars of fieldwork on tracks with known areas, where the shared data is at hand.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

use std::path::{Path, PathBuf};

use furrow_domain::{
    fieldwork::{Facts, Setup, VerdictKind, facts, live::Live, survey},
    geo::{Degrees, datum::Datum, plot::Plot, region::Region},
    track::Fix,
};
use serde_json::Value;

fn folder(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FURROW_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let folder = root.join("tracks").join(name);
    if folder.is_dir() {
        Some(folder)
    } else {
        eprintln!("shared/data/tracks/{name}: not present");
        None
    }
}

struct Recorded {
    name: String,
    fixes: Vec<Fix>,
    setup: Setup,
    plot: Option<Plot>,
    told: Value,
}

impl Recorded {
    fn number(&self, key: &str) -> f64 {
        self.told[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{}: no {key}", self.name))
    }
}

fn read(csv_path: &Path) -> Recorded {
    let told: Value =
        serde_json::from_str(&std::fs::read_to_string(csv_path.with_extension("json")).unwrap())
            .unwrap();
    let mut reader = csv::Reader::from_path(csv_path).unwrap();
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|h| h == name);
    let columns = ["t_unix_ms", "lat", "lon", "speed_mps", "work_on", "width_m"].map(column);
    let fixes = reader
        .records()
        .map(|record| {
            let record = record.unwrap();
            let field = |i: usize| columns[i].and_then(|c| record.get(c)).unwrap_or("");
            Fix {
                at_ms: field(0).parse().unwrap(),
                place: Degrees {
                    lat: field(1).parse().unwrap(),
                    lon: field(2).parse().unwrap(),
                },
                speed_mps: field(3).parse().ok(),
                quality: 0,
                accuracy_m: None,
                work_on: match field(4) {
                    "1" => Some(true),
                    "0" => Some(false),
                    _ => None,
                },
                width_m: field(5).parse().ok(),
                sections: None,
            }
        })
        .collect();
    let plot = told["field_boundary"]["coordinates"]
        .as_array()
        .map(|rings| {
            let rings: Vec<Vec<[f64; 2]>> =
                serde_json::from_value(Value::Array(rings.clone())).unwrap();
            Plot::new("plot".into(), &rings, Datum::Wgs84).unwrap()
        });
    Recorded {
        name: told["name"].as_str().unwrap().to_owned(),
        fixes,
        setup: Setup::new(told["working_width_m"].as_f64().unwrap()).unwrap(),
        plot,
        told,
    }
}

fn all(folder: &Path) -> Vec<Recorded> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "csv"));
    paths.sort();
    paths.iter().map(|p| read(p)).collect()
}

fn plain(track: &Recorded) -> Facts {
    facts(&track.fixes, &track.setup, &[])
}

/// |union - reference| <= 0.5 %, |distance x width - reference| <= `distance` (a ratio).
fn compare_with_reference(track: &Recorded, distance: f64) {
    let facts = plain(track);
    let off = |ours: f64, key: &str| ours / track.number(key) - 1.0;
    let union = off(facts.covered.m2(), "reference_union_area_m2");
    let swept = off(facts.distance_x_width_m2, "reference_distance_x_width_m2");
    eprintln!(
        "{}: union {:+.3} %, distance x width {:+.3} %",
        track.name,
        union * 100.0,
        swept * 100.0
    );
    assert!(union.abs() <= 0.005, "{}: union {union}", track.name);
    assert!(
        swept.abs() <= distance,
        "{}: distance x width {swept}",
        track.name
    );
}

#[test]
fn unions_and_distances_agree_with_the_references() {
    let Some(harvester) = folder("forage_harvester") else {
        return;
    };
    let harvester = all(&harvester);
    assert_eq!(harvester.len(), 12);
    for track in &harvester {
        compare_with_reference(track, 0.0015);
    }
    for track in all(&folder("sim_tillage").unwrap()) {
        compare_with_reference(&track, 0.002);
    }
    for track in all(&folder("wheat_two_headers").unwrap()) {
        compare_with_reference(&track, 0.01);
    }
}

/// Mean absolute error and total error of `area` against the declared areas, as ratios.
fn errors(tracks: &[Recorded], area: impl Fn(&Recorded) -> f64) -> (f64, f64) {
    let (mut absolute, mut ours, mut declared) = (0.0, 0.0, 0.0);
    for track in tracks {
        let (a, d) = (area(track), track.number("declared_field_area_m2"));
        eprintln!("{}: {:+.2} %", track.name, (a / d - 1.0) * 100.0);
        absolute += (a / d - 1.0).abs();
        ours += a;
        declared += d;
    }
    (
        absolute / f64::from(u32::try_from(tracks.len()).unwrap()),
        ours / declared - 1.0,
    )
}

#[test]
fn closed_areas_of_a_real_harvest_keep_to_the_declared_areas() {
    let Some(harvester) = folder("forage_harvester") else {
        return;
    };
    let tracks = all(&harvester);
    let (mean, total) = errors(&tracks, |t| plain(t).closed.m2());
    eprintln!(
        "without plot: mean {:.2} %, total {:+.2} %",
        mean * 100.0,
        total * 100.0
    );
    assert!(mean <= 0.031 && total.abs() <= 0.01);
    let (mean, total) = errors(&tracks, |t| {
        facts(
            &t.fixes,
            &t.setup,
            std::slice::from_ref(t.plot.as_ref().unwrap()),
        )
        .closed
        .m2()
    });
    eprintln!(
        "with plot: mean {:.2} %, total {:+.2} %",
        mean * 100.0,
        total * 100.0
    );
    assert!(mean <= 0.031 && (-0.04..=0.01).contains(&total));
}

/// Truth: the first second of work inside the boundary, by the sensor.
#[test]
fn every_start_of_a_real_harvest_is_proven_within_half_a_minute() {
    let Some(harvester) = folder("forage_harvester") else {
        return;
    };
    let tracks = all(&harvester);
    for track in &tracks {
        let plot = track.plot.clone().unwrap();
        let facts = facts(&track.fixes, &track.setup, &[plot]);
        assert_eq!(facts.start.kind, VerdictKind::Proven, "{}", track.name);
        let first_on = track
            .fixes
            .iter()
            .find(|f| f.work_on == Some(true))
            .unwrap()
            .at_ms;
        let lag = facts.started_ms.unwrap() - first_on;
        eprintln!(
            "{}: lag {} ms, arrived {:?}, left {:?}",
            track.name, lag, facts.arrived_ms, facts.left_ms
        );
        assert!(
            (-30_000..=30_000).contains(&lag),
            "{}: {lag} ms",
            track.name
        );
        let sum = facts.work_s + facts.turn_s + facts.transit_s + facts.idle_s;
        let gaps: f64 = facts.gaps.iter().map(|g| g.missing_s).sum();
        let span = track.fixes.last().unwrap().at_ms - track.fixes.first().unwrap().at_ms;
        assert!(
            (sum + gaps - span as f64 / 1000.0).abs() < 1e-6,
            "{}",
            track.name
        );
    }
}

#[test]
fn no_start_is_found_in_a_touching_neighbour() {
    let Some(harvester) = folder("forage_harvester") else {
        return;
    };
    let tracks = all(&harvester);
    for track in &tracks {
        for other in tracks.iter().filter(|o| o.name != track.name) {
            let same = track.told["declared_field_area_m2"] == other.told["declared_field_area_m2"];
            let facts = facts(&track.fixes, &track.setup, &[other.plot.clone().unwrap()]);
            assert!(
                same || facts.started_ms.is_none(),
                "{} in the plot of {}",
                track.name,
                other.name
            );
        }
    }
}

#[test]
fn simulated_tillage_has_its_area_and_its_holes_stay_open() {
    let Some(tillage) = folder("sim_tillage") else {
        return;
    };
    let tracks = all(&tillage);
    for (track, truth) in tracks.iter().zip([82_693.0, 65_072.0]) {
        let covered = plain(track).covered.m2();
        assert!(
            (covered / truth - 1.0).abs() <= 0.001,
            "{}: {covered}",
            track.name
        );
        let plot = track.plot.clone().unwrap();
        let survey = survey(&track.fixes, &track.setup, std::slice::from_ref(&plot));
        let region = survey.plot.unwrap();
        let hull = Region::from_rings(
            region
                .shapes()
                .iter()
                .filter_map(|s| s.first().cloned())
                .collect(),
        );
        let holes = hull.difference(&region);
        let filled = survey.closed.intersection(&holes).area().m2();
        assert_eq!(
            filled,
            0.0,
            "{}: holes of {:?} filled",
            track.name,
            holes.area()
        );
        let closed = survey.facts.closed;
        assert!(closed <= plot.area(), "{}", track.name);
        let numbers = (closed.m2(), plot.area().m2(), holes.area().m2());
        eprintln!("{}: closed, plot, holes: {numbers:.0?} m2", track.name);
        if track.name == "TLG00002" {
            assert!(holes.area().m2() > 100.0, "the second field has two holes");
        }
    }
}

/// Live figures, fix by fix, against the exact union.
#[test]
fn live_coverage_of_real_tracks_is_the_union_to_a_thousandth() {
    let Some(harvester) = folder("forage_harvester") else {
        return;
    };
    for track in all(&harvester) {
        let survey = survey(&track.fixes, &track.setup, &[]);
        let mut live = Live::new(track.setup, survey.projection, None);
        track.fixes.iter().for_each(|fix| live.push(fix));
        let off = live.figures().covered_m2 / survey.facts.union.m2() - 1.0;
        assert!(off.abs() <= 1e-3, "{}: {off}", track.name);
    }
}

/// Without its sensor the harvest has the same area within 4 %, and the same starts.
#[test]
fn a_real_harvest_without_its_sensor_keeps_its_area_and_its_start() {
    let Some(harvester) = folder("forage_harvester") else {
        return;
    };
    let mut off = Vec::new();
    for track in all(&harvester) {
        let plot = [track.plot.clone().unwrap()];
        let unsensed = Setup {
            use_sensor: false,
            ..track.setup
        };
        let told = facts(&track.fixes, &track.setup, &plot);
        let inferred = facts(&track.fixes, &unsensed, &plot);
        let ratio = inferred.closed.m2() / told.closed.m2() - 1.0;
        let lag = inferred.started_ms.unwrap() - told.started_ms.unwrap();
        eprintln!(
            "{}: {:+.2} %, start {lag} ms later",
            track.name,
            ratio * 100.0
        );
        assert!(ratio.abs() <= 0.04, "{}: {ratio}", track.name);
        assert!(lag.abs() <= 30_000, "{}: {lag}", track.name);
        off.push(ratio.abs());
    }
    assert!(off.iter().sum::<f64>() / off.len() as f64 <= 0.02);
}

#[test]
fn the_order_and_the_doubling_of_fixes_change_nothing() {
    let Some(harvester) = folder("forage_harvester") else {
        return;
    };
    let track = read(&harvester.join("task03.csv"));
    let plots = [track.plot.clone().unwrap()];
    let truth = facts(&track.fixes, &track.setup, &plots);
    let mut reversed = track.fixes.clone();
    reversed.reverse();
    assert_eq!(facts(&reversed, &track.setup, &plots), truth);
    let mut doubled = track.fixes.clone();
    doubled.extend_from_slice(&track.fixes);
    let doubled = facts(&doubled, &track.setup, &plots);
    assert_eq!(
        (doubled.closed, doubled.started_ms, doubled.fixes),
        (truth.closed, truth.started_ms, truth.fixes)
    );
}
