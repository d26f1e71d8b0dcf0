//! What `replay` and `simulate` share: a track goes through the same batcher, spool and link as in `run`, and its end waits for the commit of all of it. Never ends well with a frame that waits.

use std::{io::Write, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use chrono::{DateTime, Utc};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::Whose;
use crate::{
    clock::{Clock, SharedClock},
    config::Level,
    log,
    run::{Delivery, Running},
    sources::replay::{Manner, Track},
};

const EVENTS: usize = 1024;

/// How a track is delivered.
#[derive(Debug, Clone, clap::Args)]
pub struct DeliverArgs {
    /// Whose track it is.
    #[command(flatten)]
    pub whose: Whose,
    /// Multiple of the track's own speed.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = parse_speed)]
    pub speed: f64,
    /// Time of the first fix (RFC 3339); without it the last fix falls at the moment it is sent.
    #[arg(long, value_name = "TIME")]
    pub start: Option<DateTime<Utc>>,
    /// Append epoch, sequence and digest of each frame here once it is durable.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// How long all may take to be committed after the last fix.
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub drain_timeout: u64,
    /// Log more.
    #[arg(long)]
    pub verbose: bool,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=100_000.0).contains(&speed) {
        Ok(speed)
    } else {
        Err("must lie between 0.01 and 100000".to_owned())
    }
}

impl DeliverArgs {
    fn manner(&self) -> Manner {
        Manner {
            speed: self.speed,
            start_ms: self.start.map(|at| at.timestamp_millis()),
            endless: false,
        }
    }

    /// By how much a track that begins now is moved, ms.
    #[must_use]
    pub fn shift_ms(&self, track: &Track, clock: &SharedClock) -> i64 {
        track.shift_ms(&self.manner(), clock.host_ms())
    }
}

/// Delivers a track whose times are moved by `shift_ms`; says at the end what came of it.
///
/// Errors: no identity, the spool is another process's, TERM or INT came, or not all was committed in time.
pub async fn deliver(
    args: &DeliverArgs,
    track: Track,
    shift_ms: i64,
    clock: SharedClock,
    mut out: impl Write,
) -> anyhow::Result<()> {
    log::start(if args.verbose {
        Level::Info
    } else {
        Level::Warn
    });
    let mut setup = args.whose.setup()?;
    setup.journal.clone_from(&args.journal);
    let mut running = Running::start(&setup, Arc::clone(&clock))?;
    let fixes = track.len();
    let (tell, mut events) = mpsc::channel(EVENTS);
    let (manner, teller) = (args.manner(), Arc::clone(&clock));
    let source = tokio::spawn(async move { track.tell(&manner, shift_ms, &teller, &tell).await });
    let mut term = signal(SignalKind::terminate()).context("signals")?;
    let mut int = signal(SignalKind::interrupt()).context("signals")?;
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_ms = clock.monotonic_ms();
    let told = loop {
        tokio::select! {
            timed = events.recv() => match timed {
                Some(timed) => {
                    last_ms = timed.now_ms;
                    running.take(timed).await?;
                }
                None => break true,
            },
            _ = second.tick() => running.second()?,
            _ = term.recv() => break false,
            _ = int.recv() => break false,
        }
    };
    source.abort();
    running.finish(last_ms).await?;
    let end = if told {
        tokio::select! {
            end = running.delivered(Duration::from_secs(args.drain_timeout)) => Some(end?),
            _ = term.recv() => None,
            _ = int.recv() => None,
        }
    } else {
        None
    };
    running.close().await;
    match end {
        Some(Delivery::Done) => {
            writeln!(out, "{fixes} fixes told, all that was stored is committed")?;
            Ok(())
        }
        Some(Delivery::Waits { frames }) => bail!(
            "{frames} frames are not committed after {} s; they stay in the spool",
            args.drain_timeout
        ),
        Some(Delivery::Refused { frames }) => {
            bail!("the platform refused {frames} frames; they stay in the spool")
        }
        None => bail!("told to end; what is not committed stays in the spool"),
    }
}

/// The clock of a delivery.
#[must_use]
pub fn clock() -> SharedClock {
    Clock::start()
}
