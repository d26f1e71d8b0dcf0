//! The only place that reads a clock: monotonic time since the start, the host's time, and the time that certificates are held against. Never dates a fix.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use chrono::NaiveDate;
use rustls::{pki_types::UnixTime, time_provider::TimeProvider};

/// The date of this release, raised by hand with each one, never the time of the build.
pub const RELEASE: NaiveDate = match NaiveDate::from_ymd_opt(2026, 12, 1) {
    Some(date) => date,
    None => NaiveDate::MIN,
};

/// Before this no live receiver is: its week number has rolled over. Two days before the release,
/// for receivers and builds at the two ends of the date line.
pub const FLOOR: NaiveDate = match NaiveDate::from_ymd_opt(2026, 11, 29) {
    Some(date) => date,
    None => NaiveDate::MIN,
};

/// A receiver that tells a later time than this many ms after the release is not believed: one
/// rolled over or spoofed date would make every certificate look expired. 15 years.
const BELIEVED_MS: i64 = 15 * 366 * 86_400_000;

/// Tells the time since a start.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    gnss_ms: AtomicI64,
}

/// Shared by all tasks.
pub type SharedClock = Arc<Clock>;

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> SharedClock {
        Arc::new(Self {
            start: Instant::now(),
            gnss_ms: AtomicI64::new(i64::MIN),
        })
    }

    /// Monotonic ms since the start.
    #[must_use]
    pub fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The host's wall clock, ms since 1970 UTC; machines without a clock battery start in the past.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the room for it")]
    pub fn host_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(_) => 0,
        }
    }

    /// A receiver with a fix told this time, ms since 1970 UTC.
    pub fn saw_gnss(&self, at_ms: i64) {
        if at_ms <= release_ms().saturating_add(BELIEVED_MS) {
            self.gnss_ms.fetch_max(at_ms, Ordering::Relaxed);
        }
    }

    /// The latest of the host's clock, the release date and the last good GNSS time, ms since 1970 UTC.
    #[must_use]
    pub fn trusted_ms(&self) -> i64 {
        latest(self.host_ms(), self.gnss_ms.load(Ordering::Relaxed))
    }
}

fn latest(host_ms: i64, gnss_ms: i64) -> i64 {
    host_ms.max(gnss_ms).max(release_ms())
}

fn release_ms() -> i64 {
    RELEASE
        .and_hms_opt(0, 0, 0)
        .map_or(0, |at| at.and_utc().timestamp_millis())
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.trusted_ms() / 1000).ok()?;
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            seconds,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn a_host_clock_without_a_battery_does_not_make_certificates_invalid() {
        assert_eq!(latest(0, i64::MIN), release_ms());
        assert_eq!(latest(0, release_ms() + DAY_MS), release_ms() + DAY_MS);
        assert_eq!(latest(release_ms() + 9, 5), release_ms() + 9);
        assert_eq!(release_ms() % DAY_MS, 0);
    }

    #[test]
    fn a_receiver_of_another_age_is_not_believed() {
        let clock = Clock::start();
        clock.saw_gnss(release_ms() + 3 * DAY_MS);
        clock.saw_gnss(release_ms() + 7168 * DAY_MS);
        assert_eq!(
            clock.gnss_ms.load(Ordering::Relaxed),
            release_ms() + 3 * DAY_MS
        );
    }
}
