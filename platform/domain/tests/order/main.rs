//! The order machine: its table, its clocks, its races, and random lives that leave nothing stuck and no fen astray.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests"
)]

mod bills;
mod books;
mod bounds;
mod changes;
mod clocks;
mod lives;
mod model;
mod offers;
mod races;
mod rulings;
mod staff;
mod stage;
mod start;
mod worked;
