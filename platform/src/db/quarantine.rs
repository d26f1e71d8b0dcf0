//! Frames that are kept but are no track, each device within its share. Never says what is a track.

use std::collections::{HashMap, HashSet};

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

/// Keeps payloads, each within its device's share, in their order; tells for each whether it is kept
/// (now or before).
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    new: &[NewQuarantine],
    now: DateTime<Utc>,
) -> Result<Vec<bool>, DbError> {
    // The locks come first: whoever keeps the same payload at the same time waits and finds it.
    let mut shares = lock_shares(tx, new).await?;
    let mut known = known(tx, new).await?;
    let mut fresh = Vec::new();
    let mut kept = Vec::with_capacity(new.len());
    for one in new {
        let place = (one.device, one.payload_digest);
        let takes = known.contains(&place)
            || shares
                .get_mut(&one.device)
                .is_some_and(|share| share.takes(one));
        if takes && known.insert(place) {
            fresh.push(one);
        }
        kept.push(takes);
    }
    if !fresh.is_empty() {
        insert_rows(tx, &fresh, now).await?;
        write_shares(tx, &shares).await?;
    }
    Ok(kept)
}

/// What a device has in quarantine.
struct Share {
    frames: i64,
    bytes: i64,
}

impl Share {
    /// Whether there is room for a payload; it is taken up then.
    fn takes(&mut self, one: &NewQuarantine) -> bool {
        let bytes = i64::try_from(one.payload.len()).unwrap_or(i64::MAX);
        let fits = self.frames < MAX_FRAMES && self.bytes.saturating_add(bytes) <= MAX_BYTES;
        if fits {
            self.frames += 1;
            self.bytes += bytes;
        }
        fits
    }
}

async fn lock_shares(
    tx: &mut PgConnection,
    new: &[NewQuarantine],
) -> Result<HashMap<u32, Share>, DbError> {
    // One order of locks in every process: no deadlocks.
    let mut devices: Vec<i32> = new.iter().map(|one| one.device.cast_signed()).collect();
    devices.sort_unstable();
    devices.dedup();
    let rows = sqlx::query!(
        "insert into quarantine_shares as s (device, frames, bytes)
         select d, 0, 0 from unnest($1::integer[]) as u (d)
         on conflict (device) do update set frames = s.frames returning device, frames, bytes",
        &devices,
    )
    .fetch_all(tx)
    .await?;
    let share = |frames, bytes| Share { frames, bytes };
    Ok(rows
        .into_iter()
        .map(|row| (row.device.cast_unsigned(), share(row.frames, row.bytes)))
        .collect())
}

async fn write_shares(tx: &mut PgConnection, shares: &HashMap<u32, Share>) -> Result<(), DbError> {
    let devices: Vec<i32> = shares.keys().map(|device| device.cast_signed()).collect();
    let frames: Vec<i64> = shares.values().map(|share| share.frames).collect();
    let bytes: Vec<i64> = shares.values().map(|share| share.bytes).collect();
    sqlx::query!(
        "update quarantine_shares s set frames = u.f, bytes = u.b
         from unnest($1::integer[], $2::bigint[], $3::bigint[]) as u (d, f, b) where s.device = u.d",
        &devices,
        &frames,
        &bytes,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Those of these payloads that are kept already, by device and digest.
async fn known(
    tx: &mut PgConnection,
    new: &[NewQuarantine],
) -> Result<HashSet<(u32, [u8; 16])>, DbError> {
    let devices: Vec<i32> = new.iter().map(|one| one.device.cast_signed()).collect();
    let digests: Vec<Vec<u8>> = new.iter().map(|one| one.payload_digest.to_vec()).collect();
    let rows = sqlx::query!(
        "select q.device, q.payload_digest from quarantine q
         join unnest($1::integer[], $2::bytea[]) as u (d, p) on q.device = u.d and q.payload_digest = u.p",
        &devices,
        &digests,
    )
    .fetch_all(tx)
    .await?;
    // The column is as long as a digest: the schema sees to it.
    let place =
        |device: i32, digest: Vec<u8>| Some((device.cast_unsigned(), digest.try_into().ok()?));
    Ok(rows
        .into_iter()
        .filter_map(|row| place(row.device, row.payload_digest))
        .collect())
}

async fn insert_rows(
    tx: &mut PgConnection,
    fresh: &[&NewQuarantine],
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let place = |one: &&NewQuarantine| one.link.map(|(place, _)| place);
    let ids: Vec<Uuid> = fresh.iter().map(|_| crate::ids::new_id(now)).collect();
    let devices: Vec<i32> = fresh.iter().map(|one| one.device.cast_signed()).collect();
    let reasons: Vec<&str> = fresh.iter().map(|one| one.reason).collect();
    let payloads: Vec<&[u8]> = fresh.iter().map(|one| &one.payload[..]).collect();
    let names: Vec<&[u8]> = fresh.iter().map(|one| &one.payload_digest[..]).collect();
    let epochs: Vec<Option<i64>> = fresh
        .iter()
        .map(|one| place(one).map(|p| p.epoch.cast_signed()))
        .collect();
    let seqs: Vec<Option<i64>> = fresh
        .iter()
        .map(|one| place(one).map(|p| p.seq.cast_signed()))
        .collect();
    let digests: Vec<Option<&[u8]>> = fresh
        .iter()
        .map(|one| one.link.as_ref().map(|(_, digest)| &digest[..]))
        .collect();
    sqlx::query(
        "insert into quarantine (id, device, reason, payload, payload_digest, epoch, seq, digest, received_at)
         select i, d, r, p, n, e, s, g, $9
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[])
              as u (i, d, r, p, n, e, s, g)",
    )
    .bind(&ids)
    .bind(&devices)
    .bind(&reasons)
    .bind(&payloads)
    .bind(&names)
    .bind(&epochs)
    .bind(&seqs)
    .bind(&digests)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
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
