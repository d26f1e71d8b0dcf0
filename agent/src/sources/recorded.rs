//! Recorded tracks: recognises what a file holds and reads it to its end; never dates or thins.

use std::io::{self, BufRead, Read};

use furrow_protocol::fix::{Work, WorkSource};
use thiserror::Error;

use super::{Event, Skip, gpsd, nmea};
use crate::position::{Position, TURN_E4, refuse_place};

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// NMEA 0183 sentences.
    Nmea,
    /// gpsd's JSON stream.
    Gpsd,
    /// A track with a header line.
    Csv,
    /// GPS exchange format.
    Gpx,
}

/// Why a recorded track cannot be read.
#[derive(Debug, Error)]
pub enum RecordedError {
    /// The file.
    #[error("cannot read")]
    Io(#[from] io::Error),
    /// A CSV without a column that it must have.
    #[error("no column {0} in the header line")]
    NoColumn(&'static str),
}

/// How much is looked at to recognise a format.
const PROBE: usize = 64 * 1024;
const CHUNK: usize = 64 * 1024;

/// What the first bytes of a file say about it. NMEA is what is left: it may begin with anything,
/// gpsd's greeting included, so a gpsd stream is told by its reports or by having nothing else.
#[must_use]
pub fn recognise(start: &[u8]) -> Format {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let (mut sentences, mut reports, mut json) = (false, false, false);
    for line in start
        .split(|b| matches!(b, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii)
    {
        if line.starts_with(b"<?xml") || line.starts_with(b"<gpx") {
            return Format::Gpx;
        }
        let columns = [&b"t_unix_ms"[..], b"lat", b"lon"];
        if !line.starts_with(b"{")
            && !line.starts_with(b"$")
            && columns.iter().all(|c| contains(line, c))
        {
            return Format::Csv;
        }
        sentences |= line.starts_with(b"$");
        json |= line.starts_with(b"{") && contains(line, b"\"class\"");
        reports |= line.starts_with(b"{") && contains(line, b"\"TPV\"");
    }
    if reports || (json && !sentences) {
        Format::Gpsd
    } else {
        Format::Nmea
    }
}

fn contains(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len())
        .any(|w| w.eq_ignore_ascii_case(word))
}

/// Reads a recorded track to its end and hands each event over.
///
/// Errors: the file cannot be read, or a CSV lacks a column. What cannot be used in it is an event.
pub fn read(
    input: impl Read,
    floor: Option<chrono::NaiveDate>,
    mut take: impl FnMut(Event),
) -> Result<Format, RecordedError> {
    let mut input = io::BufReader::with_capacity(PROBE, input);
    let mut start = Vec::new();
    input.by_ref().take(PROBE as u64).read_to_end(&mut start)?;
    let format = recognise(&start);
    let mut input = io::BufReader::new(io::Cursor::new(start).chain(input));
    match format {
        Format::Nmea => {
            let mut reader = nmea::Reader::log(floor);
            chunks(&mut input, |bytes| {
                reader.push(bytes, 0);
                std::iter::from_fn(|| reader.next_event()).for_each(&mut take);
            })?;
            reader.finish();
            std::iter::from_fn(|| reader.next_event()).for_each(&mut take);
        }
        Format::Gpsd => {
            let mut reader = gpsd::Reader::default();
            chunks(&mut input, |bytes| {
                reader.push(bytes, 0);
                std::iter::from_fn(|| reader.next_event()).for_each(&mut take);
            })?;
            reader.finish();
            std::iter::from_fn(|| reader.next_event()).for_each(&mut take);
        }
        Format::Csv => read_csv(input, take)?,
        Format::Gpx => super::gpx::read(input, take)?,
    }
    Ok(format)
}

fn chunks(input: &mut impl Read, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let n = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        take(buffer.get(..n).unwrap_or_default());
    }
}

/// Where each column of a track CSV stands; `../shared/data/tracks` has the same columns.
struct Columns {
    at: usize,
    lat: usize,
    lon: usize,
    speed: Option<usize>,
    course: Option<usize>,
    work: Option<usize>,
    width: Option<usize>,
}

impl Columns {
    fn of(header: &csv::ByteRecord) -> Result<Self, RecordedError> {
        let find = |name: &str| {
            header.iter().position(|h| {
                h.strip_prefix(b"\xef\xbb\xbf")
                    .unwrap_or(h)
                    .trim_ascii()
                    .eq_ignore_ascii_case(name.as_bytes())
            })
        };
        let must = |name| find(name).ok_or(RecordedError::NoColumn(name));
        Ok(Self {
            at: must("t_unix_ms")?,
            lat: must("lat")?,
            lon: must("lon")?,
            speed: find("speed_mps"),
            course: find("heading_deg"),
            work: find("work_on"),
            width: find("width_m"),
        })
    }

    fn position(&self, record: &csv::ByteRecord) -> Result<Position, Skip> {
        let text = |i: usize| {
            std::str::from_utf8(record.get(i).unwrap_or_default())
                .unwrap_or("")
                .trim()
        };
        let number = |i: usize| text(i).parse::<f64>().ok().filter(|v| v.is_finite());
        let optional = |i: Option<usize>| number(i?);
        let at_ms = text(self.at)
            .parse()
            .map_err(|_| Skip::Malformed("time malformed"))?;
        let place =
            |i: usize| scaled(number(i), 1e9, 400.0).ok_or(Skip::Malformed("position malformed"));
        let (lat_e9, lon_e9) = (place(self.lat)?, place(self.lon)?);
        if let Some(reason) = refuse_place(lat_e9, lon_e9) {
            return Err(Skip::Void(reason));
        }
        let work = match self.work.map(text) {
            Some("1" | "true" | "on") => Work::On,
            Some("0" | "false" | "off") => Work::Off,
            _ => Work::Unknown,
        };
        Ok(Position {
            speed_mm_s: scaled(optional(self.speed), 1e3, 4e6).and_then(|v| v.try_into().ok()),
            course_e4: optional(self.course)
                .and_then(|v| u32::try_from(scaled(Some(v.rem_euclid(360.0)), 1e4, 360.0)?).ok())
                .map(|v| v % TURN_E4),
            work,
            work_source: if work == Work::Unknown {
                WorkSource::None
            } else {
                WorkSource::Switch
            },
            width_cm: scaled(optional(self.width), 1e2, 655.0).and_then(|v| v.try_into().ok()),
            ..Position::bare(at_ms, lat_e9, lon_e9)
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the value is finite and far below i64's range"
)]
fn scaled(value: Option<f64>, by: f64, most: f64) -> Option<i64> {
    value
        .filter(|v| v.abs() <= most)
        .map(|v| (v * by).round() as i64)
}

/// Track CSVs are in time order; a time that is not newer is a duplicate, one far back a new sequence.
fn read_csv(input: impl BufRead, mut take: impl FnMut(Event)) -> Result<(), RecordedError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .from_reader(input);
    let mut columns = None;
    let mut order = super::Order::default();
    let mut record = csv::ByteRecord::new();
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => match error.into_kind() {
                csv::ErrorKind::Io(error) => return Err(error.into()),
                _ => {
                    take(Event::Skipped(Skip::Malformed("line malformed")));
                    continue;
                }
            },
        }
        match &columns {
            None => columns = Columns::of(&record).ok(),
            Some(columns) => match Columns::position(columns, &record) {
                Ok(position) => order.give(position, &mut take),
                Err(skip) => take(Event::Skipped(skip)),
            },
        }
    }
}
