//! Which devices have a session at a gate. A hint for people, never evidence.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::DbError;

/// A change of a device's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSession {
    /// Device number.
    pub device: u32,
    /// The session's number in its process.
    pub session: u64,
    /// Whether it runs.
    pub online: bool,
    /// Whether the identity was found to be used by several boxes.
    pub cloned: bool,
}

/// Keeps changes, each device at most once. That a session ended counts only while it is the one
/// that stands here: the device may be in another process by now.
///
/// Errors: the database.
pub async fn put(
    pool: &PgPool,
    process: Uuid,
    changes: &[NewSession],
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let devices: Vec<i32> = changes.iter().map(|c| c.device.cast_signed()).collect();
    let sessions: Vec<i64> = changes.iter().map(|c| c.session.cast_signed()).collect();
    let online: Vec<bool> = changes.iter().map(|c| c.online).collect();
    let cloned: Vec<bool> = changes.iter().map(|c| c.cloned).collect();
    sqlx::query!(
        "insert into device_sessions as s (device, process, session, online, changed_at, cloned_at)
         select device, $5, session, online, $6, case when cloned then $6::timestamptz end
         from unnest($1::integer[], $2::bigint[], $3::boolean[], $4::boolean[])
              as u (device, session, online, cloned)
         order by device
         on conflict (device) do update
         set process = excluded.process, session = excluded.session, online = excluded.online,
             changed_at = excluded.changed_at, cloned_at = coalesce(excluded.cloned_at, s.cloned_at)
         where excluded.online or s.process = excluded.process",
        &devices,
        &sessions,
        &online,
        &cloned,
        process,
        now,
    )
    .execute(pool)
    .await?;
    Ok(())
}
