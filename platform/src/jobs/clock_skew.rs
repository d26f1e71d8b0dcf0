//! Compares the platform's clock with the database's: terms and deadlines rest on both.

use std::sync::atomic::Ordering;

use super::Jobs;
use crate::db::{self, DbError};

/// Beyond this an alarm is raised, ms.
const ALARM_MS: i64 = 1_000;

#[expect(
    clippy::cast_precision_loss,
    reason = "a difference of clocks for a gauge"
)]
pub(super) async fn measure(jobs: &Jobs) -> Result<(), DbError> {
    let before = jobs.clock.now();
    let database = db::now(&jobs.pool).await?;
    let after = jobs.clock.now();
    // The database answered somewhere between the two; the middle is off by half the way at most.
    let skew = ((before - database) + (after - database)).num_milliseconds() / 2;
    jobs.clock_skew_ms.store(skew, Ordering::Relaxed);
    metrics::gauge!("furrow_clock_skew_ms").set(skew as f64);
    if skew.abs() > ALARM_MS {
        tracing::error!(skew_ms = skew, "job.clock_skew");
    }
    Ok(())
}
