//! Lets go of what is over: limits' windows, codes, answers to repeated requests, tickets.

use chrono::TimeDelta;

use super::Jobs;
use crate::db::{DbError, credentials};

/// Answers are kept for a day; all else is over sooner.
const KEPT: TimeDelta = TimeDelta::hours(24);

pub(super) async fn run(jobs: &Jobs) -> Result<(), DbError> {
    credentials::sweep(&jobs.pool, jobs.clock.now() - KEPT).await
}
