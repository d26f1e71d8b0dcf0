//! An outside broker instead of the gate: frames by a shared subscription, acks to `down`, positions to all processes. Shares no state with other processes and trusts no broker's memory.

mod flight;
mod heard;
mod settings;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use furrow_protocol::frame::Device;
use rumqttc::{
    AsyncClient, ClientError, ConnectionError, Event, EventLoop, MqttOptions, Packet, Publish,
    SubscribeReasonCode,
};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

pub use self::settings::{OutsideError, OutsideSettings};
use self::{
    flight::{Connection, Receiving, take, tell},
    heard::Heard,
};
use super::{
    bus::{Bus, Message},
    presence::Presence,
};
use crate::ingest::arrival::Arrivals;

/// Requests that wait for the event loop.
const REQUESTS: usize = 1024;
/// Frames read and not yet looked at.
const READ: usize = 256;
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
