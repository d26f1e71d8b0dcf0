//! Orders' timers: leased, carried out one by one, safe in every process at once. A failed one is tried again and waits for a person in the end.

use std::sync::Arc;

use chrono::TimeDelta;

use super::Jobs;
use crate::{
    app::{
        fault::Fault,
        orders::{MOST_TRIES, due},
    },
    db::{DbError, timers},
    ids,
};

/// A lease lasts so long; whoever is slower than that writes nothing.
const LEASE: TimeDelta = TimeDelta::seconds(60);
/// Timers of one look.
const MOST: i64 = 64;

/// Carries out what is due.
///
/// # Errors
///
/// The database.
pub(super) async fn run(jobs: &Jobs) -> Result<(), DbError> {
    loop {
        let now = jobs.clock.now();
        let token = ids::new_id(now);
        let leased = timers::lease(&jobs.pool, token, now, now + LEASE, MOST_TRIES, MOST).await?;
        if leased.is_empty() {
            return Ok(());
        }
        for timer in leased {
            let witness = Arc::clone(&jobs.witness);
            match due(&jobs.pool, &*witness, &timer, token, jobs.clock.now()).await {
                Ok(()) => {}
                Err(Fault::Database(error)) => {
                    tracing::warn!(timer = %timer.id, error = %error, "job.timer");
                }
                Err(fault) => {
                    metrics::counter!("furrow_timer_failures_total", "kind" => timer.kind.clone())
                        .increment(1);
                    tracing::error!(timer = %timer.id, kind = timer.kind, tries = timer.tries, error = %fault, "job.timer");
                }
            }
        }
    }
}
