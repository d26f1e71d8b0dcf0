//! Tells the bus what was committed and who comes and goes, by machine. Never holds anything up: what nobody can take is dropped.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use furrow_protocol::{batch::Batch, fix::Fix, frame::Frame};
use serde_json::json;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc,
    },
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    bus::{Bus, Message, live_topic},
    presence::{Change, Presence},
};
use crate::{
    clock::Clock,
    db::{
        Pool, bindings,
        sessions::{self, NewSession},
    },
    ids,
    ingest::Committed,
};

/// A machine's position is told at most so often.
const APART: Duration = Duration::from_millis(900);
/// So long is it remembered which machine a device is on.
const BOUND: Duration = Duration::from_secs(30);

/// Where positions are told: to this process alone, or to a broker that tells all of them.
#[derive(Debug, Clone)]
pub enum Told {
    /// This process's bus.
    Bus(Arc<Bus>),
    /// An outside broker.
    Broker(mpsc::Sender<Message>),
}

impl Told {
    fn publish(&self, topic: String, payload: Bytes) {
        match self {
            Self::Bus(bus) => bus.publish(topic, payload),
            Self::Broker(broker) => {
                let message = Message {
                    topic: topic.into(),
                    payload,
                };
                if broker.try_send(message).is_err() {
                    metrics::counter!("furrow_live_dropped_total").increment(1);
                }
            }
        }
    }
}

/// Which machine each device is on, read anew now and then.
struct Machines {
    pool: Pool,
    clock: Arc<dyn Clock>,
    known: HashMap<u32, Uuid>,
    read: Option<Instant>,
}

impl Machines {
    async fn of(&mut self, device: u32) -> Option<Uuid> {
        if self.read.is_none_or(|read| read.elapsed() > BOUND) {
            self.read = Some(Instant::now());
            match bindings::at(&self.pool, self.clock.now()).await {
                Ok(rows) => {
                    let pair =
                        |row: bindings::BoundRow| (row.device.cast_unsigned(), row.machine_id);
                    self.known = rows.into_iter().map(pair).collect();
                }
                Err(error) => tracing::warn!(error = %error, "live.bindings"),
            }
        }
        self.known.get(&device).copied()
    }
}

/// Tells the last position of what was committed, until `shutdown`.
pub async fn positions(
    mut committed: broadcast::Receiver<Committed>,
    to: Told,
    pool: Pool,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) {
    let mut machines = Machines {
        pool,
        clock,
        known: HashMap::new(),
        read: None,
    };
    let mut told: HashMap<Uuid, Instant> = HashMap::new();
    loop {
        let one = tokio::select! {
            () = shutdown.cancelled() => return,
            one = committed.recv() => one,
        };
        let one = match one {
            Ok(one) => one,
            Err(RecvError::Lagged(missed)) => {
                metrics::counter!("furrow_live_missed_total").increment(missed);
                continue;
            }
            Err(RecvError::Closed) => return shutdown.cancelled().await,
        };
        let Some(machine) = machines.of(one.device).await else {
            continue;
        };
        if told.get(&machine).is_some_and(|at| at.elapsed() < APART) {
            continue;
        }
        let Some(fix) = last_fix(&one.frame) else {
            continue;
        };
        told.insert(machine, Instant::now());
        to.publish(live_topic(machine), position(machine, one.device, &fix));
    }
}

fn last_fix(frame: &[u8]) -> Option<Fix> {
    let frame = Frame::from_bytes(frame).ok()?;
    Batch::decode(&frame.batch).ok()?.fixes.pop()
}

fn position(machine: Uuid, device: u32, fix: &Fix) -> Bytes {
    let at = DateTime::from_timestamp_millis(fix.at_ms)
        .map(|at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true));
    let degrees = |e7: i32| f64::from(e7) / 1e7;
    json!({
        "machine": machine, "device": device, "at": at,
        "lat": degrees(fix.lat_e7), "lon": degrees(fix.lon_e7),
        "speed_mps": fix.speed_cm_s.map(|v| f64::from(v) / 100.0),
        "course_deg": fix.course_ddeg.map(|v| f64::from(v) / 10.0),
        "quality": fix.quality.gga(),
    })
    .to_string()
    .into()
}

/// Keeps who comes and goes, and tells the bus, until `shutdown`.
pub async fn sessions(
    presence: Arc<Presence>,
    bus: Option<Arc<Bus>>,
    pool: Pool,
    tracks: Pool,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) {
    let process = ids::new_id(clock.now());
    let mut machines = Machines {
        pool,
        clock: Arc::clone(&clock),
        known: HashMap::new(),
        read: None,
    };
    loop {
        let changes = tokio::select! {
            () = shutdown.cancelled() => return,
            changes = presence.changed() => changes,
        };
        let rows: Vec<NewSession> = changes.iter().map(row).collect();
        if let Err(error) = sessions::put(&tracks, process, &rows, clock.now()).await {
            metrics::counter!("furrow_sessions_dropped_total")
                .increment(u64::try_from(rows.len()).unwrap_or(u64::MAX));
            tracing::warn!(error = %error, sessions = rows.len(), "live.sessions_dropped");
        }
        let Some(bus) = &bus else { continue };
        for change in changes {
            if let Some(machine) = machines.of(change.device.0).await {
                let topic = format!("furrow/v1/event/{machine}");
                bus.publish(topic, event(machine, &change, clock.now()));
            }
        }
    }
}

fn row(change: &Change) -> NewSession {
    NewSession {
        device: change.device.0,
        session: change.session,
        online: change.online,
        cloned: change.cloned,
    }
}

fn event(machine: Uuid, change: &Change, now: DateTime<Utc>) -> Bytes {
    let what = match (change.cloned, change.online) {
        (true, _) => "cloned",
        (false, true) => "online",
        (false, false) => "offline",
    };
    let at = now.to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({ "machine": machine, "device": change.device.0, "event": what, "at": at })
        .to_string()
        .into()
}
