//! From a payload to a committed row: receive, check, group, store, answer. Never answers before the commit.

pub mod arrival;
pub mod check;
mod clockwatch;
pub mod fixes;
pub mod keys;
pub mod readmit;
pub mod store;
mod tails;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use furrow_protocol::{
    down::{Down, acks},
    frame::Digest,
};
use tokio::{
    sync::{Semaphore, broadcast, mpsc},
    task::JoinSet,
};

use self::{
    arrival::{Arrival, Reply},
    check::{Fault, Link, Received, Sound, Verdict},
    clockwatch::ClockWatch,
    keys::KeyRing,
    store::Kept,
    tails::Tails,
};
use crate::{
    clock::Clock,
    config,
    db::{self, DbError, Pool, quarantine::NewQuarantine},
};

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
/// How long a writer waits before it tries a group again while the database is away, at most.
const AWAY_MAX: Duration = Duration::from_secs(5);

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
    /// Seconds since 1970 of the last commit or idle turn: the sign of life.
    pub alive: Arc<AtomicI64>,
}

struct Checked {
    arrivals: Vec<Arrival>,
    verdicts: Vec<Verdict>,
}

impl Checked {
    /// Keeps its first half and gives the second.
    fn split(&mut self) -> Self {
        let half = self.arrivals.len() / 2;
        Self {
            arrivals: self.arrivals.split_off(half),
            verdicts: self.verdicts.split_off(half),
        }
    }
}

struct Shared {
    pool: Pool,
    clock: Arc<dyn Clock>,
    tails: Tails,
    watch: ClockWatch,
    live: broadcast::Sender<Committed>,
    alive: Arc<AtomicI64>,
}

impl Ingest {
    /// Works until every sender of arrivals is gone, then stores what it has and returns.
    pub async fn run(self, mut arrivals: mpsc::Receiver<Arrival>) {
        let (to_writers, from_checkers) = async_channel(CHECKED);
        let shared = Arc::new(Shared {
            pool: self.pool,
            clock: Arc::clone(&self.clock),
            tails: Tails::default(),
            watch: ClockWatch::default(),
            live: self.live,
            alive: self.alive,
        });
        let mut writers = JoinSet::new();
        for _ in 0..self.settings.writers {
            writers.spawn(write(Arc::clone(&shared), Arc::clone(&from_checkers)));
        }
        let permits = Arc::new(Semaphore::new(self.settings.verifiers));
        loop {
            // Whoever is busy lets the queue grow: groups get larger under load and stay small without.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                break;
            };
            let mut group = Vec::with_capacity(64);
            if arrivals
                .recv_many(&mut group, self.settings.group_frames)
                .await
                == 0
            {
                break;
            }
            let (keys, now, to_writers) =
                (self.keys.snapshot(), self.clock.now(), to_writers.clone());
            tokio::task::spawn(async move {
                let checked = tokio::task::spawn_blocking(move || {
                    let received: Vec<Received<'_>> = group
                        .iter()
                        .map(|arrival| Received {
                            device: arrival.device,
                            payload: &arrival.payload,
                        })
                        .collect();
                    let verdicts = check::check(&received, &keys, now);
                    drop(received);
                    Checked {
                        arrivals: group,
                        verdicts,
                    }
                })
                .await;
                if let Ok(checked) = checked {
                    // A full channel keeps the permit: back-pressure up to the sockets.
                    let _ = to_writers.send(checked).await;
                }
                drop(permit);
            });
        }
        drop(to_writers);
        while writers.join_next().await.is_some() {}
    }
}

type Checkers = Arc<tokio::sync::Mutex<mpsc::Receiver<Checked>>>;

fn async_channel(bound: usize) -> (mpsc::Sender<Checked>, Checkers) {
    let (sender, receiver) = mpsc::channel(bound);
    (sender, Arc::new(tokio::sync::Mutex::new(receiver)))
}

async fn write(shared: Arc<Shared>, groups: Checkers) {
    loop {
        let next = { groups.lock().await.recv().await };
        let Some(checked) = next else { return };
        shared.group(checked).await;
    }
}

impl Shared {
    /// Stores a group, trying until the database is back: what is not stored is not answered.
    async fn group(&self, checked: Checked) {
        let mut open = vec![checked];
        while let Some(group) = open.pop() {
            open.extend(self.group_or_halves(group).await);
        }
        self.alive
            .store(self.clock.now().timestamp(), Ordering::Relaxed);
    }

    /// Stores a group. Where the database says that the content is at fault, the halves come back to be
    /// tried apart: one frame that cannot be stored must not hold up its neighbours for ever.
    async fn group_or_halves(&self, mut group: Checked) -> Vec<Checked> {
        let mut wait = Duration::from_millis(100);
        loop {
            let Err(error) = self.try_group(&group).await else {
                return vec![];
            };
            metrics::counter!("furrow_ingest_database_errors_total").increment(1);
            tracing::error!(error = %error, frames = group.arrivals.len(), "ingest.database");
            if !db::blames_content(&error) {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(AWAY_MAX);
            } else if group.arrivals.len() > 1 {
                let rest = group.split();
                return vec![group, rest];
            } else {
                // Not answered: the device keeps it, and a platform that is mended takes it.
                count("not_stored");
                return vec![];
            }
        }
    }

    async fn try_group(&self, checked: &Checked) -> Result<(), DbError> {
        let now = self.clock.now();
        let mut answers = Answers::default();
        let sound = || checked.arrivals.iter().zip(&checked.verdicts);
        let (stored, group): (Vec<&Arrival>, Vec<Sound>) = sound()
            .filter_map(|(arrival, verdict)| match verdict {
                Verdict::Sound(sound) => Some((arrival, (**sound).clone())),
                Verdict::Faulty(..) => None,
            })
            .unzip();
        let kept = if group.is_empty() {
            vec![]
        } else {
            store::store(&self.pool, &group, &self.tails, now).await?
        };
        for ((arrival, sound), kept) in stored.iter().zip(&group).zip(&kept) {
            answers.ack(arrival, sound.frame.place.epoch, sound.frame.place.seq);
            count(match kept {
                Kept::Stored => "stored",
                Kept::Known => "known",
                Kept::Contradiction => "contradiction",
            });
            self.watch.note(arrival.device, false, now);
            if *kept == Kept::Stored && self.live.receiver_count() > 0 {
                let _ = self.live.send(Committed {
                    device: arrival.device.0,
                    frame: arrival.payload.clone(),
                });
            }
        }
        self.quarantine(checked, now, &mut answers).await?;
        answers.send();
        Ok(())
    }

    async fn quarantine<'a>(
        &self,
        checked: &'a Checked,
        now: DateTime<Utc>,
        answers: &mut Answers<'a>,
    ) -> Result<(), DbError> {
        let faulty = || checked.arrivals.iter().zip(&checked.verdicts);
        for (arrival, verdict) in faulty() {
            if let Verdict::Faulty(fault, _) = verdict {
                self.watch.note(arrival.device, *fault == Fault::Ahead, now);
            }
        }
        // If many devices are ahead, it is more likely that we are behind: keep nothing, refuse nothing.
        let distrust = self.watch.distrusts_itself(now);
        let wanted: Vec<(&Arrival, Fault, Option<Link>)> = faulty()
            .filter_map(|(arrival, verdict)| match verdict {
                Verdict::Sound(_) => None,
                Verdict::Faulty(Fault::Ahead, _) if distrust => None,
                Verdict::Faulty(fault, link) => Some((arrival, *fault, link.as_deref().copied())),
            })
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let links: Vec<Option<Link>> = wanted.iter().map(|(.., link)| *link).collect();
        let new: Vec<NewQuarantine> = wanted
            .iter()
            .map(|(arrival, fault, link)| NewQuarantine {
                device: arrival.device.0,
                reason: fault.name(),
                payload: arrival.payload.clone(),
                payload_digest: check::name_of(&arrival.payload).0,
                link: link.map(|link| (link.place, link.digest.0)),
            })
            .collect();
        let kept = store::quarantine(&self.pool, &new, &links, now).await?;
        for (((arrival, fault, _), new), kept) in wanted.iter().zip(&new).zip(kept) {
            if !kept {
                count("quarantine_full");
                continue;
            }
            count(fault.name());
            let refused = Down::Refused {
                digest: Digest(new.payload_digest),
                reason: fault.refused(),
            };
            answers.refuse(arrival, refused);
        }
        Ok(())
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("furrow_ingest_frames_total", "outcome" => outcome).increment(1);
}

/// Answers, gathered by session: each gets one write.
#[derive(Default)]
struct Answers<'a>(HashMap<usize, Answer<'a>>);

struct Answer<'a> {
    of: &'a Arrival,
    tickets: Vec<u64>,
    acked: HashMap<u64, Vec<u64>>,
    other: Vec<Down>,
}

impl<'a> Answers<'a> {
    fn of(&mut self, arrival: &'a Arrival) -> &mut Answer<'a> {
        let session = Arc::as_ptr(&arrival.reply).cast::<()>() as usize;
        self.0.entry(session).or_insert_with(|| Answer {
            of: arrival,
            tickets: Vec::new(),
            acked: HashMap::new(),
            other: Vec::new(),
        })
    }

    fn ack(&mut self, arrival: &'a Arrival, epoch: u64, seq: u64) {
        let answer = self.of(arrival);
        answer.tickets.push(arrival.ticket);
        answer.acked.entry(epoch).or_default().push(seq);
    }

    fn refuse(&mut self, arrival: &'a Arrival, down: Down) {
        let answer = self.of(arrival);
        answer.tickets.push(arrival.ticket);
        answer.other.push(down);
    }

    fn send(self) {
        for answer in self.0.into_values() {
            let mut down: Vec<Down> = answer
                .acked
                .into_iter()
                .flat_map(|(epoch, seqs)| acks(epoch, seqs))
                .collect();
            down.extend(answer.other);
            Reply::settle(&*answer.of.reply, answer.of.device, &answer.tickets, down);
        }
    }
}
