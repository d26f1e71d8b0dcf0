//! One device's session: what it may say, and what it is told. A frame's PUBACK waits for its commit.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use furrow_protocol::{
    down::Down,
    frame::Device,
    state::MAX_STATE_BYTES,
    topic::{Lane, Topic},
};
use rumqttc::mqttbytes::{
    QoS,
    v4::{
        ConnAck, Connect, ConnectReturnCode, Packet, PubAck, Publish, SubAck, SubscribeReasonCode,
        UnsubAck,
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    gate::{Door, Entry, HANDSHAKE},
    packet::{Broken, MAX_PACKET, Packets},
    register::Refusal,
};
use crate::ingest::arrival::{Arrival, Reply};

/// Frames of a device that are not answered yet, at most; agents keep to 32.
const MAX_UNACKED: usize = 64;
/// Down messages that wait for a slow reader, at most; beyond it the session ends.
const MAX_DOWN: usize = 1024;
/// Largest packet before a device is admitted.
const MAX_CONNECT: usize = 1024;
/// How often a session looks at its keep-alive and whether its device was revoked.
const LOOK: Duration = Duration::from_secs(10);
/// A session that says nothing for so long is over, whatever keep-alive it asked for.
const IDLE: Duration = Duration::from_secs(600);

/// A running session, as the rest of the gate and ingest see it.
pub(super) struct Session {
    pub device: Device,
    /// Fires when the session must end.
    pub end: CancellationToken,
    /// Fires when it has.
    pub gone: CancellationToken,
    outbox: Mutex<Outbox>,
    wake: Notify,
}

#[derive(Default)]
struct Outbox {
    settled: Vec<u64>,
    down: Vec<Down>,
}

impl Session {
    pub(super) fn new(device: Device) -> Self {
        Self {
            device,
            end: CancellationToken::new(),
            gone: CancellationToken::new(),
            outbox: Mutex::default(),
            wake: Notify::new(),
        }
    }

    fn take(&self) -> Outbox {
        std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Reply for Session {
    fn settle(&self, _device: Device, tickets: &[u64], down: Vec<Down>) {
        if self.end.is_cancelled() {
            return;
        }
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.settled.extend_from_slice(tickets);
        outbox.down.extend(down);
        if outbox.down.len() > MAX_DOWN {
            self.end.cancel();
        }
        drop(outbox);
        self.wake.notify_one();
    }
}

/// Runs a connection to its end. `key` is that of the client certificate, if one was shown.
pub(super) async fn run<S>(door: &Arc<Door>, stream: S, key: Option<[u8; 32]>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut packets = Packets::new(stream);
    let connect = match timeout(HANDSHAKE, first_packet(&mut packets)).await {
        Ok(Ok(connect)) => connect,
        Ok(Err(_)) | Err(_) => {
            metrics::counter!("furrow_gate_refused_total", "reason" => "no_connect").increment(1);
            return;
        }
    };
    let session = match admit(door, &connect, key).await {
        Ok(session) => session,
        Err((code, reason)) => {
            metrics::counter!("furrow_gate_refused_total", "reason" => reason).increment(1);
            if packets
                .put(&Packet::ConnAck(ConnAck::new(code, false)))
                .is_ok()
            {
                let _ = packets.flush().await;
            }
            return;
        }
    };
    let mut talk = Talk::new(door, Arc::clone(&session), packets, connect.keep_alive);
    let end = talk.run().await;
    if let Err(reason) = end {
        tracing::debug!(device = session.device.0, reason = %reason, "gate.session_end");
    }
    // Whoever still holds this session answers into nothing.
    session.end.cancel();
    door.leave(&session);
}

async fn first_packet<S>(packets: &mut Packets<S>) -> Result<Connect, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match packets.next(MAX_CONNECT)? {
            Some(Packet::Connect(connect)) => return Ok(connect),
            Some(_) => return Err(Broken::Protocol("a packet before CONNECT")),
            None => packets.fill().await?,
        }
    }
}

type Refused = (ConnectReturnCode, &'static str);

async fn admit(
    door: &Door,
    connect: &Connect,
    key: Option<[u8; 32]>,
) -> Result<Arc<Session>, Refused> {
    let device = connect
        .client_id
        .strip_prefix("furrow-")
        .filter(|n| !n.starts_with(['0', '+']))
        .and_then(|n| n.parse().ok())
        .map(Device)
        .ok_or((ConnectReturnCode::BadClientId, "client_id"))?;
    if connect.last_will.is_some() || !connect.clean_session {
        return Err((ConnectReturnCode::NotAuthorized, "will_or_session"));
    }
    let admitted = match (key, &connect.login) {
        (Some(key), _) => door.register.by_key(key).await,
        (None, Some(login)) if login.username == device.0.to_string() => {
            door.register
                .by_token(device, login.password.as_bytes())
                .await
        }
        (None, _) => return Err((ConnectReturnCode::BadUserNamePassword, "credentials")),
    };
    match admitted {
        Ok(known) if known == device => {}
        Ok(_) => return Err((ConnectReturnCode::NotAuthorized, "other_identity")),
        Err(Refusal::Unknown) => {
            return Err((ConnectReturnCode::BadUserNamePassword, "credentials"));
        }
        Err(Refusal::Revoked) => return Err((ConnectReturnCode::NotAuthorized, "revoked")),
        Err(Refusal::Unavailable) => {
            return Err((ConnectReturnCode::ServiceUnavailable, "register"));
        }
    }
    match door.enter(device).await {
        Entry::In(session) => Ok(session),
        Entry::Cloned => Err((ConnectReturnCode::ServiceUnavailable, "cloned")),
    }
}

/// The conversation after CONNACK.
struct Talk<'a, S> {
    door: &'a Door,
    session: Arc<Session>,
    packets: Packets<S>,
    /// 1.5 x the keep-alive that the device asked for.
    patience: Duration,
    heard: Instant,
    /// Packet ids whose frames wait for their commit.
    unacked: HashSet<u16>,
    /// Frames without a packet id that wait (QoS 0).
    unacked_bare: usize,
    /// Frames that wait for room in ingest; counted in the two above, so bounded by [`MAX_UNACKED`].
    waiting: VecDeque<Arrival>,
    tickets: u64,
    topics: Topics,
    subscribed: bool,
}

struct Topics {
    up: String,
    down: String,
    state: String,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Talk<'a, S> {
    fn new(door: &'a Door, session: Arc<Session>, packets: Packets<S>, keep_alive: u16) -> Self {
        let asked = Duration::from_secs(u64::from(keep_alive)) * 3 / 2;
        let topic = |lane| {
            Topic {
                device: session.device,
                lane,
            }
            .to_string()
        };
        let topics = Topics {
            up: topic(Lane::Up),
            down: topic(Lane::Down),
            state: topic(Lane::State),
        };
        Self {
            door,
            session,
            packets,
            patience: if keep_alive == 0 {
                IDLE
            } else {
                asked.min(IDLE)
            },
            heard: Instant::now(),
            unacked: HashSet::new(),
            unacked_bare: 0,
            waiting: VecDeque::new(),
            tickets: 0,
            topics,
            subscribed: false,
        }
    }

    async fn run(&mut self) -> Result<(), Broken> {
        self.packets.put(&Packet::ConnAck(ConnAck::new(
            ConnectReturnCode::Success,
            false,
        )))?;
        self.packets.flush().await?;
        let mut look = tokio::time::interval(LOOK);
        let session = Arc::clone(&self.session);
        let arrivals = self.door.arrivals.clone();
        loop {
            while let Some(packet) = self.packets.next(MAX_PACKET)? {
                if !self.take(packet)? {
                    return Ok(());
                }
            }
            self.packets.flush().await?;
            tokio::select! {
                biased;
                () = session.end.cancelled() => return Ok(()),
                () = session.wake.notified() => self.answer()?,
                _ = look.tick() => self.look()?,
                permit = arrivals.reserve(), if !self.waiting.is_empty() => match (permit, self.waiting.pop_front()) {
                    (Ok(permit), Some(arrival)) => permit.send(arrival),
                    _ => return Ok(()),
                },
                filled = self.packets.fill() => {
                    filled?;
                    self.heard = Instant::now();
                }
            }
        }
    }

    /// Handles a packet; false for a farewell.
    fn take(&mut self, packet: Packet) -> Result<bool, Broken> {
        match packet {
            Packet::Publish(publish) => self.publish(publish)?,
            Packet::PingReq => self.packets.put(&Packet::PingResp)?,
            Packet::Subscribe(subscribe) => {
                let own = subscribe.filters.len() == 1
                    && subscribe
                        .filters
                        .iter()
                        .all(|f| f.path == self.topics.down && f.qos != QoS::ExactlyOnce);
                if !own {
                    return Err(Broken::Protocol("subscribes what is not its own"));
                }
                self.subscribed = true;
                let granted = vec![SubscribeReasonCode::Success(QoS::AtMostOnce)];
                self.packets
                    .put(&Packet::SubAck(SubAck::new(subscribe.pkid, granted)))?;
            }
            Packet::Unsubscribe(unsubscribe) => {
                self.subscribed &= !unsubscribe.topics.contains(&self.topics.down);
                self.packets
                    .put(&Packet::UnsubAck(UnsubAck::new(unsubscribe.pkid)))?;
            }
            Packet::Disconnect => return Ok(false),
            // We send QoS 0 only: there is nothing that a device could acknowledge.
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::PubAck(_)
            | Packet::PubRec(_)
            | Packet::PubRel(_)
            | Packet::PubComp(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp => {
                return Err(Broken::Protocol("a packet that a device does not send"));
            }
        }
        Ok(true)
    }

    fn publish(&mut self, publish: Publish) -> Result<(), Broken> {
        if publish.retain || publish.qos == QoS::ExactlyOnce {
            return Err(Broken::Protocol("retain or QoS 2"));
        }
        if publish.topic == self.topics.state {
            return self.state(&publish);
        }
        if publish.topic != self.topics.up {
            return Err(Broken::Protocol("publishes to what is not its own"));
        }
        if publish.payload.len() > furrow_protocol::frame::MAX_FRAME_BYTES {
            return Err(Broken::Protocol("frame too large"));
        }
        if self.unacked.len() + self.unacked_bare >= MAX_UNACKED {
            return Err(Broken::Protocol("more than 64 unanswered frames"));
        }
        match publish.qos {
            QoS::AtMostOnce => self.unacked_bare += 1,
            _ if publish.pkid == 0 => return Err(Broken::Protocol("packet id 0")),
            // Sent again while the first one waits: the first one's answer is its answer.
            _ if !self.unacked.insert(publish.pkid) => return Ok(()),
            _ => {}
        }
        self.tickets += 1;
        let arrival = Arrival {
            device: self.session.device,
            payload: publish.payload,
            ticket: self.tickets << 16 | u64::from(publish.pkid),
            reply: Arc::clone(&self.session) as Arc<dyn Reply>,
        };
        if self.waiting.is_empty() {
            match self.door.arrivals.try_send(arrival) {
                Ok(()) => {}
                Err(tokio::sync::mpsc::error::TrySendError::Full(arrival)) => {
                    self.waiting.push_back(arrival)
                }
                Err(tokio::sync::mpsc::error::TrySendError::Closed(_)) => {
                    return Err(Broken::Closed);
                }
            }
        } else {
            self.waiting.push_back(arrival);
        }
        Ok(())
    }

    fn state(&mut self, publish: &Publish) -> Result<(), Broken> {
        if publish.payload.len() > MAX_STATE_BYTES {
            return Err(Broken::Protocol("state too large"));
        }
        // Health is worth nothing late: while its queue is full it is dropped.
        let _ = self
            .door
            .states
            .try_send((self.session.device, publish.payload.clone()));
        if publish.qos == QoS::AtLeastOnce {
            self.packets
                .put(&Packet::PubAck(PubAck::new(publish.pkid)))?;
        }
        Ok(())
    }

    /// PUBACKs and down messages of what was settled, into one write.
    fn answer(&mut self) -> Result<(), Broken> {
        let outbox = self.session.take();
        for ticket in outbox.settled {
            match u16::try_from(ticket & 0xffff).unwrap_or(0) {
                0 => self.unacked_bare = self.unacked_bare.saturating_sub(1),
                pkid => {
                    if self.unacked.remove(&pkid) {
                        self.packets.put(&Packet::PubAck(PubAck::new(pkid)))?;
                    }
                }
            }
        }
        if self.subscribed {
            for down in outbox.down {
                if let Ok(bytes) = down.encode() {
                    self.packets.put_publish(&self.topics.down, &bytes);
                }
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Broken> {
        if self.heard.elapsed() > self.patience {
            return Err(Broken::Protocol("silent for longer than its keep-alive"));
        }
        if self.door.register.revoked(self.session.device) {
            return Err(Broken::Protocol("revoked"));
        }
        self.packets.shrink();
        Ok(())
    }
}
