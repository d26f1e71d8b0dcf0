//! An outside broker instead of the gate: frames by a shared subscription, acks to `down`, positions to all processes. Shares no state with other processes and trusts no broker's memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use furrow_protocol::{
    down::Down,
    frame::Device,
    topic::{Lane, Topic},
};
use rumqttc::{
    AsyncClient, ClientError, ConnectionError, Event, EventLoop, MqttOptions, Packet, Publish, QoS,
    SubscribeReasonCode,
};
use thiserror::Error;
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use super::broker::{OutsideError, OutsideSettings};
use super::{
    bus::{Bus, Message},
    presence::Presence,
};
use crate::ingest::arrival::{Arrival, Arrivals, Reply};

/// Requests that wait for the event loop.
const REQUESTS: usize = 1024;
/// Frames read and not yet looked at.
const READ: usize = 256;
/// How long ingest may be full before a frame is thrown away; its device sends it again.
const FULL: Duration = Duration::from_secs(5);
/// A frame that is not settled in this time is acknowledged to the broker all the same: its window
/// is for all devices, and what counts for a device is our Ack alone.
const UNSETTLED: Duration = Duration::from_secs(5);
/// Down messages that wait for the broker, at most; beyond it they are thrown away: the device sends
/// again and is told again.
const MAX_DOWN: usize = 65_536;
/// Silence after which a device counts as gone.
const SILENCE: Duration = Duration::from_secs(150);
/// Devices whose reply is kept at hand before idle ones are thrown out.
const REPLIES: usize = 65_536;
/// Waits between tries to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
/// Live messages that wait for the broker.
const LIVE: usize = 4096;

/// The platform as a client of an outside broker.
pub struct Outside {
    settings: OutsideSettings,
    options: MqttOptions,
    arrivals: Arrivals,
    states: mpsc::Sender<(Device, Bytes)>,
    bus: Arc<Bus>,
    presence: Arc<Presence>,
    live: mpsc::Receiver<Message>,
}

/// Why a connection ended.
#[derive(Debug, Error)]
enum Lost {
    #[error("connection")]
    Connection(#[from] Box<ConnectionError>),
    #[error("the broker refuses a subscription")]
    Subscription,
    #[error("the client is gone")]
    Client(#[from] ClientError),
    #[error("ingest is gone")]
    Ingest,
}

impl Outside {
    /// Ready to run; positions for all processes go into the sender beside it, and may be lost.
    ///
    /// # Errors
    ///
    /// [`OutsideError`], before anything is connected.
    pub fn new(
        settings: OutsideSettings,
        arrivals: Arrivals,
        states: mpsc::Sender<(Device, Bytes)>,
        bus: Arc<Bus>,
    ) -> Result<(Self, mpsc::Sender<Message>), OutsideError> {
        let group = settings.share_group.as_bytes();
        let lawful = (1..=64).contains(&group.len())
            && group
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        if !lawful {
            return Err(OutsideError::Group);
        }
        let options = settings.options(&settings.client_id, settings.login())?;
        let (sender, live) = mpsc::channel(LIVE);
        let outside = Self {
            settings,
            options,
            arrivals,
            states,
            bus,
            presence: Arc::default(),
            live,
        };
        Ok((outside, sender))
    }

    /// Which devices are heard by this process, as changes to be taken.
    #[must_use]
    pub fn presence(&self) -> Arc<Presence> {
        Arc::clone(&self.presence)
    }

    /// Works until `shutdown`, connecting anew whenever it must; returns by itself only when ingest
    /// is gone.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut heard = Heard::new(Arc::clone(&self.presence));
        let mut wait = BACK_OFF.0;
        loop {
            let begin = Instant::now();
            // A new client each time: what a former connection has not sent is void.
            let (client, events) = AsyncClient::new(self.options.clone(), REQUESTS);
            let lost = tokio::select! {
                () = shutdown.cancelled() => return,
                lost = self.connected(client, events, &mut heard) => lost,
            };
            metrics::gauge!("furrow_outside_connected").set(0.0);
            metrics::counter!("furrow_outside_lost_total").increment(1);
            if matches!(lost, Lost::Ingest) {
                tracing::error!("outside.ingest_gone");
                return;
            }
            tracing::warn!(error = &lost as &dyn std::error::Error, "outside.lost");
            if begin.elapsed() > Duration::from_secs(60) {
                wait = BACK_OFF.0;
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(wait) => wait = (wait * 2).min(BACK_OFF.1),
            }
        }
    }

    /// One connection, to its end.
    async fn connected(
        &mut self,
        client: AsyncClient,
        events: EventLoop,
        heard: &mut Heard,
    ) -> Lost {
        let connection = Arc::new(Connection::default());
        let (read, publishes) = mpsc::channel(READ);
        let lost = tokio::select! {
            lost = poll(events, &client, &self.settings, read) => lost,
            lost = take(
                publishes,
                Receiving {
                    connection: &connection,
                    arrivals: &self.arrivals,
                    states: &self.states,
                    bus: &self.bus,
                    heard,
                    replies: HashMap::new(),
                    serial: 0,
                },
            ) => lost,
            lost = tell(&client, &connection, &mut self.live) => lost,
        };
        connection.close();
        lost
    }
}

/// The event loop in a future of its own: nothing else may hold it up but a full queue.
async fn poll(
    mut events: EventLoop,
    client: &AsyncClient,
    settings: &OutsideSettings,
    read: mpsc::Sender<Publish>,
) -> Lost {
    let mut network = events.network_options();
    network.set_tcp_nodelay(true);
    events.set_network_options(network);
    loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::Publish(publish))) => {
                if read.send(publish).await.is_err() {
                    return Lost::Ingest;
                }
            }
            Ok(Event::Incoming(Packet::ConnAck(_))) => {
                if let Err(error) = client.try_subscribe_many(settings.filters()) {
                    return error.into();
                }
            }
            Ok(Event::Incoming(Packet::SubAck(ack))) => {
                if ack.return_codes.contains(&SubscribeReasonCode::Failure) {
                    return Lost::Subscription;
                }
                tracing::info!(group = settings.share_group, "outside.connected");
                metrics::gauge!("furrow_outside_connected").set(1.0);
            }
            Ok(_) => {}
            Err(error) => return Box::new(error).into(),
        }
    }
}

/// What is in flight between the broker and ingest on one connection.
#[derive(Debug, Default)]
struct Connection {
    over: AtomicBool,
    outbox: Mutex<Outbox>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Outbox {
    /// Tickets of frames the broker waits for, with their packet ids and when they came.
    open: HashMap<u64, (u16, Instant)>,
    settled: Vec<u16>,
    down: Vec<(Device, Vec<Down>)>,
}

impl Connection {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.over.store(true, Ordering::Release);
        *self.outbox() = Outbox::default();
    }

    /// Frames that have waited for too long count as settled towards the broker.
    fn give_up(&self, now: Instant) {
        let mut outbox = self.outbox();
        let Outbox { open, settled, .. } = &mut *outbox;
        open.retain(|_, (pkid, since)| {
            let late = now - *since > UNSETTLED;
            if late {
                metrics::counter!("furrow_outside_unsettled_total").increment(1);
                settled.push(*pkid);
            }
            !late
        });
    }
}

/// How one device is answered. Ingest gathers answers by reply, so there is one for each device.
struct ToDevice {
    device: Device,
    connection: Arc<Connection>,
}

impl Reply for ToDevice {
    fn settle(&self, _device: Device, tickets: &[u64], down: Vec<Down>) {
        if self.connection.over.load(Ordering::Acquire) {
            return;
        }
        let mut outbox = self.connection.outbox();
        for ticket in tickets {
            if let Some((pkid, _)) = outbox.open.remove(ticket) {
                outbox.settled.push(pkid);
            }
        }
        if outbox.down.len() < MAX_DOWN {
            outbox.down.push((self.device, down));
        } else {
            metrics::counter!("furrow_outside_down_dropped_total").increment(1);
        }
        drop(outbox);
        self.connection.wake.notify_one();
    }
}

struct Receiving<'a> {
    connection: &'a Arc<Connection>,
    arrivals: &'a Arrivals,
    states: &'a mpsc::Sender<(Device, Bytes)>,
    bus: &'a Bus,
    heard: &'a mut Heard,
    replies: HashMap<u32, Arc<ToDevice>>,
    serial: u64,
}

/// From the broker to ingest.
async fn take(mut publishes: mpsc::Receiver<Publish>, mut to: Receiving<'_>) -> Lost {
    while let Some(publish) = publishes.recv().await {
        if publish.topic.starts_with("furrow/v1/live/") {
            to.bus.publish(publish.topic, publish.payload);
            continue;
        }
        match Topic::parse(&publish.topic) {
            Ok(Topic {
                device,
                lane: Lane::Up,
            }) => {
                to.heard.note(device);
                if to.frame(device, publish).await.is_err() {
                    return Lost::Ingest;
                }
            }
            Ok(Topic {
                device,
                lane: Lane::State,
            }) => {
                to.heard.note(device);
                if to.states.try_send((device, publish.payload)).is_err() {
                    metrics::counter!("furrow_gate_states_dropped_total").increment(1);
                }
            }
            // A number that no device can have: nobody is answered, the broker is rid of it.
            Ok(_) | Err(_) => {
                metrics::counter!("furrow_outside_strange_topics_total").increment(1);
                to.throw_away(&publish);
            }
        }
    }
    Lost::Ingest
}

impl Receiving<'_> {
    /// Err once ingest is gone.
    async fn frame(&mut self, device: Device, publish: Publish) -> Result<(), ()> {
        if publish.retain || publish.payload.len() > furrow_protocol::frame::MAX_FRAME_BYTES {
            metrics::counter!("furrow_outside_strange_frames_total").increment(1);
            self.throw_away(&publish);
            return Ok(());
        }
        let room = match timeout(FULL, self.arrivals.reserve()).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(()),
            Err(_) => {
                metrics::counter!("furrow_outside_full_total").increment(1);
                self.throw_away(&publish);
                return Ok(());
            }
        };
        self.serial += 1;
        if publish.pkid != 0 {
            let open = (publish.pkid, Instant::now());
            self.connection.outbox().open.insert(self.serial, open);
        }
        let reply = self.replies.entry(device.0).or_insert_with(|| {
            Arc::new(ToDevice {
                device,
                connection: Arc::clone(self.connection),
            })
        });
        room.send(Arrival {
            device,
            payload: publish.payload,
            ticket: self.serial,
            reply: Arc::clone(reply) as Arc<dyn Reply>,
        });
        if self.replies.len() > REPLIES {
            self.replies.retain(|_, reply| Arc::strong_count(reply) > 1);
        }
        Ok(())
    }

    fn throw_away(&self, publish: &Publish) {
        if publish.pkid != 0 {
            self.connection.outbox().settled.push(publish.pkid);
            self.connection.wake.notify_one();
        }
    }
}

/// From ingest to the broker: what is settled, what devices are told, positions for all.
async fn tell(
    client: &AsyncClient,
    connection: &Connection,
    live: &mut mpsc::Receiver<Message>,
) -> Lost {
    let mut sweep = interval(Duration::from_secs(1));
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = connection.wake.notified() => {}
            _ = sweep.tick() => connection.give_up(Instant::now()),
            Some(message) = live.recv() => {
                let topic = String::from_utf8_lossy(&message.topic).into_owned();
                if let Err(error) = client.publish_bytes(topic, QoS::AtMostOnce, false, message.payload).await {
                    return error.into();
                }
                continue;
            }
        }
        let (settled, down) = {
            let mut outbox = connection.outbox();
            (
                std::mem::take(&mut outbox.settled),
                std::mem::take(&mut outbox.down),
            )
        };
        if let Err(error) = tell_all(client, &settled, down).await {
            return error.into();
        }
    }
}

async fn tell_all(
    client: &AsyncClient,
    settled: &[u16],
    down: Vec<(Device, Vec<Down>)>,
) -> Result<(), ClientError> {
    for (device, messages) in down {
        let topic = Topic {
            device,
            lane: Lane::Down,
        }
        .to_string();
        for message in messages {
            match message.encode() {
                // At QoS 0: a lost Ack costs a frame sent again; a window of ours that is full of
                // devices' Acks would hold up everything.
                Ok(bytes) => {
                    client
                        .publish_bytes(topic.clone(), QoS::AtMostOnce, false, bytes.into())
                        .await?;
                }
                Err(error) => tracing::error!(error = %error, "outside.down_unencodable"),
            }
        }
    }
    for pkid in settled {
        let mut publish = Publish::new("", QoS::AtLeastOnce, Vec::new());
        publish.pkid = *pkid;
        client.ack(&publish).await?;
    }
    Ok(())
}

/// Which devices were heard lately. With several processes each hears a part of what a device sends;
/// a device is gone when none of them hears it.
struct Heard {
    presence: Arc<Presence>,
    last: HashMap<u32, (Instant, u64)>,
    sessions: u64,
    swept: Instant,
}

impl Heard {
    fn new(presence: Arc<Presence>) -> Self {
        Self {
            presence,
            last: HashMap::new(),
            sessions: 0,
            swept: Instant::now(),
        }
    }

    fn note(&mut self, device: Device) {
        let now = Instant::now();
        if let Some((last, _)) = self.last.get_mut(&device.0) {
            *last = now;
        } else {
            self.sessions += 1;
            self.last.insert(device.0, (now, self.sessions));
            self.presence.began(device, self.sessions);
        }
        if now - self.swept > SILENCE / 10 {
            self.sweep(now);
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let presence = &self.presence;
        self.last.retain(|device, (last, session)| {
            let here = now - *last <= SILENCE;
            if !here {
                presence.ended(Device(*device), *session);
            }
            here
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_silent_for_150_s_is_gone() {
        let mut heard = Heard::new(Arc::default());
        heard.note(Device(7));
        let begin = Instant::now();
        heard.sweep(begin + Duration::from_secs(100));
        assert_eq!(heard.last.len(), 1);
        heard.sweep(begin + Duration::from_secs(151));
        assert!(heard.last.is_empty());
    }

    #[test]
    fn what_ingest_never_settles_is_given_up_towards_the_broker() {
        let connection = Arc::new(Connection::default());
        let now = Instant::now();
        connection.outbox().open.insert(1, (11, now));
        connection.outbox().open.insert(2, (12, now));
        let reply = ToDevice {
            device: Device(7),
            connection: Arc::clone(&connection),
        };
        reply.settle(Device(7), &[2, 2, 3], vec![]);
        assert_eq!(connection.outbox().settled, [12]);
        connection.give_up(now + UNSETTLED * 2);
        assert_eq!(connection.outbox().settled, [12, 11]);
        assert!(connection.outbox().open.is_empty());
        connection.close();
        reply.settle(Device(7), &[1], vec![]);
        assert!(connection.outbox().down.is_empty());
    }
}
