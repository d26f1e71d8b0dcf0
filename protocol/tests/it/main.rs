//! The wire format from outside: what must come back, what must be refused, what must never change.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says what is wrong by failing"
)]

mod batch;
mod down;
mod frame;
mod golden;
mod harvest;
mod key;
mod properties;
mod sizes;
mod state;
mod strategies;
mod topic;
