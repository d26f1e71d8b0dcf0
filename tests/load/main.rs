//! `make load`: how many frames a second go from a device's socket to a durable row and back as an ack, everything on this machine. Never counts what was not acked.

#![expect(clippy::print_stdout, reason = "a rig prints its figures")]

mod latency;
mod report;
mod rows;
mod sender;
mod sign;

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::Parser;
use e2e::{
    database::Database,
    devices,
    frames::FIXES,
    platform::{Options, Platform},
    postgres::Postgres,
    proc::{self, MemoryWatch},
};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

use crate::{
    rows::Form,
    sender::{Done, Shared},
    sign::Stock,
};

/// Measures frames a second, end to end, with durable commits.
#[derive(Debug, Parser)]
struct Args {
    /// How long, s.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Frames a second in all; as fast as it goes without.
    #[arg(long)]
    rate: Option<u32>,
    /// Devices; a connection whose device has sent all its frames goes on as another device.
    #[arg(long, default_value_t = 8000)]
    devices: usize,
    /// Connections at a time.
    #[arg(long, default_value_t = 2000)]
    connections: usize,
    /// Most frames of a device that are not acked.
    #[arg(long, default_value_t = 16)]
    window: usize,
    /// Frames a second for which frames are signed beforehand.
    #[arg(long, default_value_t = 60_000)]
    most: u32,
    /// Less than this many frames a second is a failure (not looked at with --rate).
    #[arg(long, default_value_t = 25_000)]
    floor: u32,
    /// How long the same fixes are stored by COPY alone afterwards, once as frames and once one row
    /// each, s; 0 for not at all.
    #[arg(long, default_value_t = 10)]
    rows: u64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<bool> {
    ensure!(
        args.connections > 0 && args.devices >= args.connections && args.window > 0,
        "at least as many devices as connections, and one of each"
    );
    let folder = tempfile::Builder::new().prefix("furrow-load-").tempdir()?;
    let postgres = Postgres::start(&folder.path().join("postgres"))?;
    let options = Options {
        connections: Some(20),
        level: Some("warn"),
        ..Options::default()
    };
    let platform = Platform::start(folder.path(), &postgres.url("furrow"), &options)?;
    let database = Database::at(&postgres.url("furrow"))?;
    let stocks = prepare(args, &database)?;
    let measured = measure(args, &platform, &postgres, &stocks).map_err(|error| {
        error.context(format!(
            "the platform's last words:\n{}",
            platform.last_words()
        ))
    })?;
    let rivals = if args.rows == 0 {
        None
    } else {
        println!("storing the same fixes by COPY alone, as frames and one row each");
        let time = Duration::from_secs(args.rows);
        let store = |form| {
            database.wait(rows::measure(
                form,
                database.pool(),
                postgres.pid(),
                &stocks,
                time,
            ))
        };
        Some((store(Form::Frames)?, store(Form::Rows)?))
    };
    report::print(args, &database, &stocks, &measured, rivals.as_ref())
}

fn prepare(args: &Args, database: &Database) -> anyhow::Result<Vec<Arc<Stock>>> {
    let forged = database.wait(devices::forge(database.pool(), args.devices))?;
    let rate = u64::from(args.rate.map_or(args.most, |r| r.saturating_add(r / 10)));
    let frames = usize::try_from(rate * args.seconds)?.div_ceil(args.devices);
    println!(
        "signing {} frames of {FIXES} fixes for {} devices beforehand",
        frames * args.devices,
        args.devices
    );
    let begin = Instant::now();
    let tenth = args.devices.div_ceil(10);
    let stocks = sign::stock(
        forged,
        frames,
        chrono::Utc::now().timestamp_millis(),
        |done| {
            if done % tenth == 0 {
                println!(
                    "  {} % after {} s",
                    done * 100 / args.devices,
                    begin.elapsed().as_secs()
                );
            }
        },
    );
    Ok(stocks.into_iter().map(Arc::new).collect())
}

struct Measured {
    seconds: f64,
    /// Acked while time was taken.
    acked: u64,
    done: Done,
    platform_cpu: f64,
    postgres_cpu: f64,
    own_cpu: f64,
    memory_kib: Vec<u64>,
    postgres_kib: u64,
}

fn measure(
    args: &Args,
    platform: &Platform,
    postgres: &Postgres,
    stocks: &[Arc<Stock>],
) -> anyhow::Result<Measured> {
    // One thread: what the generator costs is the platform's loss on two cores.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (begin, begun) = watch::channel(false);
    let shared = Arc::new(shared(args, platform, stocks, begun));
    runtime.block_on(async {
        let mut senders = connect_all(args, &shared).await?;
        println!("{} connections stand", args.connections);
        let cpu = || {
            [
                proc::cpu_seconds(platform.pid()),
                proc::tree_cpu_seconds(postgres.pid()),
                proc::cpu_seconds(std::process::id()),
            ]
        };
        let before = cpu();
        let memory = MemoryWatch::begin(platform.pid());
        let start = Instant::now();
        begin.send(true)?;
        let mut done = Done::default();
        watch_progress(args, &shared, &mut senders, start, &mut done).await?;
        let seconds = start.elapsed().as_secs_f64();
        let acked = shared.acked.load(Ordering::Relaxed);
        let after = cpu();
        shared.stop.store(true, Ordering::Relaxed);
        let memory_kib = memory.end();
        let postgres_kib = proc::tree_share_kib(postgres.pid());
        while let Some(one) = senders.join_next().await {
            done.add(&one??);
        }
        let [platform_cpu, postgres_cpu, own_cpu] =
            std::array::from_fn(|i| after.get(i).unwrap_or(&0.0) - before.get(i).unwrap_or(&0.0));
        Ok(Measured {
            seconds,
            acked,
            done,
            platform_cpu,
            postgres_cpu,
            own_cpu,
            memory_kib,
            postgres_kib,
        })
    })
}

fn shared(
    args: &Args,
    platform: &Platform,
    stocks: &[Arc<Stock>],
    begin: watch::Receiver<bool>,
) -> Shared {
    Shared {
        server: platform.mqtt,
        window: args.window,
        pace: args
            .rate
            .map(|rate| Duration::from_secs_f64(as_f64(args.connections) / f64::from(rate.max(1)))),
        begin,
        stop: AtomicBool::new(false),
        acked: AtomicU64::new(0),
        connecting: Semaphore::new(64),
        connected: AtomicU64::new(0),
        waiting: Mutex::new(stocks.iter().cloned().collect()),
    }
}

type Senders = JoinSet<anyhow::Result<Done>>;

async fn connect_all(args: &Args, shared: &Arc<Shared>) -> anyhow::Result<Senders> {
    let mut senders = JoinSet::new();
    for index in 0..args.connections {
        let phase = as_f64(index) / as_f64(args.connections);
        senders.spawn(sender::run(Arc::clone(shared), phase));
    }
    while shared.connected.load(Ordering::Relaxed) < u64::try_from(args.connections)? {
        if let Some(early) = senders.try_join_next() {
            early?.context("a connection that never stood")?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(senders)
}

/// Returns when the time is over, or when so many connections have nothing left to send that the
/// load is no longer what was asked for.
async fn watch_progress(
    args: &Args,
    shared: &Shared,
    senders: &mut Senders,
    start: Instant,
    done: &mut Done,
) -> anyhow::Result<()> {
    let (mut told, mut before) = (0, 0);
    while start.elapsed() < Duration::from_secs(args.seconds) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        while let Some(ended) = senders.try_join_next() {
            done.add(&ended?.context("a connection failed")?);
        }
        if senders.len() < args.connections * 9 / 10 {
            println!("  the frames signed beforehand are used up: raise --most");
            return Ok(());
        }
        let seconds = start.elapsed().as_secs();
        if seconds >= told + 5 {
            let acked = shared.acked.load(Ordering::Relaxed);
            println!(
                "  {seconds:>3} s  {:>7} frames/s",
                (acked - before) / (seconds - told)
            );
            (told, before) = (seconds, acked);
        }
    }
    Ok(())
}

fn as_f64(count: usize) -> f64 {
    real(count.try_into().unwrap_or(u64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn real(count: u64) -> f64 {
    count as f64
}
