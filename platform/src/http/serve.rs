//! Serves the routes on sockets, plain and over TLS. Never ends because of a peer.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

/// Serves until `shutdown`; requests under way are finished.
///
/// Errors: the listener.
pub async fn plain(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    axum::serve(
        listener,
        router.into_make_service_with_connect_info::<Peer>(),
    )
    .with_graceful_shutdown(async move { shutdown.cancelled().await })
    .await
}

/// The same over TLS.
///
/// Errors: the listener.
pub async fn tls(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let listener = TlsListener {
        listener,
        acceptor: TlsAcceptor::from(config),
        ready: tokio::task::JoinSet::new(),
    };
    axum::serve(
        listener,
        router.into_make_service_with_connect_info::<Peer>(),
    )
    .with_graceful_shutdown(async move { shutdown.cancelled().await })
    .await
}

/// Handshakes run beside each other; a peer that says nothing holds up nobody.
struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready: tokio::task::JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

/// Handshakes at once.
const HANDSHAKES: usize = 256;
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                Some(done) = self.ready.join_next(), if !self.ready.is_empty() => {
                    if let Ok(Some(accepted)) = done {
                        return accepted;
                    }
                }
                accepted = self.listener.accept(), if self.ready.len() < HANDSHAKES => match accepted {
                    Ok((stream, peer)) => {
                        let acceptor = self.acceptor.clone();
                        self.ready.spawn(async move {
                            let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await.ok()?.ok()?;
                            Some((stream, peer))
                        });
                    }
                    Err(error) => {
                        tracing::warn!(error = %error, "http.accept");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Who asks, whichever door they came by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}
