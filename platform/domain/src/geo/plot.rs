//! A plot: its rings in degrees, repaired or refused with the reason. Never guesses without saying so.

use serde::Serialize;
use thiserror::Error;

use super::{
    Area, Degrees,
    datum::Datum,
    projection::{Projection, middle, unwrap},
    region::{Region, signed_area},
};

/// A ring of corners, (longitude, latitude) in degrees.
pub type Ring = Vec<[f64; 2]>;

/// A plot in WGS-84: one or more parts, each an outer ring and its holes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// What it is called.
    pub name: String,
    /// What was mended.
    pub repairs: Vec<Repair>,
    parts: Vec<Vec<Vec<Degrees>>>,
    centre: Degrees,
}

/// Something that was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// The last corner was not the first.
    Closed,
    /// Corners that stood twice in a row were dropped.
    DuplicateCorners,
    /// A ring turned the wrong way.
    Winding,
    /// A ring crossed or repeated itself; all that it encloses stands.
    SelfCrossing,
    /// Holes reached outside or over each other, or parts over each other; each m2 counts once.
    Overlap,
    /// Latitude and longitude were exchanged.
    SwappedAxes,
    /// The degrees were of another datum.
    Datum,
}

/// Why a boundary is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlotError {
    /// No ring at all.
    #[error("the boundary has no ring")]
    Empty,
    /// Fewer than three different corners.
    #[error("ring {ring} has fewer than three different corners")]
    TooFewCorners {
        /// Which, the outer ring being 0.
        ring: usize,
    },
    /// A number that is no place.
    #[error("corner {corner} of ring {ring} is not a longitude and latitude")]
    NotAPlace {
        /// Which ring.
        ring: usize,
        /// Which corner.
        corner: usize,
    },
    /// Nothing inside.
    #[error("the boundary encloses no area")]
    NoArea,
    /// Larger than any field.
    #[error("the boundary encloses {km2} km2, more than 1000 km2")]
    TooLarge {
        /// How much.
        km2: i64,
    },
}

/// The largest plot taken, m2.
const MAX_AREA_M2: f64 = 1e9;

impl Plot {
    /// A plot of one part: rings of (longitude, latitude), the outer one first.
    ///
    /// Errors: [`PlotError`]; what can be mended is, and is listed in `repairs`.
    pub fn new(name: String, rings: &[Ring], datum: Datum) -> Result<Self, PlotError> {
        Self::of_parts(name, &[rings.to_vec()], datum)
    }

    /// A plot of several parts (a multipolygon).
    ///
    /// Errors: [`PlotError`]; what can be mended is, and is listed in `repairs`.
    pub fn of_parts(name: String, parts: &[Vec<Ring>], datum: Datum) -> Result<Self, PlotError> {
        let mut repairs = Vec::new();
        let swapped = only_swapped(parts);
        if swapped {
            repairs.push(Repair::SwappedAxes);
        }
        if datum != Datum::Wgs84 {
            repairs.push(Repair::Datum);
        }
        let mut clean = Vec::with_capacity(parts.len());
        for rings in parts.iter().filter(|rings| !rings.is_empty()) {
            let mut part = Vec::with_capacity(rings.len());
            for (ring, corners) in rings.iter().enumerate() {
                part.push(clean_ring(ring, corners, swapped, datum, &mut repairs)?);
            }
            clean.push(part);
        }
        Self::checked(name, clean, repairs)
    }

    /// The same boundary with latitude and longitude exchanged, if that is a plot: for boundaries
    /// whose numbers are places either way, when only the other way lies where the machine was.
    #[must_use]
    pub fn exchanged(&self) -> Option<Self> {
        let exchange = |place: &Degrees| Degrees {
            lon: place.lat,
            lat: unwrap(place.lon),
        };
        let parts: Vec<Vec<Vec<Degrees>>> = self
            .parts
            .iter()
            .map(|part| {
                part.iter()
                    .map(|ring| ring.iter().map(exchange).collect())
                    .collect()
            })
            .collect();
        let places = parts.iter().flatten().flatten();
        if places.clone().any(|place| place.lat.abs() > 90.0) {
            return None;
        }
        let mut repairs = self.repairs.clone();
        repairs.push(Repair::SwappedAxes);
        Self::checked(self.name.clone(), parts, repairs).ok()
    }

    fn checked(
        name: String,
        parts: Vec<Vec<Vec<Degrees>>>,
        mut repairs: Vec<Repair>,
    ) -> Result<Self, PlotError> {
        let places = parts.iter().flatten().flatten().copied();
        let centre = middle(places).ok_or(PlotError::Empty)?;
        let projection = Projection::at(centre);
        let mut told = 0.0;
        let plot = Self {
            name,
            repairs: vec![],
            parts,
            centre,
        };
        for rings in plot.projected(&projection) {
            told += judge_rings(&rings, &mut repairs);
        }
        let area = plot.region(&projection).area().m2();
        if area < 1.0 {
            return Err(PlotError::NoArea);
        }
        if area > MAX_AREA_M2 {
            #[expect(clippy::cast_possible_truncation, reason = "an area on Earth in km2")]
            let km2 = (area / 1e6) as i64;
            return Err(PlotError::TooLarge { km2 });
        }
        if (told - area).abs() > tolerance(area) {
            repairs.push(Repair::Overlap);
        }
        repairs.sort_unstable();
        repairs.dedup();
        Ok(Self { repairs, ..plot })
    }

    /// The middle of its bounds.
    #[must_use]
    pub const fn centre(&self) -> Degrees {
        self.centre
    }

    /// Its parts as closed rings of (longitude, latitude) in degrees, as GeoJSON has them.
    #[must_use]
    pub fn rings(&self) -> Vec<Vec<Ring>> {
        let ring = |ring: &Vec<Degrees>| -> Ring {
            let closed = ring
                .iter()
                .chain(ring.first().filter(|first| ring.last() != Some(*first)));
            closed.map(|place| [place.lon, place.lat]).collect()
        };
        let part = |rings: &Vec<Vec<Degrees>>| rings.iter().map(ring).collect();
        self.parts.iter().map(part).collect()
    }

    /// The plot in local metres, its holes left out.
    #[must_use]
    pub fn region(&self, projection: &Projection) -> Region {
        let part = |mut rings: Vec<Ring>| {
            let holes = rings.split_off(1.min(rings.len()));
            let outer = Region::from_rings(rings);
            let holes = holes.into_iter().map(|hole| Region::from_rings(vec![hole]));
            holes.fold(outer, |rest, hole| rest.difference(&hole))
        };
        self.projected(projection)
            .into_iter()
            .map(part)
            .reduce(|all, part| all.union(&part))
            .unwrap_or_default()
    }

    /// Its area.
    #[must_use]
    pub fn area(&self) -> Area {
        self.region(&Projection::at(self.centre)).area()
    }

    /// The corners as they would be on a map of another datum, taken for what they are: what the plot
    /// would be, had its boundary been drawn on a map of that datum and its degrees believed.
    pub(crate) fn mistaken(&self, datum: Datum) -> Self {
        let mut moved = self.clone();
        for place in moved.parts.iter_mut().flatten().flatten() {
            *place = datum.to_wgs84(*place);
        }
        moved
    }

    fn projected(&self, projection: &Projection) -> Vec<Vec<Ring>> {
        let metres = |place: &Degrees| {
            let m = projection.metres(*place);
            [m.x, m.y]
        };
        let ring = |ring: &Vec<Degrees>| ring.iter().map(metres).collect();
        self.parts
            .iter()
            .map(|rings| rings.iter().map(ring).collect())
            .collect()
    }
}

/// Areas that differ by less than this are the same, m2.
fn tolerance(m2: f64) -> f64 {
    1e-3_f64.max(1e-6 * m2)
}

/// Notes what is odd about the rings of one part; gives the area that they tell, m2.
fn judge_rings(rings: &[Ring], repairs: &mut Vec<Repair>) -> f64 {
    let mut told = 0.0;
    for (i, ring) in rings.iter().enumerate() {
        let signed = signed_area(ring);
        let enclosed = Region::from_rings(vec![ring.clone()]).area().m2();
        // A ring that does not cross itself encloses just what its corners say.
        if (signed.abs() - enclosed).abs() > tolerance(enclosed) {
            repairs.push(Repair::SelfCrossing);
        } else if (signed < 0.0) == (i == 0) {
            repairs.push(Repair::Winding);
        }
        told += if i == 0 { enclosed } else { -enclosed };
    }
    told
}

/// Exchanged for certain: every corner is a place only the other way round.
fn only_swapped(parts: &[Vec<Ring>]) -> bool {
    let mut corners = parts.iter().flatten().flatten().peekable();
    corners.peek().is_some()
        && corners.all(|[lon, lat]| lat.abs() > 90.0 && lon.abs() <= 90.0 && lat.abs() <= 180.0)
}

fn clean_ring(
    ring: usize,
    corners: &[[f64; 2]],
    swapped: bool,
    datum: Datum,
    repairs: &mut Vec<Repair>,
) -> Result<Vec<Degrees>, PlotError> {
    let mut clean: Vec<Degrees> = Vec::with_capacity(corners.len());
    for (corner, [a, b]) in corners.iter().copied().enumerate() {
        let (lon, lat) = if swapped { (b, a) } else { (a, b) };
        if !(lon.is_finite() && lat.is_finite() && lon.abs() <= 360.0 && lat.abs() <= 90.0) {
            return Err(PlotError::NotAPlace { ring, corner });
        }
        let place = datum.to_wgs84(Degrees { lon, lat });
        if clean.last() == Some(&place) {
            repairs.push(Repair::DuplicateCorners);
        } else {
            clean.push(place);
        }
    }
    if clean.len() > 1 && clean.first() == clean.last() {
        clean.pop();
    } else {
        repairs.push(Repair::Closed);
    }
    if clean.len() < 3 {
        Err(PlotError::TooFewCorners { ring })
    } else {
        Ok(clean)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn square() -> Vec<[f64; 2]> {
        vec![
            [10.0, 50.0],
            [10.001, 50.0],
            [10.001, 50.001],
            [10.0, 50.001],
            [10.0, 50.0],
        ]
    }

    fn plot(ring: Vec<[f64; 2]>) -> Plot {
        Plot::new("p".into(), &[ring], Datum::Wgs84).unwrap()
    }

    #[test]
    fn a_sound_boundary_needs_no_repair() {
        assert_eq!(plot(square()).repairs, vec![]);
    }

    #[test]
    fn an_open_ring_is_closed_and_a_doubled_corner_dropped() {
        let mut ring = square();
        ring.pop();
        ring.insert(1, ring[1]);
        let plot = plot(ring);
        assert_eq!(plot.repairs, vec![Repair::Closed, Repair::DuplicateCorners]);
        assert_eq!(plot.area(), self::plot(square()).area());
    }

    #[test]
    fn a_ring_that_turns_the_wrong_way_has_the_same_area() {
        let mut ring = square();
        ring.reverse();
        let plot = plot(ring);
        assert_eq!(plot.repairs, vec![Repair::Winding]);
        assert_eq!(plot.area(), self::plot(square()).area());
    }

    #[test]
    fn a_bow_tie_is_unfolded_and_told() {
        let ring = vec![
            [10.0, 50.0],
            [10.001, 50.001],
            [10.001, 50.0],
            [10.0, 50.001],
            [10.0, 50.0],
        ];
        let plot = plot(ring);
        assert!(plot.repairs.contains(&Repair::SelfCrossing));
        let half = self::plot(square()).area().m2() / 2.0;
        assert!((plot.area().m2() / half - 1.0).abs() < 1e-3);
    }

    #[test]
    fn exchanged_axes_are_put_right_where_they_can_only_be_exchanged() {
        let ring = square()
            .into_iter()
            .map(|[lon, lat]| [lat, lon + 100.0])
            .collect();
        assert_eq!(plot(ring).repairs, vec![Repair::SwappedAxes]);
    }

    #[test]
    fn what_is_no_boundary_is_refused_with_the_reason() {
        let new = |rings: &[Vec<[f64; 2]>]| Plot::new("p".into(), rings, Datum::Wgs84).unwrap_err();
        assert_eq!(new(&[]), PlotError::Empty);
        assert_eq!(
            new(&[vec![[1.0, 1.0], [1.0, 1.0], [2.0, 1.0]]]),
            PlotError::TooFewCorners { ring: 0 }
        );
        assert_eq!(
            new(&[vec![[1.0, 1.0], [f64::NAN, 1.0], [2.0, 1.0]]]),
            PlotError::NotAPlace { ring: 0, corner: 1 }
        );
        assert_eq!(
            new(&[vec![[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]]),
            PlotError::NoArea
        );
        let wide = vec![[1.0, 1.0], [9.0, 1.0], [9.0, 9.0], [1.0, 9.0]];
        assert!(matches!(new(&[wide]), PlotError::TooLarge { .. }));
    }

    #[test]
    fn a_boundary_walked_twice_counts_once_and_is_told() {
        let mut ring = square();
        ring.extend(square().into_iter().skip(1));
        let plot = plot(ring);
        assert_eq!(plot.repairs, vec![Repair::SelfCrossing]);
        assert_eq!(plot.area(), self::plot(square()).area());
    }

    fn shifted(ring: &[[f64; 2]], east: f64, factor: f64) -> Ring {
        let at = |[lon, lat]: &[f64; 2]| {
            [
                10.0 + (lon - 10.0) * factor + east,
                50.0 + (lat - 50.0) * factor + (1.0 - factor) * 0.0005,
            ]
        };
        ring.iter().map(at).collect()
    }

    #[test]
    fn holes_are_left_out_whatever_their_winding_and_never_add_area() {
        let whole = plot(square()).area().m2();
        let mut hole = shifted(&square(), 0.0002, 0.25);
        let with = |hole: Ring| Plot::new("p".into(), &[square(), hole], Datum::Wgs84).unwrap();
        for _ in 0..2 {
            assert!((with(hole.clone()).area().m2() / whole - 15.0 / 16.0).abs() < 1e-6);
            hole.reverse();
        }
        let outside = with(shifted(&square(), 0.1, 0.25));
        assert!((outside.area().m2() - whole).abs() < 1e-3);
        assert!(outside.repairs.contains(&Repair::Overlap));
    }

    #[test]
    fn parts_that_overlap_count_once() {
        let whole = plot(square()).area().m2();
        let parts = [vec![square()], vec![shifted(&square(), 0.0005, 1.0)]];
        let both = Plot::of_parts("p".into(), &parts, Datum::Wgs84).unwrap();
        assert!((both.area().m2() / whole - 1.5).abs() < 1e-6);
        assert!(both.repairs.contains(&Repair::Overlap));
    }

    #[test]
    fn a_boundary_drawn_on_another_datum_is_converted_once_and_told() {
        let china: Ring = square()
            .iter()
            .map(|[lon, lat]| [lon + 106.0, lat - 10.0])
            .collect();
        let true_plot = plot(china.clone());
        for datum in [Datum::Gcj02, Datum::Bd09] {
            let drawn: Ring = china
                .iter()
                .map(|[lon, lat]| {
                    datum.from_wgs84(Degrees {
                        lon: *lon,
                        lat: *lat,
                    })
                })
                .map(|place| [place.lon, place.lat])
                .collect();
            let plot = Plot::new("p".into(), &[drawn], datum).unwrap();
            assert_eq!(plot.repairs, vec![Repair::Datum]);
            let projection = Projection::at(true_plot.centre());
            let apart = projection.metres(plot.centre());
            assert!(apart.x.hypot(apart.y) < 0.1, "{datum:?}: {apart:?}");
            assert!((plot.area().m2() / true_plot.area().m2() - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn the_antimeridian_and_the_far_north_change_no_area() {
        let at = |lon: f64, lat: f64| {
            let (dx, dy) = (0.001 / lat.to_radians().cos(), 0.001);
            let wrap = |lon: f64| if lon > 180.0 { lon - 360.0 } else { lon };
            let ring = [(0.0, 0.0), (dx, 0.0), (dx, dy), (0.0, dy), (0.0, 0.0)];
            plot(ring.iter().map(|(x, y)| [wrap(lon + x), lat + y]).collect())
                .area()
                .m2()
        };
        assert!((at(179.9995, 20.0) / at(20.0, 20.0) - 1.0).abs() < 1e-9);
        assert!((at(179.9995, 70.0) / at(20.0, 70.0) - 1.0).abs() < 1e-9);
    }
}
