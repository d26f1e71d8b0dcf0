//! Covered area while a machine works: a bitmap that grows fix by fix. Never the last word: the bill rests on the exact facts.

use std::collections::HashMap;

use super::{
    Setup,
    swath::{Mark, quads, thin},
};
use crate::geo::Metres;

/// Side of a cell, m. Cell centres sample the swath without bias; at this size the error of a day's
/// field is below 0.1 % of the union.
const CELL_M: f64 = 0.25;
/// Cells along the side of a tile: one `u64` a row.
const TILE: i64 = 64;

/// The covered cells of one job, O(1) a fix.
#[derive(Debug, Clone)]
pub struct LiveCoverage {
    setup: Setup,
    tiles: HashMap<(i64, i64), [u64; 64]>,
    cells: u64,
    /// The last marks of the running pass; a bar needs the direction into it and out of it.
    run: Vec<Mark>,
}

impl LiveCoverage {
    /// Nothing covered yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            tiles: HashMap::new(),
            cells: 0,
            run: Vec::with_capacity(4),
        }
    }

    /// The machine worked on to this place, with this width, m.
    pub fn work(&mut self, place: Metres, width_m: f64) {
        self.run.push(Mark { place, width_m });
        let kept = thin(&self.run);
        if kept.len() < self.run.len() {
            self.run = kept;
            return;
        }
        // With the place after it known, the bar of the last but one stands for good.
        if let [before @ .., _] = self.run.as_slice()
            && before.len() >= 3
        {
            let rings = quads(&self.run, self.setup.forward_m, self.setup.left_m);
            // Earlier quads of the run are drawn already; drawing them again changes nothing.
            let settled = rings.len().saturating_sub(1);
            rings.iter().take(settled).for_each(|ring| self.fill(ring));
            self.run.remove(0);
        }
    }

    /// The pass is over: work off, a gap, or the end.
    pub fn lift(&mut self) {
        for ring in quads(&self.run, self.setup.forward_m, self.setup.left_m) {
            self.fill(&ring);
        }
        self.run.clear();
    }

    /// Covered so far, m2.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "cells of a field are far below 2^53"
    )]
    pub fn area_m2(&self) -> f64 {
        self.cells as f64 * CELL_M * CELL_M
    }

    /// Sets the cells whose centres lie in a convex ring.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "cells of a projection, below 2^53"
    )]
    fn fill(&mut self, ring: &[[f64; 2]]) {
        let low = ring.iter().map(|p| p[1]).fold(f64::INFINITY, f64::min);
        let high = ring.iter().map(|p| p[1]).fold(f64::NEG_INFINITY, f64::max);
        let first = (low / CELL_M - 0.5).ceil() as i64;
        let last = (high / CELL_M - 0.5).floor() as i64;
        for row in first..=last {
            let y = (row as f64 + 0.5) * CELL_M;
            if let Some((west, east)) = span(ring, y) {
                let from = (west / CELL_M - 0.5).ceil() as i64;
                let to = (east / CELL_M - 0.5).floor() as i64;
                self.set(row, from, to);
            }
        }
    }

    fn set(&mut self, row: i64, from: i64, to: i64) {
        let mut at = from;
        while at <= to {
            let tile = at.div_euclid(TILE);
            let end = ((tile + 1) * TILE - 1).min(to);
            let (low, high) = (at.rem_euclid(TILE), end.rem_euclid(TILE));
            let mask = (u64::MAX << low) & (u64::MAX >> (TILE - 1 - high));
            let rows = self
                .tiles
                .entry((tile, row.div_euclid(TILE)))
                .or_insert([0; 64]);
            let line = usize::try_from(row.rem_euclid(TILE))
                .ok()
                .and_then(|i| rows.get_mut(i));
            if let Some(bits) = line {
                self.cells += u64::from((mask & !*bits).count_ones());
                *bits |= mask;
            }
            at = end + 1;
        }
    }
}

/// Where a horizontal line enters and leaves a convex ring.
fn span(ring: &[[f64; 2]], y: f64) -> Option<(f64, f64)> {
    let (mut west, mut east) = (f64::INFINITY, f64::NEG_INFINITY);
    for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        if (a[1] > y) != (b[1] > y) {
            let x = a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]);
            west = west.min(x);
            east = east.max(x);
        }
    }
    (west < east).then_some((west, east))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::region::Region;

    /// Passes up and down a field with a bend in the middle, 3 m wide, some overlap.
    fn field(mut at: impl FnMut(Metres), mut lift: impl FnMut()) {
        for pass in 0..40 {
            let x = f64::from(pass) * 2.7;
            for step in 0..200 {
                let along = if pass % 2 == 0 { step } else { 199 - step };
                let y = f64::from(along) * 1.5;
                at(Metres {
                    x: x + 8.0 * (y / 60.0).sin(),
                    y,
                });
            }
            lift();
        }
    }

    #[test]
    fn the_bitmap_stays_within_a_thousandth_of_the_exact_union()
    -> Result<(), super::super::SetupError> {
        let setup = Setup::new(3.0)?;
        let mut live = LiveCoverage::new(setup);
        let cell = std::cell::RefCell::new(&mut live);
        field(
            |p| cell.borrow_mut().work(p, 3.0),
            || cell.borrow_mut().lift(),
        );
        let mut rings = Vec::new();
        let run = std::cell::RefCell::new(Vec::new());
        field(
            |place| {
                run.borrow_mut().push(Mark {
                    place,
                    width_m: 3.0,
                })
            },
            || rings.extend(quads(&thin(&run.take()), 0.0, 0.0)),
        );
        let exact = Region::from_rings(rings).area().m2();
        assert!(
            (live.area_m2() / exact - 1.0).abs() < 1e-3,
            "{} against {exact}",
            live.area_m2()
        );
        Ok(())
    }
}
