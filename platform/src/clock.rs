//! The only place that reads the wall clock. Tests set their own.

use std::sync::Mutex;

use chrono::{DateTime, Utc};

/// Beyond this difference between the platform's clock and the database's nothing is served, ms.
pub const MAX_SKEW_MS: i64 = 5_000;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> DateTime<Utc>;
}

/// The host's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the room for it")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// A clock that is set by hand.
#[derive(Debug)]
pub struct ManualClock(Mutex<DateTime<Utc>>);

impl ManualClock {
    /// A clock that stands at `at`.
    #[must_use]
    pub const fn new(at: DateTime<Utc>) -> Self {
        Self(Mutex::new(at))
    }

    /// Sets it.
    pub fn set(&self, at: DateTime<Utc>) {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = at;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
