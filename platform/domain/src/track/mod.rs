//! A track: fixes in time order, cleaned, in local metres. Never bridges a gap and never hides what it leaves out.

mod anchor;
mod clean;
pub(crate) mod live;
mod parked;
mod speed;
pub mod step;

use serde::Serialize;

use crate::geo::{Degrees, Metres, projection::Projection};

pub use clean::clean;

/// No machine on a field or road is faster by itself, m/s (54 km/h).
pub(crate) const JUMP_MPS: f64 = 15.0;
/// Nothing that carries a machine is faster, m/s (162 km/h).
pub(crate) const TRANSPORT_MPS: f64 = 45.0;

/// One fix as the core takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fix {
    /// ms since 1970-01-01T00:00:00Z.
    pub at_ms: i64,
    /// WGS-84.
    pub place: Degrees,
    /// Speed over ground, m/s.
    pub speed_mps: Option<f64>,
    /// GGA number; 0 is not known.
    pub quality: u8,
    /// 2-D accuracy as the receiver tells it, m.
    pub accuracy_m: Option<f64>,
    /// What the work sensor says; None without one, and on an error.
    pub work_on: Option<bool>,
    /// Width in use, m; overrides the nominal one.
    pub width_m: Option<f64>,
    /// Sections in use, bit 0 the leftmost; counts where the setup knows how many there are.
    pub sections: Option<u32>,
}

impl Fix {
    /// 2-D accuracy, m: as reported, else by quality (fieldwork.md section 2.1).
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.accuracy_m
            .filter(|m| m.is_finite() && *m > 0.0)
            .unwrap_or(match self.quality {
                4 => 0.05,
                5 => 0.5,
                2 => 1.0,
                _ => 2.0,
            })
    }

    /// Whether facts may rest on it: dead reckoning, hand-set and simulated positions are not good;
    /// a receiver that tells no quality is believed.
    #[must_use]
    pub const fn good(&self) -> bool {
        matches!(self.quality, 0..=5)
    }

    fn speed(&self) -> Option<f64> {
        self.speed_mps.filter(|v| v.is_finite() && *v >= 0.0)
    }
}

/// Why a fix is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The same fix twice.
    Duplicate,
    /// Another place at the same time.
    SameTime,
    /// No time between the years 1 and 9999.
    NoTime,
    /// No place on Earth.
    NotAPlace,
    /// At 0/0, where receivers without a fix are.
    NullIsland,
    /// Too far from its neighbours for any machine.
    Jump,
}

/// A kept fix in local metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The fix.
    pub fix: Fix,
    /// Its place; while the machine is parked, the anchor's.
    pub place: Metres,
    /// Whether the machine stands.
    pub parked: bool,
    /// Speed, m/s: reported, else derived.
    pub speed: f64,
}

/// A cleaned track.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track {
    /// Kept fixes in time order.
    pub points: Vec<Point>,
    /// Left out, in time order.
    pub rejected: Vec<(Fix, Rejection)>,
    /// Reported over derived speed, where reported speeds are in a wrong unit: then they were not used.
    pub wrong_speed: Option<f64>,
}

impl Track {
    /// Cleans fixes in any order and puts them into the metres of a projection.
    #[must_use]
    pub fn new(fixes: &[Fix], projection: &Projection) -> Self {
        let (kept, rejected) = clean(fixes, projection);
        let wrong_speed = speed::wrong_unit(&kept);
        Self {
            points: parked::settle(&kept, wrong_speed.is_none()),
            rejected,
            wrong_speed,
        }
    }
}
