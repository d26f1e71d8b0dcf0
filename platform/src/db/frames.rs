//! Frames of tracks: stored by the group, looked up by their place in the chain, read by window.

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// A frame's place: device, epoch, seq as the wire has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Device number.
    pub device: u32,
    /// Epoch.
    pub epoch: u64,
    /// Sequence in it, from 1.
    pub seq: u64,
}

/// A frame to store.
#[derive(Debug, Clone)]
pub struct NewFrame {
    /// Where it stands.
    pub place: Place,
    /// UTC day of its first fix.
    pub day: NaiveDate,
    /// Its first and last time.
    pub first_at: DateTime<Utc>,
    /// Its first and last time.
    pub last_at: DateTime<Utc>,
    /// Number of fixes.
    pub fixes: i16,
    /// The frame's bytes.
    pub frame: bytes::Bytes,
}

/// A contradiction to keep.
#[derive(Debug, Clone)]
pub struct NewContradiction {
    /// Where it stands.
    pub place: Place,
    /// `other_bytes`, `broken_link` or `broken_genesis`.
    pub kind: &'static str,
    /// The frame's digest.
    pub digest: [u8; 16],
    /// Its bytes, where they are kept nowhere else.
    pub frame: Option<bytes::Bytes>,
}

/// Numbers of the wire are unsigned, PostgreSQL's are not: the bits are the same.
fn bits(value: u64) -> i64 {
    value.cast_signed()
}

fn device_bits(device: u32) -> i32 {
    device.cast_signed()
}

/// Locks the epochs of a group, raises their high-water marks to the highest sequences of the group,
/// and gives what the marks were before.
///
/// Errors: the database.
pub async fn raise_marks(
    tx: &mut PgConnection,
    highest: &HashMap<(u32, u64), u64>,
    now: DateTime<Utc>,
) -> Result<HashMap<(u32, u64), u64>, DbError> {
    // One order of locks in every process: no deadlocks.
    let mut epochs: Vec<_> = highest
        .iter()
        .map(|((d, e), s)| (device_bits(*d), bits(*e), bits(*s)))
        .collect();
    epochs.sort_unstable();
    let devices: Vec<i32> = epochs.iter().map(|e| e.0).collect();
    let numbers: Vec<i64> = epochs.iter().map(|e| e.1).collect();
    let marks: Vec<i64> = epochs.iter().map(|e| e.2).collect();
    let rows: Vec<(i32, i64, i64)> = sqlx::query_as(
        "insert into track_epochs as t (device, epoch, high_water, last_received_at)
         select d, e, m, $4 from unnest($1::integer[], $2::bigint[], $3::bigint[]) as u (d, e, m)
         on conflict (device, epoch) do update
         set former_high_water = t.high_water,
             high_water = greatest(t.high_water, excluded.high_water),
             last_received_at = excluded.last_received_at
         returning device, epoch, former_high_water",
    )
    .bind(&devices)
    .bind(&numbers)
    .bind(&marks)
    .bind(now)
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(d, e, m)| ((d.cast_unsigned(), e.cast_unsigned()), m.cast_unsigned()))
        .collect())
}

/// The bytes of those of these frames that are stored, on whatever day.
///
/// Errors: the database.
pub async fn at_places(
    tx: &mut PgConnection,
    places: &[Place],
) -> Result<HashMap<Place, Vec<u8>>, DbError> {
    let sql = "select f.device, f.epoch, f.seq, f.frame
         from unnest($1::integer[], $2::bigint[], $3::bigint[]) as u (d, e, s)
         cross join lateral (
             select device, epoch, seq, frame from track_frames
             where device = u.d and epoch = u.e and seq = u.s
         ) f";
    let rows = bytes_at(tx, sql, places).await?;
    Ok(rows.into_iter().collect())
}

/// The bytes of frames of a good signature that are kept at these places: stored, in quarantine, or as
/// contradictions. A place comes as often as frames are kept there, at most 16 times: who signs more for
/// one place is found out, and must not make the look at his neighbours ever dearer.
///
/// Errors: the database.
pub async fn kept_at_places(
    tx: &mut PgConnection,
    places: &[Place],
) -> Result<Vec<(Place, Vec<u8>)>, DbError> {
    let sql = "select u.d, u.e, u.s, f.frame
         from unnest($1::integer[], $2::bigint[], $3::bigint[]) as u (d, e, s)
         cross join lateral (
             select frame from track_frames where device = u.d and epoch = u.e and seq = u.s
             union all
             select payload from quarantine
             where device = u.d and epoch = u.e and seq = u.s and digest is not null
             union all
             select frame from contradictions
             where device = u.d and epoch = u.e and seq = u.s and frame is not null
             limit 16
         ) f";
    bytes_at(tx, sql, places).await
}

/// The bytes of frames of a good signature that are in quarantine at these places, at most 16 of each.
///
/// Errors: the database.
pub async fn quarantined_at_places(
    tx: &mut PgConnection,
    places: &[Place],
) -> Result<Vec<(Place, Vec<u8>)>, DbError> {
    let sql = "select u.d, u.e, u.s, q.payload
         from unnest($1::integer[], $2::bigint[], $3::bigint[]) as u (d, e, s)
         cross join lateral (
             select payload from quarantine
             where device = u.d and epoch = u.e and seq = u.s and digest is not null
             limit 16
         ) q";
    bytes_at(tx, sql, places).await
}

async fn bytes_at(
    tx: &mut PgConnection,
    sql: &'static str,
    places: &[Place],
) -> Result<Vec<(Place, Vec<u8>)>, DbError> {
    if places.is_empty() {
        return Ok(vec![]);
    }
    let devices: Vec<i32> = places.iter().map(|p| device_bits(p.device)).collect();
    let epochs: Vec<i64> = places.iter().map(|p| bits(p.epoch)).collect();
    let seqs: Vec<i64> = places.iter().map(|p| bits(p.seq)).collect();
    let rows: Vec<(i32, i64, i64, Vec<u8>)> = sqlx::query_as(sql)
        .bind(&devices)
        .bind(&epochs)
        .bind(&seqs)
        .fetch_all(tx)
        .await?;
    let place = |d: i32, e: i64, s: i64| Place {
        device: d.cast_unsigned(),
        epoch: e.cast_unsigned(),
        seq: s.cast_unsigned(),
    };
    Ok(rows
        .into_iter()
        .map(|(d, e, s, bytes)| (place(d, e, s), bytes))
        .collect())
}

/// Copies frames in. Any that is there already is a unique violation of the whole copy.
///
/// Errors: the database.
pub async fn copy(
    tx: &mut PgConnection,
    frames: &[NewFrame],
    received_at: DateTime<Utc>,
) -> Result<(), DbError> {
    if frames.is_empty() {
        return Ok(());
    }
    let mut copy = tx
        .copy_in_raw(
            "copy track_frames (day, device, epoch, seq, first_at, last_at, received_at, fixes, frame) from stdin (format binary)",
        )
        .await?;
    let data = encode(frames, received_at);
    if let Err(error) = copy.send(data).await {
        copy.abort("could not be sent").await?;
        return Err(error);
    }
    copy.finish().await?;
    Ok(())
}

/// PostgreSQL's binary copy format: header, tuples of length-prefixed fields, trailer.
fn encode(frames: &[NewFrame], received_at: DateTime<Utc>) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(32 + frames.iter().map(|f| f.frame.len() + 100).sum::<usize>());
    out.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
    out.extend_from_slice(&[0; 8]);
    let field = |out: &mut Vec<u8>, bytes: &[u8]| {
        let len = i32::try_from(bytes.len()).expect("a frame is far below 2 GiB");
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(bytes);
    };
    for frame in frames {
        out.extend_from_slice(&9_i16.to_be_bytes());
        field(&mut out, &days_since_2000(frame.day).to_be_bytes());
        field(&mut out, &frame.place.device.to_be_bytes());
        field(&mut out, &frame.place.epoch.to_be_bytes());
        field(&mut out, &frame.place.seq.to_be_bytes());
        field(&mut out, &micros_since_2000(frame.first_at).to_be_bytes());
        field(&mut out, &micros_since_2000(frame.last_at).to_be_bytes());
        field(&mut out, &micros_since_2000(received_at).to_be_bytes());
        field(&mut out, &frame.fixes.to_be_bytes());
        field(&mut out, &frame.frame);
    }
    out.extend_from_slice(&(-1_i16).to_be_bytes());
    out
}

/// Days from 1970 to 2000: PostgreSQL counts from there.
const EPOCH_DAYS: i64 = 10_957;

fn days_since_2000(day: NaiveDate) -> i32 {
    let days = day
        .and_time(chrono::NaiveTime::MIN)
        .and_utc()
        .timestamp()
        .div_euclid(86_400)
        - EPOCH_DAYS;
    i32::try_from(days).expect("a day of an attached partition")
}

fn micros_since_2000(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros() - EPOCH_DAYS * 86_400_000_000
}

/// Keeps contradictions; one that is known changes nothing. Gives how many were new.
///
/// Errors: the database.
pub async fn insert_contradictions(
    tx: &mut PgConnection,
    found: &[NewContradiction],
    now: DateTime<Utc>,
) -> Result<u64, DbError> {
    if found.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Uuid> = found.iter().map(|_| crate::ids::new_id(now)).collect();
    let devices: Vec<i32> = found.iter().map(|c| device_bits(c.place.device)).collect();
    let epochs: Vec<i64> = found.iter().map(|c| bits(c.place.epoch)).collect();
    let seqs: Vec<i64> = found.iter().map(|c| bits(c.place.seq)).collect();
    let kinds: Vec<&str> = found.iter().map(|c| c.kind).collect();
    let digests: Vec<&[u8]> = found.iter().map(|c| &c.digest[..]).collect();
    let frames: Vec<Option<&[u8]>> = found.iter().map(|c| c.frame.as_deref()).collect();
    let done = sqlx::query(
        "insert into contradictions (id, device, epoch, seq, kind, digest, frame, found_at)
         select i, d, e, s, k, g, f, $8
         from unnest($1::uuid[], $2::integer[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::bytea[])
              as u (i, d, e, s, k, g, f)
         on conflict on constraint contradictions_once do nothing",
    )
    .bind(&ids)
    .bind(&devices)
    .bind(&epochs)
    .bind(&seqs)
    .bind(&kinds)
    .bind(&digests)
    .bind(&frames)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

/// Frames of a device that touch a window, in order of time: also the one that began before it.
///
/// Errors: the database.
pub async fn read_window(
    pool: &PgPool,
    device: u32,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> Result<Vec<Vec<u8>>, DbError> {
    // A batch closes after 60 s at the latest and its fixes lie within a day: the day before may hold its begin.
    sqlx::query_scalar(
        "select frame from track_frames
         where device = $1 and day between ($2 - interval '1 day')::date and $3::date
           and last_at >= $2 and first_at < $3
         order by first_at, epoch, seq",
    )
    .bind(device_bits(device))
    .bind(from)
    .bind(to)
    .fetch_all(pool)
    .await
}
