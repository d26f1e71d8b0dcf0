//! From a payload to a committed row: receive, check, group, store, answer. Never answers before the commit.

mod answers;
pub mod arrival;
pub mod check;
mod clockwatch;
mod failing;
pub mod fault;
pub mod fixes;
pub mod keys;
mod links;
mod marks;
mod measure;
pub mod readmit;
pub mod store;
mod tails;
pub mod witness;
mod writer;

use std::sync::{Arc, atomic::AtomicI64};

use chrono::{DateTime, Utc};
use tokio::{
    sync::{Mutex, Semaphore, broadcast, mpsc},
    task::JoinSet,
};

use self::{
    arrival::Arrival,
    check::Received,
    keys::KeyRing,
    writer::{Checked, Writer},
};
use crate::{clock::Clock, config, db::Pool};

/// Frames that have just been committed, for the live view. Slow listeners miss some; nothing rests on it.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Whose.
    pub device: u32,
    /// The frame's bytes.
    pub frame: bytes::Bytes,
}

/// Groups checked and waiting for a writer, at most.
const CHECKED: usize = 2;

/// What ingest needs.
pub struct Ingest {
    /// The telemetry database.
    pub pool: Pool,
    /// The register's keys.
    pub keys: KeyRing,
    /// The platform's clock.
    pub clock: Arc<dyn Clock>,
    /// Sizes.
    pub settings: config::Ingest,
    /// Where commits are told.
    pub live: broadcast::Sender<Committed>,
    /// Seconds since 1970 of the last commit: the sign of life.
    pub alive: Arc<AtomicI64>,
    /// Seconds since 1970 since when a group is tried in vain; 0 while all can be stored.
    pub failing_since: Arc<AtomicI64>,
}

impl Ingest {
    /// Works until every sender of arrivals is gone, then stores what it has and returns. Returns
    /// early if a writer dies: whoever runs it must end the process then.
    pub async fn run(self, arrivals: mpsc::Receiver<Arrival>) {
        let (to_writers, groups) = mpsc::channel(CHECKED);
        let groups = Arc::new(Mutex::new(groups));
        let writer = Arc::new(Writer::new(&self));
        let mut writers = JoinSet::new();
        for _ in 0..self.settings.writers {
            writers.spawn(Arc::clone(&writer).run(Arc::clone(&groups)));
        }
        drop(groups);
        tokio::select! {
            () = self.receive(arrivals, to_writers) => {}
            // They end after the last group only; this one died of a fault of ours.
            Some(ended) = writers.join_next() => {
                tracing::error!(ended = ?ended, "ingest.writer_died");
                return;
            }
        }
        while let Some(ended) = writers.join_next().await {
            if let Err(error) = ended {
                tracing::error!(error = %error, "ingest.writer_died");
            }
        }
    }

    async fn receive(
        &self,
        mut arrivals: mpsc::Receiver<Arrival>,
        to_writers: mpsc::Sender<Checked>,
    ) {
        let permits = Arc::new(Semaphore::new(self.settings.verifiers));
        // Whoever is busy lets the queue grow: groups get larger under load and stay small without.
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let mut group = Vec::with_capacity(64);
            let most = self.settings.group_frames;
            if arrivals.recv_many(&mut group, most).await == 0 {
                return;
            }
            let (keys, now, to_writers) =
                (self.keys.snapshot(), self.clock.now(), to_writers.clone());
            tokio::task::spawn(async move {
                let frames = group.len();
                match tokio::task::spawn_blocking(move || checked(group, &keys, now)).await {
                    // A full channel keeps the permit: back-pressure up to the sockets.
                    Ok(checked) => drop(to_writers.send(checked).await),
                    // Not answered: the devices send them again.
                    Err(error) => tracing::error!(error = %error, frames, "ingest.check_died"),
                }
                drop(permit);
            });
        }
    }
}

fn checked(arrivals: Vec<Arrival>, keys: &keys::Keys, now: DateTime<Utc>) -> Checked {
    let received: Vec<Received<'_>> = arrivals
        .iter()
        .map(|arrival| Received {
            device: arrival.device,
            payload: &arrival.payload,
        })
        .collect();
    let verdicts = check::check(&received, keys, now);
    Checked { arrivals, verdicts }
}
