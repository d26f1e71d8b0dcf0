//! A position as a source gives it, finer than the wire's; never decides whether it is sent.

use furrow_protocol::fix::{Fix, Quality, Work, WorkSource};

/// One position of a receiver or a recorded track. WGS-84.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// ms since 1970-01-01T00:00:00Z, from GNSS.
    pub at_ms: i64,
    /// Latitude, 1e-9 degree.
    pub lat_e9: i64,
    /// Longitude, 1e-9 degree.
    pub lon_e9: i64,
    /// Speed over ground, mm/s.
    pub speed_mm_s: Option<u32>,
    /// Course over ground, 0.0001 degree, below 360 degrees.
    pub course_e4: Option<u32>,
    /// Quality.
    pub quality: Quality,
    /// Satellites used.
    pub satellites: Option<u8>,
    /// HDOP x 10.
    pub hdop_x10: Option<u16>,
    /// Work input.
    pub work: Work,
    /// Its source.
    pub work_source: WorkSource,
    /// Width in use, cm.
    pub width_cm: Option<u16>,
}

/// Degrees that lie closer than this to 0/0 are a receiver that has no position, 1e-9 degree.
const NULL_ISLAND_E9: i64 = 10_000;
const MAX_LAT_E9: i64 = 90_000_000_000;
const MAX_LON_E9: i64 = 180_000_000_000;
/// One turn in 0.0001 degree.
pub const TURN_E4: u32 = 3_600_000;

impl Position {
    /// A position with nothing but time and place.
    #[must_use]
    pub const fn bare(at_ms: i64, lat_e9: i64, lon_e9: i64) -> Self {
        Self {
            at_ms,
            lat_e9,
            lon_e9,
            speed_mm_s: None,
            course_e4: None,
            quality: Quality::Unknown,
            satellites: None,
            hdop_x10: None,
            work: Work::Unknown,
            work_source: WorkSource::None,
            width_cm: None,
        }
    }

    /// The wire's fix: places rounded to 1e-7 degree, speed to cm/s (capped at its range), course to 0.1 degree.
    #[must_use]
    pub fn to_fix(&self) -> Fix {
        Fix {
            at_ms: self.at_ms,
            lat_e7: round_e7(self.lat_e9),
            lon_e7: round_e7(self.lon_e9),
            speed_cm_s: self
                .speed_mm_s
                .map(|v| u16::try_from((v.saturating_add(5)) / 10).unwrap_or(u16::MAX)),
            course_ddeg: self
                .course_e4
                .and_then(|v| u16::try_from((v.saturating_add(500)) / 1000 % 3600).ok()),
            quality: self.quality,
            satellites: self.satellites,
            hdop_x10: self.hdop_x10,
            work: self.work,
            work_source: self.work_source,
            width_cm: self.width_cm,
            sections: None,
        }
    }
}

fn round_e7(value_e9: i64) -> i32 {
    let half = if value_e9 < 0 { -50 } else { 50 };
    i32::try_from((value_e9 + half) / 100).unwrap_or(0)
}

/// Why a place is none.
#[must_use]
pub fn refuse_place(lat_e9: i64, lon_e9: i64) -> Option<&'static str> {
    if lat_e9.abs() > MAX_LAT_E9 || lon_e9.abs() > MAX_LON_E9 {
        Some("position out of range")
    } else if lat_e9.abs() < NULL_ISLAND_E9 && lon_e9.abs() < NULL_ISLAND_E9 {
        Some("position at 0/0")
    } else {
        None
    }
}
