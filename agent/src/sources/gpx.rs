//! GPX tracks: the `trkpt` elements with a time; never anything else of the file.

use std::io::BufRead;

use quick_xml::{Reader, events::Event as Xml};

use super::{Event, Order, Skip, recorded::RecordedError};
use crate::position::{Position, refuse_place};

/// Reads the track points in the order of the file.
pub(super) fn read(input: impl BufRead, mut take: impl FnMut(Event)) -> Result<(), RecordedError> {
    let mut reader = Reader::from_reader(input);
    let mut buffer = Vec::new();
    let mut order = Order::default();
    let mut point: Option<Point> = None;
    let mut in_time = false;
    loop {
        match reader.read_event_into(&mut buffer) {
            Ok(Xml::Eof) => return Ok(()),
            Ok(Xml::Start(tag) | Xml::Empty(tag)) if tag.local_name().as_ref() == "trkpt" => {
                point = Some(Point::of(&tag));
            }
            Ok(Xml::Start(tag)) => in_time = tag.local_name().as_ref() == "time",
            Ok(Xml::Text(text)) if in_time => {
                if let Some(point) = point.as_mut() {
                    point.at_ms = chrono::DateTime::parse_from_rfc3339(text.trim())
                        .ok()
                        .map(|t| t.timestamp_millis());
                }
            }
            Ok(Xml::End(tag)) => {
                in_time = false;
                if tag.local_name().as_ref() == "trkpt"
                    && let Some(point) = point.take()
                {
                    match point.position() {
                        Ok(position) => order.give(position, &mut take),
                        Err(skip) => take(Event::Skipped(skip)),
                    }
                }
            }
            Ok(_) => {}
            Err(quick_xml::Error::Io(error)) => {
                return Err(std::io::Error::new(error.kind(), error.to_string()).into());
            }
            Err(_) => {
                // What follows broken XML cannot be trusted to be where it seems to be.
                take(Event::Skipped(Skip::Malformed(
                    "GPX malformed, the rest is not read",
                )));
                return Ok(());
            }
        }
        buffer.clear();
    }
}

#[derive(Default)]
struct Point {
    lat: Option<f64>,
    lon: Option<f64>,
    at_ms: Option<i64>,
}

impl Point {
    fn of(tag: &quick_xml::events::BytesStart<'_>) -> Self {
        let number = |name: &str| {
            let attribute = tag.try_get_attribute(name).ok()??;
            attribute.value.trim().parse::<f64>().ok()
        };
        Self {
            lat: number("lat"),
            lon: number("lon"),
            at_ms: None,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "degrees within 400, times 1e9, are far below i64's range"
    )]
    fn position(&self) -> Result<Position, Skip> {
        let e9 = |v: Option<f64>| {
            v.filter(|v| v.abs() <= 400.0)
                .map(|v| (v * 1e9).round() as i64)
        };
        let (Some(lat_e9), Some(lon_e9)) = (e9(self.lat), e9(self.lon)) else {
            return Err(Skip::Malformed("position malformed"));
        };
        if let Some(reason) = refuse_place(lat_e9, lon_e9) {
            return Err(Skip::Void(reason));
        }
        let at_ms = self.at_ms.ok_or(Skip::Void("no time"))?;
        Ok(Position::bare(at_ms, lat_e9, lon_e9))
    }
}
