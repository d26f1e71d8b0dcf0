//! Devices that sign what a test wants, an ingest that takes it, and what it answers.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use furrow_platform::{
    clock::{Clock as _, ManualClock},
    config,
    db::Pool,
    ids,
    ingest::{
        Ingest,
        arrival::{Arrival, Reply},
        keys::{DeviceKey, KeyRing},
    },
};
use furrow_protocol::{
    SigningKey,
    batch::Batch,
    down::{Down, RefusedReason},
    fix::Fix,
    frame::{Device, Digest, Frame, genesis, payload_digest},
};
use tokio::sync::{broadcast, mpsc};

use crate::world::{World, now};

/// Milliseconds between two fixes of a test's frames.
const STEP_MS: i64 = 1000;

/// A device whose key the test holds.
#[derive(Clone)]
pub struct Signer {
    pub number: Device,
    pub key: SigningKey,
}

impl Signer {
    pub fn new(number: u32) -> Self {
        Self {
            number: Device(number),
            key: SigningKey::from_bytes(&ids::secret()),
        }
    }

    pub fn genesis(&self, epoch: u64) -> Digest {
        genesis(self.number, epoch, &self.key.verifying_key())
    }

    /// A frame of ten fixes from `at_ms` on.
    pub fn frame(&self, epoch: u64, seq: u64, prev: Digest, at_ms: i64) -> Frame {
        self.sign(epoch, seq, prev, &batch(at_ms, 10))
    }

    pub fn sign(&self, epoch: u64, seq: u64, prev: Digest, batch: &Batch) -> Frame {
        let encoded = batch.encode().unwrap();
        Frame::sign(&self.key, self.number, epoch, seq, prev, encoded)
    }

    /// A linked chain of `count` frames from seq 1 on, ten seconds each.
    pub fn chain(&self, epoch: u64, count: u64, begin_ms: i64) -> Vec<Frame> {
        let mut prev = self.genesis(epoch);
        let mut frames = Vec::new();
        for seq in 1..=count {
            let at_ms = begin_ms + i64::try_from(seq).unwrap() * 10 * STEP_MS;
            let frame = self.frame(epoch, seq, prev, at_ms);
            prev = frame.digest(self.number);
            frames.push(frame);
        }
        frames
    }

    /// Sends a frame.
    pub fn sends(&self, frame: &Frame) -> Sent {
        Sent {
            device: self.number,
            payload: frame.to_bytes().into(),
        }
    }
}

/// A batch of so many fixes.
pub fn batch(at_ms: i64, fixes: i64) -> Batch {
    Batch {
        at_ms,
        boot: 1,
        monotonic_ms: 1,
        fixes: (0..fixes)
            .map(|i| Fix {
                at_ms: at_ms + i * STEP_MS,
                lat_e7: 319_000_000 + i32::try_from(i).unwrap() * 200,
                lon_e7: 1_172_000_000,
                speed_cm_s: Some(200),
                ..Fix::default()
            })
            .collect(),
        gaps: vec![],
        former: None,
        ext: vec![],
    }
}

/// A payload on its way in.
#[derive(Debug, Clone)]
pub struct Sent {
    pub device: Device,
    pub payload: Bytes,
}

impl Sent {
    pub fn digest(&self) -> Digest {
        payload_digest(&self.payload)
    }
}

/// What a session heard.
#[derive(Default)]
pub struct Heard(Mutex<(Vec<u64>, Vec<Down>)>);

impl Reply for Heard {
    fn settle(&self, _: Device, tickets: &[u64], down: Vec<Down>) {
        let mut heard = self.0.lock().unwrap();
        heard.0.extend_from_slice(tickets);
        heard.1.extend(down);
    }
}

/// The answers to one delivery.
#[derive(Debug, Default)]
pub struct Answers {
    /// Indices of the payloads that were answered: their PUBACKs leave, the window moves.
    pub settled: BTreeSet<usize>,
    /// (epoch, seq) that were acked.
    pub acked: BTreeSet<(u64, u64)>,
    /// Payloads that were refused, by their digest.
    pub refused: HashMap<Digest, RefusedReason>,
}

/// A world with an ingest.
pub struct Rig {
    pub world: World,
    pub keys: KeyRing,
    pub clock: Arc<ManualClock>,
    pub settings: config::Ingest,
    pub failing_since: Arc<AtomicI64>,
}

impl Rig {
    pub async fn new(devices: &[&Signer]) -> Self {
        let world = World::new().await;
        let keys = KeyRing::default();
        keys.replace(
            devices
                .iter()
                .map(|device| (device.number.0, key(device, false)))
                .collect(),
        );
        let settings = world.settings.ingest.clone();
        Self {
            world,
            keys,
            clock: Arc::new(ManualClock::new(at_noon())),
            settings,
            failing_since: Arc::new(AtomicI64::new(0)),
        }
    }

    /// As if nothing had ever come: far quicker than another world.
    pub async fn wipe(&self) {
        for table in [
            "track_frames",
            "track_epochs",
            "contradictions",
            "quarantine",
            "quarantine_shares",
        ] {
            let wipe = sqlx::AssertSqlSafe(format!("delete from {table}"));
            sqlx::query(wipe).execute(&self.world.pool).await.unwrap();
        }
    }

    pub fn now_ms(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }

    /// Turns a device away.
    pub fn revoke(&self, device: &Signer) {
        let mut keys = HashMap::clone(&self.keys.snapshot());
        keys.insert(device.number.0, key(device, true));
        self.keys.replace(keys);
    }

    /// An ingest over a pool.
    pub fn ingest(&self, pool: Pool) -> Ingest {
        Ingest {
            pool,
            keys: self.keys.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            live: broadcast::channel(16).0,
            alive: Arc::new(AtomicI64::new(1)),
            failing_since: Arc::clone(&self.failing_since),
        }
    }

    /// Gives payloads to an ingest of its own, as one group where they fit, and waits for its end.
    pub async fn deliver(&self, sent: &[Sent]) -> Answers {
        let (to, arrivals) = mpsc::channel(sent.len().max(1));
        let heard = load(&to, sent).await;
        drop(to);
        self.ingest(self.world.pool.clone()).run(arrivals).await;
        answers(&heard)
    }

    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&self.world.pool)
            .await
            .unwrap()
    }

    /// (device, epoch, seq, frame) of all that is stored, in that order.
    pub async fn stored(&self) -> Vec<(i32, i64, i64, Vec<u8>)> {
        sqlx::query_as("select device, epoch, seq, frame from track_frames order by 1, 2, 3, day")
            .fetch_all(&self.world.pool)
            .await
            .unwrap()
    }

    /// (device, epoch, seq, kind) of all contradictions.
    pub async fn contradictions(&self) -> Vec<(i32, i64, i64, String)> {
        sqlx::query_as(
            "select device, epoch, seq, kind from contradictions order by 1, 2, 3, 4, digest",
        )
        .fetch_all(&self.world.pool)
        .await
        .unwrap()
    }

    /// (reason, payload, has a link) of all in quarantine, oldest first.
    pub async fn quarantined(&self) -> Vec<(String, Vec<u8>, bool)> {
        sqlx::query_as(
            "select reason, payload, digest is not null from quarantine order by reason, payload",
        )
        .fetch_all(&self.world.pool)
        .await
        .unwrap()
    }
}

fn key(device: &Signer, revoked: bool) -> DeviceKey {
    DeviceKey::new(device.key.verifying_key().as_bytes(), revoked).unwrap()
}

/// Today's noon: the partitions of a world are around today.
fn at_noon() -> DateTime<Utc> {
    let day = now().date_naive();
    day.and_hms_opt(12, 0, 0).unwrap().and_utc() - TimeDelta::days(1)
}

/// Puts payloads into a channel, all of one session.
pub async fn load(to: &mpsc::Sender<Arrival>, sent: &[Sent]) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    for (ticket, one) in (0..).zip(sent) {
        let arrival = Arrival {
            device: one.device,
            payload: one.payload.clone(),
            ticket,
            reply: heard.clone(),
        };
        to.send(arrival).await.unwrap();
    }
    heard
}

pub fn answers(heard: &Heard) -> Answers {
    let heard = heard.0.lock().unwrap();
    let mut answers = Answers::default();
    for ticket in &heard.0 {
        assert!(
            answers.settled.insert(usize::try_from(*ticket).unwrap()),
            "{ticket} is answered twice"
        );
    }
    for down in &heard.1 {
        match down {
            Down::Ack { epoch, ranges } => {
                for seq in ranges.iter().flat_map(|(first, last)| *first..=*last) {
                    answers.acked.insert((*epoch, seq));
                }
            }
            Down::Refused { digest, reason } => {
                answers.refused.insert(*digest, *reason);
            }
            Down::Settings { .. } => panic!("ingest knows no settings"),
        }
    }
    answers
}

/// Whether an ingest shows life.
pub fn alive(ingest: &Ingest) -> bool {
    ingest.alive.load(Ordering::Relaxed) != 0
}
