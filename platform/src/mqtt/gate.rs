//! The gate: accepts connections, admits devices, keeps one session a device. Owns its accept loops; nothing a peer does ends them.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use furrow_protocol::frame::Device;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    limits::{Limits, Seat},
    register::Register,
    session::{self, Session},
    tls,
};
use crate::ingest::arrival::Arrivals;

/// A handshake, or a CONNECT, takes at most so long.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// A TLS socket may say nothing for so long.
const SILENCE: Duration = Duration::from_secs(5);
/// Handshakes at once.
const HANDSHAKES: usize = 256;
/// Take-overs of one identity in a minute beyond which it must have been copied.
const TAKE_OVERS: usize = 5;
/// How long others of a copied identity are turned away.
const CLONED: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);

/// What the gate needs.
pub struct GateSettings {
    /// Plain MQTT; loopback only.
    pub listen: Option<SocketAddr>,
    /// MQTT over TLS.
    pub tls: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// Most connections.
    pub max_connections: usize,
    /// Most connections of one address.
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

/// The gate's shared state.
pub(super) struct Door {
    pub register: Arc<dyn Register>,
    pub arrivals: Arrivals,
    pub states: mpsc::Sender<(Device, Bytes)>,
    sessions: Mutex<HashMap<u32, Arc<Session>>>,
    take_overs: Mutex<HashMap<u32, TakeOvers>>,
    limits: Arc<Limits>,
    handshakes: Semaphore,
    max_connections: usize,
    max_per_address: usize,
    shutdown: CancellationToken,
}

#[derive(Debug, Default)]
struct TakeOvers {
    recent: Vec<Instant>,
    cloned_until: Option<Instant>,
}

/// The bound gate.
pub struct Gate {
    plain: Option<TcpListener>,
    tls: Option<(TcpListener, TlsAcceptor)>,
    door: Arc<Door>,
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
        let door = Arc::new(Door {
            register,
            arrivals,
            states,
            sessions: Mutex::default(),
            take_overs: Mutex::default(),
            limits: Arc::default(),
            handshakes: Semaphore::new(HANDSHAKES),
            max_connections: settings.max_connections,
            max_per_address: settings.max_per_address,
            shutdown: CancellationToken::new(),
        });
        Ok(Self { plain, tls, door })
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

    /// Accepts until `shutdown`, then ends every session.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { plain, tls, door } = self;
        tokio::join!(
            async {
                if let Some(listener) = plain {
                    accept(&listener, &shutdown, &door, |door, stream, seat| {
                        plain_socket(door, stream, seat)
                    })
                    .await;
                }
            },
            async {
                if let Some((listener, acceptor)) = tls {
                    let serve =
                        |door, stream, seat| tls_socket(door, stream, seat, acceptor.clone());
                    accept(&listener, &shutdown, &door, serve).await;
                }
            }
        );
        door.shutdown.cancel();
    }
}

async fn accept<F>(
    listener: &TcpListener,
    shutdown: &CancellationToken,
    door: &Arc<Door>,
    serve: impl Fn(Arc<Door>, TcpStream, Seat) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a peer that is gone already: neither ends the door.
                metrics::counter!("furrow_gate_accept_errors_total").increment(1);
                tracing::warn!(error = %error, "gate.accept");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Some(seat) = door
            .limits
            .seat(peer.ip(), door.max_connections, door.max_per_address)
        else {
            metrics::counter!("furrow_gate_refused_total", "reason" => "full").increment(1);
            continue;
        };
        let _ = stream.set_nodelay(true);
        tokio::spawn(serve(Arc::clone(door), stream, seat));
    }
}

async fn plain_socket(door: Arc<Door>, stream: TcpStream, seat: Seat) {
    converse(&door, stream, None, &seat).await;
}

async fn tls_socket(door: Arc<Door>, stream: TcpStream, seat: Seat, acceptor: TlsAcceptor) {
    // A permit is taken at the first byte only: sockets that say nothing hold up nobody.
    let silent = door.limits.silent();
    let mut first_byte = [0; 1];
    let spoke = tokio::select! {
        () = silent.gone.cancelled() => false,
        first = timeout(SILENCE, stream.peek(&mut first_byte)) => matches!(first, Ok(Ok(1))),
    };
    drop(silent);
    if !spoke {
        metrics::counter!("furrow_gate_refused_total", "reason" => "silent").increment(1);
        return;
    }
    let handshake = timeout(HANDSHAKE, async {
        let _permit = door.handshakes.acquire().await.ok()?;
        acceptor.accept(stream).await.ok()
    });
    let Ok(Some(stream)) = handshake.await else {
        metrics::counter!("furrow_gate_refused_total", "reason" => "handshake").increment(1);
        return;
    };
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(<[_]>::first);
    let shown = certificate.map(tls::ed25519_key);
    match shown {
        Some(None) => {
            metrics::counter!("furrow_gate_refused_total", "reason" => "certificate").increment(1)
        }
        Some(Some(key)) => converse(&door, stream, Some(key), &seat).await,
        None => converse(&door, stream, None, &seat).await,
    }
}

async fn converse<S>(door: &Arc<Door>, stream: S, key: Option<[u8; 32]>, _seat: &Seat)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    tokio::select! {
        () = door.shutdown.cancelled() => {}
        () = session::run(door, stream, key) => {}
    }
}

/// Whether a device may take its place.
pub(super) enum Entry {
    /// It has it.
    In(Arc<Session>),
    /// Its identity is used by several boxes: the running one stays.
    Cloned,
}

impl Door {
    /// Ends the device's former session and puts the new one in its place.
    pub(super) async fn enter(&self, device: Device) -> Entry {
        let session = Arc::new(Session::new(device));
        let former = self
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&device.0)
            .cloned();
        if let Some(former) = former {
            if self.cloned(device) {
                return Entry::Cloned;
            }
            former.end.cancel();
            // The old one ends first, so that no frame of it comes after the new one's.
            let _ = timeout(Duration::from_secs(5), former.gone.cancelled()).await;
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(raced) = sessions.insert(device.0, Arc::clone(&session)) {
            raced.end.cancel();
        }
        metrics::gauge!("furrow_gate_sessions").increment(1.0);
        Entry::In(session)
    }

    fn cloned(&self, device: Device) -> bool {
        let now = Instant::now();
        let mut all = self
            .take_overs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, t| {
            t.cloned_until.is_some_and(|until| until > now)
                || t.recent.last().is_some_and(|at| now - *at < MINUTE)
        });
        let of = all.entry(device.0).or_default();
        if of.cloned_until.is_some_and(|until| until > now) {
            return true;
        }
        of.recent.retain(|at| now - *at < MINUTE);
        of.recent.push(now);
        if of.recent.len() > TAKE_OVERS {
            of.cloned_until = Some(now + CLONED);
            metrics::counter!("furrow_gate_cloned_total").increment(1);
            tracing::error!(device = device.0, "gate.cloned");
            return true;
        }
        false
    }

    /// The session is over.
    pub(super) fn leave(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions
            .get(&session.device.0)
            .is_some_and(|s| Arc::ptr_eq(s, session))
        {
            sessions.remove(&session.device.0);
        }
        session.gone.cancel();
        metrics::gauge!("furrow_gate_sessions").decrement(1.0);
    }
}
