//! Whether the process lives, whether it can serve, and its counters.

use std::sync::atomic::Ordering;

use axum::{Json, extract::State, http::StatusCode, response::IntoResponse};
use serde::Serialize;

use super::{Doors, problem::Problem};
use crate::db;

/// Beyond this difference of clocks the platform is not ready, ms.
const MAX_SKEW_MS: i64 = 5_000;

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
    /// The schema is this build's.
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
    let pending = db::pending_migrations(&doors.pool).await;
    let skew = doors.clock_skew_ms.load(Ordering::Relaxed);
    let ingest = doors.ingest_alive.load(Ordering::Relaxed) != 0;
    let (database, schema) = (pending.is_ok(), matches!(pending, Ok(0)));
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
