//! What is in flight between an outside broker and ingest on one connection. Forgets all of it with the connection.

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
use rumqttc::{AsyncClient, ClientError, Publish, QoS};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use super::{Lost, heard::Heard};
use crate::{
    ingest::arrival::{Arrival, Arrivals, Reply},
    mqtt::bus::{Bus, Message},
};

/// How long ingest may be full before a frame is thrown away; its device sends it again.
const FULL: Duration = Duration::from_secs(5);
/// A frame that is not settled in this time is acknowledged to the broker all the same: its window
/// is for all devices, and what counts for a device is our Ack alone.
const UNSETTLED: Duration = Duration::from_secs(5);
/// Down messages that wait for the broker, at most; beyond it they are thrown away: the device sends
/// again and is told again.
const MAX_DOWN: usize = 65_536;
/// Devices whose reply is kept at hand before idle ones are thrown out.
const REPLIES: usize = 65_536;

/// What is in flight between the broker and ingest on one connection.
#[derive(Debug, Default)]
pub(super) struct Connection {
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

    pub(super) fn close(&self) {
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
pub(super) struct ToDevice {
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

pub(super) struct Receiving<'a> {
    pub(super) connection: &'a Arc<Connection>,
    pub(super) arrivals: &'a Arrivals,
    pub(super) states: &'a mpsc::Sender<(Device, Bytes)>,
    pub(super) bus: &'a Bus,
    pub(super) heard: &'a mut Heard,
    pub(super) replies: HashMap<u32, Arc<ToDevice>>,
    pub(super) serial: u64,
}

/// From the broker to ingest.
pub(super) async fn take(mut publishes: mpsc::Receiver<Publish>, mut to: Receiving<'_>) -> Lost {
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
pub(super) async fn tell(
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

#[cfg(test)]
mod tests {
    use super::*;

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
