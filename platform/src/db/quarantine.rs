//! Frames that are kept but are no track.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{DbError, frames::Place};

/// Most frames of a device in quarantine.
pub const MAX_FRAMES: i64 = 10_000;
/// Most bytes of a device in quarantine.
pub const MAX_BYTES: i64 = 10_000_000;

/// A payload to keep.
#[derive(Debug, Clone)]
pub struct NewQuarantine {
    /// Who sent it.
    pub device: u32,
    /// Why it is no track.
    pub reason: &'static str,
    /// All of it.
    pub payload: bytes::Bytes,
    /// First 16 bytes of its SHA-256.
    pub payload_digest: [u8; 16],
    /// Place and digest, if the signature is good.
    pub link: Option<(Place, [u8; 16])>,
}

/// Keeps payloads, each within its device's share; tells for each whether it is kept (now or before).
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    new: &[NewQuarantine],
    now: DateTime<Utc>,
) -> Result<Vec<bool>, DbError> {
    let mut order: Vec<usize> = (0..new.len()).collect();
    // One order of locks in every process: no deadlocks.
    order.sort_by_key(|i| new.get(*i).map(|q| (q.device, q.payload_digest)));
    let mut kept = vec![false; new.len()];
    for i in order {
        let Some(one) = new.get(i) else { continue };
        let device = one.device.cast_signed();
        let known: bool = sqlx::query_scalar(
            "select exists (select 1 from quarantine where device = $1 and payload_digest = $2)",
        )
        .bind(device)
        .bind(&one.payload_digest[..])
        .fetch_one(&mut *tx)
        .await?;
        let keep = known || insert_one(&mut *tx, one, device, now).await?;
        if let Some(slot) = kept.get_mut(i) {
            *slot = keep;
        }
    }
    Ok(kept)
}

async fn insert_one(
    tx: &mut PgConnection,
    one: &NewQuarantine,
    device: i32,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let bytes = i64::try_from(one.payload.len()).unwrap_or(i64::MAX);
    let share = sqlx::query(
        "insert into quarantine_shares as s (device, frames, bytes) values ($1, 1, $2)
         on conflict (device) do update set frames = s.frames + 1, bytes = s.bytes + excluded.bytes
         where s.frames < $3 and s.bytes + excluded.bytes <= $4",
    )
    .bind(device)
    .bind(bytes)
    .bind(MAX_FRAMES)
    .bind(MAX_BYTES)
    .execute(&mut *tx)
    .await?;
    if share.rows_affected() == 0 {
        return Ok(false);
    }
    let place = one.link.map(|(place, _)| place);
    sqlx::query(
        "insert into quarantine (id, device, reason, payload, payload_digest, epoch, seq, digest, received_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(crate::ids::new_id(now))
    .bind(device)
    .bind(one.reason)
    .bind(&one.payload[..])
    .bind(&one.payload_digest[..])
    .bind(place.map(|p| p.epoch.cast_signed()))
    .bind(place.map(|p| p.seq.cast_signed()))
    .bind(one.link.map(|(_, digest)| digest.to_vec()))
    .bind(now)
    .execute(&mut *tx)
    .await?;
    Ok(true)
}

/// Lets go of payloads older than `before` and gives their shares back.
///
/// Errors: the database.
pub async fn expire(pool: &PgPool, before: DateTime<Utc>) -> Result<(), DbError> {
    sqlx::query(
        "with gone as (delete from quarantine where received_at < $1 returning device, octet_length(payload) as bytes),
              sums as (select device, count(*) as frames, sum(bytes) as bytes from gone group by device)
         update quarantine_shares s set frames = s.frames - sums.frames, bytes = s.bytes - sums.bytes
         from sums where s.device = sums.device",
    )
    .bind(before)
    .execute(pool)
    .await?;
    Ok(())
}

/// A payload in quarantine.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct QuarantineRow {
    /// Its id.
    pub id: Uuid,
    /// Who sent it.
    pub device: i32,
    /// Why it is no track.
    pub reason: String,
    /// All of it.
    pub payload: Vec<u8>,
    /// When it came.
    pub received_at: DateTime<Utc>,
}

/// Payloads in quarantine, oldest first: those after `after`, for a reason or for any, at most `most`.
///
/// Errors: the database.
pub async fn page(
    pool: &PgPool,
    reason: Option<&str>,
    after: Uuid,
    most: i64,
) -> Result<Vec<QuarantineRow>, DbError> {
    // Ids are made in the order of time.
    sqlx::query_as(
        "select id, device, reason, payload, received_at from quarantine
         where id > $1 and ($2::text is null or reason = $2) order by id limit $3",
    )
    .bind(after)
    .bind(reason)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// One payload in quarantine.
///
/// Errors: the database.
pub async fn by_id(pool: &PgPool, id: Uuid) -> Result<Option<QuarantineRow>, DbError> {
    sqlx::query_as("select id, device, reason, payload, received_at from quarantine where id = $1")
        .bind(id)
        .fetch_optional(pool)
        .await
}

/// Takes a payload out, after it was stored as a track.
///
/// Errors: the database.
pub async fn remove(pool: &PgPool, id: Uuid) -> Result<(), DbError> {
    sqlx::query(
        "with gone as (delete from quarantine where id = $1 returning device, octet_length(payload) as bytes)
         update quarantine_shares s set frames = s.frames - 1, bytes = s.bytes - gone.bytes
         from gone where s.device = gone.device",
    )
    .bind(id)
    .execute(pool)
    .await?;
    Ok(())
}
