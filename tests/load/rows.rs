//! The rival: the same fixes, one row each, into a table partitioned and keyed as usual, by binary COPY from two connections with durable commits. Never through MQTT or signatures, so the comparison favours it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use furrow_protocol::{batch::Batch, fix::Fix, frame::Frame};
use sqlx::postgres::PgPool;

use crate::sign::Stock;

/// Frames of a transaction: as many as a full group of ingest.
const GROUP: u64 = 2000;
/// Writers, as ingest has them.
const WRITERS: usize = 2;
/// PostgreSQL counts microseconds from 2000-01-01.
const EPOCH_2000_MS: i64 = 946_684_800_000;

/// What was measured.
pub struct Rows {
    /// Fixes a second.
    pub fixes_per_s: f64,
    /// Bytes of heap, TOAST and index per fix.
    pub bytes_per_fix: f64,
}

/// Stores fixes for so long.
///
/// Errors: the database.
pub async fn measure(pool: &PgPool, stocks: &[Arc<Stock>], time: Duration) -> anyhow::Result<Rows> {
    sqlx::raw_sql(
        "create table rival_fixes (
             device integer not null, at timestamptz not null,
             lat_e7 integer not null, lon_e7 integer not null,
             speed_cm_s smallint, course_ddeg smallint, quality smallint not null,
             satellites smallint, hdop_x10 smallint, work smallint not null,
             work_source smallint not null, width_cm smallint,
             primary key (device, at)) partition by range (at);
         create table rival_fixes_all partition of rival_fixes for values from (minvalue) to (maxvalue);",
    )
    .execute(pool)
    .await?;
    let (next, fixes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let begin = Instant::now();
    let work = || async {
        let mut rows = Vec::new();
        // Each writer takes whole devices, as a fleet's frames come mixed but never twice.
        while begin.elapsed() < time {
            let Some(stock) = stocks.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let mut seq = 1;
            while begin.elapsed() < time && seq <= u64::try_from(stock.len())? {
                let stored = group(pool, stock, &mut seq, &mut rows).await?;
                fixes.fetch_add(stored, Ordering::Relaxed);
            }
        }
        anyhow::Ok(())
    };
    let workers: [_; WRITERS] = std::array::from_fn(|_| work());
    let [first, second] = workers;
    tokio::try_join!(first, second)?;
    let seconds = begin.elapsed().as_secs_f64();
    let size: i64 = sqlx::query_scalar("select pg_total_relation_size('rival_fixes_all')")
        .fetch_one(pool)
        .await?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (count, size) = (fixes.load(Ordering::Relaxed) as f64, size as f64);
    Ok(Rows {
        fixes_per_s: count / seconds,
        bytes_per_fix: size / count.max(1.0),
    })
}

async fn group(
    pool: &PgPool,
    stock: &Stock,
    seq: &mut u64,
    rows: &mut Vec<u8>,
) -> anyhow::Result<u64> {
    rows.clear();
    rows.extend_from_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
    let mut count = 0;
    for _ in 0..GROUP {
        let Some(bytes) = stock.frame(*seq) else {
            break;
        };
        *seq += 1;
        let batch = Batch::decode(&Frame::from_bytes(bytes)?.batch)?;
        for fix in &batch.fixes {
            put_row(rows, stock.device.0.cast_signed(), fix);
            count += 1;
        }
    }
    rows.extend_from_slice(&(-1_i16).to_be_bytes());
    let mut connection = pool.acquire().await?;
    let mut copy = connection
        .copy_in_raw("copy rival_fixes from stdin (format binary)")
        .await?;
    copy.send(rows.as_slice()).await?;
    copy.finish().await.context("COPY")?;
    Ok(count)
}

fn put_row(out: &mut Vec<u8>, device: i32, fix: &Fix) {
    out.extend_from_slice(&12_i16.to_be_bytes());
    put(out, Some(device.to_be_bytes()));
    put(
        out,
        Some(((fix.at_ms - EPOCH_2000_MS) * 1000).to_be_bytes()),
    );
    put(out, Some(fix.lat_e7.to_be_bytes()));
    put(out, Some(fix.lon_e7.to_be_bytes()));
    put(out, fix.speed_cm_s.map(small));
    put(out, fix.course_ddeg.map(small));
    put(out, Some(small(fix.quality.gga().into())));
    put(out, fix.satellites.map(|v| small(v.into())));
    put(out, fix.hdop_x10.map(small));
    put(out, Some(small((fix.work as u8).into())));
    put(out, Some(small((fix.work_source as u8).into())));
    put(out, fix.width_cm.map(small));
}

fn small(value: u16) -> [u8; 2] {
    value.cast_signed().to_be_bytes()
}

fn put<const N: usize>(out: &mut Vec<u8>, value: Option<[u8; N]>) {
    match value {
        Some(bytes) => {
            out.extend_from_slice(&i32::try_from(N).unwrap_or(0).to_be_bytes());
            out.extend_from_slice(&bytes);
        }
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}
