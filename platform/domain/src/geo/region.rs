//! Areas of the plane in local metres: union, intersection, growing. A thin layer over i_overlay; never knows degrees.

use i_overlay::{
    core::{fill_rule::FillRule, overlay_rule::OverlayRule},
    float::{simplify::SimplifyShape, single::SingleFloatOverlay},
    mesh::{
        outline::offset::OutlineOffset,
        style::{LineJoin, OutlineStyle},
    },
};

use super::{Area, Metres};

type Ring = Vec<[f64; 2]>;

/// A region: shapes that do not overlap, each an outer ring (counter-clockwise) and its holes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Region {
    shapes: Vec<Vec<Ring>>,
}

/// Round joins are drawn with corners at most this far apart, as an angle in radians: at 1.5 m the
/// polygon lies within 2 mm of the circle.
const ROUND: f64 = 0.1;

impl Region {
    /// The union of rings that turn the same way, whatever they overlap (non-zero rule).
    #[must_use]
    pub fn from_rings(rings: Vec<Ring>) -> Self {
        if rings.is_empty() {
            return Self::default();
        }
        Self {
            shapes: rings.simplify_shape(FillRule::NonZero),
        }
    }

    /// What an odd number of rings encloses: outer rings and holes of any winding, bow-ties unfolded.
    #[must_use]
    pub fn from_outline(rings: Vec<Ring>) -> Self {
        Self {
            shapes: rings.simplify_shape(FillRule::EvenOdd),
        }
    }

    /// Whether it holds no area.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Its area.
    #[must_use]
    pub fn area(&self) -> Area {
        let m2: f64 = self
            .shapes
            .iter()
            .flatten()
            .map(|ring| signed_area(ring))
            .sum();
        Area::from_m2(m2.abs())
    }

    /// Shapes as rings: outer first, then holes.
    #[must_use]
    pub fn shapes(&self) -> &[Vec<Ring>] {
        &self.shapes
    }

    /// What lies in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, OverlayRule::Intersect)
    }

    /// What lies in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        self.combine(other, OverlayRule::Union)
    }

    /// What lies here and not there.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, OverlayRule::Difference)
    }

    fn combine(&self, other: &Self, rule: OverlayRule) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        Self {
            shapes: self.shapes.overlay(&other.shapes, rule, FillRule::NonZero),
        }
    }

    /// Grown by `metres` on every side, corners round; shrunk where negative.
    #[must_use]
    pub fn grown(&self, metres: f64) -> Self {
        if self.is_empty() || metres == 0.0 {
            return self.clone();
        }
        let style = OutlineStyle::new(metres).line_join(LineJoin::Round(ROUND));
        Self {
            shapes: self.shapes.outline(&style),
        }
    }

    /// Closed: gaps narrower than twice `metres` filled. Nothing of the region itself is lost.
    #[must_use]
    pub fn closed(&self, metres: f64) -> Self {
        self.grown(metres).grown(-metres).union(self)
    }

    /// An index to ask for single places.
    #[must_use]
    pub fn lookup(&self) -> Lookup {
        Lookup::of(self)
    }
}

/// Twice is not needed often enough to keep; positive where the ring turns counter-clockwise. m2.
#[must_use]
pub fn signed_area(ring: &[[f64; 2]]) -> f64 {
    let Some(first) = ring.first() else {
        return 0.0;
    };
    // Relative to the first corner, so that a place far from the origin costs no digits.
    let at = |p: &[f64; 2]| (p[0] - first[0], p[1] - first[1]);
    let pairs = ring
        .iter()
        .zip(ring.iter().cycle().skip(1))
        .take(ring.len());
    pairs
        .map(|(a, b)| (at(a), at(b)))
        .map(|((ax, ay), (bx, by))| ax * by - bx * ay)
        .sum::<f64>()
        / 2.0
}

/// Answers whether places lie in a region, in time that hardly grows with its corners.
#[derive(Debug, Clone)]
pub struct Lookup {
    bounds: [f64; 4],
    /// Edges by horizontal bands of equal height.
    bands: Vec<Vec<[f64; 4]>>,
    band_height: f64,
}

impl Lookup {
    fn of(region: &Region) -> Self {
        let mut bounds = [
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        for [x, y] in region.shapes.iter().flatten().flatten() {
            bounds = [
                bounds[0].min(*x),
                bounds[1].max(*x),
                bounds[2].min(*y),
                bounds[3].max(*y),
            ];
        }
        let rings = || region.shapes.iter().flatten();
        let count = rings().map(Vec::len).sum::<usize>().clamp(1, 1024);
        #[expect(clippy::cast_precision_loss, reason = "at most 1024")]
        let band_height = ((bounds[3] - bounds[2]) / count as f64).max(1e-6);
        let mut lookup = Self {
            bounds,
            bands: vec![Vec::new(); count],
            band_height,
        };
        for ring in rings() {
            for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
                let (low, high) = (lookup.band(a[1].min(b[1])), lookup.band(a[1].max(b[1])));
                for band in lookup.bands.iter_mut().take(high + 1).skip(low) {
                    band.push([a[0], a[1], b[0], b[1]]);
                }
            }
        }
        lookup
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the bands"
    )]
    fn band(&self, y: f64) -> usize {
        let band = ((y - self.bounds[2]) / self.band_height).max(0.0) as usize;
        band.min(self.bands.len().saturating_sub(1))
    }

    /// Whether the place lies inside.
    #[must_use]
    pub fn contains(&self, place: Metres) -> bool {
        let [west, east, south, north] = self.bounds;
        if !(place.x >= west && place.x <= east && place.y >= south && place.y <= north) {
            return false;
        }
        let Some(edges) = self.bands.get(self.band(place.y)) else {
            return false;
        };
        let crosses = |[ax, ay, bx, by]: &[f64; 4]| {
            (ay > &place.y) != (by > &place.y)
                && place.x < (bx - ax) * (place.y - ay) / (by - ay) + ax
        };
        edges.iter().filter(|edge| crosses(edge)).count() % 2 == 1
    }
}
