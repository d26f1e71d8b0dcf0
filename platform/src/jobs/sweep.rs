//! Lets go of what is over: limits' windows, codes, sessions, answers to repeated requests, tickets.

use chrono::TimeDelta;

use super::Jobs;
use crate::db::{DbError, credentials, requests};

/// Answers are kept for a day; all else is over sooner.
const KEPT: TimeDelta = TimeDelta::hours(24);

pub(super) async fn run(jobs: &Jobs) -> Result<(), DbError> {
    let before = jobs.clock.now() - KEPT;
    requests::sweep(&jobs.pool, before).await?;
    credentials::sweep(&jobs.pool, before).await
}
