//! Covered ground as cells of a grid: cheap to add to, cheap to count, a thousandth off at most. Never the last word: bills rest on exact regions.

use std::collections::{HashMap, HashSet};

use crate::geo::region::Region;

/// Cells along the side of a tile: one `u64` a row.
const TILE: i64 = 64;
/// Narrow implements on small plots need the finer cells, m.
const FINE_M: f64 = 0.25;
/// ... wider ones do not.
const COARSE_M: f64 = 0.5;
/// From this width on, m.
const COARSE_WIDTH_M: f64 = 6.0;
/// The grid is turned by the golden section against the first strip: passes and the edges they leave
/// never run along it. An edge that did would be off by up to half a cell over its whole length.
const TURN: f64 = 0.618_033_988_749_894_9;

/// One tile.
#[derive(Debug, Clone)]
struct Tile {
    rows: [u64; 64],
    /// Cells set after closing, as last worked out.
    closed: u32,
}

const EMPTY: Tile = Tile {
    rows: [0; 64],
    closed: 0,
};

/// A set of cells.
#[derive(Debug, Clone)]
pub(super) struct Bitmap {
    cell_m: f64,
    /// Sine and cosine of the grid's turn, known from the first strip on.
    turn: Option<(f64, f64)>,
    tiles: HashMap<(i64, i64), Tile>,
    cells: u64,
    closed: u64,
    dirty: HashSet<(i64, i64)>,
    limits: Option<Limits>,
}

/// A plot that cells must lie in: edges in metres, then in the turned grid; rows are worked out when
/// first asked for.
#[derive(Debug, Clone)]
struct Limits {
    edges: Vec<[f64; 4]>,
    rows: HashMap<i64, Vec<[i64; 2]>>,
}

impl Bitmap {
    /// Empty, for an implement of a width, m; cells outside `plot` are never set.
    pub(super) fn new(width_m: f64, plot: Option<&Region>) -> Self {
        Self {
            cell_m: if width_m < COARSE_WIDTH_M {
                FINE_M
            } else {
                COARSE_M
            },
            turn: None,
            tiles: HashMap::new(),
            cells: 0,
            closed: 0,
            dirty: HashSet::new(),
            limits: plot.map(Limits::of),
        }
    }

    /// Fixes the grid beside the first strip.
    fn turn(&mut self, ring: &[[f64; 2]]) -> (f64, f64) {
        if let Some(turn) = self.turn {
            return turn;
        }
        let along = match ring {
            [a, b, ..] => (b[1] - a[1]).atan2(b[0] - a[0]),
            _ => 0.0,
        };
        let turn = (TURN.atan() - along).sin_cos();
        self.turn = Some(turn);
        if let Some(limits) = &mut self.limits {
            for edge in &mut limits.edges {
                let [ax, ay, bx, by] = *edge;
                let (a, b) = (
                    turned(turn, self.cell_m, [ax, ay]),
                    turned(turn, self.cell_m, [bx, by]),
                );
                *edge = [a[0], a[1], b[0], b[1]];
            }
        }
        turn
    }

    /// Set cells, m2.
    #[expect(clippy::cast_precision_loss, reason = "cells of a field, below 2^53")]
    pub(super) fn area_m2(&self) -> f64 {
        self.cells as f64 * self.cell_m * self.cell_m
    }

    /// Sets the cells whose middles lie in a convex ring; gives how many were not set before.
    pub(super) fn fill(&mut self, ring: &[[f64; 2]]) -> u64 {
        let turn = self.turn(ring);
        let ring: Vec<[f64; 2]> = ring.iter().map(|p| turned(turn, self.cell_m, *p)).collect();
        let low = ring.iter().map(|p| p[1]).fold(f64::INFINITY, f64::min);
        let high = ring.iter().map(|p| p[1]).fold(f64::NEG_INFINITY, f64::max);
        let before = self.cells;
        for row in first_middle(low)..=last_middle(high) {
            if let Some((west, east)) = span(&ring, middle(row)) {
                self.set(row, first_middle(west), last_middle(east));
            }
        }
        self.cells - before
    }

    fn set(&mut self, row: i64, from: i64, to: i64) {
        let Some(limits) = &mut self.limits else {
            self.set_bits(row, from, to);
            return;
        };
        let edges = &limits.edges;
        let inside = limits
            .rows
            .entry(row)
            .or_insert_with(|| crossings(edges, row));
        let parts: Vec<[i64; 2]> = inside
            .iter()
            .map(|[west, east]| [from.max(*west), to.min(*east)])
            .filter(|[from, to]| from <= to)
            .collect();
        for [from, to] in parts {
            self.set_bits(row, from, to);
        }
    }

    fn set_bits(&mut self, row: i64, from: i64, to: i64) {
        let mut at = from;
        while at <= to {
            let tile = at.div_euclid(TILE);
            let end = ((tile + 1) * TILE - 1).min(to);
            let (low, high) = (at.rem_euclid(TILE), end.rem_euclid(TILE));
            let mask = (u64::MAX << low) & (u64::MAX >> (TILE - 1 - high));
            let key = (tile, row.div_euclid(TILE));
            let rows = &mut self.tiles.entry(key).or_insert(EMPTY).rows;
            let line = usize::try_from(row.rem_euclid(TILE)).ok();
            if let Some(bits) = line.and_then(|i| rows.get_mut(i)) {
                let new = mask & !*bits;
                if new != 0 {
                    self.cells += u64::from(new.count_ones());
                    *bits |= mask;
                    self.dirty.insert(key);
                }
            }
            at = end + 1;
        }
    }

    /// Set cells, and those in gaps narrower than twice the radius (at most 7 m), m2. Only what changed
    /// since the last time is worked out.
    #[expect(clippy::cast_precision_loss, reason = "cells of a field, below 2^53")]
    pub(super) fn closed_m2(&mut self, radius_m: f64) -> f64 {
        let around = |(x, y): (i64, i64)| {
            (x - 1..=x + 1).flat_map(move |x| (y - 1..=y + 1).map(move |y| (x, y)))
        };
        let todo: HashSet<(i64, i64)> = self.dirty.drain().flat_map(around).collect();
        let disc = Disc::new(radius_m / self.cell_m);
        for key in todo {
            let closed = self.closed_cells(key, &disc);
            if closed > 0 {
                let tile = self.tiles.entry(key).or_insert(EMPTY);
                self.closed = self.closed - u64::from(tile.closed) + u64::from(closed);
                tile.closed = closed;
            }
        }
        self.closed as f64 * self.cell_m * self.cell_m
    }

    fn closed_cells(&self, key: (i64, i64), disc: &Disc) -> u32 {
        let own = self.tiles.get(&key).map_or(&EMPTY.rows, |t| &t.rows);
        if own.iter().all(|row| *row == u64::MAX) {
            return 64 * 64;
        }
        let window = self.window(key);
        let grown = disc.dilated(&window);
        let ungrown: Vec<u128> = grown.iter().map(|row| !row).collect();
        let shrunk = disc.dilated(&ungrown);
        let rows = shrunk.iter().skip(32).take(64).zip(own);
        rows.map(|(row, own)| {
            let middle = u64::try_from((!row >> 32) & u128::from(u64::MAX)).unwrap_or(0);
            (middle | own).count_ones()
        })
        .sum()
    }

    /// A tile with half a tile around it.
    fn window(&self, (x, y): (i64, i64)) -> Vec<u128> {
        let line = |x: i64, y: i64, row: usize| {
            let tile = self.tiles.get(&(x, y));
            tile.and_then(|t| t.rows.get(row)).copied().unwrap_or(0)
        };
        let rows = (0..128_usize).map(|i| match i {
            0..32 => (y - 1, i + 32),
            32..96 => (y, i - 32),
            _ => (y + 1, i - 96),
        });
        rows.map(|(y, row)| {
            u128::from(line(x - 1, y, row) >> 32)
                | u128::from(line(x, y, row)) << 32
                | u128::from(line(x + 1, y, row)) << 96
        })
        .collect()
    }
}

impl Limits {
    fn of(plot: &Region) -> Self {
        let rings = plot.shapes().iter().flatten();
        let edges = rings.flat_map(|ring| ring.iter().zip(ring.iter().cycle().skip(1)));
        Self {
            edges: edges.map(|(a, b)| [a[0], a[1], b[0], b[1]]).collect(),
            rows: HashMap::new(),
        }
    }
}

/// A place of the grid, in cells.
fn turned((sin, cos): (f64, f64), cell_m: f64, [x, y]: [f64; 2]) -> [f64; 2] {
    [(x * cos - y * sin) / cell_m, (x * sin + y * cos) / cell_m]
}

/// A disc of cells: the half width of each of its rows.
struct Disc(Vec<u32>);

impl Disc {
    /// Of a radius in cells, at most 14: a closing must not reach beyond the window. Rounded, so that the
    /// gaps it closes, which are whole cells, are on average those of the radius.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 14"
    )]
    fn new(radius: f64) -> Self {
        let radius = (radius + 0.5).clamp(0.0, 14.0);
        let rows = 0..=radius.floor() as u32;
        let half = |row: u32| (radius * radius - f64::from(row).powi(2)).max(0.0).sqrt();
        Self(rows.map(|row| half(row).floor() as u32).collect())
    }

    fn dilated(&self, rows: &[u128]) -> Vec<u128> {
        let mut out = vec![0_u128; rows.len()];
        for (i, row) in rows.iter().enumerate() {
            if *row == 0 {
                continue;
            }
            let (mut wide, mut reach) = (*row, 0);
            // From the outermost row of the disc, which is the narrowest, to the middle one.
            for (away, half) in self.0.iter().enumerate().rev() {
                while reach < *half {
                    wide |= wide << 1 | wide >> 1;
                    reach += 1;
                }
                for target in [i.checked_sub(away), Some(i + away)] {
                    if let Some(line) = target.and_then(|t| out.get_mut(t)) {
                        *line |= wide;
                    }
                }
            }
        }
        out
    }
}

/// The first cell whose middle is not before.
#[expect(clippy::cast_possible_truncation, reason = "cells of a projection")]
fn first_middle(at: f64) -> i64 {
    (at - 0.5).ceil() as i64
}

/// The last cell whose middle is not after.
#[expect(clippy::cast_possible_truncation, reason = "cells of a projection")]
fn last_middle(at: f64) -> i64 {
    (at - 0.5).floor() as i64
}

#[expect(clippy::cast_precision_loss, reason = "cells of a projection")]
fn middle(cell: i64) -> f64 {
    cell as f64 + 0.5
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

/// The cells of a row inside a plot, as spans.
fn crossings(edges: &[[f64; 4]], row: i64) -> Vec<[i64; 2]> {
    let y = middle(row);
    let crosses = edges.iter().filter(|e| (e[1] > y) != (e[3] > y));
    let mut xs: Vec<f64> = crosses
        .map(|[ax, ay, bx, by]| ax + (bx - ax) * (y - ay) / (by - ay))
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.chunks_exact(2)
        .filter_map(|pair| match pair {
            [west, east] => Some([first_middle(*west), last_middle(*east)]),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rectangle(x: f64, y: f64, width: f64, height: f64, angle: f64) -> Vec<[f64; 2]> {
        let (sin, cos) = angle.sin_cos();
        [
            (x, y),
            (x + width, y),
            (x + width, y + height),
            (x, y + height),
        ]
        .map(|(x, y)| [x * cos - y * sin, x * sin + y * cos])
        .to_vec()
    }

    #[test]
    fn a_rectangle_of_any_direction_has_its_area_to_a_thousandth() {
        for width_m in [3.0, 9.0] {
            for step in 0..36 {
                let angle = f64::from(step) * 0.0873;
                let mut bitmap = Bitmap::new(width_m, None);
                bitmap.fill(&rectangle(17.1, -3.3, 60.13, 50.07, angle));
                let truth = 60.13 * 50.07;
                let off = bitmap.area_m2() / truth - 1.0;
                assert!(off.abs() < 1e-3, "{width_m} m, {step}: {off}");
            }
        }
    }

    #[test]
    fn what_is_set_again_is_not_counted_again() {
        let mut bitmap = Bitmap::new(9.0, None);
        let ring = rectangle(0.0, 0.0, 100.0, 50.0, 0.3);
        let new = bitmap.fill(&ring);
        assert!(new > 0);
        assert_eq!(bitmap.fill(&ring), 0);
    }

    #[test]
    fn nothing_is_set_outside_the_plot_nor_in_its_hole() {
        let plot = Region::from_rings(vec![rectangle(0.0, 0.0, 100.0, 100.0, 0.0)]).difference(
            &Region::from_rings(vec![rectangle(30.0, 30.0, 40.0, 40.0, 0.0)]),
        );
        let mut bitmap = Bitmap::new(3.0, Some(&plot));
        bitmap.fill(&rectangle(-50.0, -50.0, 200.0, 200.0, 0.0));
        assert!((bitmap.area_m2() / 8400.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn closing_fills_slivers_and_leaves_ponds() {
        let mut bitmap = Bitmap::new(9.0, None);
        bitmap.fill(&rectangle(0.0, 0.0, 30.0, 200.0, 0.2));
        assert!((bitmap.closed_m2(1.5) - bitmap.area_m2()).abs() < 20.0);
        bitmap.fill(&rectangle(32.0, 0.0, 30.0, 200.0, 0.2));
        let closed = bitmap.closed_m2(1.5);
        assert!((closed / 12_400.0 - 1.0).abs() < 5e-3, "{closed}");
        bitmap.fill(&rectangle(70.0, 0.0, 30.0, 200.0, 0.2));
        let closed = bitmap.closed_m2(1.5);
        assert!((closed / 18_400.0 - 1.0).abs() < 5e-3, "{closed}");
    }
}
