//! Work that comes by the clock; safe to run in every process at once. Never in the way of a request.

mod clock_skew;
mod enrolment;
mod partitions;
mod quarantine;
mod relay;
mod sweep;
mod timers;

use std::{
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{app::witness::Witness, clock::Clock, db::Pool, ingest::keys::KeyRing};

pub use {
    clock_skew::{note_skew, skew_ms},
    partitions::make_partitions,
};

/// What jobs need.
#[derive(Clone)]
pub struct Jobs {
    /// The database.
    pub pool: Pool,
    /// The database that keeps the tracks.
    pub tracks: Pool,
    /// The register's keys.
    pub keys: KeyRing,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What tracks show of orders.
    pub witness: Arc<dyn Witness>,
    /// Accounts that have something new in their inbox.
    pub told: broadcast::Sender<Uuid>,
    /// Webhooks may be on this host or in this network: for development.
    pub webhooks_inside: bool,
    /// Written by one of the jobs: platform's clock less database's, ms.
    pub clock_skew_ms: Arc<AtomicI64>,
}

impl Jobs {
    /// Runs all jobs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::join!(
            every(Duration::from_secs(60), &shutdown, "clock_skew", || {
                clock_skew::measure(&self)
            }),
            every(Duration::from_secs(1800), &shutdown, "partitions", || {
                partitions::job(&self)
            }),
            every(Duration::from_secs(3600), &shutdown, "quarantine", || {
                quarantine::expire(&self)
            }),
            every(Duration::from_secs(3600), &shutdown, "enrolment", || {
                enrolment::expire(&self)
            }),
            once(RETRY, &shutdown, "read_again", || quarantine::read_again(
                &self
            )),
            every(
                Duration::from_secs(3600),
                &shutdown,
                "sweep",
                || sweep::run(&self)
            ),
            every(Duration::from_millis(250), &shutdown, "timers", || {
                timers::run(&self)
            }),
            every(Duration::from_millis(200), &shutdown, "relay", || {
                relay::run(&self)
            }),
        );
    }
}

/// What is done once at the start is tried again after so long if it fails.
const RETRY: Duration = Duration::from_secs(60);

/// Work that is done when it has succeeded once.
async fn once<F, E>(
    pause: Duration,
    shutdown: &CancellationToken,
    name: &'static str,
    job: impl Fn() -> F,
) where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let until_done = async {
        while let Err(error) = job().await {
            failed(name, &error);
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = until_done => {}
    }
}

fn failed(name: &'static str, error: &impl std::fmt::Display) {
    metrics::counter!("furrow_job_failures_total", "job" => name).increment(1);
    tracing::warn!(job = name, error = %error, "job.failed");
}

/// A job that fails is logged and tried again at its next time.
pub async fn every<F, E>(
    period: Duration,
    shutdown: &CancellationToken,
    name: &'static str,
    job: impl Fn() -> F,
) where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut timer = tokio::time::interval(period);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = timer.tick() => {}
        }
        if let Err(error) = job().await {
            failed(name, &error);
        }
    }
}
