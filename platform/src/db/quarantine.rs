//! Frames that are kept but are no track, each device within its share. Never says what is a track.

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
    let mut share: Option<Share> = None;
    for i in order {
        let (Some(one), Some(slot)) = (new.get(i), kept.get_mut(i)) else {
            continue;
        };
        let mut of_device = match share.take() {
            Some(share) if share.device == one.device => share,
            Some(_) | None => Share::lock(tx, one.device).await?,
        };
        *slot = of_device.take_in(tx, one, now).await?;
        share = Some(of_device);
    }
    Ok(kept)
}

/// A device's share, locked: whoever keeps the same payload at the same time waits and finds it.
struct Share {
    device: u32,
    frames: i64,
    bytes: i64,
}

impl Share {
    async fn lock(tx: &mut PgConnection, device: u32) -> Result<Self, DbError> {
        let row = sqlx::query!(
            "insert into quarantine_shares as s (device, frames, bytes) values ($1, 0, 0)
             on conflict (device) do update set frames = s.frames returning frames, bytes",
            device.cast_signed(),
        )
        .fetch_one(tx)
        .await?;
        Ok(Self {
            device,
            frames: row.frames,
            bytes: row.bytes,
        })
    }

    /// Whether the payload is kept now.
    async fn take_in(
        &mut self,
        tx: &mut PgConnection,
        one: &NewQuarantine,
        now: DateTime<Utc>,
    ) -> Result<bool, DbError> {
        let known = sqlx::query_scalar!(
            r#"select exists (select 1 from quarantine where device = $1 and payload_digest = $2) as "known!""#,
            self.device.cast_signed(),
            &one.payload_digest[..],
        )
        .fetch_one(&mut *tx)
        .await?;
        let bytes = i64::try_from(one.payload.len()).unwrap_or(i64::MAX);
        let full = self.frames >= MAX_FRAMES || self.bytes.saturating_add(bytes) > MAX_BYTES;
        if known || full {
            return Ok(known);
        }
        let place = one.link.map(|(place, _)| place);
        sqlx::query!(
            "with share as (
                 update quarantine_shares set frames = frames + 1, bytes = bytes + $10 where device = $2
             )
             insert into quarantine (id, device, reason, payload, payload_digest, epoch, seq, digest, received_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            crate::ids::new_id(now),
            self.device.cast_signed(),
            one.reason,
            &one.payload[..],
            &one.payload_digest[..],
            place.map(|p| p.epoch.cast_signed()),
            place.map(|p| p.seq.cast_signed()),
            one.link.map(|(_, digest)| digest.to_vec()),
            now,
            bytes,
        )
        .execute(&mut *tx)
        .await?;
        self.frames += 1;
        self.bytes += bytes;
        Ok(true)
    }
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
#[derive(Debug, Clone)]
pub struct QuarantineRow {
    /// Its id.
    pub id: Uuid,
    /// Who sent it.
    pub device: u32,
    /// Why it is no track.
    pub reason: String,
    /// All of it.
    pub payload: bytes::Bytes,
    /// Whether it is a link of its chain.
    pub linked: bool,
}

/// A payload in quarantine as lists show it, without the payload.
#[derive(Debug, Clone)]
pub struct QuarantineListRow {
    /// Its id.
    pub id: Uuid,
    /// Who sent it.
    pub device: u32,
    /// Why it is no track.
    pub reason: String,
    /// Bytes of the payload.
    pub bytes: i32,
    /// Its place, if its signature is good.
    pub place: Option<Place>,
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
    let rows = sqlx::query!(
        r#"select id, device, reason, payload, digest is not null as "linked!" from quarantine
           where id > $1 and ($2::text is null or reason = $2) order by id limit $3"#,
        after,
        reason,
        most,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| QuarantineRow {
            id: row.id,
            device: row.device.cast_unsigned(),
            reason: row.reason,
            payload: row.payload.into(),
            linked: row.linked,
        })
        .collect())
}

/// One payload in quarantine.
///
/// Errors: the database.
pub async fn by_id(pool: &PgPool, id: Uuid) -> Result<Option<QuarantineRow>, DbError> {
    let row = sqlx::query!(
        r#"select device, reason, payload, digest is not null as "linked!" from quarantine where id = $1"#,
        id,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| QuarantineRow {
        id,
        device: row.device.cast_unsigned(),
        reason: row.reason,
        payload: row.payload.into(),
        linked: row.linked,
    }))
}

/// What is in quarantine, oldest first, for a reason or for any, at most `most`.
///
/// Errors: the database.
pub async fn list(
    pool: &PgPool,
    reason: Option<&str>,
    most: i64,
) -> Result<Vec<QuarantineListRow>, DbError> {
    let rows = sqlx::query!(
        r#"select id, device, reason, octet_length(payload) as "bytes!", epoch, seq, received_at from quarantine
           where $1::text is null or reason = $1 order by id limit $2"#,
        reason,
        most,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| QuarantineListRow {
            id: row.id,
            device: row.device.cast_unsigned(),
            reason: row.reason,
            bytes: row.bytes,
            place: row.epoch.zip(row.seq).map(|(epoch, seq)| Place {
                device: row.device.cast_unsigned(),
                epoch: epoch.cast_unsigned(),
                seq: seq.cast_unsigned(),
            }),
            received_at: row.received_at,
        })
        .collect())
}

/// Writes down what a payload was found to be when it was judged again: why it is no track, and its
/// place and digest where its signature is good.
///
/// Errors: the database.
pub async fn rejudge(
    tx: &mut PgConnection,
    id: Uuid,
    reason: &str,
    link: Option<(Place, [u8; 16])>,
) -> Result<(), DbError> {
    let place = link.map(|(place, _)| place);
    sqlx::query!(
        "update quarantine set reason = $2, epoch = $3, seq = $4, digest = $5 where id = $1",
        id,
        reason,
        place.map(|p| p.epoch.cast_signed()),
        place.map(|p| p.seq.cast_signed()),
        link.map(|(_, digest)| digest.to_vec()),
    )
    .execute(tx)
    .await?;
    Ok(())
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
