//! The size bars on real tracks, where the shared data is at hand.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "test code over known data"
)]

use std::path::PathBuf;

use furrow_protocol::{
    SigningKey,
    batch::Batch,
    fix::{Fix, Quality, Work, WorkSource},
    frame::{Device, Frame, genesis},
};

fn tracks() -> Option<PathBuf> {
    let root = std::env::var_os("FURROW_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")),
        PathBuf::from,
    );
    let folder = root.join("tracks/forage_harvester");
    folder.is_dir().then_some(folder)
}

fn fixes(path: &std::path::Path, all_columns: bool) -> Vec<Fix> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|h| h == name).unwrap();
    let (t, lat, lon, speed, work, width) = (
        column("t_unix_ms"),
        column("lat"),
        column("lon"),
        column("speed_mps"),
        column("work_on"),
        column("width_m"),
    );
    let mut out: Vec<Fix> = Vec::new();
    for (i, record) in reader.records().enumerate() {
        let record = record.unwrap();
        let number = |c: usize| record[c].parse::<f64>().unwrap();
        let last = out.last().copied();
        let (lat_e7, lon_e7) = (
            (number(lat) * 1e7).round() as i32,
            (number(lon) * 1e7).round() as i32,
        );
        // A receiver holds its course while the machine stands.
        let course = last.filter(|_| number(speed) > 0.5).map_or(
            f64::from(last.and_then(|l| l.course_ddeg).unwrap_or(0)) / 10.0,
            |l| {
                f64::from(lon_e7 - l.lon_e7)
                    .mul_add(0.58, 0.0)
                    .atan2(f64::from(lat_e7 - l.lat_e7))
                    .to_degrees()
                    .rem_euclid(360.0)
            },
        );
        let fix = Fix {
            at_ms: record[t].parse().unwrap(),
            lat_e7,
            lon_e7,
            speed_cm_s: Some((number(speed) * 100.0).round() as u16),
            course_ddeg: all_columns.then_some(((course * 10.0) as u16).min(3599)),
            quality: if all_columns {
                Quality::RtkFixed
            } else {
                Quality::Unknown
            },
            satellites: all_columns.then_some(14 + (i / 7 % 3) as u8),
            hdop_x10: all_columns.then_some(7 + (i / 11 % 3) as u16),
            work: if &record[work] == "1" {
                Work::On
            } else {
                Work::Off
            },
            work_source: if all_columns {
                WorkSource::Hitch
            } else {
                WorkSource::None
            },
            width_cm: Some((number(width) * 100.0).round() as u16),
            sections: all_columns.then_some(0xfff),
        };
        if last.is_none_or(|l| l.at_ms < fix.at_ms) {
            out.push(fix);
        }
    }
    out
}

/// (mean batch, mean frame, largest frame) in bytes over batches of 10 fixes.
fn sizes(all_columns: bool) -> Option<(f64, f64, usize)> {
    let folder = tracks()?;
    let key = SigningKey::from_bytes(&[7; 32]);
    let device = Device(4711);
    let epoch = 0x8123_4567_89ab_cdef;
    let (mut frames, mut batch_bytes, mut frame_bytes, mut largest) = (0_u32, 0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "csv") {
            continue;
        }
        let mut prev = genesis(device, epoch, &key.verifying_key());
        for (i, fixes) in fixes(&path, all_columns).chunks(10).enumerate() {
            let batch = Batch {
                at_ms: fixes[0].at_ms,
                boot: 0xfedc_ba98,
                monotonic_ms: 40_000_000 + 10_000 * i as u64,
                fixes: fixes.to_vec(),
                gaps: vec![],
                former: None,
                ext: vec![],
            };
            let bytes = batch.encode().unwrap();
            assert_eq!(Batch::decode(&bytes).unwrap(), batch);
            batch_bytes += bytes.len();
            let frame = Frame::sign(&key, device, epoch, 10_000 + i as u64, prev, bytes);
            prev = frame.digest(device);
            let bytes = frame.to_bytes();
            frame_bytes += bytes.len();
            largest = largest.max(bytes.len());
            frames += 1;
        }
    }
    Some((
        batch_bytes as f64 / f64::from(frames),
        frame_bytes as f64 / f64::from(frames),
        largest,
    ))
}

#[test]
fn frames_of_a_real_harvest_keep_the_size_bars() {
    let Some((batch, frame, largest)) = sizes(false) else {
        eprintln!("shared/data/tracks: not present");
        return;
    };
    eprintln!(
        "as replayed: batch mean {batch:.1}, frame mean {frame:.1}, largest frame {largest} bytes"
    );
    let (_, full, full_largest) = sizes(true).unwrap();
    eprintln!("all columns: frame mean {full:.1}, largest frame {full_largest} bytes");
    assert!(batch <= 90.0 && frame <= 190.0 && largest <= 240);
    assert!(full <= 205.0 && full_largest <= 240);
}
