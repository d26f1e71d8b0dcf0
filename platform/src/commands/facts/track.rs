//! A track from a CSV file. Never refuses a file for a line that cannot be read: that line is a fix without place or time, and is counted as such.

use std::{fs::File, path::Path};

use anyhow::{Context as _, bail};
use chrono::DateTime;
use csv::ByteRecord;
use furrow_domain::{geo::Degrees, track::Fix};

/// Where the columns stand.
struct Columns {
    at: At,
    lat: usize,
    lon: usize,
    speed: Option<usize>,
    work: Option<usize>,
    width: Option<usize>,
    quality: Option<usize>,
}

/// How times are written.
enum At {
    /// `t_unix_ms`.
    UnixMs(usize),
    /// `time`, RFC 3339.
    Rfc3339(usize),
}

/// Reads a track.
///
/// Errors: the file cannot be read, or its header names no time, latitude or longitude.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Fix>> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(File::open(path)?);
    let columns = Columns::of(reader.byte_headers()?)?;
    let mut fixes = Vec::new();
    for record in reader.byte_records() {
        fixes.push(columns.fix(&record?));
    }
    Ok(fixes)
}

impl Columns {
    fn of(headers: &ByteRecord) -> anyhow::Result<Self> {
        let find = |name: &str| {
            headers.iter().position(|header| {
                let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header);
                header.eq_ignore_ascii_case(name.as_bytes())
            })
        };
        let must =
            |name: &str| find(name).with_context(|| format!("no column {name} in the header line"));
        let at = match (find("t_unix_ms"), find("time")) {
            (Some(column), _) => At::UnixMs(column),
            (None, Some(column)) => At::Rfc3339(column),
            (None, None) => bail!("no column t_unix_ms in the header line"),
        };
        Ok(Self {
            at,
            lat: must("lat")?,
            lon: must("lon")?,
            speed: find("speed_mps"),
            work: find("work_on"),
            width: find("width_m"),
            quality: find("quality"),
        })
    }

    fn fix(&self, record: &ByteRecord) -> Fix {
        let text = |column: usize| {
            let field = record.get(column).unwrap_or_default();
            std::str::from_utf8(field).unwrap_or_default()
        };
        let number = |column: usize| text(column).parse::<f64>().ok();
        let at_ms = match self.at {
            At::UnixMs(column) => unix_ms(text(column)),
            At::Rfc3339(column) => DateTime::parse_from_rfc3339(text(column))
                .ok()
                .map(|at| at.timestamp_millis()),
        };
        Fix {
            // What cannot be read is no time and no place; the core leaves it out and counts it.
            at_ms: at_ms.unwrap_or(i64::MIN),
            place: Degrees {
                lat: number(self.lat).unwrap_or(f64::NAN),
                lon: number(self.lon).unwrap_or(f64::NAN),
            },
            speed_mps: self.speed.and_then(number),
            quality: self
                .quality
                .and_then(|column| text(column).parse().ok())
                .unwrap_or(0),
            accuracy_m: None,
            work_on: self.work.map(text).and_then(on),
            width_m: self.width.and_then(number),
            sections: None,
        }
    }
}

/// Whole milliseconds, also where they are written as a decimal number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "saturates; what lies beyond is no time to the core"
)]
fn unix_ms(text: &str) -> Option<i64> {
    let decimal = || text.parse::<f64>().ok().filter(|at| at.is_finite());
    text.parse()
        .ok()
        .or_else(|| decimal().map(|at| at.round() as i64))
}

/// Only on and off are states; an error code is neither.
fn on(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "1.0" | "true" | "on" => Some(true),
        "0" | "0.0" | "false" | "off" => Some(false),
        _ => None,
    }
}
