//! Forgets wrong enrolment codes that no longer count.

use chrono::TimeDelta;

use super::Jobs;
use crate::db::{DbError, devices};

/// Wrong tries count for an hour; a day is kept for whoever looks into an attack.
const KEPT: TimeDelta = TimeDelta::days(1);

pub(super) async fn expire(jobs: &Jobs) -> Result<(), DbError> {
    devices::expire_failures(&jobs.pool, jobs.clock.now() - KEPT).await
}
