//! Lets go of quarantined frames after 90 days, and reads those again that an older platform could not. Never judges a frame itself.

use chrono::TimeDelta;

use super::Jobs;
use crate::{
    db::{DbError, quarantine},
    ingest::{
        fault::Fault,
        readmit::{Outcome, Which, readmit},
    },
};

/// How long they are kept.
const KEPT: TimeDelta = TimeDelta::days(90);

pub(super) async fn expire(jobs: &Jobs) -> Result<(), DbError> {
    quarantine::expire(&jobs.tracks, jobs.clock.now() - KEPT).await
}

/// Frames of a version that the platform before this one did not know: this one may. After an upgrade
/// of a fleet they are many, so nothing waits for it.
pub(super) async fn read_again(jobs: &Jobs) -> Result<(), DbError> {
    let mut left = 0_u64;
    let which = Which::Reason(Fault::UnknownVersion);
    readmit(&jobs.tracks, &jobs.keys, which, jobs.clock.now(), |one| {
        left += u64::from(matches!(one.outcome, Outcome::Left(_)));
    })
    .await?;
    if left > 0 {
        tracing::info!(frames = left, "job.read_again");
    }
    Ok(())
}
