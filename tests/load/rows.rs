//! The rival: the same fixes one row each, and for a fair ratio the frames too, stored by the same two writers: binary COPY, durable commits, no MQTT and no signatures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use e2e::proc;
use furrow_protocol::{batch::Batch, fix::Fix, frame::Frame};
use sqlx::postgres::PgPool;

use crate::{real, sign::Stock};

/// Frames of a transaction: about as many as a group of ingest holds under load.
const GROUP: u64 = 1000;
/// PostgreSQL counts microseconds and days from 2000-01-01.
const EPOCH_2000_MS: i64 = 946_684_800_000;
const DAY_MS: i64 = 86_400_000;

/// How the fixes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As in `track_frames`.
    Frames,
    /// One row a fix.
    Rows,
}

impl Form {
    const fn table(self) -> &'static str {
        match self {
            Self::Frames => {
                "create table rival_frames (
                     day date not null, device integer not null, epoch bigint not null, seq bigint not null,
                     first_at timestamptz not null, last_at timestamptz not null, received_at timestamptz not null,
                     fixes smallint not null, frame bytea not null,
                     primary key (device, epoch, seq, day)) partition by range (day);
                 create table rival_frames_all partition of rival_frames for values from (minvalue) to (maxvalue);"
            }
            Self::Rows => {
                "create table rival_rows (
                     device integer not null, at timestamptz not null,
                     lat_e7 integer not null, lon_e7 integer not null,
                     speed_cm_s smallint, course_ddeg smallint, quality smallint not null,
                     satellites smallint, hdop_x10 smallint, work smallint not null,
                     work_source smallint not null, width_cm smallint,
                     primary key (device, at)) partition by range (at);
                 create table rival_rows_all partition of rival_rows for values from (minvalue) to (maxvalue);"
            }
        }
    }

    const fn copy(self) -> &'static str {
        match self {
            Self::Frames => "copy rival_frames from stdin (format binary)",
            Self::Rows => "copy rival_rows from stdin (format binary)",
        }
    }

    const fn size(self) -> &'static str {
        match self {
            Self::Frames => "select pg_total_relation_size('rival_frames_all')",
            Self::Rows => "select pg_total_relation_size('rival_rows_all')",
        }
    }

    fn put(self, out: &mut Vec<u8>, device: i32, bytes: &[u8]) -> anyhow::Result<u64> {
        let frame = Frame::from_bytes(bytes)?;
        let batch = Batch::decode(&frame.batch)?;
        match self {
            Self::Frames => put_frame(out, device, &frame, &batch, bytes),
            Self::Rows => batch.fixes.iter().for_each(|fix| put_row(out, device, fix)),
        }
        Ok(u64::try_from(batch.fixes.len())?)
    }
}

/// What was measured.
pub struct Stored {
    /// Fixes a second.
    pub fixes_per_s: f64,
    /// PostgreSQL's CPU, us a fix.
    pub cpu_us_per_fix: f64,
    /// Bytes of heap, TOAST and index per fix.
    pub bytes_per_fix: f64,
}

/// Stores fixes in a form for so long.
///
/// Errors: the database.
pub async fn measure(
    form: Form,
    pool: &PgPool,
    postgres: u32,
    stocks: &[Arc<Stock>],
    time: Duration,
) -> anyhow::Result<Stored> {
    sqlx::raw_sql(form.table()).execute(pool).await?;
    let (next, fixes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let (begin, cpu) = (Instant::now(), proc::tree_cpu_seconds(postgres));
    let writer = || async {
        let mut out = Vec::new();
        // A group is a frame or some of many devices, as in a fleet.
        while begin.elapsed() < time {
            let turn = u64::try_from(next.fetch_add(1, Ordering::Relaxed))?;
            match group(form, pool, stocks, turn, &mut out).await? {
                0 => break,
                stored => fixes.fetch_add(stored, Ordering::Relaxed),
            };
        }
        anyhow::Ok(())
    };
    tokio::try_join!(writer(), writer())?;
    let (seconds, cpu) = (
        begin.elapsed().as_secs_f64(),
        proc::tree_cpu_seconds(postgres) - cpu,
    );
    let size: i64 = sqlx::query_scalar(form.size()).fetch_one(pool).await?;
    let count = real(fixes.load(Ordering::Relaxed).max(1));
    Ok(Stored {
        fixes_per_s: count / seconds,
        cpu_us_per_fix: cpu / count * 1e6,
        bytes_per_fix: real(u64::try_from(size)?) / count,
    })
}

/// Stores the group of a turn: the same sequence of `GROUP` devices, the next sequence when all devices had theirs.
async fn group(
    form: Form,
    pool: &PgPool,
    stocks: &[Arc<Stock>],
    turn: u64,
    out: &mut Vec<u8>,
) -> anyhow::Result<u64> {
    let all = u64::try_from(stocks.len())?;
    out.clear();
    out.extend_from_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
    let mut count = 0;
    for number in turn * GROUP..(turn + 1) * GROUP {
        let stock = stocks.get(usize::try_from(number % all)?);
        let Some((stock, bytes)) = stock.and_then(|s| Some((s, s.frame(number / all + 1)?))) else {
            continue;
        };
        count += form.put(out, stock.device.0.cast_signed(), bytes)?;
    }
    if count == 0 {
        return Ok(0);
    }
    out.extend_from_slice(&(-1_i16).to_be_bytes());
    let mut connection = pool.acquire().await?;
    let mut copy = connection.copy_in_raw(form.copy()).await?;
    copy.send(out.as_slice()).await?;
    copy.finish().await.context("COPY")?;
    Ok(count)
}

fn put_frame(out: &mut Vec<u8>, device: i32, frame: &Frame, batch: &Batch, bytes: &[u8]) {
    let day = (batch.at_ms - EPOCH_2000_MS).div_euclid(DAY_MS);
    out.extend_from_slice(&9_i16.to_be_bytes());
    put(out, Some(i32::try_from(day).unwrap_or(0).to_be_bytes()));
    put(out, Some(device.to_be_bytes()));
    put(out, Some(frame.epoch.to_be_bytes()));
    put(out, Some(frame.seq.to_be_bytes()));
    put(out, Some(micros(batch.at_ms)));
    put(out, Some(micros(batch.last_at_ms())));
    put(out, Some(micros(batch.last_at_ms())));
    put(
        out,
        Some(small(u16::try_from(batch.fixes.len()).unwrap_or(0))),
    );
    out.extend_from_slice(&i32::try_from(bytes.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn micros(ms: i64) -> [u8; 8] {
    ((ms - EPOCH_2000_MS) * 1000).to_be_bytes()
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
