//! The strip of ground that an implement passes over: quads between successive bars. Never a cap or a wedge.

use crate::geo::{Metres, region::signed_area};

/// Places nearer than this to the last kept one say nothing about direction, m.
const KEEP_M: f64 = 0.3;
/// Pieces below this are nothing, m2.
const LEAST_M2: f64 = 1e-6;

/// A place of a run of work, and the width of the step that ends there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub place: Metres,
    pub width_m: f64,
}

/// Metres along a run, and metres times width.
pub(super) fn lengths(kept: &[Mark]) -> (f64, f64) {
    kept.windows(2)
        .fold((0.0, 0.0), |(metres, swept), pair| match pair {
            [a, b] => {
                let step = a.place.distance(b.place);
                (metres + step, swept + step * b.width_m)
            }
            _ => (metres, swept),
        })
}

/// The quads of one thinned run, all counter-clockwise; a bow-tie comes as two triangles.
pub(super) fn quads(kept: &[Mark], forward_m: f64, left_m: f64) -> Vec<Vec<[f64; 2]>> {
    let mut out = Vec::with_capacity(kept.len());
    for leg in legs(kept) {
        let bars = bars(leg, forward_m, left_m);
        for (pair, mark) in bars.windows(2).zip(leg.iter().skip(1)) {
            if let [a, b] = pair {
                quad(a, b, mark.width_m / 2.0, &mut out);
            }
        }
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

/// Cuts where the way turns by more than 90 degrees; the corner ends one leg and begins the next.
fn legs(kept: &[Mark]) -> Vec<&[Mark]> {
    let mut legs = Vec::new();
    let mut begin = 0;
    for (i, window) in kept.windows(3).enumerate() {
        let [a, b, c] = window else { continue };
        if a.place.to(b.place).dot(b.place.to(c.place)) < 0.0 {
            legs.extend(kept.get(begin..=i + 1));
            begin = i + 1;
        }
    }
    legs.extend(kept.get(begin..));
    legs
}

fn bars(leg: &[Mark], forward_m: f64, left_m: f64) -> Vec<Bar> {
    let heading = |i: usize| {
        let at = |j: usize| leg.get(j).map(|m| m.place);
        let into = at(i.wrapping_sub(1))
            .zip(at(i))
            .and_then(|(a, b)| a.to(b).unit());
        let out = at(i).zip(at(i + 1)).and_then(|(a, b)| a.to(b).unit());
        match (into, out) {
            (Some(a), Some(b)) => Metres {
                x: a.x + b.x,
                y: a.y + b.y,
            }
            .unit(),
            (a, b) => a.or(b),
        }
    };
    leg.iter()
        .enumerate()
        .filter_map(|(i, mark)| {
            let ahead = heading(i)?;
            let left = ahead.left();
            Some(Bar {
                middle: mark.place.moved(ahead, forward_m).moved(left, left_m),
                left,
            })
        })
        .collect()
}

fn quad(a: &Bar, b: &Bar, half: f64, out: &mut Vec<Vec<[f64; 2]>>) {
    let point = |bar: &Bar, side: f64| {
        let p = bar.middle.moved(bar.left, side);
        [p.x, p.y]
    };
    let (ar, al, br, bl) = (
        point(a, -half),
        point(a, half),
        point(b, -half),
        point(b, half),
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
