//! The human door: every route on one screen. Never decides a rule and never knows SQL.

mod accounts;
mod admin;
mod body;
mod devices;
mod health;
mod idempotency;
mod limits;
mod machines;
mod notices;
mod orders;
mod plots;
pub mod problem;
mod quotes;
pub mod serve;
mod session;
mod trace;

use std::{
    net::IpAddr,
    sync::{Arc, atomic::AtomicI64},
};

use axum::{Json, Router, extract::DefaultBodyLimit, middleware, routing::get};
use furrow_domain::money::Fen;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::broadcast;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use crate::{
    app::{authority::Authority, sms::Gateway, tokens::Tokens, witness::Witness},
    clock::Clock,
    db::Pool,
};

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
    /// Access tokens.
    pub tokens: Tokens,
    /// Short messages.
    pub sms: Gateway,
    /// Proxies in front of us, whose `X-Forwarded-For` is believed.
    pub proxies: Arc<[IpAddr]>,
    /// All limits are so many times as wide.
    pub limit_factor: u32,
    /// What tracks show of orders.
    pub witness: Arc<dyn Witness>,
    /// Accounts that have something new in their inbox.
    pub told: broadcast::Sender<Uuid>,
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
        .routes(routes!(accounts::send_code))
        .routes(routes!(accounts::sign_up))
        .routes(routes!(accounts::sign_in))
        .routes(routes!(accounts::refresh))
        .routes(routes!(accounts::sign_out))
        .routes(routes!(accounts::reset))
        .routes(routes!(accounts::me))
        .routes(routes!(accounts::change_phone))
        .routes(routes!(accounts::create_organisation))
        .routes(routes!(accounts::members, accounts::set_member))
        .routes(routes!(accounts::remove_member))
        .routes(routes!(machines::create))
        .routes(routes!(machines::own))
        .routes(routes!(machines::update))
        .routes(routes!(machines::wish))
        .routes(routes!(machines::set_rule))
        .routes(routes!(machines::preview))
        .routes(routes!(machines::set_availability))
        .routes(routes!(machines::block))
        .routes(routes!(machines::unblock))
        .routes(routes!(machines::calendar))
        .routes(routes!(plots::own, plots::import))
        .routes(routes!(plots::delete))
        .routes(routes!(admin::words))
        .routes(routes!(quotes::search))
        .routes(routes!(quotes::quote))
        .routes(routes!(orders::own, orders::book))
        .routes(routes!(orders::one))
        .routes(routes!(orders::fee))
        .routes(routes!(orders::command))
        .routes(routes!(orders::messages, orders::say))
        .routes(routes!(notices::own))
        .routes(routes!(notices::read))
        .routes(routes!(notices::ticket))
        .routes(routes!(notices::live))
        .merge(staff())
}

/// The routes of staff.
fn staff() -> OpenApiRouter<Doors> {
    OpenApiRouter::new()
        .routes(routes!(admin::all_orders, admin::book_on_behalf))
        .routes(routes!(admin::one_order))
        .routes(routes!(admin::order_command))
        .routes(routes!(admin::test_pay))
        .routes(routes!(admin::audits))
        .routes(routes!(admin::judge_machine))
        .routes(routes!(admin::judge_organisation))
        .routes(routes!(admin::accounts))
        .routes(routes!(admin::block_account))
        .routes(routes!(admin::all_policies, admin::write_policy))
        .routes(routes!(admin::write_word))
        .routes(routes!(admin::audit_log))
        .routes(routes!(admin::timers))
        .routes(routes!(admin::retry_timer))
}

/// An amount as people read it.
fn yuan(fen: Fen) -> String {
    format!("¥{}", fen.yuan())
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
