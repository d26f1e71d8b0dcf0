//! Stored frames as the fixes of the pure core. Never judges a fix: the core does.

use std::ops::Range;

use furrow_domain::{geo::Degrees, track};
use furrow_protocol::{batch::Batch, error::DecodeError, fix, frame::Frame};

/// The fixes of stored frames that lie in a window (ms since 1970 UTC), as they come.
///
/// Errors: a frame that this version cannot read; stored frames were read once before they were stored.
pub fn of_frames(frames: &[Vec<u8>], window: Range<i64>) -> Result<Vec<track::Fix>, DecodeError> {
    let mut fixes = Vec::new();
    for bytes in frames {
        let batch = Batch::decode(&Frame::from_bytes(bytes)?.batch)?;
        let inside = batch.fixes.iter().filter(|fix| window.contains(&fix.at_ms));
        fixes.extend(inside.map(of_fix));
    }
    Ok(fixes)
}

/// One fix of the wire in the core's units.
#[must_use]
pub fn of_fix(fix: &fix::Fix) -> track::Fix {
    track::Fix {
        at_ms: fix.at_ms,
        place: Degrees {
            lat: f64::from(fix.lat_e7) / 1e7,
            lon: f64::from(fix.lon_e7) / 1e7,
        },
        speed_mps: fix.speed_cm_s.map(|speed| f64::from(speed) / 100.0),
        quality: fix.quality.gga(),
        accuracy_m: None,
        work_on: match fix.work {
            fix::Work::On => Some(true),
            fix::Work::Off => Some(false),
            // Not known, or an error of the input: never taken for work.
            fix::Work::Unknown => None,
        },
        width_m: fix.width_cm.map(|width| f64::from(width) / 100.0),
        sections: fix.sections,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fix_keeps_what_it_knows_in_the_units_of_the_core() {
        let wire = fix::Fix {
            at_ms: 1_780_000_000_123,
            lat_e7: 399_000_001,
            lon_e7: -1_163_999_999,
            speed_cm_s: Some(215),
            quality: fix::Quality::RtkFixed,
            work: fix::Work::On,
            width_cm: Some(925),
            sections: Some(0b101),
            ..fix::Fix::default()
        };
        let core = of_fix(&wire);
        assert_eq!((core.at_ms, core.quality), (1_780_000_000_123, 4));
        assert!((core.place.lat - 39.900_000_1).abs() < 1e-12);
        assert!((core.place.lon + 116.399_999_9).abs() < 1e-12);
        assert_eq!((core.speed_mps, core.width_m), (Some(2.15), Some(9.25)));
        assert_eq!((core.work_on, core.sections), (Some(true), Some(0b101)));
        let unknown = of_fix(&fix::Fix::default());
        assert_eq!(
            (unknown.work_on, unknown.speed_mps, unknown.quality),
            (None, None, 0)
        );
    }
}
