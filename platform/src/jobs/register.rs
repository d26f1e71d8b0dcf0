//! Keeps the register in memory fresh, so that a revocation is felt within seconds.

use super::Jobs;
use crate::db::DbError;

pub(super) async fn refresh(jobs: &Jobs) -> Result<(), DbError> {
    jobs.register.refresh().await
}
