//! gpsd's JSON: lines in, positions out. Lenient: classes and fields that it does not know are passed over.

use std::collections::VecDeque;

use furrow_protocol::fix::Quality;
use serde::Deserialize;
use serde_json::Value;

use super::{Event, Order, Skip};
use crate::position::{Position, TURN_E4, refuse_place};

/// An epoch closes when this passes without a report of a new time.
const EPOCH_CLOSES_MS: u64 = 250;
/// Longest line taken, bytes; gpsd's SKY reports of many satellites have some 8 KiB.
pub const MAX_LINE: usize = 64 * 1024;

/// The fields of a TPV and SKY that we use, each of any JSON type.
#[derive(Debug, Deserialize)]
struct Report {
    class: String,
    #[serde(default)]
    mode: Value,
    #[serde(default)]
    status: Value,
    #[serde(default)]
    time: Value,
    #[serde(default)]
    lat: Value,
    #[serde(default)]
    lon: Value,
    #[serde(default)]
    speed: Value,
    #[serde(default)]
    track: Value,
    #[serde(default)]
    hdop: Value,
    #[serde(default, rename = "uSat")]
    used: Value,
}

/// The reader: one a connection.
#[derive(Debug, Default)]
pub struct Reader {
    line: Vec<u8>,
    too_long: bool,
    open: Option<(Position, u64)>,
    order: Order,
    hdop_x10: Option<u16>,
    satellites: Option<u8>,
    out: VecDeque<Event>,
}

impl Reader {
    /// Takes bytes that came at `now_ms` of the monotonic clock.
    pub fn push(&mut self, bytes: &[u8], now_ms: u64) {
        for &byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(now_ms),
                _ if self.line.len() < MAX_LINE => self.line.push(byte),
                _ => self.too_long = true,
            }
        }
    }

    /// Closes an epoch that nothing was added to for 250 ms.
    pub fn tick(&mut self, now_ms: u64) {
        if self
            .open
            .is_some_and(|(_, touched)| now_ms.saturating_sub(touched) >= EPOCH_CLOSES_MS)
        {
            self.close();
        }
    }

    /// The end of the bytes.
    pub fn finish(&mut self) {
        self.end_line(0);
        self.close();
    }

    /// The next event, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.out.pop_front()
    }

    fn end_line(&mut self, now_ms: u64) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) {
            self.out
                .push_back(Event::Skipped(Skip::Malformed("line over 64 KiB")));
        } else if line.iter().any(|b| !b.is_ascii_whitespace()) && !line.starts_with(b"#") {
            match serde_json::from_slice::<Report>(&line) {
                Ok(report) => self.report(&report, now_ms),
                Err(_) => self
                    .out
                    .push_back(Event::Skipped(Skip::Malformed("not a gpsd report"))),
            }
        }
        self.line = line;
        self.line.clear();
    }

    fn report(&mut self, report: &Report, now_ms: u64) {
        match report.class.as_str() {
            "SKY" => {
                self.hdop_x10 =
                    scaled(&report.hdop, 10.0, 0.0..=6000.0).and_then(|v| v.try_into().ok());
                self.satellites =
                    scaled(&report.used, 1.0, 0.0..=255.0).and_then(|v| v.try_into().ok());
            }
            "TPV" => self.tpv(report, now_ms),
            _ => {}
        }
    }

    fn tpv(&mut self, report: &Report, now_ms: u64) {
        let mut void = |reason| self.out.push_back(Event::Skipped(Skip::Void(reason)));
        if scaled(&report.mode, 1.0, 0.0..=9.0).is_none_or(|mode| mode < 2) {
            return void("no fix");
        }
        let Some(at_ms) = time(&report.time) else {
            return void("no time");
        };
        let (Some(lat_e9), Some(lon_e9)) = (
            scaled(&report.lat, 1e9, -90.0..=90.0),
            scaled(&report.lon, 1e9, -180.0..=180.0),
        ) else {
            return void("no position");
        };
        if let Some(reason) = refuse_place(lat_e9, lon_e9) {
            return void(reason);
        }
        let told = Position {
            speed_mm_s: scaled(&report.speed, 1e3, 0.0..=4e6).and_then(|v| v.try_into().ok()),
            course_e4: scaled(&report.track, 1e4, 0.0..=360.0)
                .and_then(|v| u32::try_from(v).ok())
                .map(|v| v % TURN_E4),
            quality: quality(&report.status),
            satellites: self.satellites,
            hdop_x10: self.hdop_x10,
            ..Position::bare(at_ms, lat_e9, lon_e9)
        };
        self.merge(told, now_ms);
    }

    /// Reports of one time are one epoch: the last place stands, and what it leaves out of the others.
    fn merge(&mut self, told: Position, now_ms: u64) {
        let same = self
            .open
            .filter(|(open, _)| open.at_ms == told.at_ms)
            .map(|(open, _)| open);
        if same.is_none() {
            self.close();
        }
        let merged = same.map_or(told, |open| Position {
            speed_mm_s: told.speed_mm_s.or(open.speed_mm_s),
            course_e4: told.course_e4.or(open.course_e4),
            quality: if told.quality == Quality::Unknown {
                open.quality
            } else {
                told.quality
            },
            ..told
        });
        self.open = Some((merged, now_ms));
    }

    fn close(&mut self) {
        let Some((position, _)) = self.open.take() else {
            return;
        };
        let out = &mut self.out;
        self.order.give(position, |event| out.push_back(event));
    }
}

/// RFC 3339, or seconds since 1970 as gpsd before 3 wrote them.
fn time(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => Some(
            chrono::DateTime::parse_from_rfc3339(text)
                .ok()?
                .timestamp_millis(),
        ),
        Value::Number(_) => scaled(value, 1e3, 0.0..=1e11),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the value is finite and inside a range far below i64's"
)]
fn scaled(value: &Value, by: f64, range: std::ops::RangeInclusive<f64>) -> Option<i64> {
    let number = value.as_f64().filter(|v| range.contains(v))?;
    Some((number * by).round() as i64)
}

/// gpsd's `status` as a GGA number: 1 normal, 2 DGPS, 3 RTK fixed, 4 RTK float, 5 and 6 dead
/// reckoning, 7 surveyed in, 8 simulated, 9 P(Y).
fn quality(status: &Value) -> Quality {
    match status.as_i64() {
        Some(1) => Quality::Autonomous,
        Some(2) => Quality::Differential,
        Some(3) => Quality::RtkFixed,
        Some(4) => Quality::RtkFloat,
        Some(5 | 6) => Quality::DeadReckoning,
        Some(7) => Quality::Manual,
        Some(8) => Quality::Simulated,
        Some(9) => Quality::Pps,
        _ => Quality::Unknown,
    }
}
