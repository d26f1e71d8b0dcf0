//! Whether the process lives, whether it can serve, and its counters.

use std::{sync::atomic::Ordering, time::Duration};

use axum::{
    Json,
    extract::{ConnectInfo, State},
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
};
use serde::Serialize;

use super::{
    Doors,
    problem::{self, Problem},
    serve::Peer,
};
use crate::{
    clock::MAX_SKEW_MS,
    db::{self, DbError, Schema},
};

/// Whoever asks for readiness must hear a no, not wait for a database that is away.
const PATIENCE: Duration = Duration::from_secs(2);

/// So long may ingest try in vain before it counts as not working, s.
const STUCK_S: i64 = 30;

/// The process is alive.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "alive", body = String)))]
pub(super) async fn alive() -> &'static str {
    "alive"
}

/// What readiness rests on.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Readiness {
    /// All of it.
    ready: bool,
    /// The database answers.
    database: bool,
    /// The schema is this build's, or a newer one that this build can live with.
    schema: bool,
    /// Ingest works.
    ingest: bool,
    /// Platform's clock less database's, ms.
    clock_skew_ms: i64,
}

/// The process can serve.
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, description = "ready", body = Readiness),
    (status = 503, description = "not ready", body = Readiness)
))]
pub(super) async fn ready(State(doors): State<Doors>) -> impl IntoResponse {
    let found = tokio::time::timeout(PATIENCE, db::schema(&doors.pool))
        .await
        .unwrap_or(Err(DbError::PoolTimedOut));
    let skew = doors.clock_skew_ms.load(Ordering::Relaxed);
    let ingest = doors.ingest_alive.load(Ordering::Relaxed) != 0 && !stuck(&doors);
    let (database, schema) = (found.is_ok(), usable(&found));
    let ready = database && schema && ingest && skew.abs() <= MAX_SKEW_MS;
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(Readiness {
            ready,
            database,
            schema,
            ingest,
            clock_skew_ms: skew,
        }),
    )
}

/// Frames wait for longer than a passing trouble lasts, whatever the database says of itself.
fn stuck(doors: &Doors) -> bool {
    let since = doors.ingest_failing_since.load(Ordering::Relaxed);
    since != 0 && doors.clock.now().timestamp() - since > STUCK_S
}

/// While a newer version is being rolled out, its migrations are there before this process goes.
fn usable(found: &Result<Schema, DbError>) -> bool {
    matches!(found, Ok(Schema::Current | Schema::Ahead(_)))
}

/// Counters for this host only: not for others, and not through a proxy on it.
pub(super) async fn own_metrics(
    doors: State<Doors>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    headers: HeaderMap,
) -> Result<String, Problem> {
    let forwarded = headers.contains_key("x-forwarded-for") || headers.contains_key("forwarded");
    if forwarded || !peer.ip().to_canonical().is_loopback() {
        return Err(problem::not_found().await);
    }
    metrics(doors).await
}

/// Counters for Prometheus.
pub(super) async fn metrics(State(doors): State<Doors>) -> Result<String, Problem> {
    let handle = doors.metrics.as_ref().ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "this process counts nothing",
        )
    })?;
    Ok(handle.render())
}
