//! One MQTT connection on rumqttc: made anew for each attempt, so that no state of a former one outlives it. Never decides what is sent.

use std::{sync::Arc, time::Duration};

use furrow_protocol::{
    down::MAX_DOWN_BYTES,
    frame::MAX_FRAME_BYTES,
    topic::{Lane, Topic},
};
use rumqttc::{
    AsyncClient, Event, EventLoop, MqttOptions, Packet, QoS, SubscribeReasonCode, TlsConfiguration,
    Transport,
};
use rustls::ClientConfig;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use crate::{endpoint::Endpoint, identity::Identity};

/// A dead radio link is noticed within two of these.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Name, TCP, TLS and CONNACK together, s; also a write that does not move.
const CONNECT_S: u64 = 20;
/// Room for the topic and the packet's own fields.
const PACKET_ROOM: usize = 256;
/// rumqttc stops sending when the packet id that comes next is still in use. Ids beyond the window
/// let PUBACKs come in any order.
const PACKET_IDS: u16 = 512;
/// Most frames in flight are 32; this is never full.
const REQUESTS: usize = 64;
/// Acks come gathered; what does not fit waits in the socket.
const HEARD: usize = 64;

/// What comes from the connection.
#[derive(Debug)]
pub(super) enum Heard {
    /// The session stands.
    Connected,
    /// The subscription stands.
    Subscribed,
    /// A message on our own `down`.
    Down(Vec<u8>),
    /// It is over, and why. Nothing follows.
    Lost(String),
}

/// How to connect.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) endpoint: Endpoint,
    pub(super) identity: Arc<Identity>,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Dial {
    fn options(&self) -> MqttOptions {
        let device = self.identity.device;
        let host = self.endpoint.bracketed();
        let mut options = MqttOptions::new(format!("furrow-{device}"), host, self.endpoint.port);
        options
            .set_clean_session(true)
            .set_keep_alive(KEEP_ALIVE)
            .set_credentials(device.to_string(), self.identity.token.clone())
            .set_inflight(PACKET_IDS)
            .set_max_packet_size(MAX_DOWN_BYTES + PACKET_ROOM, MAX_FRAME_BYTES + PACKET_ROOM);
        if let Some(config) = &self.tls {
            let config = TlsConfiguration::Rustls(Arc::clone(config));
            options.set_transport(Transport::tls_with_config(config));
        }
        options
    }
}

/// A connection, or the attempt of one. Dropped, it is gone at once.
pub(super) struct Connection {
    client: AsyncClient,
    heard: mpsc::Receiver<Heard>,
    poller: JoinHandle<()>,
    up: String,
    down: String,
    state: String,
}

impl Connection {
    pub(super) fn open(dial: &Dial) -> Self {
        let (client, mut events) = AsyncClient::new(dial.options(), REQUESTS);
        let mut network = events.network_options();
        network.set_tcp_nodelay(true);
        network.set_connection_timeout(CONNECT_S);
        events.set_network_options(network);
        let topic = |lane| {
            let device = dial.identity.device;
            Topic { device, lane }.to_string()
        };
        let down = topic(Lane::Down);
        let (tell, heard) = mpsc::channel(HEARD);
        let poller = tokio::spawn(poll(events, tell, down.clone()));
        Self {
            client,
            heard,
            poller,
            up: topic(Lane::Up),
            down,
            state: topic(Lane::State),
        }
    }

    pub(super) async fn heard(&mut self) -> Heard {
        let heard = self.heard.recv().await;
        heard.unwrap_or_else(|| Heard::Lost("the connection's task has ended".to_owned()))
    }

    /// False where rumqttc takes no more; the connection is then good for nothing.
    pub(super) fn subscribe(&self) -> bool {
        self.client
            .try_subscribe(&self.down, QoS::AtLeastOnce)
            .is_ok()
    }

    pub(super) fn publish(&self, frame: Vec<u8>) -> bool {
        self.client
            .try_publish(&self.up, QoS::AtLeastOnce, false, frame)
            .is_ok()
    }

    pub(super) fn publish_state(&self, state: Vec<u8>) -> bool {
        self.client
            .try_publish(&self.state, QoS::AtMostOnce, false, state)
            .is_ok()
    }

    /// Says goodbye, for which it waits a moment.
    pub(super) async fn close(mut self) {
        if self.client.try_disconnect().is_ok() {
            let gone = async { while !matches!(self.heard().await, Heard::Lost(_)) {} };
            let _ = timeout(Duration::from_millis(500), gone).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.poller.abort();
    }
}

/// Polls until the first error; what follows it in rumqttc would be a reconnect with old state.
async fn poll(mut events: EventLoop, tell: mpsc::Sender<Heard>, down: String) {
    loop {
        let heard = match events.poll().await {
            Ok(Event::Incoming(Packet::ConnAck(_))) => Heard::Connected,
            Ok(Event::Incoming(Packet::SubAck(ack))) => {
                let refused = |code: &SubscribeReasonCode| *code == SubscribeReasonCode::Failure;
                if ack.return_codes.iter().any(refused) {
                    Heard::Lost("the subscription was refused".to_owned())
                } else {
                    Heard::Subscribed
                }
            }
            Ok(Event::Incoming(Packet::Publish(publish))) if publish.topic == down => {
                Heard::Down(publish.payload.to_vec())
            }
            Ok(Event::Incoming(_) | Event::Outgoing(_)) => continue,
            Err(error) => Heard::Lost(error.to_string()),
        };
        let over = matches!(heard, Heard::Lost(_));
        if tell.send(heard).await.is_err() || over {
            return;
        }
    }
}
