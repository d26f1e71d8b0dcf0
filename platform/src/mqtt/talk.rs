//! The conversation with an admitted device: what it may say, and what it is told. A frame's PUBACK waits for its commit; nothing is stored here.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use furrow_protocol::{
    state::MAX_STATE_BYTES,
    topic::{Lane, Topic},
};
use rumqttc::mqttbytes::{
    QoS,
    v4::{
        ConnAck, ConnectReturnCode, Packet, Publish, SubAck, Subscribe, SubscribeReasonCode,
        UnsubAck,
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc::error::TrySendError,
    time::{Instant, sleep_until},
};

use super::{
    door::Door,
    packet::{Broken, MAX_PACKET, Packets},
    session::{End, Session},
};
use crate::ingest::arrival::{Arrival, Reply};

/// Frames of a device that ingest has and has not answered, at most; agents keep to 32.
const MAX_UNACKED: usize = 64;
/// Their bytes, at most, and those of the frames that wait for a place among them.
const MAX_UNACKED_BYTES: usize = 256 * 1024;
/// Frames read while ingest has its fill of this device or of all. Beyond it no more is read; until
/// then a PINGREQ behind them is still found and answered.
const MAX_WAITING: usize = 64;
/// Keep-alive of a device that asks for none, and the longest that one can ask for, s.
const KEEP_ALIVE_NONE: u16 = 60;
const KEEP_ALIVE_MAX: u16 = 1200;
/// Health messages of a device in a minute, at most; agents send one.
const STATES: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Filters of a SUBSCRIBE, at most, and refused ones in a session.
const MAX_FILTERS: usize = 8;
const MAX_DENIED: u32 = 32;
/// How long a closing gate waits for the commits of what a device has sent.
const DRAIN: Duration = Duration::from_secs(3);

/// A session's tickets: a serial number over the packet id, which is 0 where nothing waits for it.
fn ticket(serial: u64, pkid: u16) -> u64 {
    serial << 16 | u64::from(pkid)
}

fn pkid_of(ticket: u64) -> u16 {
    let [.., high, low] = ticket.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// The conversation after CONNACK.
pub(super) struct Talk<'a, S> {
    door: &'a Door,
    session: Arc<Session>,
    packets: Packets<S>,
    topics: Topics,
    /// 1.5 x the keep-alive that the device asked for.
    patience: Duration,
    heard: Instant,
    /// Tickets and sizes of the frames that ingest has.
    held: Vec<(u64, usize)>,
    held_bytes: usize,
    /// Frames that wait for a place among them, or for room in ingest.
    waiting: VecDeque<Arrival>,
    waiting_bytes: usize,
    serial: u64,
    subscribed: bool,
    denied: u32,
    /// Health messages since then.
    states: (Instant, u32),
    /// Set when the gate closes.
    drain: Option<Instant>,
}

struct Topics {
    up: String,
    down: String,
    state: String,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Talk<'a, S> {
    pub(super) fn new(
        door: &'a Door,
        session: Arc<Session>,
        packets: Packets<S>,
        keep_alive: u16,
    ) -> Self {
        let device = session.device;
        let topic = |lane| Topic { device, lane }.to_string();
        let asked = match keep_alive {
            0 => KEEP_ALIVE_NONE,
            asked => asked.min(KEEP_ALIVE_MAX),
        };
        let now = Instant::now();
        Self {
            door,
            session,
            packets,
            topics: Topics {
                up: topic(Lane::Up),
                down: topic(Lane::Down),
                state: topic(Lane::State),
            },
            patience: Duration::from_millis(u64::from(asked) * 1500),
            heard: now,
            held: Vec::new(),
            held_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            serial: 0,
            subscribed: false,
            denied: 0,
            states: (now, 0),
            drain: None,
        }
    }

    /// Talks until either side ends it; Ok for a farewell.
    pub(super) async fn run(&mut self) -> Result<(), Broken> {
        self.packets.put(&Packet::ConnAck(ConnAck::new(
            ConnectReturnCode::Success,
            false,
        )))?;
        let (door, session) = (self.door, Arc::clone(&self.session));
        let alarm = sleep_until(self.heard + self.patience);
        tokio::pin!(alarm);
        loop {
            if !self.read_on()? {
                return self.flush().await;
            }
            self.hand_over()?;
            self.flush().await?;
            if self.drain.is_some() && self.held.is_empty() {
                return Err(Broken::Ended(End::Shutdown.reason()));
            }
            tokio::select! {
                biased;
                () = session.stop.notified() => self.told_to_stop(&mut alarm)?,
                () = session.wake.notified() => self.answer(),
                () = &mut alarm => alarm.as_mut().reset(self.look()?),
                room = door.arrivals.reserve(), if self.may_hand_over() => match room {
                    Ok(room) => if let Some(arrival) = self.next_waiting() {
                        room.send(arrival);
                    },
                    Err(_) => return Err(Broken::Ended("ingest_gone")),
                },
                filled = self.packets.fill(), if self.reads() => {
                    filled?;
                    self.heard = Instant::now();
                }
            }
        }
    }

    /// Whether more is read from the socket.
    fn reads(&self) -> bool {
        self.drain.is_none()
            && self.waiting.len() < MAX_WAITING
            && self.waiting_bytes < MAX_UNACKED_BYTES
    }

    /// Handles what has been read; false for a farewell.
    fn read_on(&mut self) -> Result<bool, Broken> {
        while self.reads() {
            match self.packets.next(MAX_PACKET)? {
                None => break,
                Some(Packet::Disconnect) => return Ok(false),
                Some(packet) => self.take(packet)?,
            }
        }
        Ok(true)
    }

    fn take(&mut self, packet: Packet) -> Result<(), Broken> {
        match packet {
            Packet::Publish(publish) => self.publish(publish),
            Packet::PingReq => self.packets.put(&Packet::PingResp),
            Packet::Subscribe(subscribe) => self.subscribe(&subscribe),
            Packet::Unsubscribe(unsubscribe) => {
                if unsubscribe.pkid == 0 || unsubscribe.topics.is_empty() {
                    return Err(Broken::Protocol("malformed packet"));
                }
                self.subscribed &= !unsubscribe.topics.contains(&self.topics.down);
                self.packets
                    .put(&Packet::UnsubAck(UnsubAck::new(unsubscribe.pkid)))
            }
            // We send QoS 0 only: there is nothing that a device could acknowledge.
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::PubAck(_)
            | Packet::PubRec(_)
            | Packet::PubRel(_)
            | Packet::PubComp(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp
            | Packet::Disconnect => Err(Broken::Protocol("a packet that a device does not send")),
        }
    }

    fn subscribe(&mut self, subscribe: &Subscribe) -> Result<(), Broken> {
        if subscribe.pkid == 0 || subscribe.filters.len() > MAX_FILTERS {
            return Err(Broken::Protocol("malformed packet"));
        }
        let mut codes = Vec::with_capacity(subscribe.filters.len());
        for filter in &subscribe.filters {
            if filter.path == self.topics.down {
                self.subscribed = true;
                codes.push(SubscribeReasonCode::Success(QoS::AtMostOnce));
            } else {
                metrics::counter!("furrow_gate_denied_total", "what" => "subscribe").increment(1);
                self.denied += 1;
                codes.push(SubscribeReasonCode::Failure);
            }
        }
        if self.denied > MAX_DENIED {
            return Err(Broken::Protocol("subscribes what is not its own"));
        }
        self.packets
            .put(&Packet::SubAck(SubAck::new(subscribe.pkid, codes)))
    }

    fn publish(&mut self, publish: Publish) -> Result<(), Broken> {
        if publish.retain || publish.qos == QoS::ExactlyOnce {
            return Err(Broken::Protocol("retain or QoS 2"));
        }
        if publish.topic == self.topics.state {
            return self.state(publish);
        }
        if publish.topic != self.topics.up {
            metrics::counter!("furrow_gate_denied_total", "what" => "publish").increment(1);
            return Err(Broken::Protocol("publishes to what is not its own"));
        }
        if publish.payload.len() > furrow_protocol::frame::MAX_FRAME_BYTES {
            return Err(Broken::Protocol("frame too large"));
        }
        let mut pkid = publish.pkid;
        if pkid != 0 && self.waits_for(pkid) {
            if publish.dup {
                // Sent again while the first one waits: the first one's answer is its answer.
                return Ok(());
            }
            // Another frame under a packet id in use: it is stored and acknowledged like any, but
            // its PUBACK would be taken for that of the first.
            pkid = 0;
        }
        self.serial += 1;
        self.waiting_bytes += publish.payload.len();
        self.waiting.push_back(Arrival {
            device: self.session.device,
            payload: publish.payload,
            ticket: ticket(self.serial, pkid),
            reply: Arc::clone(&self.session) as Arc<dyn Reply>,
        });
        self.hand_over()
    }

    fn waits_for(&self, pkid: u16) -> bool {
        self.held.iter().any(|(t, _)| pkid_of(*t) == pkid)
            || self.waiting.iter().any(|a| pkid_of(a.ticket) == pkid)
    }

    fn may_hand_over(&self) -> bool {
        !self.waiting.is_empty()
            && self.held.len() < MAX_UNACKED
            && self.held_bytes < MAX_UNACKED_BYTES
    }

    /// The next frame for ingest, counted as ingest's from now on.
    fn next_waiting(&mut self) -> Option<Arrival> {
        let arrival = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(arrival.payload.len());
        self.held.push((arrival.ticket, arrival.payload.len()));
        self.held_bytes += arrival.payload.len();
        Some(arrival)
    }

    /// Hands to ingest what there is room for.
    fn hand_over(&mut self) -> Result<(), Broken> {
        while self.may_hand_over() {
            match self.door.arrivals.try_reserve() {
                Ok(room) => {
                    if let Some(arrival) = self.next_waiting() {
                        room.send(arrival);
                    }
                }
                Err(TrySendError::Full(())) => break,
                Err(TrySendError::Closed(())) => return Err(Broken::Ended("ingest_gone")),
            }
        }
        Ok(())
    }

    fn state(&mut self, publish: Publish) -> Result<(), Broken> {
        if publish.payload.len() > MAX_STATE_BYTES {
            return Err(Broken::Protocol("state too large"));
        }
        if self.states.0.elapsed() >= MINUTE {
            self.states = (Instant::now(), 0);
        }
        self.states.1 = self.states.1.saturating_add(1);
        if publish.qos == QoS::AtLeastOnce {
            self.packets.put_puback(publish.pkid);
        }
        // Health is worth nothing late: while its queue is full it is dropped, and so is what one
        // device sends beyond its share.
        let kept = self.states.1 <= STATES
            && self
                .door
                .states
                .try_send((self.session.device, publish.payload))
                .is_ok();
        if !kept {
            metrics::counter!("furrow_gate_states_dropped_total").increment(1);
        }
        Ok(())
    }

    /// PUBACKs and down messages of what was settled, into one write.
    fn answer(&mut self) {
        let outbox = self.session.take();
        for settled in outbox.settled {
            // What is settled twice, or was never ours, is no longer there.
            let Some(at) = self.held.iter().position(|(t, _)| *t == settled) else {
                continue;
            };
            let (ticket, size) = self.held.swap_remove(at);
            self.held_bytes = self.held_bytes.saturating_sub(size);
            match pkid_of(ticket) {
                0 => {}
                pkid => self.packets.put_puback(pkid),
            }
        }
        if !self.subscribed {
            return;
        }
        for down in outbox.down {
            match down.encode() {
                Ok(bytes) => self
                    .packets
                    .put_publish(self.topics.down.as_bytes(), &bytes),
                Err(error) => tracing::error!(error = %error, "gate.down_unencodable"),
            }
        }
    }

    /// When to look again, unless the device has been silent for too long. While we do not read, its
    /// silence is ours.
    fn look(&mut self) -> Result<Instant, Broken> {
        let now = Instant::now();
        if self.drain.is_some_and(|until| until <= now) {
            return Err(Broken::Ended(End::Shutdown.reason()));
        }
        if let Some(until) = self.drain {
            return Ok(until);
        }
        if !self.reads() {
            self.heard = now;
        }
        let due = self.heard + self.patience;
        if due <= now {
            return Err(Broken::Silent);
        }
        Ok(due)
    }

    /// A closing gate reads no more, and waits a little for the commits of what it has handed over.
    fn told_to_stop(
        &mut self,
        alarm: &mut std::pin::Pin<&mut tokio::time::Sleep>,
    ) -> Result<(), Broken> {
        match self.session.why() {
            Some(End::Shutdown) if self.drain.is_none() => {
                let until = Instant::now() + DRAIN;
                self.drain = Some(until);
                self.waiting.clear();
                self.waiting_bytes = 0;
                alarm.as_mut().reset(until);
                Ok(())
            }
            why => Err(Broken::Ended(why.map_or("ended", End::reason))),
        }
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        if self.packets.unsent() == 0 {
            return Ok(());
        }
        tokio::select! {
            biased;
            written = self.packets.flush() => written,
            // A take-over does not wait for a peer that reads slowly.
            () = self.session.stop.notified() => {
                Err(Broken::Ended(self.session.why().map_or("ended", End::reason)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_gives_its_packet_id_back() {
        for pkid in [0, 1, 255, 256, u16::MAX] {
            assert_eq!(pkid_of(ticket(1, pkid)), pkid);
            assert_eq!(pkid_of(ticket(u64::from(u32::MAX), pkid)), pkid);
        }
    }
}
