//! Serves the routes on sockets, plain and over TLS. Never ends because of a peer, and gives none of them more than its time.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

/// Connections of a listener; who comes beyond them is hung up on at once.
const CONNECTIONS: usize = 8192;
/// A TLS handshake takes at most so long.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The head of a request must be there after so long; also how long a connection may idle.
const HEAD: Duration = Duration::from_secs(10);
/// Largest head of a request, bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Requests under way may take so long to end when the process is told to stop.
const FAREWELL: Duration = Duration::from_secs(10);

/// Who asks, whichever door they came by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Serves until `shutdown`; requests under way are finished. With a configuration of TLS, over TLS.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    shutdown: CancellationToken,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a peer that is gone already: neither ends the door.
                tracing::warn!(error = %error, "http.accept");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
            metrics::counter!("furrow_http_refused_total", "reason" => "full").increment(1);
            continue;
        };
        let (acceptor, router, shutdown) = (acceptor.clone(), router.clone(), shutdown.clone());
        tasks.spawn(async move {
            let _seat = seat;
            match acceptor {
                None => talk(stream, peer, router, &shutdown).await,
                Some(acceptor) => encrypted(stream, peer, acceptor, router, &shutdown).await,
            }
        });
    }
    drop(listener);
    tasks.close();
    let _ = timeout(FAREWELL, tasks.wait()).await;
}

async fn encrypted(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    router: Router,
    shutdown: &CancellationToken,
) {
    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => talk(stream, peer, router, shutdown).await,
        Ok(Err(_)) | Err(_) => {
            metrics::counter!("furrow_http_refused_total", "reason" => "handshake").increment(1);
        }
    }
}

async fn talk<S>(stream: S, peer: SocketAddr, router: Router, shutdown: &CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        answer(router.clone(), request.map(Body::new), peer)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "http.connection");
    }
}

async fn answer(
    router: Router,
    mut request: Request,
    peer: SocketAddr,
) -> Result<Response, Infallible> {
    request.extensions_mut().insert(ConnectInfo(Peer(peer)));
    router.oneshot(request).await
}
