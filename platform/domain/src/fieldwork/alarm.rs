//! What looks wrong about a track and is cheap to see: units, widths, datums. Never changes a figure.

use serde::Serialize;

use super::{DatumMistake, Setup, area};
use crate::track::Track;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "alarm", rename_all = "snake_case")]
pub enum Alarm {
    /// Reported speeds are in another unit, or none: derived speeds were used.
    SpeedUnit {
        /// Reported over derived speed (3.6: km/h; 1.94: knots).
        ratio: f64,
    },
    /// Passes lie closer or wider than the implement is wide: folded wings, wrong implement.
    PassSpacing {
        /// Median distance between neighbouring passes, m.
        spacing_m: f64,
        /// The working width, m.
        width_m: f64,
    },
    /// Distance x width is far above the ground covered.
    Overlap {
        /// Distance x width over union.
        ratio: f64,
    },
    /// The work has the shape of the plot, some way beside it.
    Datum(DatumMistake),
}

/// Spacing of neighbouring passes as a part of the width that needs no look.
const SPACING: std::ops::RangeInclusive<f64> = 0.7..=1.25;
/// Distance x width over union that needs no look.
const OVERLAP: f64 = 1.5;
pub(super) fn alarms(
    track: &Track,
    spacing_m: Option<f64>,
    swept: &area::Swept,
    datum: Option<&DatumMistake>,
    setup: &Setup,
) -> Vec<Alarm> {
    let ratio = swept.distance_x_width_m2 / swept.union.area().m2().max(1.0);
    let spacing = spacing_m.filter(|m| !SPACING.contains(&(m / setup.width_m)));
    let width_m = setup.width_m;
    [
        track.wrong_speed.map(|ratio| Alarm::SpeedUnit { ratio }),
        spacing.map(|spacing_m| Alarm::PassSpacing { spacing_m, width_m }),
        (ratio > OVERLAP).then_some(Alarm::Overlap { ratio }),
        datum.cloned().map(Alarm::Datum),
    ]
    .into_iter()
    .flatten()
    .collect()
}
