//! A plot: its rings in degrees, repaired or refused with the reason. Never guesses without saying so.

use serde::Serialize;
use thiserror::Error;

use super::{
    Area, Degrees,
    datum::Datum,
    projection::{Projection, middle},
    region::{Region, signed_area},
};

/// A plot in WGS-84.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// What it is called.
    pub name: String,
    rings: Vec<Vec<Degrees>>,
    /// What was mended.
    pub repairs: Vec<Repair>,
}

/// Something that was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// The last corner was not the first.
    Closed,
    /// Corners that stood twice in a row were dropped.
    DuplicateCorners,
    /// A ring turned the wrong way.
    Winding,
    /// The boundary crossed itself; what it encloses an odd number of times stands.
    SelfCrossing,
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
    /// A plot from rings of (longitude, latitude), the outer one first.
    ///
    /// Errors: [`PlotError`]; what can be mended is, and is listed in `repairs`.
    pub fn new(name: String, rings: &[Vec<[f64; 2]>], datum: Datum) -> Result<Self, PlotError> {
        let mut repairs = Vec::new();
        let swapped = only_swapped(rings);
        if swapped {
            repairs.push(Repair::SwappedAxes);
        }
        if datum != Datum::Wgs84 {
            repairs.push(Repair::Datum);
        }
        let mut clean = Vec::with_capacity(rings.len());
        for (ring, corners) in rings.iter().enumerate() {
            clean.push(clean_ring(ring, corners, swapped, datum, &mut repairs)?);
        }
        let plot = Self {
            name,
            rings: clean,
            repairs,
        };
        plot.checked()
    }

    fn checked(mut self) -> Result<Self, PlotError> {
        let centre = self.centre().ok_or(PlotError::Empty)?;
        let projection = Projection::at(centre);
        let rings = self.projected(&projection);
        let outer = rings.first().map_or(0.0, |r| signed_area(r));
        if outer < 0.0 || rings.iter().skip(1).any(|hole| signed_area(hole) > 0.0) {
            self.repairs.push(Repair::Winding);
        }
        let told: f64 = rings.first().map_or(0.0, |r| signed_area(r).abs())
            - rings
                .iter()
                .skip(1)
                .map(|r| signed_area(r).abs())
                .sum::<f64>();
        let area = Region::from_outline(rings).area();
        if area.m2() < 1.0 {
            return Err(PlotError::NoArea);
        }
        if area.m2() > MAX_AREA_M2 {
            #[expect(clippy::cast_possible_truncation, reason = "an area on Earth in km2")]
            return Err(PlotError::TooLarge {
                km2: (area.m2() / 1e6) as i64,
            });
        }
        // A boundary that does not cross itself encloses just what its rings say.
        if (told - area.m2()).abs() > 1e-3_f64.max(1e-6 * area.m2()) {
            self.repairs.push(Repair::SelfCrossing);
        }
        self.repairs.dedup();
        Ok(self)
    }

    /// The middle of its outer ring.
    #[must_use]
    pub fn centre(&self) -> Option<Degrees> {
        middle(self.rings.first()?.iter().copied())
    }

    /// The plot in local metres, its holes left out.
    #[must_use]
    pub fn region(&self, projection: &Projection) -> Region {
        Region::from_outline(self.projected(projection))
    }

    /// Its area.
    #[must_use]
    pub fn area(&self) -> Area {
        self.centre().map_or(Area::default(), |centre| {
            self.region(&Projection::at(centre)).area()
        })
    }

    fn projected(&self, projection: &Projection) -> Vec<Vec<[f64; 2]>> {
        let metres = |place: &Degrees| {
            let m = projection.metres(*place);
            [m.x, m.y]
        };
        self.rings
            .iter()
            .map(|ring| ring.iter().map(metres).collect())
            .collect()
    }
}

/// Exchanged for certain: every corner is a place only the other way round.
fn only_swapped(rings: &[Vec<[f64; 2]>]) -> bool {
    let mut corners = rings.iter().flatten().peekable();
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
        assert_eq!(plot.repairs, vec![Repair::DuplicateCorners, Repair::Closed]);
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
}
