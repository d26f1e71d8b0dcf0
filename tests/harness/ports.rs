//! Ports for programs that must be found again after a restart. Never from the range that the kernel gives to outgoing connections.

use std::{
    collections::HashSet,
    net::TcpListener,
    sync::{Mutex, PoisonError},
};

use anyhow::bail;
use rand::RngExt as _;

/// Below 32,768, where Linux begins to take ports for outgoing connections: one of those could
/// take the port of a program that is just being restarted.
const RANGE: std::ops::Range<u16> = 12_000..20_000;

static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A port on which nobody listens and which this process has not given before.
///
/// Errors: none is found.
pub fn free() -> anyhow::Result<u16> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    for _ in 0..2000 {
        let port = rand::rng().random_range(RANGE);
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port between {} and {}", RANGE.start, RANGE.end)
}
