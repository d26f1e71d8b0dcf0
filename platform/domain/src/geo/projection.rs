//! Degrees to local metres: the ellipsoidal Lambert azimuthal equal-area projection, centred where the work is. Never a sphere, never Mercator.

use super::{Degrees, Metres};

/// WGS-84 semi-major axis, m.
const A: f64 = 6_378_137.0;
/// WGS-84 flattening.
const F: f64 = 1.0 / 298.257_223_563;
/// First eccentricity squared.
const E2: f64 = F * (2.0 - F);

/// A local projection: scale 1 at the centre, areas exact everywhere, distances within 0.001 % to
/// 50 km. Snyder, Map Projections: A Working Manual (USGS 1395), equations 3-11, 3-12 and 24-17 to 24-20.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    lon: f64,
    sin_beta1: f64,
    cos_beta1: f64,
    rq: f64,
    d: f64,
    qp: f64,
}

impl Projection {
    /// Centred at a place.
    #[must_use]
    pub fn at(centre: Degrees) -> Self {
        let qp = q(1.0);
        let lat = centre.lat.clamp(-89.999, 89.999).to_radians();
        let beta1 = (q(lat.sin()) / qp).clamp(-1.0, 1.0).asin();
        let rq = A * (qp / 2.0).sqrt();
        let m1 = lat.cos() / (1.0 - E2 * lat.sin().powi(2)).sqrt();
        Self {
            lon: centre.lon,
            sin_beta1: beta1.sin(),
            cos_beta1: beta1.cos(),
            rq,
            d: A * m1 / (rq * beta1.cos()),
            qp,
        }
    }

    /// Local metres of a place. Longitudes are unwrapped: 179.9 and -179.9 are neighbours.
    #[must_use]
    pub fn metres(&self, place: Degrees) -> Metres {
        let delta = unwrap(place.lon - self.lon).to_radians();
        let sin_beta = (q(place.lat.to_radians().sin()) / self.qp).clamp(-1.0, 1.0);
        let cos_beta = (1.0 - sin_beta * sin_beta).max(0.0).sqrt();
        let along = self.sin_beta1 * sin_beta + self.cos_beta1 * cos_beta * delta.cos();
        // Straight opposite on the globe has no place; it is as far away as can be.
        let b = self.rq * (2.0 / (1.0 + along).max(1e-12)).sqrt();
        Metres {
            x: b * self.d * cos_beta * delta.sin(),
            y: (b / self.d) * (self.cos_beta1 * sin_beta - self.sin_beta1 * cos_beta * delta.cos()),
        }
    }
}

impl Projection {
    /// The place of local metres (Snyder 24-28 to 24-31; the authalic latitude is undone by Newton's
    /// method on equation 3-12). Within 1e-9 degrees of where [`Projection::metres`] came from, to
    /// 1000 km.
    #[must_use]
    pub fn degrees(&self, metres: Metres) -> Degrees {
        let (x, y) = (metres.x / self.d, metres.y * self.d);
        let rho = x.hypot(y);
        if rho < 1e-9 {
            return self.geodetic(self.sin_beta1, 0.0);
        }
        let c = 2.0 * (rho / (2.0 * self.rq)).clamp(-1.0, 1.0).asin();
        let (sin, cos) = c.sin_cos();
        let sin_beta = cos * self.sin_beta1 + y * sin * self.cos_beta1 / rho;
        let east = (x * sin).atan2(rho * self.cos_beta1 * cos - y * self.sin_beta1 * sin);
        self.geodetic(sin_beta.clamp(-1.0, 1.0), east)
    }

    fn geodetic(&self, sin_beta: f64, east: f64) -> Degrees {
        let wanted = self.qp * sin_beta;
        let mut lat = sin_beta.asin();
        for _ in 0..6 {
            let sin = lat.sin();
            let slope = 2.0 * (1.0 - E2) * lat.cos() / (1.0 - E2 * sin * sin).powi(2);
            if slope < 1e-9 {
                break;
            }
            lat += (wanted - q(sin)) / slope;
        }
        Degrees {
            lon: unwrap(self.lon + east.to_degrees()),
            lat: lat.to_degrees(),
        }
    }
}

/// Twice the authalic integral (Snyder 3-12).
fn q(sin: f64) -> f64 {
    let e = E2.sqrt();
    (1.0 - E2) * (sin / (1.0 - E2 * sin * sin) + (e * sin).atanh() / e)
}

/// An angle in degrees, brought between -180 and 180.
pub(crate) fn unwrap(degrees: f64) -> f64 {
    (degrees + 180.0).rem_euclid(360.0) - 180.0
}

/// The middle of places in degrees, across the 180th meridian where they lie so. None of none.
#[must_use]
pub fn middle(places: impl Iterator<Item = Degrees> + Clone) -> Option<Degrees> {
    let origin = places.clone().next()?;
    let mut bounds = [
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    for place in places {
        let east = unwrap(place.lon - origin.lon);
        bounds = [
            bounds[0].min(east),
            bounds[1].max(east),
            bounds[2].min(place.lat),
            bounds[3].max(place.lat),
        ];
    }
    let [west, east, south, north] = bounds;
    Some(Degrees {
        lon: unwrap(origin.lon + f64::midpoint(west, east)),
        lat: f64::midpoint(south, north),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use geo::{Distance, Geodesic, GeodesicArea, Point, polygon};

    use super::*;

    fn places() -> Vec<Degrees> {
        [
            (116.4, 39.9),
            (0.0, 0.0),
            (179.9999, 16.5),
            (25.0, 70.0),
            (-68.0, -54.8),
            (-179.9999, -16.5),
        ]
        .map(|(lon, lat)| Degrees { lon, lat })
        .to_vec()
    }

    #[test]
    fn distances_from_the_centre_agree_with_the_geodesic_to_a_hundred_thousandth() {
        for centre in places() {
            let projection = Projection::at(centre);
            for (east, north) in [(0.01, 0.0), (0.0, 0.01), (-0.01, 0.01), (0.02, -0.01)] {
                let there = Degrees {
                    lon: centre.lon + east,
                    lat: centre.lat + north,
                };
                let geodesic = Geodesic.distance(
                    Point::new(centre.lon, centre.lat),
                    Point::new(there.lon, there.lat),
                );
                let ours = projection.metres(there).distance(Metres::default());
                assert!(
                    (ours / geodesic - 1.0).abs() < 1e-5,
                    "{centre:?}: {ours} {geodesic}"
                );
            }
        }
    }

    #[test]
    fn areas_agree_with_the_geodesic_area_to_a_millionth() {
        for centre in places() {
            let projection = Projection::at(centre);
            let d = 0.01;
            let corners = [(-d, -d), (d, -d), (d, d), (-d, d)];
            let ring: Vec<[f64; 2]> = corners
                .iter()
                .map(|(x, y)| {
                    projection.metres(Degrees {
                        lon: centre.lon + x,
                        lat: centre.lat + y,
                    })
                })
                .map(|m| [m.x, m.y])
                .collect();
            let ours = crate::geo::region::Region::from_rings(vec![ring])
                .area()
                .m2();
            let at = |i: usize| {
                (
                    centre.lon + corners.get(i).unwrap().0,
                    centre.lat + corners.get(i).unwrap().1,
                )
            };
            let truth = polygon![at(0).into(), at(1).into(), at(2).into(), at(3).into()]
                .geodesic_area_unsigned();
            // Straight edges here and there are not the same lines; their difference is below this.
            assert!(
                (ours / truth - 1.0).abs() < 1e-5,
                "{centre:?}: {ours} {truth}"
            );
        }
    }

    #[test]
    fn degrees_come_back_from_metres() {
        for centre in places() {
            let projection = Projection::at(centre);
            for (x, y) in [
                (0.0, 0.0),
                (3000.0, -2000.0),
                (-40_000.0, 900.0),
                (0.0, 5000.0),
            ] {
                let metres = Metres { x, y };
                let there = projection.metres(projection.degrees(metres));
                assert!(
                    there.distance(metres) < 1e-4,
                    "{centre:?} {metres:?}: {there:?}"
                );
            }
        }
    }

    #[test]
    fn the_middle_crosses_the_antimeridian() {
        let places = [
            Degrees {
                lon: 179.9,
                lat: 1.0,
            },
            Degrees {
                lon: -179.8,
                lat: 3.0,
            },
        ];
        let middle = middle(places.into_iter()).unwrap();
        assert!((middle.lon - -179.95).abs() < 1e-9 && (middle.lat - 2.0).abs() < 1e-12);
    }
}
