//! Covered ground as cells of a grid: cheap to add to, cheap to count, a thousandth off at most. Never the last word: bills rest on exact regions.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

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
    /// The same after closing, as last worked out.
    closed: [u64; 64],
    /// What was set since.
    changed: Option<Change>,
}

const EMPTY: Tile = Tile {
    rows: [0; 64],
    closed: [0; 64],
    changed: None,
};

/// The rows, from the first to the last, and the columns in which cells were set.
#[derive(Debug, Clone, Copy)]
struct Change {
    rows: [i64; 2],
    columns: u64,
}

impl Change {
    fn and(self, other: Self) -> Self {
        Self {
            rows: [
                self.rows[0].min(other.rows[0]),
                self.rows[1].max(other.rows[1]),
            ],
            columns: self.columns | other.columns,
        }
    }
}

type Key = (i64, i64);

/// Tiles are found by a multiplication: their keys are small numbers that no stranger chooses at will.
#[derive(Debug, Clone, Copy, Default)]
struct TileHasher(u64);

impl Hasher for TileHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(29) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

type Tiles = HashMap<Key, Tile, BuildHasherDefault<TileHasher>>;

/// A set of cells.
#[derive(Debug, Clone)]
pub(super) struct Bitmap {
    cell_m: f64,
    /// Sine and cosine of the grid's turn, known from the first strip on.
    turn: Option<(f64, f64)>,
    tiles: Tiles,
    cells: u64,
    closed: u64,
    /// Tiles with a change.
    dirty: Vec<Key>,
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
            tiles: Tiles::default(),
            cells: 0,
            closed: 0,
            dirty: Vec::new(),
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

    /// Sets the cells whose middles lie in a convex ring of at most four corners; gives how many were not
    /// set before.
    pub(super) fn fill(&mut self, ring: &[[f64; 2]]) -> u64 {
        let turn = self.turn(ring);
        let mut corners = [[0.0; 2]; 4];
        for (corner, place) in corners.iter_mut().zip(ring) {
            *corner = turned(turn, self.cell_m, *place);
        }
        let ring = corners.get(..ring.len()).unwrap_or(&corners);
        let low = ring.iter().map(|p| p[1]).fold(f64::INFINITY, f64::min);
        let high = ring.iter().map(|p| p[1]).fold(f64::NEG_INFINITY, f64::max);
        let before = self.cells;
        for row in first_middle(low)..=last_middle(high) {
            if let Some((west, east)) = span(ring, middle(row)) {
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
        let (line, line_tile) = (row.rem_euclid(TILE), row.div_euclid(TILE));
        let mut at = from;
        while at <= to {
            let tile = at.div_euclid(TILE);
            let end = ((tile + 1) * TILE - 1).min(to);
            let (low, high) = (at.rem_euclid(TILE), end.rem_euclid(TILE));
            let mask = (u64::MAX << low) & (u64::MAX >> (TILE - 1 - high));
            self.set_in_tile((tile, line_tile), line, mask);
            at = end + 1;
        }
    }

    fn set_in_tile(&mut self, key: Key, line: i64, mask: u64) {
        let tile = self.tiles.entry(key).or_insert(EMPTY);
        let bits = usize::try_from(line).ok();
        let Some(bits) = bits.and_then(|i| tile.rows.get_mut(i)) else {
            return;
        };
        let columns = mask & !*bits;
        if columns == 0 {
            return;
        }
        self.cells += u64::from(columns.count_ones());
        *bits |= mask;
        let change = Change {
            rows: [line, line],
            columns,
        };
        if tile.changed.is_none() {
            self.dirty.push(key);
        }
        tile.changed = Some(tile.changed.map_or(change, |before| before.and(change)));
    }

    /// Set cells, and those in gaps narrower than twice the radius (at most 7 m), m2. Only what changed
    /// since the last time is worked out.
    #[expect(clippy::cast_precision_loss, reason = "cells of a field, below 2^53")]
    pub(super) fn closed_m2(&mut self, radius_m: f64) -> f64 {
        let disc = Disc::new(radius_m / self.cell_m);
        let mut todo: Vec<(Key, [i64; 2])> = Vec::new();
        for key in std::mem::take(&mut self.dirty) {
            let change = self.tiles.get_mut(&key).and_then(|t| t.changed.take());
            for (key, rows) in change.into_iter().flat_map(|c| reached(key, c, &disc)) {
                match todo.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, all)) => *all = [all[0].min(rows[0]), all[1].max(rows[1])],
                    None => todo.push((key, rows)),
                }
            }
        }
        for (key, rows) in todo {
            self.close(key, rows, &disc);
        }
        self.closed as f64 * self.cell_m * self.cell_m
    }

    /// Works out the closed cells of some rows of a tile.
    fn close(&mut self, key: Key, [first, last]: [i64; 2], disc: &Disc) {
        let reach = disc.reach();
        let window = self.window(key, first - 2 * reach, last + 2 * reach);
        let mut grown = disc.dilated(&window);
        grown.iter_mut().for_each(|row| *row = !*row);
        let shrunk = disc.dilated(&grown);
        let tile = self.tiles.entry(key).or_insert(EMPTY);
        let skip = usize::try_from(2 * reach).unwrap_or(0);
        for (row, open) in (first..=last).zip(shrunk.iter().skip(skip)) {
            let Ok(row) = usize::try_from(row) else {
                continue;
            };
            let own = tile.rows.get(row).copied().unwrap_or(0);
            let middle = u64::try_from((!open >> 32) & u128::from(u64::MAX)).unwrap_or(0);
            if let Some(closed) = tile.closed.get_mut(row) {
                let new = (middle | own) & !*closed;
                self.closed += u64::from(new.count_ones());
                *closed |= new;
            }
        }
    }

    /// Rows of a tile, and half a tile on either side; from the tiles above and below where rows lie
    /// beyond.
    fn window(&self, (x, y): Key, first: i64, last: i64) -> Vec<u128> {
        let tiles = |dy: i64| [-1, 0, 1].map(|dx| self.tiles.get(&(x + dx, y + dy)));
        let above = [tiles(-1), tiles(0), tiles(1)];
        let line = |row: i64| {
            let place = usize::try_from(row.div_euclid(TILE) + 1).ok();
            let row = usize::try_from(row.rem_euclid(TILE)).unwrap_or(0);
            let tiles = place
                .and_then(|i| above.get(i))
                .copied()
                .unwrap_or([None; 3]);
            tiles.map(|tile| tile.and_then(|t| t.rows.get(row)).copied().unwrap_or(0))
        };
        (first..=last)
            .map(line)
            .map(|[left, own, right]| {
                u128::from(left >> 32) | u128::from(own) << 32 | u128::from(right) << 96
            })
            .collect()
    }
}

/// The tiles and rows that a change in a tile may close.
fn reached((x, y): Key, change: Change, disc: &Disc) -> Vec<(Key, [i64; 2])> {
    let reach = 2 * disc.reach();
    let [first, last] = [change.rows[0] - reach, change.rows[1] + reach];
    let left = i64::from(change.columns.trailing_zeros()) - reach;
    let right = TILE - 1 - i64::from(change.columns.leading_zeros()) + reach;
    let across = left.div_euclid(TILE)..=right.div_euclid(TILE);
    let along = first.div_euclid(TILE)..=last.div_euclid(TILE);
    let rows = move |dy: i64| [(first - dy * TILE).max(0), (last - dy * TILE).min(TILE - 1)];
    along
        .flat_map(|dy| across.clone().map(move |dx| ((x + dx, y + dy), rows(dy))))
        .collect()
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

    /// How many cells it reaches.
    fn reach(&self) -> i64 {
        i64::try_from(self.0.len()).unwrap_or(1) - 1
    }

    /// All that the disc reaches from any set cell.
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
