//! Which machine a device is on.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::DbError;

/// A device and the machine that it is on.
#[derive(Debug, Clone, Copy)]
pub struct BoundRow {
    /// Device number.
    pub device: i32,
    /// The machine.
    pub machine_id: Uuid,
}

/// All bindings at a time.
///
/// Errors: the database.
pub async fn at(pool: &PgPool, at: DateTime<Utc>) -> Result<Vec<BoundRow>, DbError> {
    sqlx::query_as!(
        BoundRow,
        "select device, machine_id from device_bindings where during @> $1::timestamptz",
        at,
    )
    .fetch_all(pool)
    .await
}
