//! Prints bytes per fix of real tracks beside other forms of the same fixes, and how long ours takes. Never fails on a figure: the bars are tests.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{hint::black_box, time::Instant};

use furrow_protocol::{batch::Batch, fix::Fix};
use prost::Message;
use serde::Serialize;

#[path = "../tests/it/harvest.rs"]
mod harvest;

use harvest::Columns;

/// The fix as a plain postcard struct.
#[derive(Serialize)]
struct PlainFix {
    at_ms: i64,
    lat_e7: i32,
    lon_e7: i32,
    speed_cm_s: Option<u16>,
    course_ddeg: Option<u16>,
    quality: u8,
    satellites: Option<u8>,
    hdop_x10: Option<u16>,
    work: u8,
    work_source: u8,
    width_cm: Option<u16>,
    sections: Option<u32>,
}

/// The fix as protobuf, with the types that suit it best.
#[derive(Clone, PartialEq, Message)]
struct ProtoFix {
    #[prost(uint64, tag = "1")]
    at_ms: u64,
    #[prost(sfixed32, tag = "2")]
    lat_e7: i32,
    #[prost(sfixed32, tag = "3")]
    lon_e7: i32,
    #[prost(uint32, optional, tag = "4")]
    speed_cm_s: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    course_ddeg: Option<u32>,
    #[prost(uint32, tag = "6")]
    quality: u32,
    #[prost(uint32, optional, tag = "7")]
    satellites: Option<u32>,
    #[prost(uint32, optional, tag = "8")]
    hdop_x10: Option<u32>,
    #[prost(uint32, tag = "9")]
    work: u32,
    #[prost(uint32, tag = "10")]
    work_source: u32,
    #[prost(uint32, optional, tag = "11")]
    width_cm: Option<u32>,
    #[prost(fixed32, optional, tag = "12")]
    sections: Option<u32>,
}

/// A batch of them.
#[derive(Clone, PartialEq, Message)]
struct ProtoBatch {
    #[prost(message, repeated, tag = "1")]
    fixes: Vec<ProtoFix>,
}

fn plain(fix: &Fix) -> PlainFix {
    PlainFix {
        at_ms: fix.at_ms,
        lat_e7: fix.lat_e7,
        lon_e7: fix.lon_e7,
        speed_cm_s: fix.speed_cm_s,
        course_ddeg: fix.course_ddeg,
        quality: fix.quality.gga(),
        satellites: fix.satellites,
        hdop_x10: fix.hdop_x10,
        work: fix.work as u8,
        work_source: fix.work_source as u8,
        width_cm: fix.width_cm,
        sections: fix.sections,
    }
}

fn proto(fix: &Fix) -> ProtoFix {
    ProtoFix {
        at_ms: fix.at_ms.cast_unsigned(),
        lat_e7: fix.lat_e7,
        lon_e7: fix.lon_e7,
        speed_cm_s: fix.speed_cm_s.map(u32::from),
        course_ddeg: fix.course_ddeg.map(u32::from),
        quality: fix.quality.gga().into(),
        satellites: fix.satellites.map(u32::from),
        hdop_x10: fix.hdop_x10.map(u32::from),
        work: fix.work as u32,
        work_source: fix.work_source as u32,
        width_cm: fix.width_cm.map(u32::from),
        sections: fix.sections,
    }
}

/// One message a fix, as the OwnTracks app sends it; what it has no key for has our name.
fn owntracks(fix: &Fix) -> String {
    let mut json = serde_json::json!({
        "_type": "location",
        "tid": "47",
        "tst": fix.at_ms.div_euclid(1000),
        "lat": f64::from(fix.lat_e7) / 1e7,
        "lon": f64::from(fix.lon_e7) / 1e7,
        "work": fix.work as u8,
    });
    let optional = [
        ("vel", fix.speed_cm_s.map(|v| f64::from(v) * 0.036)),
        ("cog", fix.course_ddeg.map(|c| f64::from(c) / 10.0)),
        ("width", fix.width_cm.map(|w| f64::from(w) / 100.0)),
        ("sat", fix.satellites.map(f64::from)),
        ("hdop", fix.hdop_x10.map(|h| f64::from(h) / 10.0)),
        ("sections", fix.sections.map(f64::from)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            json[name] = ((value * 100.0).round() / 100.0).into();
        }
    }
    json.to_string()
}

fn report(name: &str, bytes: usize, fixes: usize) {
    println!(
        "  {name:<44} {:>7.2} bytes a fix",
        bytes as f64 / fixes as f64
    );
}

fn sum(sizes: impl Iterator<Item = usize>) -> usize {
    sizes.sum()
}

fn sizes(title: &str, tracks: &[Vec<Fix>]) {
    let batches: Vec<Batch> = tracks.iter().flat_map(|t| harvest::batches(t)).collect();
    let frames: Vec<_> = tracks
        .iter()
        .flat_map(|t| harvest::frames(&harvest::batches(t)))
        .collect();
    let encoded: Vec<_> = batches
        .iter()
        .map(|b| b.encode().expect("within the limits"))
        .collect();
    let fixes = sum(tracks.iter().map(Vec::len));
    let (batch_bytes, frame_bytes) = (
        sum(encoded.iter().map(Vec::len)),
        sum(frames.iter().map(Vec::len)),
    );
    let per = |bytes: usize| bytes as f64 / batches.len() as f64;
    println!(
        "{title}: {fixes} fixes in {} batches; batch mean {:.1}, frame mean {:.1}, largest frame {} bytes",
        batches.len(),
        per(batch_bytes),
        per(frame_bytes),
        frames.iter().map(Vec::len).max().unwrap_or(0),
    );
    let postcard = |b: &Batch| {
        let fixes: Vec<PlainFix> = b.fixes.iter().map(plain).collect();
        postcard::to_allocvec(&fixes).map_or(0, |bytes| bytes.len())
    };
    let protobuf = |b: &Batch| {
        let fixes = b.fixes.iter().map(proto).collect();
        ProtoBatch { fixes }.encoded_len()
    };
    report("batch", batch_bytes, fixes);
    report(
        "frame (epoch, seq, prev and signature too)",
        frame_bytes,
        fixes,
    );
    report(
        "plain postcard structs",
        sum(batches.iter().map(postcard)),
        fixes,
    );
    report("protobuf", sum(batches.iter().map(protobuf)), fixes);
    let json = sum(tracks.iter().flatten().map(|fix| owntracks(fix).len()));
    report("JSON (OwnTracks form)", json, fixes);
    times(&batches, &encoded);
}

fn times(batches: &[Batch], encoded: &[Vec<u8>]) {
    let begin = Instant::now();
    for batch in batches {
        black_box(batch.encode().is_ok());
    }
    let encode = begin.elapsed();
    let begin = Instant::now();
    for bytes in encoded {
        black_box(Batch::decode(bytes).is_ok());
    }
    let decode = begin.elapsed();
    let per = |d: std::time::Duration| d.as_secs_f64() * 1e6 / batches.len() as f64;
    println!(
        "  encode {:.2} us, decode {:.2} us a batch of 10",
        per(encode),
        per(decode)
    );
}

fn main() {
    let Some(folder) = harvest::folder() else {
        println!("shared/data/tracks/forage_harvester: not present, nothing measured");
        return;
    };
    sizes(
        "As replayed",
        &harvest::tracks(&folder, Columns::AsReplayed),
    );
    sizes("All columns", &harvest::tracks(&folder, Columns::All));
}
