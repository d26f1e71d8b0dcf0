//! The human door: every route on one screen. Never decides a rule and never knows SQL.

mod devices;
mod health;
pub mod problem;
pub mod serve;
mod trace;

use std::sync::{Arc, atomic::AtomicI64};

use axum::{Json, Router, extract::DefaultBodyLimit, middleware, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::authority::Authority, clock::Clock, db::Pool};

/// Largest body of a request, bytes.
const MAX_BODY: usize = 64 * 1024;

/// What handlers share.
#[derive(Clone)]
pub struct Doors {
    /// The database.
    pub pool: Pool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Certificates.
    pub authority: Arc<Authority>,
    /// What devices are told to connect to.
    pub mqtt_url: String,
    /// Metrics, where they are counted.
    pub metrics: Option<PrometheusHandle>,
    /// Last sign of life of ingest, s since 1970.
    pub ingest_alive: Arc<AtomicI64>,
    /// Since when ingest tries in vain to store, s since 1970; 0 while all is well.
    pub ingest_failing_since: Arc<AtomicI64>,
    /// Difference between the platform's clock and the database's, ms.
    pub clock_skew_ms: Arc<AtomicI64>,
}

#[derive(OpenApi)]
#[openapi(info(
    title = "Furrow",
    description = "Leasing of farm machinery with proof of what the machine did. Errors are RFC 9457 problem documents with a stable `type`, a `code` and the `trace_id`."
))]
struct Api;

fn api() -> OpenApiRouter<Doors> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(devices::enrol))
}

/// The API's description.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().split_for_parts().1
}

/// All routes.
pub fn router(doors: Doors) -> Router {
    let (api, description) = api().split_for_parts();
    api.route("/metrics", get(health::own_metrics))
        .route(
            "/api/openapi.json",
            get(move || async move { Json(description) }),
        )
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(trace::trace))
        .with_state(doors)
}

/// The counters alone, for a listener that others than this host may reach.
pub fn metrics_router(doors: Doors) -> Router {
    Router::new()
        .route("/metrics", get(health::metrics))
        .fallback(problem::not_found)
        .layer(middleware::from_fn(trace::trace))
        .with_state(doors)
}
