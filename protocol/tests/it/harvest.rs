//! Fixes of the real forage harvester tracks, where the shared data is at hand. Never in the project itself.

use std::path::{Path, PathBuf};

use furrow_protocol::{
    SigningKey,
    batch::Batch,
    fix::{Fix, Quality, Work, WorkSource},
    frame::{Device, Frame, genesis},
};

/// Which columns the fixes have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// What the tracks hold: position, speed, work, width.
    AsReplayed,
    /// Course, quality, satellites, HDOP, work source and sections too, as a good receiver gives them.
    All,
}

/// The folder of the tracks.
pub fn folder() -> Option<PathBuf> {
    let root = std::env::var_os("FURROW_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")),
        PathBuf::from,
    );
    let folder = root.join("tracks/forage_harvester");
    folder.is_dir().then_some(folder)
}

/// The fixes of each track, in the tracks' order.
pub fn tracks(folder: &Path, columns: Columns) -> Vec<Vec<Fix>> {
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "csv"));
    paths.sort();
    paths.iter().map(|path| track(path, columns)).collect()
}

fn track(path: &Path, columns: Columns) -> Vec<Fix> {
    let mut reader = csv::Reader::from_path(path).expect("a track is readable");
    let headers = reader.headers().expect("a track has a header").clone();
    let names = ["t_unix_ms", "lat", "lon", "speed_mps", "work_on", "width_m"];
    let places = names.map(|name| headers.iter().position(|h| h == name).expect(name));
    let mut fixes: Vec<Fix> = Vec::new();
    for record in reader.records() {
        let record = record.expect("a track's rows are well formed");
        let values = places.map(|place| record[place].parse::<f64>().expect("a number"));
        let fix = fix(values, fixes.last(), columns, fixes.len());
        if fixes.last().is_none_or(|last| last.at_ms < fix.at_ms) {
            fixes.push(fix);
        }
    }
    fixes
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values of known tracks, far inside the types"
)]
fn fix(values: [f64; 6], last: Option<&Fix>, columns: Columns, row: usize) -> Fix {
    let [at_ms, lat, lon, speed, work, width] = values;
    let bare = Fix {
        at_ms: at_ms as i64,
        lat_e7: (lat * 1e7).round() as i32,
        lon_e7: (lon * 1e7).round() as i32,
        speed_cm_s: Some((speed * 100.0).round() as u16),
        work: if work > 0.5 { Work::On } else { Work::Off },
        width_cm: Some((width * 100.0).round() as u16),
        ..Fix::default()
    };
    if columns == Columns::AsReplayed {
        return bare;
    }
    Fix {
        course_ddeg: Some(course(&bare, last)),
        quality: Quality::RtkFixed,
        satellites: Some(14 + (row / 7 % 3) as u8),
        hdop_x10: Some(7 + (row / 11 % 3) as u16),
        work_source: WorkSource::Hitch,
        sections: Some(0xfff),
        ..bare
    }
}

/// Along the way from the last fix; a receiver holds its course while the machine stands.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a course from 0 to 3599"
)]
fn course(fix: &Fix, last: Option<&Fix>) -> u16 {
    let Some(last) = last else { return 0 };
    if fix.speed_cm_s.is_none_or(|v| v <= 50) {
        return last.course_ddeg.unwrap_or(0);
    }
    let lat = (f64::from(fix.lat_e7) / 1e7).to_radians();
    let east = f64::from(fix.lon_e7 - last.lon_e7) * lat.cos();
    let north = f64::from(fix.lat_e7 - last.lat_e7);
    let degrees = east.atan2(north).to_degrees().rem_euclid(360.0);
    (degrees * 10.0).round() as u16 % 3600
}

/// The batches of a track: 10 fixes each, 11 hours after the agent's start.
pub fn batches(track: &[Fix]) -> Vec<Batch> {
    let batch = |(i, fixes): (usize, &[Fix])| Batch {
        at_ms: fixes[0].at_ms,
        boot: 0xfedc_ba98,
        monotonic_ms: 40_000_000 + 10_000 * u64::try_from(i).expect("a small number"),
        fixes: fixes.to_vec(),
        gaps: vec![],
        former: None,
        ext: vec![],
    };
    track.chunks(10).enumerate().map(batch).collect()
}

/// The frames of these batches, well into an epoch.
pub fn frames(batches: &[Batch]) -> Vec<Vec<u8>> {
    let key = SigningKey::from_bytes(&[7; 32]);
    let (device, epoch) = (Device(4711), 0x8123_4567_89ab_cdef);
    let mut prev = genesis(device, epoch, &key.verifying_key());
    let mut frame = |(seq, batch): (u64, &Batch)| {
        let bytes = batch.encode().expect("a batch within the limits");
        let frame = Frame::sign(&key, device, epoch, seq, prev, bytes);
        prev = frame.digest(device);
        frame.to_bytes()
    };
    (10_000..).zip(batches).map(&mut frame).collect()
}
