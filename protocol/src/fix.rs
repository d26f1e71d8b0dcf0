//! One position fix as the receiver gave it; never interprets it.

use serde::{Deserialize, Serialize};

/// Fix quality, by its number in the GGA sentence (NMEA 0183, field 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Quality {
    /// Not told by the receiver.
    #[default]
    Unknown = 0,
    /// Autonomous GNSS, no correction.
    Autonomous = 1,
    /// Differential (SBAS, DGPS).
    Differential = 2,
    /// Precise positioning service.
    Pps = 3,
    /// RTK with fixed integers.
    RtkFixed = 4,
    /// RTK with float ambiguities.
    RtkFloat = 5,
    /// Dead reckoning (estimated).
    DeadReckoning = 6,
    /// Entered by hand.
    Manual = 7,
    /// From a simulator.
    Simulated = 8,
}

impl Quality {
    /// The quality with this GGA number, if there is one.
    #[must_use]
    pub const fn from_gga(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unknown,
            1 => Self::Autonomous,
            2 => Self::Differential,
            3 => Self::Pps,
            4 => Self::RtkFixed,
            5 => Self::RtkFloat,
            6 => Self::DeadReckoning,
            7 => Self::Manual,
            8 => Self::Simulated,
            _ => return None,
        })
    }

    /// Its GGA number.
    #[must_use]
    pub const fn gga(self) -> u8 {
        self as u8
    }
}

/// What the work input says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum Work {
    /// No input, or an error on it.
    #[default]
    Unknown = 0,
    /// Not working.
    Off = 1,
    /// Working.
    On = 2,
}

impl Work {
    /// By its number on the wire.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unknown,
            1 => Self::Off,
            2 => Self::On,
            _ => return None,
        })
    }
}

/// Where the work input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum WorkSource {
    /// There is no input.
    #[default]
    None = 0,
    /// Power take-off engaged.
    Pto = 1,
    /// Hitch lowered.
    Hitch = 2,
    /// Section control.
    Section = 3,
    /// A switch of our own.
    Switch = 4,
}

impl WorkSource {
    /// By its number on the wire.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Pto,
            2 => Self::Hitch,
            3 => Self::Section,
            4 => Self::Switch,
            _ => return None,
        })
    }
}

/// One fix. Positions are WGS-84. The default knows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fix {
    /// Milliseconds since 1970-01-01T00:00:00Z, from GNSS.
    pub at_ms: i64,
    /// Latitude in 1e-7 degree, -90e7 ..= 90e7.
    pub lat_e7: i32,
    /// Longitude in 1e-7 degree, -180e7 ..= 180e7.
    pub lon_e7: i32,
    /// Speed over ground in cm/s.
    pub speed_cm_s: Option<u16>,
    /// Course over ground in 0.1 degree, 0 ..= 3599.
    pub course_ddeg: Option<u16>,
    /// Quality of the position.
    pub quality: Quality,
    /// Satellites used.
    pub satellites: Option<u8>,
    /// Horizontal dilution of precision x 10.
    pub hdop_x10: Option<u16>,
    /// State of the work input.
    pub work: Work,
    /// Source of the work input.
    pub work_source: WorkSource,
    /// Working width in use, cm.
    pub width_cm: Option<u16>,
    /// Sections that are on, one bit each, bit 0 leftmost.
    pub sections: Option<u32>,
}

/// Largest latitude, 1e-7 degree.
pub const MAX_LAT_E7: i32 = 900_000_000;
/// Largest longitude, 1e-7 degree.
pub const MAX_LON_E7: i32 = 1_800_000_000;
/// Largest course, 0.1 degree.
pub const MAX_COURSE_DDEG: u16 = 3599;

impl Fix {
    /// The field that is out of range, if one is.
    #[must_use]
    pub fn out_of_range(&self) -> Option<&'static str> {
        if self.lat_e7.unsigned_abs() > MAX_LAT_E7.unsigned_abs() {
            Some("latitude")
        } else if self.lon_e7.unsigned_abs() > MAX_LON_E7.unsigned_abs() {
            Some("longitude")
        } else if self.course_ddeg.is_some_and(|c| c > MAX_COURSE_DDEG) {
            Some("course")
        } else {
            None
        }
    }
}
