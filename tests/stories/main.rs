//! Stories across processes: the built programs, a real database, a wire that can be cut. Each test is one sentence; none looks inside a program.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod database;
mod kills;
mod readme;
mod revocation;
mod settings;
mod world;
