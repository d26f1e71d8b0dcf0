//! Places on the ellipsoid and in local metres; degrees and metres are different types and never mix.

pub mod datum;
pub mod plot;
pub mod projection;
pub mod region;

use serde::Serialize;

/// A place in degrees, WGS-84 unless its [`datum::Datum`] says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Degrees {
    /// Longitude, degrees east.
    pub lon: f64,
    /// Latitude, degrees north.
    pub lat: f64,
}

/// A place in metres east and north of the centre of a [`projection::Projection`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Metres {
    /// East, m.
    pub x: f64,
    /// North, m.
    pub y: f64,
}

impl Metres {
    /// Straight distance, m.
    #[must_use]
    pub fn distance(self, other: Self) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    /// From here to there.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            x: other.x - self.x,
            y: other.y - self.y,
        }
    }

    /// This vector with length 1, or None where it has none.
    #[must_use]
    pub fn unit(self) -> Option<Self> {
        let length = self.x.hypot(self.y);
        (length > 1e-9).then(|| Self {
            x: self.x / length,
            y: self.y / length,
        })
    }

    /// Scalar product.
    #[must_use]
    pub fn dot(self, other: Self) -> f64 {
        self.x * other.x + self.y * other.y
    }

    /// This place moved by `factor` times a vector.
    #[must_use]
    pub fn moved(self, vector: Self, factor: f64) -> Self {
        Self {
            x: self.x + factor * vector.x,
            y: self.y + factor * vector.y,
        }
    }

    /// The vector turned by 90 degrees to the left.
    #[must_use]
    pub const fn left(self) -> Self {
        Self {
            x: -self.y,
            y: self.x,
        }
    }
}

/// An area, m2 x 10^4: exact to add and compare, however it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Area(i64);

impl Area {
    /// From square metres, rounded to 1e-4 m2; not finite or beyond 9e14 m2 counts as none.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "bounded just before")]
    pub fn from_m2(m2: f64) -> Self {
        if m2.is_finite() && m2.abs() < 9e14 {
            Self((m2 * 1e4).round() as i64)
        } else {
            Self(0)
        }
    }

    /// 1/10,000 m².
    #[must_use]
    pub const fn e4_m2(self) -> i64 {
        self.0
    }

    /// Square metres.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "areas of fields are far below 2^53 of 1e-4 m2"
    )]
    pub const fn m2(self) -> f64 {
        self.0 as f64 / 1e4
    }

    /// In mu (1 mu = 2000/3 m2).
    #[must_use]
    pub const fn mu(self) -> f64 {
        self.m2() * 3.0 / 2000.0
    }

    /// Split in proportion to weights, so that the parts sum to the whole: what rounding leaves goes to
    /// the largest remainders, the first of equals first. Nothing to anyone where no weight is.
    #[must_use]
    pub fn split(self, weights: &[u64]) -> Vec<Self> {
        let total: i128 = weights.iter().map(|w| i128::from(*w)).sum();
        if total == 0 {
            return vec![Self(0); weights.len()];
        }
        let share = |weight: &u64| i128::from(self.0) * i128::from(*weight);
        let floor = |weight: &u64| i64::try_from(share(weight) / total).unwrap_or(0);
        let mut parts: Vec<i64> = weights.iter().map(floor).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|i| {
            let rest = weights.get(*i).map_or(0, |w| share(w) % total);
            (std::cmp::Reverse(rest), *i)
        });
        let left = self.0 - parts.iter().sum::<i64>();
        for i in order.into_iter().take(usize::try_from(left).unwrap_or(0)) {
            if let Some(part) = parts.get_mut(i) {
                *part += 1;
            }
        }
        parts.into_iter().map(Self).collect()
    }

    /// The difference, not below zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        let left = self.0.saturating_sub(other.0);
        Self(if left < 0 { 0 } else { left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_area_sum_to_the_whole() {
        let whole = Area::from_m2(100.0001);
        let parts = whole.split(&[1, 1, 1]);
        let sum: i64 = parts.iter().map(|p| p.0).sum();
        assert_eq!(sum, whole.0);
        assert_eq!(parts, vec![Area(333_334), Area(333_334), Area(333_333)]);
        assert_eq!(whole.split(&[0, 0]), vec![Area(0), Area(0)]);
    }

    #[test]
    fn what_is_no_area_counts_as_none() {
        for m2 in [f64::NAN, f64::INFINITY, 1e18] {
            assert_eq!(Area::from_m2(m2), Area(0));
        }
        assert_eq!(Area::from_m2(1.0).minus(Area::from_m2(2.0)), Area(0));
    }
}
