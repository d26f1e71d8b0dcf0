//! Lets go of quarantined frames after 90 days.

use chrono::TimeDelta;

use super::Jobs;
use crate::db::{DbError, quarantine};

/// How long they are kept.
const KEPT: TimeDelta = TimeDelta::days(90);

pub(super) async fn expire(jobs: &Jobs) -> Result<(), DbError> {
    quarantine::expire(&jobs.tracks, jobs.clock.now() - KEPT).await
}
