//! Compares the platform's clock with the database's: terms and deadlines rest on both. Never corrects either.

use std::sync::atomic::Ordering;

use super::Jobs;
use crate::{
    clock::Clock,
    db::{self, DbError, Pool},
};

/// Beyond this an alarm is raised, ms.
const ALARM_MS: i64 = 1_000;

/// Platform's clock less the database's, ms; also asked before anything is served.
///
/// Errors: the database.
pub async fn skew_ms(pool: &Pool, clock: &dyn Clock) -> Result<i64, DbError> {
    let before = clock.now();
    let database = db::now(pool).await?;
    let after = clock.now();
    // The database answered somewhere between the two; the middle is off by half the way at most.
    Ok(((before - database) + (after - database)).num_milliseconds() / 2)
}

/// Puts a difference, ms, where operators look: metrics, and an alarm in the log.
#[expect(
    clippy::cast_precision_loss,
    reason = "a difference of clocks for a gauge"
)]
pub fn note_skew(skew_ms: i64) {
    let alarm = skew_ms.abs() > ALARM_MS;
    metrics::gauge!("furrow_clock_skew_ms").set(skew_ms as f64);
    metrics::gauge!("furrow_clock_skew_alarm").set(if alarm { 1.0 } else { 0.0 });
    if alarm {
        tracing::error!(skew_ms, "job.clock_skew");
    }
}

pub(super) async fn measure(jobs: &Jobs) -> Result<(), DbError> {
    let skew = skew_ms(&jobs.pool, &*jobs.clock).await?;
    jobs.clock_skew_ms.store(skew, Ordering::Relaxed);
    note_skew(skew);
    Ok(())
}
