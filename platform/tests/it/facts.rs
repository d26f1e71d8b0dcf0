//! `furrow facts`: its keys, its patience with bad files, and the same facts from a file and from stored frames.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use chrono::{DateTime, TimeDelta, Utc};
use furrow_platform::{
    clock::{Clock as _, SystemClock},
    db::frames::{self, NewFrame, Place},
};
use furrow_protocol::{
    SigningKey,
    batch::Batch,
    fix::{Fix, Quality, Work, WorkSource},
    frame::{Device, Digest, Frame},
};
use serde_json::{Value, json};

use crate::world::World;

/// A folder for a test's files.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

/// Six passes of 120 m, 6 m apart, up and down a field; 1e-7 degrees, so that both sources have the same.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers of this file's choosing"
)]
pub fn passes(begin_ms: i64) -> Vec<Fix> {
    let mut fixes = Vec::new();
    let mut push = |x: f64, y: f64, on: bool| {
        let at = |metres: f64, per_degree: f64, origin: i32| {
            origin + (metres / per_degree * 1e7).round() as i32
        };
        fixes.push(Fix {
            at_ms: begin_ms + 1000 * fixes.len() as i64,
            lat_e7: at(y, 111_000.0, 399_000_000),
            lon_e7: at(x, 85_300.0, 1_164_000_000),
            speed_cm_s: Some(200),
            quality: Quality::RtkFixed,
            work: if on { Work::On } else { Work::Off },
            work_source: WorkSource::Hitch,
            ..Fix::default()
        });
    };
    for pass in 0..6 {
        let x = f64::from(pass) * 6.0 + 3.0;
        for step in 0..=60 {
            let y = f64::from(if pass % 2 == 0 { step } else { 60 - step }) * 2.0;
            push(x, y, step > 0);
        }
        let (y, out) = if pass % 2 == 0 {
            (120.0, 2.0)
        } else {
            (0.0, -2.0)
        };
        push(x + 2.0, y + out, false);
        push(x + 4.0, y + out, false);
    }
    fixes
}

fn csv(fixes: &[Fix]) -> String {
    let mut text = String::from("t_unix_ms,lat,lon,speed_mps,work_on,quality\n");
    for fix in fixes {
        let on = u8::from(fix.work == Work::On);
        let (lat, lon) = (f64::from(fix.lat_e7) / 1e7, f64::from(fix.lon_e7) / 1e7);
        text += &format!("{},{lat:.7},{lon:.7},2.0,{on},4\n", fix.at_ms);
    }
    text
}

/// The field of the passes, GeoJSON coordinates.
pub fn ring() -> Value {
    let at = |x: f64, y: f64| json!([116.4 + x / 85_300.0, 39.9 + y / 111_000.0]);
    json!([
        at(0.0, 0.0),
        at(36.0, 0.0),
        at(36.0, 120.0),
        at(0.0, 120.0),
        at(0.0, 0.0)
    ])
}

fn furrow(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_furrow"));
    command.arg("facts").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn facts(args: &[&str]) -> Value {
    let output = furrow(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = furrow(args);
    assert!(!output.status.success(), "{}", text(&output.stdout));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn path(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

const BEGIN_MS: i64 = 1_780_000_000_000;

#[test]
fn the_keys_are_those_of_the_specification_and_in_its_order() {
    let files = Files::new();
    let track = files.write("track.csv", csv(&passes(BEGIN_MS)));
    let plot = files.write(
        "north field.geojson",
        json!({"type": "Polygon", "coordinates": [ring()]}).to_string(),
    );
    let output = furrow(&[
        "--track",
        path(&track),
        "--width",
        "6",
        "--plot",
        path(&plot),
        "--json",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let keys: Vec<String> = text(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("  \""))
        .filter_map(|line| line.split_once('"'))
        .map(|(key, _)| key.to_owned())
        .collect();
    assert_eq!(
        keys.join(" "),
        "union_m2 covered_m2 closed_m2 gross_m2 overlap_m2 headland_m2 outside_m2 covered_mu \
         work_distance_m distance_x_width_m2 distance_m arrived_at started_at finished_at left_at \
         work_s turn_s transit_s idle_s fixes fixes_rejected gaps plot plot_conflict start_verdict quality"
    );
    let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |key: &str| facts[key].as_f64().unwrap();
    // Six passes of 120 m and 6 m, in a projection that is true to area.
    assert!((number("closed_m2") / 4320.0 - 1.0).abs() < 5e-3, "{facts}");
    assert!((number("covered_mu") - number("closed_m2") * 3.0 / 2000.0).abs() < 1e-4);
    assert_eq!(facts["plot"], "north field");
    assert_eq!(facts["start_verdict"]["kind"], "proven");
    assert_eq!(facts["start_verdict"]["reasons"][0]["reason"], "work_seen");
    assert_eq!(facts["started_at"], "2026-05-28T20:26:40.000Z");
    assert_eq!(facts["left_at"], Value::Null);
    assert_eq!(facts["fixes_rejected"], json!({}));
    assert_eq!(facts["quality"]["estimate"], false);
    let sum: f64 = ["work_s", "turn_s", "transit_s", "idle_s"]
        .map(number)
        .iter()
        .sum();
    assert!((sum - 377.0).abs() < 1e-6, "{facts}");
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_the_others_stand() {
    let files = Files::new();
    let good = csv(&passes(BEGIN_MS));
    let clean = files.write("clean.csv", &good);
    let mut bytes = good.clone().into_bytes();
    bytes.extend_from_slice(b"what,is,this\n\n1780000100500,abc,116.4,1,1,4\n1780000100600,39.9\n");
    bytes.extend_from_slice(
        b"1780000100700,0,0,1,1,4\n1780000100800,nan,inf,1,1,4\n\xff\xfe\x00,\"\n",
    );
    let dirty = files.write("dirty.csv", bytes);
    let truth = facts(&["--track", path(&clean), "--width", "6"]);
    let facts = facts(&["--track", path(&dirty), "--width", "6"]);
    for key in ["closed_m2", "distance_m", "fixes", "work_s"] {
        assert_eq!(facts[key], truth[key], "{key}");
    }
    let rejected = &facts["fixes_rejected"];
    assert_eq!(
        rejected,
        &json!({"no_time": 2, "not_a_place": 3, "null_island": 1})
    );
}

#[test]
fn files_that_are_no_track_are_refused_with_the_reason() {
    let files = Files::new();
    let no_header = files.write("a.csv", "1780000000000,39.9,116.4\n");
    assert!(refused(&["--track", path(&no_header), "--width", "6"]).contains("t_unix_ms"));
    let empty = files.write("b.csv", "");
    assert!(refused(&["--track", path(&empty), "--width", "6"]).contains("t_unix_ms"));
    let noise: Vec<u8> = (0..20_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let noise = files.write("c.csv", noise);
    refused(&["--track", path(&noise), "--width", "6"]);
    refused(&["--track", "/nowhere/at/all.csv", "--width", "6"]);
    let none = files.write("d.csv", "t_unix_ms,lat,lon\n");
    let facts = facts(&["--track", path(&none), "--width", "6"]);
    assert_eq!(
        (&facts["fixes"], &facts["closed_m2"]),
        (&json!(0), &json!(0.0))
    );
    assert_eq!(facts["start_verdict"]["kind"], "none");
}

#[test]
fn widths_that_no_implement_has_are_refused() {
    let files = Files::new();
    let track = files.write("track.csv", csv(&passes(BEGIN_MS)));
    for width in ["0", "-3", "NaN", "inf", "1e9", "0.01", "six"] {
        let said = refused(&["--track", path(&track), "--width", width]);
        assert!(said.contains("width"), "{width}: {said}");
    }
}

#[test]
fn boundaries_are_mended_and_told_or_refused_with_the_reason() {
    let files = Files::new();
    let track = files.write("track.csv", csv(&passes(BEGIN_MS)));
    let with = |content: &Value| {
        let plot = files.write("p.geojson", content.to_string());
        furrow(&[
            "--track",
            path(&track),
            "--width",
            "6",
            "--plot",
            path(&plot),
            "--json",
        ])
    };
    let mut open = ring();
    let corners = open.as_array_mut().unwrap();
    corners.pop();
    let doubled = corners[1].clone();
    corners.insert(1, doubled);
    corners.reverse();
    let mended = with(&json!({"type": "Polygon", "coordinates": [open]}));
    assert!(mended.status.success());
    let said = text(&mended.stderr);
    for repair in ["Closed", "DuplicateCorners", "Winding"] {
        assert!(said.contains(repair), "{said}");
    }
    for (content, reason) in [
        (
            json!({"type": "Polygon", "coordinates": [[[1.0, 1.0], [2.0, 1.0]]]}),
            "fewer than three",
        ),
        (json!({"type": "Polygon", "coordinates": []}), "no ring"),
        (
            json!({"type": "Point", "coordinates": [1.0, 1.0]}),
            "no polygon",
        ),
        (
            json!({"type": "Polygon", "coordinates": [[[1.0, 95.0], [200.0, 91.0], [3.0, 1.0]]]}),
            "not a longitude",
        ),
        (
            json!({"type": "FeatureCollection", "features": []}),
            "no polygon",
        ),
        (
            json!({"type": "Polygon", "coordinates": [ring()], "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}}),
            "3857",
        ),
        (json!({"what": "is this"}), "GeoJSON"),
    ] {
        let output = with(&content);
        assert_eq!(output.status.code(), Some(1), "{content}");
        assert!(
            text(&output.stderr).contains(reason),
            "{content}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_file_says_its_datum_and_a_multipolygon_is_one_plot() {
    let files = Files::new();
    let track = files.write("track.csv", csv(&passes(BEGIN_MS)));
    let shifted: Value = ring()
        .as_array()
        .unwrap()
        .iter()
        .map(|c| json!([c[0].as_f64().unwrap() + 0.01, c[1]]))
        .collect();
    let both = json!({"type": "Feature", "properties": {"name": "two parts"}, "geometry":
        {"type": "MultiPolygon", "coordinates": [[shifted], [ring()]]}});
    let both = files.write("both.geojson", both.to_string());
    let facts_of = |plot: &std::path::Path| {
        facts(&[
            "--track",
            path(&track),
            "--width",
            "6",
            "--plot",
            path(plot),
        ])
    };
    let told = facts_of(&both);
    assert_eq!(told["plot"], "two parts");
    assert_eq!(told["plot_conflict"], Value::Null);
    assert!(told["closed_m2"].as_f64().unwrap() > 4200.0);
    // The same numbers as GCJ-02 are another place, half a kilometre away.
    let gcj = json!({"type": "Polygon", "coordinates": [ring()], "crs": "GCJ-02"});
    let gcj = files.write("gcj.geojson", gcj.to_string());
    let elsewhere = facts_of(&gcj);
    assert_eq!(elsewhere["covered_m2"], 0.0);
    assert_eq!(elsewhere["start_verdict"]["kind"], "contradicted");
    let said = refused(&[
        "--track",
        path(&track),
        "--width",
        "6",
        "--plot",
        path(&gcj),
        "--datum",
        "wgs84",
    ]);
    assert!(said.contains("Gcj02"), "{said}");
}

#[test]
fn the_fixes_that_the_agent_prints_are_a_track() {
    let files = Files::new();
    let mut text = String::from("time,lat,lon,speed_mps,course_deg,quality\n");
    for fix in passes(BEGIN_MS) {
        let at = DateTime::from_timestamp_millis(fix.at_ms)
            .unwrap()
            .to_rfc3339();
        let (lat, lon) = (f64::from(fix.lat_e7) / 1e7, f64::from(fix.lon_e7) / 1e7);
        text += &format!("{at},{lat:.9},{lon:.9},2.0,,4\n");
    }
    let track = files.write("fixes.csv", text);
    let facts = facts(&["--track", path(&track), "--width", "6"]);
    // Without a sensor, from the passes alone.
    assert!(
        (facts["closed_m2"].as_f64().unwrap() / 4320.0 - 1.0).abs() < 0.05,
        "{facts}"
    );
}

/// Stores fixes as a device's frames of ten.
pub async fn store(world: &World, device: u32, fixes: &[Fix]) {
    let key = SigningKey::from_bytes(&[7; 32]);
    let at = |ms: i64| DateTime::from_timestamp_millis(ms).unwrap();
    let mut rows = Vec::new();
    for (seq, part) in (1..).zip(fixes.chunks(10)) {
        let batch = Batch {
            at_ms: part[0].at_ms,
            boot: 1,
            monotonic_ms: 0,
            fixes: part.to_vec(),
            gaps: vec![],
            former: None,
            ext: vec![],
        };
        let frame = Frame::sign(
            &key,
            Device(device),
            1,
            seq,
            Digest([0; 16]),
            batch.encode().unwrap(),
        );
        rows.push(NewFrame {
            place: Place {
                device,
                epoch: 1,
                seq,
            },
            day: at(part[0].at_ms).date_naive(),
            first_at: at(part[0].at_ms),
            last_at: at(part[part.len() - 1].at_ms),
            fixes: i16::try_from(part.len()).unwrap(),
            frame: frame.to_bytes().into(),
        });
    }
    let mut connection = world.pool.acquire().await.unwrap();
    frames::copy(&mut connection, &rows, SystemClock.now())
        .await
        .unwrap();
}

#[tokio::test]
async fn stored_frames_give_the_facts_that_a_file_gives() {
    let world = World::new().await;
    let files = Files::new();
    let begin: DateTime<Utc> = SystemClock.now() - TimeDelta::hours(3);
    let fixes = passes(begin.timestamp_millis());
    store(&world, 4_000_000_001, &fixes).await;
    let track = files.write("track.csv", csv(&fixes));
    let truth = facts(&["--track", path(&track), "--width", "6"]);
    let url = world.settings.database.url.clone();
    let run = move |from: DateTime<Utc>, to: DateTime<Utc>| {
        Command::new(env!("CARGO_BIN_EXE_furrow"))
            .env("FURROW__DATABASE__URL", &url)
            .args(["facts", "--device", "4000000001", "--width", "6", "--json"])
            .args(["--from", &from.to_rfc3339(), "--to", &to.to_rfc3339()])
            .output()
            .unwrap()
    };
    let hour = TimeDelta::hours(1);
    let output = run(begin - hour, begin + hour);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(facts, truth);
    // A window inside one of the frames holds its fixes from the window's begin on, to its end.
    let inside = run(
        begin + TimeDelta::milliseconds(25_000),
        begin + TimeDelta::milliseconds(35_000),
    );
    let facts: Value = serde_json::from_slice(&inside.stdout).unwrap();
    assert_eq!(facts["fixes"], 10);
    for (from, to) in [(begin, begin), (begin, begin + TimeDelta::days(40))] {
        let refused = run(from, to);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("--to"));
    }
}
