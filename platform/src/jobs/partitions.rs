//! Makes the daily partitions ahead of time.

use chrono::{DateTime, Utc};

use super::Jobs;
use crate::db::{DbError, Pool, partitions};

pub(super) async fn job(jobs: &Jobs) -> Result<(), DbError> {
    make_partitions(&jobs.tracks, jobs.clock.now()).await
}

/// Makes the partitions around now; also called before ingest begins.
///
/// Errors: the database.
pub async fn make_partitions(pool: &Pool, now: DateTime<Utc>) -> Result<(), DbError> {
    let made = partitions::ensure(pool, now.date_naive()).await?;
    if made > 0 {
        tracing::info!(made, "job.partitions");
    }
    Ok(())
}
