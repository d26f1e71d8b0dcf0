//! The calendar that people see: cells down to half an hour, each with the reason why it is as it is. Never a rule of its own.

use chrono::TimeDelta;
use serde::Serialize;

use super::{Calendar, GRID_MIN, Taken, up_to_grid};
use crate::period::Period;

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// It can be booked.
    Free,
    /// The owner does not work then.
    Closed,
    /// The owner blocked it.
    Block,
    /// Somebody is about to pay.
    Hold,
    /// An order.
    Booking,
}

/// Half hours of the same state in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// When.
    #[serde(flatten)]
    pub period: Period,
    /// What it is.
    pub state: CellState,
}

impl Calendar {
    /// All of a time, in order, equal neighbours joined. A window is read on the grid: its begin is moved
    /// up to the next half hour.
    #[must_use]
    pub fn cells(&self, within: &Period) -> Vec<Cell> {
        let open = self.open(within);
        let step = TimeDelta::minutes(i64::from(GRID_MIN));
        let mut cells: Vec<Cell> = Vec::new();
        let mut begin = up_to_grid(within.from(), self.zone);
        while begin < within.to() {
            let end = (begin + step).min(within.to());
            let Ok(cell) = Period::new(begin, end) else {
                break;
            };
            let state = self.state(&cell, &open);
            match cells.last_mut() {
                Some(last) if last.state == state => {
                    if let Ok(both) = Period::new(last.period.from(), end) {
                        last.period = both;
                    }
                }
                _ => cells.push(Cell {
                    period: cell,
                    state,
                }),
            }
            begin = end;
        }
        cells
    }

    fn state(&self, cell: &Period, open: &[Period]) -> CellState {
        let taken = self
            .busy
            .iter()
            .filter(|b| b.period.overlaps(cell))
            .map(|b| b.taken)
            .max();
        match taken {
            Some(Taken::Booking) => CellState::Booking,
            Some(Taken::Hold) => CellState::Hold,
            Some(Taken::Block) => CellState::Block,
            None if open.iter().any(|o| o.covers(cell)) => CellState::Free,
            None => CellState::Closed,
        }
    }
}
