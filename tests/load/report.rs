//! The figures of a run and the verdict: all sent frames stored once, and the floor held.

use std::sync::Arc;

use comfy_table::Table;
use e2e::{database::Database, frames::FIXES};

use crate::{Args, Measured, as_f64, real, rows, sign::Stock};

/// What the database holds after a run.
struct Stored {
    frames: u64,
    quarantined: u64,
    bytes: u64,
}

/// Prints; true if nothing was lost and the floor was held.
///
/// Errors: the database.
pub fn print(
    args: &Args,
    database: &Database,
    stocks: &[Arc<Stock>],
    measured: &Measured,
    rivals: Option<&(rows::Stored, rows::Stored)>,
) -> anyhow::Result<bool> {
    let stored = Stored {
        frames: count(database, "select count(*) from track_frames")?,
        quarantined: count(database, "select count(*) from quarantine")?,
        bytes: count(
            database,
            "select coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint from pg_inherits
             where inhparent = 'track_frames'::regclass",
        )?,
    };
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.add_rows(speed(measured));
    table.add_rows(costs(measured));
    table.add_rows(sizes(measured, stocks, &stored, rivals));
    println!("{table}");
    let (sent, acked, refused) = (
        measured.done.sent,
        measured.done.acked,
        measured.done.refused,
    );
    println!(
        " sent {sent}, acked {acked}, stored {}, refused {refused}, in quarantine {}",
        stored.frames, stored.quarantined
    );
    let whole = sent == acked && stored.frames == sent && refused + stored.quarantined == 0;
    let fast = args.rate.is_some() || rate(measured) >= f64::from(args.floor);
    if !whole {
        println!("FAILED: not every frame that was sent is stored once and acked");
    }
    if !fast {
        println!("FAILED: below the floor of {} frames/s", args.floor);
    }
    Ok(whole && fast)
}

fn count(database: &Database, query: &'static str) -> anyhow::Result<u64> {
    Ok(u64::try_from(database.number(query)?)?)
}

/// Frames a second.
fn rate(measured: &Measured) -> f64 {
    real(measured.acked) / measured.seconds
}

fn speed(measured: &Measured) -> Vec<[String; 2]> {
    let latencies = &measured.done.latencies;
    let ms = |share| latencies.percentile(share).as_secs_f64() * 1e3;
    vec![
        [
            "frames/s, committed and acked".into(),
            format!("{:.0} over {:.1} s", rate(measured), measured.seconds),
        ],
        [
            "fixes/s".into(),
            format!("{:.0}", rate(measured) * as_f64(FIXES)),
        ],
        [
            "send to commit ack".into(),
            format!(
                "p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
                ms(0.5),
                ms(0.99),
                latencies.most().as_secs_f64() * 1e3
            ),
        ],
    ]
}

fn costs(measured: &Measured) -> Vec<[String; 2]> {
    let parts = [
        ("gate + ingest", measured.platform_cpu),
        ("PostgreSQL", measured.postgres_cpu),
        ("generator", measured.own_cpu),
    ];
    let all: f64 = parts.iter().map(|(_, s)| s).sum();
    let share = |(name, s): (&str, f64)| {
        let us = s / real(measured.acked.max(1)) * 1e6;
        format!(
            "{name} {:.0} % ({us:.1} us a frame)",
            s / all.max(1e-9) * 100.0
        )
    };
    let mib = |kib: Option<&u64>| real(*kib.unwrap_or(&0)) / 1024.0;
    let memory = &measured.memory_kib;
    vec![
        ["CPU".into(), parts.map(share).join(", ")],
        [
            "cores busy with it".into(),
            format!("{:.2}", all / measured.seconds),
        ],
        [
            "furrow's resident memory".into(),
            format!(
                "begin {:.0}, half-way {:.0}, end {:.0}, most {:.0} MiB; PostgreSQL's share {:.0} MiB",
                mib(memory.first()),
                mib(memory.get(memory.len() / 2)),
                mib(memory.last()),
                mib(memory.iter().max()),
                mib(Some(&measured.postgres_kib))
            ),
        ],
    ]
}

fn sizes(
    measured: &Measured,
    stocks: &[Arc<Stock>],
    stored: &Stored,
    rivals: Option<&(rows::Stored, rows::Stored)>,
) -> Vec<[String; 2]> {
    let frames: usize = stocks.iter().map(|s| s.len()).sum();
    let bytes: usize = stocks.iter().map(|s| s.bytes()).sum();
    let hot = real(stored.bytes) / (real(stored.frames.max(1)) * as_f64(FIXES));
    let mut lines = vec![[
        "a frame".into(),
        format!(
            "{:.0} bytes, {FIXES} fixes; in the database {hot:.1} bytes a fix",
            as_f64(bytes) / as_f64(frames.max(1))
        ),
    ]];
    if let Some((frames, rows)) = rivals {
        let of = |s: &rows::Stored| {
            format!(
                "{:.0} fixes/s, {:.2} us of PostgreSQL's CPU and {:.1} bytes a fix",
                s.fixes_per_s, s.cpu_us_per_fix, s.bytes_per_fix
            )
        };
        lines.push(["COPY alone, as frames".into(), of(frames)]);
        lines.push(["COPY alone, one row a fix".into(), of(rows)]);
        let whole = rate(measured) * as_f64(FIXES) / rows.fixes_per_s;
        lines.push([
            "frames against rows".into(),
            format!(
                "{:.1} times the fixes/s stored; {whole:.2} times with MQTT, signatures and generator on top",
                frames.fixes_per_s / rows.fixes_per_s
            ),
        ]);
    }
    lines
}
