//! Where a machine stands. Never a single fix: the middle of those of the stop.

use super::Fix;
use crate::geo::Metres;

/// Slower than this is standing, m/s.
pub(super) const STAND_MPS: f64 = 0.3;
/// ... for so long, s.
pub(super) const STAND_S: f64 = 10.0;
/// The least way from the anchor that is one, m.
const RELEASE_M: f64 = 0.3;
/// ... and as a multiple of the accuracy.
const RELEASE_ACCURACY: f64 = 3.0;

/// The middle of the places of a stop: noise averages out of it, so that only a way leads from it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Anchor {
    sum: Metres,
    count: f64,
}

impl Anchor {
    pub(super) fn add(&mut self, place: Metres) {
        self.sum = self.sum.moved(place, 1.0);
        self.count += 1.0;
    }

    pub(super) fn middle(&self) -> Metres {
        Metres::default().moved(self.sum, 1.0 / self.count.max(1.0))
    }

    /// Whether a place is a way from it, not noise.
    pub(super) fn is_left(&self, fix: &Fix, place: Metres) -> bool {
        let limit = RELEASE_M.max(RELEASE_ACCURACY * fix.accuracy());
        place.distance(self.middle()) > limit
    }
}
