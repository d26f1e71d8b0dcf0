//! The gate: accepts connections and brings them to the door, TLS or plain. Owns its accept loops; nothing a peer does ends them.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use furrow_protocol::frame::Device;
use rumqttc::mqttbytes::v4::ConnectReturnCode;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{interval, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use super::{
    bus::Bus,
    door::{Door, HANDSHAKE, refused},
    limits::{Limits, Seat, Silent, raise_open_files},
    operator::{Operator, Operators},
    packet::Packets,
    presence::Presence,
    register::Register,
    tls,
};
use crate::ingest::arrival::Arrivals;

/// A socket may say nothing for so long.
const SILENCE: Duration = Duration::from_secs(5);
/// How often the register is asked about running sessions; with the register's own refreshing this
/// ends the sessions of a revoked device well within 30 s.
const REVOKED: Duration = Duration::from_secs(5);
/// How long a closing gate waits for its sessions.
const CLOSING: Duration = Duration::from_secs(5);
/// First byte of a TLS record that holds a ClientHello.
const TLS_HANDSHAKE: u8 = 0x16;
/// First byte of CONNECT.
const MQTT_CONNECT: u8 = 0x10;

/// What the gate needs.
pub struct GateSettings {
    /// Plain MQTT; loopback only. Port 0 for any.
    pub listen: Option<SocketAddr>,
    /// MQTT over TLS.
    pub tls: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// Most connections.
    pub max_connections: usize,
    /// Most connections of one address (of one /64 of IPv6).
    pub max_per_address: usize,
}

/// Why the gate does not open.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The address.
    #[error("listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Plain MQTT for everybody.
    #[error("plain MQTT listens on loopback only, not on {0}")]
    Exposed(SocketAddr),
}

/// The bound gate.
pub struct Gate {
    plain: Option<TcpListener>,
    tls: Option<(TcpListener, TlsAcceptor)>,
    door: Door,
}

impl Gate {
    /// Binds the listeners; `states` gets the health messages.
    ///
    /// Errors: an address that cannot be had, or plain MQTT outside loopback.
    pub async fn bind(
        settings: GateSettings,
        register: Arc<dyn Register>,
        arrivals: Arrivals,
        states: mpsc::Sender<(Device, Bytes)>,
    ) -> Result<Self, GateError> {
        raise_open_files();
        let listen = |address| async move {
            TcpListener::bind(address)
                .await
                .map_err(|e| GateError::Listen(address, e))
        };
        let plain = match settings.listen {
            Some(address) if !address.ip().is_loopback() => {
                return Err(GateError::Exposed(address));
            }
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let tls = match settings.tls {
            Some((address, config)) => Some((listen(address).await?, TlsAcceptor::from(config))),
            None => None,
        };
        let limits = Limits::new(settings.max_connections, settings.max_per_address);
        let door = Door::new(register, arrivals, states, limits);
        Ok(Self { plain, tls, door })
    }

    /// Lets operators in too, to read from the bus.
    #[must_use]
    pub fn with_operators(mut self, operators: Vec<Operator>, bus: Arc<Bus>) -> Self {
        self.door.operators = Some(Operators::new(operators, bus));
        self
    }

    /// Where plain MQTT listens.
    #[must_use]
    pub fn plain_addr(&self) -> Option<SocketAddr> {
        self.plain.as_ref().and_then(|l| l.local_addr().ok())
    }

    /// Where MQTT over TLS listens.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls.as_ref().and_then(|(l, _)| l.local_addr().ok())
    }

    /// Which devices have a session, as changes to be taken.
    #[must_use]
    pub fn presence(&self) -> Arc<Presence> {
        Arc::clone(&self.door.presence)
    }

    /// Accepts until `shutdown`, then ends every session and returns when all are gone.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { plain, tls, door } = self;
        let door = Arc::new(door);
        // Every connection holds one: when the last is gone, nothing arrives any more.
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = watch_revocations(&door) => {}
            () = async {
                let Some(listener) = plain else { return std::future::pending().await };
                let alive = alive.clone();
                accept(&listener, &door, |door, stream, peer| {
                    tokio::spawn(held(alive.clone(), plain_socket(door, stream, peer)));
                }).await;
            } => {}
            () = async {
                let Some((listener, acceptor)) = tls else { return std::future::pending().await };
                let alive = alive.clone();
                accept(&listener, &door, |door, stream, peer| {
                    let acceptor = acceptor.clone();
                    tokio::spawn(held(alive.clone(), tls_socket(door, stream, peer, acceptor)));
                }).await;
            } => {}
        }
        drop(alive);
        door.shutdown.cancel();
        door.end_all();
        if timeout(CLOSING, all_gone.recv()).await.is_err() {
            tracing::warn!("gate.closing_slow");
        }
    }
}

async fn held(alive: mpsc::Sender<()>, connection: impl Future<Output = ()>) {
    connection.await;
    drop(alive);
}

async fn watch_revocations(door: &Door) {
    let mut timer = interval(REVOKED);
    loop {
        timer.tick().await;
        door.end_revoked();
    }
}

async fn accept(
    listener: &TcpListener,
    door: &Arc<Door>,
    serve: impl Fn(Arc<Door>, TcpStream, SocketAddr),
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                serve(Arc::clone(door), stream, peer);
            }
            Err(error) => {
                // Out of file descriptors, or a peer that is gone already: neither ends the loop.
                metrics::counter!("furrow_gate_accept_errors_total").increment(1);
                tracing::warn!(error = %error, "gate.accept");
                door.limits.oldest_silent_goes();
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Waits, apart from all others, until the socket says something; None unless it begins as it must.
/// Only then it gets a seat, so that sockets that say nothing take none from a device.
async fn first_byte(door: &Door, stream: &TcpStream, must: u8) -> Option<Silent> {
    let silent = door.limits.silent();
    let mut first = [0; 1];
    let spoke = tokio::select! {
        () = door.shutdown.cancelled() => return None,
        () = silent.go.notified() => None,
        peeked = timeout(SILENCE, stream.peek(&mut first)) => match peeked {
            Ok(Ok(1)) => Some(first[0]),
            _ => None,
        },
    };
    match spoke {
        Some(first) if first == must => Some(silent),
        Some(_) => {
            refused("first_byte");
            None
        }
        None => {
            refused("silent");
            None
        }
    }
}

async fn plain_socket(door: Arc<Door>, stream: TcpStream, peer: SocketAddr) {
    let Some(silent) = first_byte(&door, &stream, MQTT_CONNECT).await else {
        return;
    };
    let Some(seat) = door.limits.seat(peer.ip()) else {
        // It keeps its place among the silent while it is told so.
        refused("full");
        Packets::new(stream)
            .refuse(ConnectReturnCode::ServiceUnavailable)
            .await;
        return drop(silent);
    };
    drop(silent);
    door.converse(stream, None).await;
    drop(seat);
}

async fn tls_socket(door: Arc<Door>, stream: TcpStream, peer: SocketAddr, acceptor: TlsAcceptor) {
    let Some(silent) = first_byte(&door, &stream, TLS_HANDSHAKE).await else {
        return;
    };
    let seat = door.limits.seat(peer.ip());
    drop(silent);
    let Some(seat) = seat else {
        return refused("full");
    };
    let Some((stream, key)) = handshake(&door, stream, &acceptor, &seat).await else {
        return refused("handshake");
    };
    Box::pin(door.converse(stream, key)).await;
    drop(seat);
}

/// The stream after its handshake, and the Ed25519 key of the certificate that the peer has shown.
async fn handshake(
    door: &Door,
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    _seat: &Seat,
) -> Option<(Box<TlsStream<TcpStream>>, Option<[u8; 32]>)> {
    let place = door.limits.handshake(HANDSHAKE).await?;
    let stream = tokio::select! {
        () = door.shutdown.cancelled() => return None,
        () = place.go.notified() => return None,
        accepted = timeout(HANDSHAKE, acceptor.accept(stream)) => accepted.ok()?.ok()?,
    };
    drop(place);
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(<[_]>::first);
    let key = match certificate {
        None => None,
        // A certificate without an Ed25519 key is no device's, whoever signed it.
        Some(certificate) => Some(tls::ed25519_key(certificate)?),
    };
    Some((Box::new(stream), key))
}
