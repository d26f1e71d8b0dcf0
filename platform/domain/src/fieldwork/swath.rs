//! The strip of ground that an implement passes over: quads between successive bars. Never a cap or a wedge.

use crate::geo::{Metres, region::signed_area};

/// Places nearer than this to the last kept one say nothing about direction, m.
const KEEP_M: f64 = 0.3;
/// Pieces below this are nothing, m2.
const LEAST_M2: f64 = 1e-6;

/// A place of a run of work, and what worked in the step that ends there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub place: Metres,
    /// ms since 1970 UTC.
    pub at_ms: i64,
    /// Width in use, m.
    pub width_m: f64,
    /// Sections in use, bit 0 the leftmost; None is the whole width.
    pub sections: Option<u32>,
}

/// Where the implement is, seen from the antenna, and what it is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Implement {
    /// m ahead of the antenna.
    pub forward_m: f64,
    /// m to the left of it.
    pub left_m: f64,
    /// Sections of equal width.
    pub sections: Option<u32>,
}

impl Implement {
    /// What worked, as spans of metres to the left of the middle, from the left to the right.
    fn spans(self, mark: &Mark) -> Vec<[f64; 2]> {
        let half = mark.width_m / 2.0;
        let Some((on, count)) = mark.sections.zip(self.sections) else {
            return vec![[-half, half]];
        };
        let edge = |i: u32| half - mark.width_m * f64::from(i) / f64::from(count);
        let is_on = |i: u32| i < count && on & (1 << i) != 0;
        let mut spans = Vec::new();
        let mut begin = None;
        for i in 0..=count {
            match (begin, is_on(i)) {
                (None, true) => begin = Some(i),
                (Some(first), false) => {
                    spans.push([edge(i), edge(first)]);
                    begin = None;
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        spans
    }

    /// The width that worked, m.
    fn width(self, mark: &Mark) -> f64 {
        match mark.sections.zip(self.sections) {
            None => mark.width_m,
            Some((on, count)) => {
                let on = (0..count).filter(|i| on & (1 << i) != 0).count();
                mark.width_m * f64::from(u32::try_from(on).unwrap_or(0)) / f64::from(count)
            }
        }
    }
}

/// Metres along a run, and metres times width.
pub(super) fn lengths(kept: &[Mark], implement: Implement) -> (f64, f64) {
    kept.windows(2)
        .fold((0.0, 0.0), |(metres, swept), pair| match pair {
            [a, b] => {
                let step = a.place.distance(b.place);
                (metres + step, swept + step * implement.width(b))
            }
            _ => (metres, swept),
        })
}

/// The quads of one thinned run, all counter-clockwise; a bow-tie comes as two triangles. Each with
/// the time of the mark that it ends at.
pub(super) fn quads(kept: &[Mark], implement: Implement) -> Vec<(i64, Vec<[f64; 2]>)> {
    let mut out = Vec::with_capacity(kept.len());
    for (i, pair) in kept.windows(2).enumerate() {
        if let [a, b] = pair {
            let before = i.checked_sub(1).and_then(|i| kept.get(i));
            let rings = strip(before, a, b, kept.get(i + 2), implement);
            out.extend(rings.into_iter().map(|ring| (b.at_ms, ring)));
        }
    }
    out
}

/// What is swept from mark `a` to mark `b`, given the marks around them.
pub(super) fn strip(
    before: Option<&Mark>,
    a: &Mark,
    b: &Mark,
    after: Option<&Mark>,
    implement: Implement,
) -> Vec<Vec<[f64; 2]>> {
    let along = a.place.to(b.place);
    let Some(own) = along.unit() else {
        return vec![];
    };
    // A bar stands square to the mean of the directions in and out; where the way turns by more than
    // 90 degrees the run ends and begins anew, and the own direction stands.
    let mean = |other: Option<Metres>| {
        other
            .filter(|other| other.dot(along) >= 0.0)
            .and_then(Metres::unit)
            .and_then(|other| other.moved(own, 1.0).unit())
            .unwrap_or(own)
    };
    let first = bar(a, mean(before.map(|m| m.place.to(a.place))), implement);
    let last = bar(b, mean(after.map(|m| b.place.to(m.place))), implement);
    let mut out = Vec::with_capacity(1);
    for span in implement.spans(b) {
        quad(&first, &last, span, &mut out);
    }
    out
}

/// The middle of the implement and the direction to its left.
struct Bar {
    middle: Metres,
    left: Metres,
}

/// Drops the marks that lie on the one before.
pub(super) fn thin(run: &[Mark]) -> Vec<Mark> {
    let mut kept: Vec<Mark> = Vec::with_capacity(run.len());
    for mark in run {
        if kept
            .last()
            .is_none_or(|last| last.place.distance(mark.place) >= KEEP_M)
        {
            kept.push(*mark);
        }
    }
    kept
}

fn bar(mark: &Mark, ahead: Metres, implement: Implement) -> Bar {
    let left = ahead.left();
    let middle = mark.place.moved(ahead, implement.forward_m);
    Bar {
        middle: middle.moved(left, implement.left_m),
        left,
    }
}

fn quad(a: &Bar, b: &Bar, [right, left]: [f64; 2], out: &mut Vec<Vec<[f64; 2]>>) {
    let point = |bar: &Bar, side: f64| {
        let p = bar.middle.moved(bar.left, side);
        [p.x, p.y]
    };
    let (ar, al, br, bl) = (
        point(a, right),
        point(a, left),
        point(b, right),
        point(b, left),
    );
    match crossing(ar, br, al, bl)
        .map(|x| (x, false))
        .or_else(|| crossing(ar, al, br, bl).map(|x| (x, true)))
    {
        None => push(vec![ar, br, bl, al], out),
        // The edges along the way cross: the inside of a tight bend.
        Some((x, false)) => {
            push(vec![ar, x, al], out);
            push(vec![br, bl, x], out);
        }
        // The bars themselves cross.
        Some((x, true)) => {
            push(vec![ar, br, x], out);
            push(vec![al, x, bl], out);
        }
    }
}

fn push(mut ring: Vec<[f64; 2]>, out: &mut Vec<Vec<[f64; 2]>>) {
    let area = signed_area(&ring);
    if area.abs() < LEAST_M2 {
        return;
    }
    if area < 0.0 {
        ring.reverse();
    }
    out.push(ring);
}

/// Where two segments cross inside both.
fn crossing(a: [f64; 2], b: [f64; 2], c: [f64; 2], d: [f64; 2]) -> Option<[f64; 2]> {
    let (r, s) = ([b[0] - a[0], b[1] - a[1]], [d[0] - c[0], d[1] - c[1]]);
    let cross = r[0] * s[1] - r[1] * s[0];
    if cross.abs() < 1e-12 {
        return None;
    }
    let (dx, dy) = (c[0] - a[0], c[1] - a[1]);
    let t = (dx * s[1] - dy * s[0]) / cross;
    let u = (dx * r[1] - dy * r[0]) / cross;
    let inside = |v: f64| v > 1e-9 && v < 1.0 - 1e-9;
    (inside(t) && inside(u)).then(|| [a[0] + t * r[0], a[1] + t * r[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::region::Region;

    const PLAIN: Implement = Implement {
        forward_m: 0.0,
        left_m: 0.0,
        sections: None,
    };

    fn marks(places: &[(f64, f64)], width_m: f64) -> Vec<Mark> {
        places
            .iter()
            .map(|(x, y)| Mark {
                place: Metres { x: *x, y: *y },
                at_ms: 0,
                width_m,
                sections: None,
            })
            .collect()
    }

    fn rings(kept: &[Mark], implement: Implement) -> Vec<Vec<[f64; 2]>> {
        let quads = quads(kept, implement).into_iter();
        quads.map(|(_, ring)| ring).collect()
    }

    fn area(rings: Vec<Vec<[f64; 2]>>) -> f64 {
        Region::from_rings(rings).area().m2()
    }

    #[test]
    fn a_straight_strip_is_a_rectangle_without_caps() {
        let kept = thin(&marks(
            &[(0.0, 0.0), (3.0, 0.0), (3.1, 0.0), (10.0, 0.0)],
            4.0,
        ));
        assert_eq!(kept.len(), 3);
        assert!((area(rings(&kept, PLAIN)) - 40.0).abs() < 1e-4);
        assert_eq!(lengths(&kept, PLAIN), (10.0, 40.0));
    }

    #[test]
    fn a_bend_tighter_than_the_implement_gives_no_negative_area() {
        let arc: Vec<(f64, f64)> = (0..=12)
            .map(|i| f64::from(i) * 0.26)
            .map(|a| (a.sin(), 1.0 - a.cos()))
            .collect();
        let rings = rings(&thin(&marks(&arc, 12.0)), PLAIN);
        assert!(rings.iter().all(|ring| signed_area(ring) > 0.0));
        let swept = area(rings);
        // Half a disc of 7 m on the outside, less than a whole one with the inside.
        assert!((70.0..120.0).contains(&swept), "{swept}");
    }

    #[test]
    fn a_reversal_ends_the_leg_and_no_wedge_is_drawn() {
        let rings = rings(&marks(&[(0.0, 0.0), (10.0, 0.0), (0.0, 0.1)], 4.0), PLAIN);
        let union = area(rings);
        assert!((40.0..41.5).contains(&union), "{union}");
    }

    #[test]
    fn only_the_sections_in_use_cover_ground() {
        let six = Implement {
            sections: Some(6),
            ..PLAIN
        };
        let mut run = marks(&[(0.0, 0.0), (10.0, 0.0)], 6.0);
        if let Some(mark) = run.last_mut() {
            mark.sections = Some(0b10_0011);
        }
        let rings = rings(&run, six);
        assert_eq!(rings.len(), 2);
        // Driving east, the left is north: bits 0 and 1 are the northern third.
        let north = rings
            .iter()
            .flatten()
            .map(|p| p[1])
            .fold(f64::MIN, f64::max);
        assert!((north - 3.0).abs() < 1e-9 && (area(rings) - 30.0).abs() < 1e-4);
        assert_eq!(lengths(&run, six), (10.0, 30.0));
    }

    #[test]
    fn the_implement_follows_behind_and_beside_the_antenna() {
        let trailed = Implement {
            forward_m: -5.0,
            left_m: 1.0,
            sections: None,
        };
        let rings = rings(&marks(&[(0.0, 0.0), (10.0, 0.0)], 2.0), trailed);
        let corner = |pick: fn(f64, f64) -> f64, axis: usize| {
            let of = |p: &[f64; 2]| if axis == 0 { p[0] } else { p[1] };
            rings.iter().flatten().map(of).reduce(pick)
        };
        assert_eq!(
            [
                corner(f64::min, 0),
                corner(f64::max, 0),
                corner(f64::min, 1),
                corner(f64::max, 1)
            ],
            [Some(-5.0), Some(5.0), Some(0.0), Some(2.0)]
        );
    }
}
