//! The datums of Chinese maps: GCJ-02 and BD-09 to WGS-84 and back. Never moves anything silently: the caller names the datum.

use serde::{Deserialize, Serialize};

use super::Degrees;

/// What a geometry's degrees mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datum {
    /// GNSS.
    #[default]
    Wgs84,
    /// Amap, Tencent, Google's maps of China.
    Gcj02,
    /// Baidu.
    Bd09,
}

/// Semi-major axis and eccentricity squared of the Krassovsky ellipsoid, as the published
/// approximation of the GCJ-02 offset uses them.
const A: f64 = 6_378_245.0;
const EE: f64 = 0.006_693_421_622_965_943;
const BD_PI: f64 = std::f64::consts::PI * 3000.0 / 180.0;

impl Datum {
    /// The place in WGS-84, within 0.1 m of the forward formulas (by iteration).
    #[must_use]
    pub fn to_wgs84(self, place: Degrees) -> Degrees {
        match self {
            Self::Wgs84 => place,
            Self::Gcj02 => gcj02_to_wgs84(place),
            Self::Bd09 => gcj02_to_wgs84(bd09_to_gcj02(place)),
        }
    }

    /// A WGS-84 place in this datum.
    #[must_use]
    pub fn from_wgs84(self, place: Degrees) -> Degrees {
        match self {
            Self::Wgs84 => place,
            Self::Gcj02 => wgs84_to_gcj02(place),
            Self::Bd09 => gcj02_to_bd09(wgs84_to_gcj02(place)),
        }
    }
}

/// The offset is applied inside this box only.
fn in_china(place: Degrees) -> bool {
    (72.004..=137.8347).contains(&place.lon) && (0.8293..=55.8271).contains(&place.lat)
}

fn wgs84_to_gcj02(place: Degrees) -> Degrees {
    if !in_china(place) {
        return place;
    }
    let (lon, lat) = offset(place);
    Degrees {
        lon: place.lon + lon,
        lat: place.lat + lat,
    }
}

fn offset(place: Degrees) -> (f64, f64) {
    use std::f64::consts::PI;
    let (x, y) = (place.lon - 105.0, place.lat - 35.0);
    let wave = |v: f64, a: f64, b: f64| a * (v * PI).sin() + b * (v * PI / 3.0).sin();
    let common = (20.0 * (6.0 * x * PI).sin() + 20.0 * (2.0 * x * PI).sin()) * 2.0 / 3.0;
    let north = -100.0
        + 2.0 * x
        + 3.0 * y
        + 0.2 * y * y
        + 0.1 * x * y
        + 0.2 * x.abs().sqrt()
        + common
        + wave(y, 20.0, 40.0) * 2.0 / 3.0
        + (160.0 * (y / 12.0 * PI).sin() + 320.0 * (y * PI / 30.0).sin()) * 2.0 / 3.0;
    let east = 300.0
        + x
        + 2.0 * y
        + 0.1 * x * x
        + 0.1 * x * y
        + 0.1 * x.abs().sqrt()
        + common
        + wave(x, 20.0, 40.0) * 2.0 / 3.0
        + (150.0 * (x / 12.0 * PI).sin() + 300.0 * (x / 30.0 * PI).sin()) * 2.0 / 3.0;
    let lat = place.lat.to_radians();
    let magic = 1.0 - EE * lat.sin() * lat.sin();
    let root = magic.sqrt();
    let north = north * 180.0 / ((A * (1.0 - EE)) / (magic * root) * PI);
    let east = east * 180.0 / (A / root * lat.cos() * PI);
    (east, north)
}

/// The offset changes slowly, so each round of the fixed-point iteration gains two digits and more.
fn gcj02_to_wgs84(place: Degrees) -> Degrees {
    let mut guess = place;
    for _ in 0..10 {
        let there = wgs84_to_gcj02(guess);
        guess = Degrees {
            lon: guess.lon + place.lon - there.lon,
            lat: guess.lat + place.lat - there.lat,
        };
    }
    guess
}

fn gcj02_to_bd09(place: Degrees) -> Degrees {
    let z = place.lon.hypot(place.lat) + 0.000_02 * (place.lat * BD_PI).sin();
    let theta = place.lat.atan2(place.lon) + 0.000_003 * (place.lon * BD_PI).cos();
    Degrees {
        lon: z * theta.cos() + 0.0065,
        lat: z * theta.sin() + 0.006,
    }
}

fn bd09_to_gcj02(place: Degrees) -> Degrees {
    let mut guess = Degrees {
        lon: place.lon - 0.0065,
        lat: place.lat - 0.006,
    };
    for _ in 0..10 {
        let there = gcj02_to_bd09(guess);
        guess = Degrees {
            lon: guess.lon + place.lon - there.lon,
            lat: guess.lat + place.lat - there.lat,
        };
    }
    guess
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::{Metres, projection::Projection};

    #[test]
    fn there_and_back_is_within_a_tenth_of_a_metre_all_over_china() {
        for lon in (73..137).step_by(3) {
            for lat in (4..54).step_by(3) {
                let place = Degrees {
                    lon: f64::from(lon) + 0.37,
                    lat: f64::from(lat) + 0.21,
                };
                let projection = Projection::at(place);
                for datum in [Datum::Gcj02, Datum::Bd09] {
                    let there = datum.from_wgs84(place);
                    let shift = projection.metres(there).distance(Metres::default());
                    assert!(
                        (30.0..1800.0).contains(&shift),
                        "{datum:?} {place:?}: {shift} m"
                    );
                    let back = projection
                        .metres(datum.to_wgs84(there))
                        .distance(Metres::default());
                    assert!(back < 0.1, "{datum:?} {place:?}: {back} m");
                }
            }
        }
    }

    #[test]
    fn tiananmen_has_the_published_offset() {
        // A pair that the public converters agree on.
        let gcj = Datum::Gcj02.from_wgs84(Degrees {
            lon: 116.391_244,
            lat: 39.907_333,
        });
        assert!(
            (gcj.lon - 116.397_487).abs() < 2e-5 && (gcj.lat - 39.908_736).abs() < 2e-5,
            "{gcj:?}"
        );
    }
}
