//! Areas of the plane in local metres: union, intersection, growing. A thin layer over i_overlay; never knows degrees.

use i_overlay::{
    core::{fill_rule::FillRule, overlay_rule::OverlayRule},
    float::{simplify::SimplifyShape, single::SingleFloatOverlay},
    mesh::{
        outline::offset::OutlineOffset,
        style::{LineJoin, OutlineStyle},
    },
};

use geo::Simplify;

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
    /// The union of rings that turn the same way, whatever they overlap, or all that one ring encloses:
    /// a bow-tie unfolded, what it walks round twice counted once (non-zero rule).
    #[must_use]
    pub fn from_rings(rings: Vec<Ring>) -> Self {
        if rings.is_empty() {
            return Self::default();
        }
        Self {
            shapes: rings.simplify_shape(FillRule::NonZero),
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

    /// Its shapes one by one.
    pub fn pieces(&self) -> impl Iterator<Item = Self> + '_ {
        self.shapes.iter().map(|shape| Self {
            shapes: vec![shape.clone()],
        })
    }

    /// The same with fewer corners: none is further from the former edge than `metres`. Thin parts may go.
    #[must_use]
    pub fn coarse(&self, metres: f64) -> Self {
        let coarse = |ring: &Ring| {
            let mut line: Vec<geo::Coord<f64>> = ring
                .iter()
                .map(|p| geo::Coord { x: p[0], y: p[1] })
                .collect();
            line.extend(line.first().copied());
            let line = geo::LineString::new(line).simplify(metres);
            let mut ring: Ring = line.0.iter().map(|c| [c.x, c.y]).collect();
            ring.pop();
            ring
        };
        let rings: Vec<Ring> = self
            .shapes
            .iter()
            .flatten()
            .map(coarse)
            .filter(|ring| ring.len() >= 3)
            .collect();
        // Holes keep their turn, so that a hole within a shape stays one by the non-zero rule.
        Self::from_rings(rings)
    }

    /// Holes of which `fill` says so are filled.
    #[must_use]
    pub fn filled(&self, fill: impl Fn(&Self) -> bool) -> Self {
        let keeps = |i: usize, ring: &Ring| {
            i == 0
                || !fill(&Self::from_rings(vec![
                    ring.iter().rev().copied().collect(),
                ]))
        };
        let shape = |shape: &Vec<Ring>| {
            let rings = shape.iter().enumerate();
            let kept = rings.filter(|(i, ring)| keeps(*i, ring));
            kept.map(|(_, ring)| ring.clone()).collect()
        };
        Self {
            shapes: self.shapes.iter().map(shape).collect(),
        }
    }

    /// Length of all edges, m.
    #[must_use]
    pub fn perimeter_m(&self) -> f64 {
        let rings = self.shapes.iter().flatten();
        let edges = rings.flat_map(|ring| ring.iter().zip(ring.iter().cycle().skip(1)));
        edges.map(|(a, b)| (a[0] - b[0]).hypot(a[1] - b[1])).sum()
    }

    /// Moved as a whole, m.
    #[must_use]
    pub fn moved(&self, by: Metres) -> Self {
        let mut moved = self.clone();
        for [x, y] in moved.shapes.iter_mut().flatten().flatten() {
            *x += by.x;
            *y += by.y;
        }
        moved
    }

    /// Its centre of gravity; None where it holds no area.
    #[must_use]
    pub fn centroid(&self) -> Option<Metres> {
        let origin = *self.shapes.first()?.first()?.first()?;
        let (mut twice, mut x, mut y) = (0.0, 0.0, 0.0);
        for ring in self.shapes.iter().flatten() {
            for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
                let at = |p: &[f64; 2]| (p[0] - origin[0], p[1] - origin[1]);
                let ((ax, ay), (bx, by)) = (at(a), at(b));
                let cross = ax * by - bx * ay;
                twice += cross;
                x += (ax + bx) * cross;
                y += (ay + by) * cross;
            }
        }
        (twice.abs() > 1e-9).then(|| Metres {
            x: origin[0] + x / (3.0 * twice),
            y: origin[1] + y / (3.0 * twice),
        })
    }

    /// Least distance of a place to its edge, m; infinite where it has none.
    #[must_use]
    pub fn edge_distance(&self, place: Metres) -> f64 {
        let to_edge = |a: &[f64; 2], b: &[f64; 2]| {
            let (a, b) = (Metres { x: a[0], y: a[1] }, Metres { x: b[0], y: b[1] });
            let along = a.to(b);
            let t = (a.to(place).dot(along) / along.dot(along).max(1e-12)).clamp(0.0, 1.0);
            a.moved(along, t).distance(place)
        };
        self.shapes
            .iter()
            .flatten()
            .flat_map(|ring| ring.iter().zip(ring.iter().cycle().skip(1)))
            .map(|(a, b)| to_edge(a, b))
            .fold(f64::INFINITY, f64::min)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Ring {
        vec![
            [x, y],
            [x + width, y],
            [x + width, y + height],
            [x, y + height],
        ]
    }

    fn region(rings: &[Ring]) -> Region {
        Region::from_rings(rings.to_vec())
    }

    #[test]
    fn a_union_with_itself_is_itself() {
        let one = rectangle(0.0, 0.0, 30.0, 10.0);
        let twice = region(&[one.clone(), one.clone()]);
        assert_eq!(twice.area(), Area::from_m2(300.0));
        assert_eq!(region(&[one]).union(&twice).area(), Area::from_m2(300.0));
    }

    #[test]
    fn closing_fills_slivers_and_never_a_hole_beyond_its_radius() {
        let slivered = region(&[
            rectangle(0.0, 0.0, 10.0, 100.0),
            rectangle(12.0, 0.0, 10.0, 100.0),
        ]);
        let closed = slivered.closed(1.5).area().m2();
        assert!((closed - 2200.0).abs() < 2.0, "{closed}");
        let pond = region(&[rectangle(0.0, 0.0, 100.0, 100.0)])
            .difference(&region(&[rectangle(40.0, 40.0, 8.0, 8.0)]));
        let closed = pond.closed(1.5).area().m2();
        // Only the corners of the hole are rounded: 4 - pi squares of the radius.
        assert!((closed - 9936.0 - 0.86 * 2.25).abs() < 0.1, "{closed}");
    }

    #[test]
    fn growing_rounds_corners_and_shrinking_takes_it_back() {
        let square = region(&[rectangle(0.0, 0.0, 100.0, 100.0)]);
        let grown = square.grown(10.0);
        let truth = 10_000.0 + 4_000.0 + std::f64::consts::PI * 100.0;
        assert!((grown.area().m2() - truth).abs() < 1.0);
        assert!((grown.grown(-10.0).area().m2() - 10_000.0).abs() < 1.0);
        assert!(square.grown(-50.5).is_empty());
    }

    #[test]
    fn fewer_corners_keep_holes_and_area() {
        let ring: Ring = (0..360)
            .map(|i| f64::from(i).to_radians())
            .map(|a| [50.0 * a.cos(), 50.0 * a.sin()])
            .collect();
        let disc = region(&[ring]).difference(&region(&[rectangle(0.0, 0.0, 10.0, 10.0)]));
        let coarse = disc.coarse(0.3);
        let corners = |r: &Region| r.shapes().iter().flatten().map(Vec::len).sum::<usize>();
        assert!(corners(&coarse) < corners(&disc) / 4);
        assert!((coarse.area().m2() / disc.area().m2() - 1.0).abs() < 0.01);
        assert!((disc.filled(|_| true).area().m2() - disc.area().m2() - 100.0).abs() < 1e-2);
        assert_eq!(disc.filled(|_| false).area(), disc.area());
    }

    #[test]
    fn a_lookup_says_what_the_region_holds() {
        let ring = region(&[rectangle(0.0, 0.0, 100.0, 100.0)])
            .difference(&region(&[rectangle(40.0, 40.0, 20.0, 20.0)]));
        let lookup = ring.lookup();
        for (x, y, inside) in [
            (1.0, 1.0, true),
            (50.0, 50.0, false),
            (50.0, 70.0, true),
            (-0.1, 50.0, false),
            (f64::NAN, 50.0, false),
        ] {
            assert_eq!(lookup.contains(Metres { x, y }), inside, "{x} {y}");
        }
        assert!(!Region::default().lookup().contains(Metres::default()));
    }

    #[test]
    fn the_centroid_and_the_edge_are_where_they_are() -> Result<(), String> {
        let away = region(&[rectangle(1000.0, 2000.0, 20.0, 10.0)]);
        let centroid = away.centroid().ok_or("no centroid")?;
        assert!(
            centroid.distance(Metres {
                x: 1010.0,
                y: 2005.0
            }) < 1e-6
        );
        assert!((away.edge_distance(centroid) - 5.0).abs() < 1e-6);
        assert!(Region::default().centroid().is_none());
        Ok(())
    }
}
