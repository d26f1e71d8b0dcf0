//! Takes checked groups to the database and answers what is committed, trying until it is. Never drops a frame that may be stored later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use furrow_protocol::{down::Down, frame::Digest};
use tokio::sync::{Mutex, broadcast, mpsc};

use super::{
    Committed, Ingest,
    answers::Answers,
    arrival::Arrival,
    check::{self, Link, Sound, Verdict},
    clockwatch::ClockWatch,
    failing::Failing,
    fault::Fault,
    store::{Kept, Store},
    tails::Tails,
};
use crate::{
    clock::Clock,
    db::{self, DbError, Pool, quarantine::NewQuarantine},
};

/// How long a writer waits before it tries a group again while the database is away, at most.
const AWAY_MAX: Duration = Duration::from_secs(5);

/// A group whose frames are judged.
pub(super) struct Checked {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) verdicts: Vec<Verdict>,
}

/// Groups for whichever writer is free.
pub(super) type Groups = Arc<Mutex<mpsc::Receiver<Checked>>>;

/// The part of a group that goes one way. The two ways are taken apart: what is in the way of the one
/// does not hold up the answers of the other.
enum Part {
    Sound(Vec<Arrival>, Vec<Sound>),
    Faulty(Vec<Arrival>, Vec<(Fault, Option<Link>)>),
}

impl Part {
    fn of(checked: Checked) -> [Self; 2] {
        let (mut sound, mut faulty) = ((vec![], vec![]), (vec![], vec![]));
        for (arrival, verdict) in checked.arrivals.into_iter().zip(checked.verdicts) {
            match verdict {
                Verdict::Sound(one) => {
                    sound.0.push(arrival);
                    sound.1.push(*one);
                }
                Verdict::Faulty(fault, link) => {
                    faulty.0.push(arrival);
                    faulty.1.push((fault, link.map(|link| *link)));
                }
            }
        }
        [
            Self::Sound(sound.0, sound.1),
            Self::Faulty(faulty.0, faulty.1),
        ]
    }

    fn len(&self) -> usize {
        match self {
            Self::Sound(arrivals, _) | Self::Faulty(arrivals, _) => arrivals.len(),
        }
    }

    /// Keeps its first half and gives the second.
    fn split(&mut self) -> Self {
        let half = self.len() / 2;
        match self {
            Self::Sound(arrivals, group) => {
                Self::Sound(arrivals.split_off(half), group.split_off(half))
            }
            Self::Faulty(arrivals, faults) => {
                Self::Faulty(arrivals.split_off(half), faults.split_off(half))
            }
        }
    }
}

/// What all writers share.
pub(super) struct Writer {
    pool: Pool,
    limit: Duration,
    clock: Arc<dyn Clock>,
    tails: Tails,
    watch: ClockWatch,
    live: broadcast::Sender<Committed>,
    alive: Arc<AtomicI64>,
    failing: Failing,
}

impl Writer {
    pub(super) fn new(ingest: &Ingest) -> Self {
        Self {
            pool: ingest.pool.clone(),
            limit: Duration::from_secs(ingest.settings.statement_s),
            clock: Arc::clone(&ingest.clock),
            tails: Tails::default(),
            watch: ClockWatch::default(),
            live: ingest.live.clone(),
            alive: Arc::clone(&ingest.alive),
            failing: Failing::new(Arc::clone(&ingest.failing_since)),
        }
    }

    /// Takes groups until no more can come.
    pub(super) async fn run(self: Arc<Self>, groups: Groups) {
        loop {
            let next = { groups.lock().await.recv().await };
            let Some(checked) = next else { return };
            for part in Part::of(checked) {
                self.part(part).await;
            }
            let now = self.clock.now().timestamp();
            self.alive.store(now, Ordering::Relaxed);
        }
    }

    async fn part(&self, part: Part) {
        let mut open = vec![part];
        while let Some(part) = open.pop() {
            if part.len() > 0 {
                open.extend(self.part_or_halves(part).await);
            }
        }
    }

    /// Stores a part of a group, trying until the database is back: what is not stored is not answered.
    /// Where the database says that the content is at fault, the halves come back to be tried apart:
    /// one frame that cannot be stored must not hold up its neighbours for ever.
    async fn part_or_halves(&self, mut part: Part) -> Vec<Part> {
        let mut wait = Duration::from_millis(100);
        let mut begun = None;
        let rest = loop {
            let Err(error) = self.try_part(&part).await else {
                break vec![];
            };
            metrics::counter!("furrow_ingest_database_errors_total").increment(1);
            tracing::error!(error = %error, frames = part.len(), "ingest.database");
            if !db::blames_content(&error) {
                begun.get_or_insert_with(|| self.failing.begin(self.clock.now()));
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(AWAY_MAX);
            } else if part.len() > 1 {
                let second = part.split();
                break vec![part, second];
            } else {
                // Not answered: the device keeps it, and a platform that is mended takes it.
                count("not_stored");
                break vec![];
            }
        };
        if let Some(begun) = begun {
            self.failing.end(begun);
        }
        rest
    }

    async fn try_part(&self, part: &Part) -> Result<(), DbError> {
        let now = self.clock.now();
        let store = Store {
            pool: &self.pool,
            tails: &self.tails,
            limit: self.limit,
        };
        match part {
            Part::Sound(arrivals, group) => {
                let kept = store.frames(group, now).await?;
                self.acknowledge(arrivals, group, &kept, now);
                Ok(())
            }
            Part::Faulty(arrivals, faults) => self.quarantine(store, arrivals, faults, now).await,
        }
    }

    fn acknowledge(
        &self,
        arrivals: &[Arrival],
        group: &[Sound],
        kept: &[Kept],
        now: DateTime<Utc>,
    ) {
        let mut answers = Answers::default();
        for ((arrival, sound), kept) in arrivals.iter().zip(group).zip(kept) {
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
        answers.send();
        // Also where nobody is ahead: the alarm must end.
        self.watch.distrusts_itself(now);
    }

    async fn quarantine(
        &self,
        store: Store<'_>,
        arrivals: &[Arrival],
        faults: &[(Fault, Option<Link>)],
        now: DateTime<Utc>,
    ) -> Result<(), DbError> {
        let faulty = || arrivals.iter().zip(faults);
        for (arrival, (fault, _)) in faulty() {
            self.watch.note(arrival.device, *fault == Fault::Ahead, now);
        }
        // If many devices are ahead, it is more likely that we are behind: keep nothing, refuse nothing.
        let distrust = self.watch.distrusts_itself(now);
        let wanted: Vec<(&Arrival, Fault, Option<Link>)> = faulty()
            .filter(|(_, (fault, _))| !(distrust && *fault == Fault::Ahead))
            .map(|(arrival, (fault, link))| (arrival, *fault, *link))
            .collect();
        let left = faults.len() - wanted.len();
        (0..left).for_each(|_| count("own_clock_distrusted"));
        if wanted.is_empty() {
            return Ok(());
        }
        let links: Vec<Option<Link>> = wanted.iter().map(|(.., link)| *link).collect();
        let new: Vec<NewQuarantine> = wanted.iter().map(of_faulty).collect();
        let kept = store.quarantine(&new, &links, now).await?;
        let mut answers = Answers::default();
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
        answers.send();
        Ok(())
    }
}

fn of_faulty((arrival, fault, link): &(&Arrival, Fault, Option<Link>)) -> NewQuarantine {
    NewQuarantine {
        device: arrival.device.0,
        reason: fault.name(),
        payload: arrival.payload.clone(),
        payload_digest: check::name_of(&arrival.payload).0,
        link: link.map(|link| (link.place, link.digest.0)),
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("furrow_ingest_frames_total", "outcome" => outcome).increment(1);
}
