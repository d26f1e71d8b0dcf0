//! `furrow demo`: a private PostgreSQL, the whole platform and machines with the real agent, on one host without configuration. Never used in production and never leaves a process behind.

mod agent;
pub mod county;
mod fleet;
mod job;
mod outcome;
mod people;
mod progress;
mod track;
mod wire;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::task::JoinSet;

use self::{
    job::{Board, Job},
    outcome::{Outcome, table},
    progress::{Progress, say},
};
use crate::{
    clock::{Clock as _, SystemClock},
    commands::serve::told_to_stop,
    config::Settings,
    db,
    platform::Platform,
    postgres::PrivatePostgres,
    telemetry,
};

/// Everything on one machine.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// End after the table; fails if a figure is outside its bar.
    #[arg(long)]
    pub once: bool,
    /// Machines: a good one, one whose link is cut for a while, one that only drives past, then more
    /// good ones.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=40))]
    pub machines: u16,
    /// The agent's program; by default the one beside this program.
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,
    /// How much faster than the clock the machines work.
    #[arg(long, default_value_t = 60.0)]
    pub speed: f64,
}

/// So often are the lines of the machines looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the demo.
///
/// Errors: something does not start; with `--once`, a figure outside its bar.
pub async fn run(args: &DemoArgs, settings: &Settings) -> anyhow::Result<()> {
    let program = agent::find(args.agent.as_deref())?;
    let mut settings = settings.clone();
    // Log lines would run through the machines' lines.
    settings.log.level = "error".into();
    telemetry::log(&settings.log)?;
    let folder = settings.data_dir.join("demo");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let folder = folder.canonicalize()?;
    settings.data_dir = folder.join("platform");

    say("starting a private PostgreSQL");
    let under = folder.join("postgres");
    let postgres = tokio::task::spawn_blocking(move || PrivatePostgres::start(&under)).await??;
    settings.database.url = postgres.url("furrow");
    settings.database.telemetry_url = None;
    settings.http.listen = door(settings.http.listen);
    settings.mqtt.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    settings.mqtt.url = None;

    let pool = db::pool(&settings.database)?;
    db::migrate(&pool).await.context("migrations")?;
    county::seed(&pool, &settings.data_dir, SystemClock.now())
        .await
        .context("the county")?;
    pool.close().await;
    let platform = Platform::start(&settings, Some(telemetry::metrics()?)).await?;
    let worked = tokio::select! {
        // Stopped in the middle: children end when their handles are dropped.
        () = told_to_stop() => None,
        worked = work(args, &platform, &program, &folder) => Some(worked),
    };
    let verdict = match worked {
        None => Ok(()),
        Some(Ok(faults)) if args.once => judged(&faults),
        Some(Ok(faults)) => {
            let _ = judged(&faults).inspect_err(|error| say(&format!("{error:#}")));
            stay(platform).await?;
            return stop(postgres).await;
        }
        Some(Err(error)) => Err(error),
    };
    platform.run_until(std::future::ready(())).await?;
    stop(postgres).await?;
    verdict
}

fn judged(faults: &[String]) -> anyhow::Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    bail!("outside its bar: {}", faults.join("; "))
}

async fn stay(platform: Platform) -> anyhow::Result<()> {
    let http = platform.http_addr;
    say(&format!(
        "\nthe platform stays up until Ctrl-C\n  API         http://{http}/api/openapi.json\n  health      http://{http}/readyz\n  counters    http://{http}/metrics"
    ));
    if let Some(mqtt) = platform.mqtt_addr {
        say(&format!("  machines    mqtt://{mqtt}"));
    }
    say(&county::sign_ins());
    platform.run_until(told_to_stop()).await
}

async fn stop(postgres: PrivatePostgres) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(move || postgres.stop()).await??;
    Ok(())
}

/// The address that is set, or a free port where it is taken.
fn door(wanted: SocketAddr) -> SocketAddr {
    match TcpListener::bind(wanted) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            SocketAddr::from((wanted.ip(), 0))
        }
        _ => wanted,
    }
}

/// Enrols the machines, lets them work and prints the table; what is outside its bar.
async fn work(
    args: &DemoArgs,
    platform: &Platform,
    program: &Path,
    folder: &Path,
) -> anyhow::Result<Vec<String>> {
    let run = SystemClock.now().format("%Y%m%d-%H%M%S").to_string();
    let folder = folder.join("machines").join(run);
    let mut jobs = JoinSet::new();
    let board = Board::follow(platform);
    let mut progress = Progress::new();
    progress.note(&format!(
        "{} machines work at {} times the speed of the clock; their folders are under {}",
        args.machines,
        args.speed,
        folder.display()
    ));
    for machine in fleet::machines(usize::from(args.machines)) {
        let job = Job::enrol(platform, program, &folder, machine).await?;
        board.add(job.device(), job.machine())?;
        progress.begin(job.device(), &job.machine().name);
        let (pool, speed, board) = (platform.pool.clone(), args.speed, board.clone());
        jobs.spawn(async move { job.run(&pool, speed, &board).await });
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            done = jobs.join_next() => match done {
                Some(outcome) => outcomes.push(outcome??),
                None => break,
            },
            _ = look.tick() => {}
        }
        board.show(&mut progress);
    }
    outcomes.sort_by_key(|outcome| outcome.device);
    say(&format!("\n{}", table(&outcomes)));
    let faults = outcomes.iter().flat_map(|outcome| {
        let name = outcome.name.clone();
        outcome
            .faults()
            .into_iter()
            .map(move |f| format!("{name}: {f}"))
    });
    Ok(faults.collect())
}
