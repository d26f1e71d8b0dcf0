//! Real receiver logs and our synthetic ones against their expected fixes, by the rule of INDEX.md.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, Utc};
use furrow_agent::{
    commands::fixes::{FixesArgs, run},
    sources::{Event, nmea},
};
use proptest::prelude::*;

#[expect(clippy::disallowed_methods, reason = "where the tests' data lies")]
fn shared() -> Option<PathBuf> {
    let root = std::env::var_os("FURROW_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")),
        PathBuf::from,
    );
    let folder = root.join("nmea");
    if folder.is_dir() {
        Some(folder)
    } else {
        eprintln!("shared/data/nmea: not present");
        None
    }
}

struct Row {
    at: DateTime<Utc>,
    lat: f64,
    lon: f64,
    speed: Option<f64>,
    quality: Option<String>,
}

fn rows(csv_text: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|h| h == name);
    let quality = column("quality");
    reader
        .records()
        .map(|record| {
            let record = record.unwrap();
            let field = |name: &str| record[column(name).unwrap()].to_owned();
            Row {
                at: field("time").parse().unwrap(),
                lat: field("lat").parse().unwrap(),
                lon: field("lon").parse().unwrap(),
                speed: field("speed_mps").parse().ok(),
                quality: quality.map(|i| record[i].to_owned()),
            }
        })
        .collect()
}

fn fixes(file: &Path, floor: Option<NaiveDate>) -> Vec<Row> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    run(
        &FixesArgs {
            file: file.to_owned(),
            rate: None,
            floor,
        },
        &mut out,
        &mut err,
    )
    .unwrap();
    rows(&String::from_utf8(out).unwrap())
}

/// All rows equal: time, place within 2e-7 degree, speed within 0.02 m/s where both have one.
fn compare(name: &str, expected: &[Row], got: &[Row]) {
    let times = |rows: &[Row]| rows.iter().map(|r| r.at).collect::<Vec<_>>();
    assert_eq!(times(expected), times(got), "{name}");
    for (e, g) in expected.iter().zip(got) {
        assert!(
            (e.lat - g.lat).abs() <= 2e-7 && (e.lon - g.lon).abs() <= 2e-7,
            "{name} at {}",
            e.at
        );
        if let (Some(a), Some(b)) = (e.speed, g.speed) {
            assert!(
                (a - b).abs() <= 0.02,
                "{name} at {}: speed {a} and {b}",
                e.at
            );
        }
        if let (Some(a), Some(b)) = (&e.quality, &g.quality) {
            assert!(
                a.is_empty() || a == b,
                "{name} at {}: quality {a} and {b}",
                e.at
            );
        }
    }
}

fn compare_folder(folder: &Path, ending: &str, floor: impl Fn(&str) -> Option<NaiveDate>) -> usize {
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(stem) = name.strip_suffix(ending) else {
            continue;
        };
        let expected =
            std::fs::read_to_string(folder.join(format!("{stem}.expected.csv"))).unwrap();
        compare(&name, &rows(&expected), &fixes(&path, floor(stem)));
        compared += 1;
    }
    compared
}

#[test]
fn every_receiver_log_gives_its_expected_fixes_and_no_others() {
    let Some(folder) = shared() else { return };
    assert!(compare_folder(&folder, ".log", |_| None) >= 21);
}

#[test]
fn every_synthetic_log_gives_its_expected_fixes_and_no_others() {
    let Some(folder) = shared() else { return };
    let floor = |stem: &str| {
        stem.contains("week-rollover")
            .then(|| NaiveDate::from_ymd_opt(2026, 1, 1).unwrap())
    };
    assert!(compare_folder(&folder.join("synthetic"), ".nmea", floor) >= 10);
}

#[test]
fn a_gpsd_stream_gives_its_expected_fixes_and_no_others() {
    let Some(folder) = shared() else { return };
    assert!(compare_folder(&folder.join("gpsd-json"), ".json.log", |_| None) >= 1);
}

/// The `nmea` crate reads single sentences; wherever it accepts one, ours must say the same of it.
#[test]
fn the_nmea_crate_agrees_wherever_it_accepts_a_sentence() {
    use furrow_agent::sources::nmea::sentence;
    let Some(folder) = shared() else { return };
    let mut agreed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "log") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for line in bytes
            .split(|b| *b == b'\n')
            .filter_map(|l| std::str::from_utf8(l).ok())
        {
            let line = line.trim();
            let Some((body, _)) = line.strip_prefix('$').and_then(|l| l.split_once('*')) else {
                continue;
            };
            let Some((place, speed)) = reference(line) else {
                continue;
            };
            let Some(told) = sentence::read(body) else {
                continue;
            };
            if let (Some((lat, lon)), Some(place)) = (place, told.place) {
                assert!((lat - place.lat_e9 as f64 / 1e9).abs() < 1e-7, "{line}");
                assert!((lon - place.lon_e9 as f64 / 1e9).abs() < 1e-7, "{line}");
                agreed += 1;
            }
            if let (Some(knots), Some(mm_s)) = (speed, told.speed_mm_s) {
                assert!(
                    (knots * 1852.0 / 3.6 - f64::from(mm_s)).abs() < 1.0,
                    "{line}"
                );
            }
        }
    }
    assert!(agreed > 500, "{agreed}");
}

type Reference = (Option<(f64, f64)>, Option<f64>);

/// What the `nmea` crate reads: (latitude and longitude in degrees, speed in knots).
fn reference(line: &str) -> Option<Reference> {
    use ::nmea::ParseResult as R;
    let place = |lat: Option<f64>, lon: Option<f64>| Some((lat?, lon?));
    Some(match ::nmea::parse_str(line).ok()? {
        R::RMC(d) => (place(d.lat, d.lon), d.speed_over_ground.map(f64::from)),
        R::GGA(d) => (place(d.latitude, d.longitude), None),
        R::GNS(d) => (place(d.lat, d.lon), None),
        R::GLL(d) => (place(d.latitude, d.longitude), None),
        _ => return None,
    })
}

proptest! {
    #[test]
    fn no_bytes_panic_the_reader_and_all_that_it_gives_is_in_range(
        parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            "\\$G[PNLAB](RMC|GGA|GNS|GLL|VTG|ZDA|GSA)(,[0-9.NSEWAVDRF-]{0,12}){0,16}".prop_map(with_checksum),
        ], 0..40),
    ) {
        let mut reader = nmea::Reader::log(None);
        for part in &parts {
            reader.push(part, 0);
        }
        reader.finish();
        while let Some(event) = reader.next_event() {
            if let Event::Position(p) = event {
                prop_assert!(p.lat_e9.abs() <= 90_000_000_000 && p.lon_e9.abs() <= 180_000_000_000);
            }
        }
    }
}

fn with_checksum(sentence: String) -> Vec<u8> {
    let sum = sentence.bytes().skip(1).fold(0, |a, b| a ^ b);
    format!("{sentence}*{sum:02X}\r\n").into_bytes()
}

#[test]
fn ten_megabytes_of_garbage_are_read_to_their_end() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let garbage: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state.is_multiple_of(50) {
            b'$'
        } else {
            (state >> 32) as u8
        }
    })
    .take(10_000_000)
    .collect();
    let begin = std::time::Instant::now();
    let mut reader = nmea::Reader::log(None);
    let mut events = 0_u64;
    for chunk in garbage.chunks(4096) {
        reader.push(chunk, 0);
        events += std::iter::from_fn(|| reader.next_event()).count() as u64;
    }
    reader.finish();
    eprintln!("10 MB of garbage in {:?}, {events} events", begin.elapsed());
    assert!(events > 0);
}
