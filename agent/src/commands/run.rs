//! `furrow-agent run`: the daemon. Never ends because of a receiver, a link or a disk.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use crate::{
    clock::{Clock, SharedClock},
    config::{Config, SourceConfig},
    log,
    run::{Running, Setup},
    simulator::{Plan, Simulation},
    sources::{
        Timed,
        live::{self, Out},
        replay::{Manner, Track},
    },
};

/// Events that may wait for the batcher; a source that is ahead of it waits.
const EVENTS: usize = 1024;
/// A simulated machine that is sped up begins so long ago, as it passes for it, s: for so long it
/// is ahead of real time, then it goes on in real time.
const SPED_UP_S: f64 = 600.0;

/// Records and delivers until it is told to end.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The settings file.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Append epoch, sequence and digest of each frame here once it is durable.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
}

/// Runs until TERM or INT.
///
/// Errors: the settings, no identity, the spool is another process's, or a part has ended.
pub async fn run(args: &RunArgs) -> anyhow::Result<()> {
    let config = Config::read(&args.config)?;
    log::start(config.log_level);
    let clock = Clock::start();
    let mut setup = Setup::of(&config);
    setup.journal.clone_from(&args.journal);
    let mut running = Running::start(&setup, Arc::clone(&clock))?;
    let (out, mut events) = mpsc::channel(EVENTS);
    let source = tokio::spawn(source(config.source, Arc::clone(&clock), out));
    let mut term = signal(SignalKind::terminate()).context("signals")?;
    let mut int = signal(SignalKind::interrupt()).context("signals")?;
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "agent.started");
    let ended = loop {
        let step = tokio::select! {
            timed = events.recv() => take(&mut running, timed).await,
            _ = second.tick() => every_second(&mut running),
            _ = term.recv() => break Ok(()),
            _ = int.recv() => break Ok(()),
        };
        if let Err(error) = step {
            break Err(error);
        }
    };
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    source.abort();
    running.finish(clock.monotonic_ms()).await?;
    running.close().await;
    tracing::info!("agent.stopped");
    ended
}

async fn take(running: &mut Running, timed: Option<Timed>) -> anyhow::Result<()> {
    match timed {
        Some(timed) => running.take(timed).await.map_err(Into::into),
        // Sources do not end.
        None => anyhow::bail!("the source has ended"),
    }
}

fn every_second(running: &mut Running) -> anyhow::Result<()> {
    running.second()?;
    if running.progresses() {
        let _ = sd_notify::notify(&[NotifyState::Watchdog]);
    }
    Ok(())
}

/// Drives the source of the settings.
async fn source(config: SourceConfig, clock: SharedClock, out: Out) {
    let SourceConfig::Simulator { seed, speed } = config else {
        live::run(&config, clock, out).await;
        return;
    };
    let plan = Plan {
        seed,
        // Each seed has a field of its own.
        lat: 31.9 + 0.01 * f64::from(u16::try_from(seed % 100).unwrap_or(0)),
        ..Plan::default()
    };
    let simulation = Simulation::of(&plan);
    let track = Track::new(simulation.positions(0));
    let now_ms = clock.host_ms();
    #[expect(clippy::cast_possible_truncation, reason = "days at most")]
    let before_ms = ((speed - 1.0).max(0.0) * SPED_UP_S * 1000.0) as i64;
    let manner = Manner {
        speed,
        start_ms: Some(now_ms - before_ms),
        endless: true,
    };
    let shift_ms = track.shift_ms(&manner, now_ms);
    track.tell(&manner, shift_ms, &clock, &out).await;
}
