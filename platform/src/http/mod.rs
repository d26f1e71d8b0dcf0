//! The human door: every route on one screen. Never decides a rule and never knows SQL.

mod accounts;
mod admin;
mod auth;
mod body;
mod cookies;
mod devices;
mod docs;
mod headers;
mod health;
mod idempotency;
mod limits;
mod machines;
mod notices;
mod orders;
mod organisations;
mod plots;
mod policy;
pub mod problem;
mod quotes;
mod reviews;
pub mod serve;
mod session;
mod staff;
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
    config::Limits,
    db::Pool,
};
use policy::{
    Guard, Policies,
    Policy::{Account, Owner, Public, Staff},
};

pub use limits::Paces;

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
    /// How often one may.
    pub limits: Limits,
    /// Requests of each account in this minute.
    pub paces: Arc<Paces>,
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

/// Every route of the API with its policy.
fn api() -> (OpenApiRouter<Doors>, Policies) {
    let mut policies = Policies::default();
    let mut description = Api::openapi();
    policy::describe_security(&mut description);
    let all = OpenApiRouter::with_openapi(description)
        .merge(process(&mut policies))
        .merge(people(&mut policies))
        .merge(machines(&mut policies))
        .merge(orders(&mut policies))
        .merge(staff(&mut policies));
    (all, policies)
}

fn process(all: &mut Policies) -> OpenApiRouter<Doors> {
    OpenApiRouter::new()
        .routes(all.of(Public, routes!(health::alive)))
        .routes(all.of(Public, routes!(health::ready)))
        .routes(all.of(Public, routes!(devices::enrol)))
        .routes(all.of(Public, routes!(admin::words)))
        // By a one-time ticket, which only an account gets.
        .routes(all.of(Public, routes!(notices::live)))
}

fn people(all: &mut Policies) -> OpenApiRouter<Doors> {
    OpenApiRouter::new()
        .routes(all.of(Public, routes!(auth::send_code)))
        .routes(all.of(Public, routes!(auth::sign_up)))
        .routes(all.of(Public, routes!(auth::sign_in)))
        .routes(all.of(Public, routes!(auth::refresh)))
        .routes(all.of(Public, routes!(auth::sign_out)))
        .routes(all.of(Public, routes!(auth::reset)))
        .routes(all.of(Account, routes!(accounts::me, accounts::set_profile)))
        .routes(all.of(Account, routes!(accounts::change_phone)))
        .routes(all.of(Account, routes!(accounts::own_sessions)))
        .routes(all.of(Account, routes!(accounts::end_session)))
        .routes(all.of(Account, routes!(accounts::own_invitations)))
        .routes(all.of(Account, routes!(accounts::answer_invitation)))
        .routes(all.of(Account, routes!(organisations::create)))
        .routes(all.of(
            Owner,
            routes!(organisations::invitations, organisations::invite),
        ))
        .routes(all.of(Owner, routes!(organisations::withdraw)))
        .routes(all.of(Owner, routes!(organisations::members)))
        .routes(all.of(Owner, routes!(organisations::set_function)))
        // Drivers may leave.
        .routes(all.of(Account, routes!(organisations::remove_member)))
        .routes(all.of(Account, routes!(notices::own)))
        .routes(all.of(Account, routes!(notices::read)))
        .routes(all.of(Account, routes!(notices::ticket)))
}

fn machines(all: &mut Policies) -> OpenApiRouter<Doors> {
    OpenApiRouter::new()
        .routes(all.of(Owner, routes!(machines::create)))
        .routes(all.of(Account, routes!(machines::own)))
        .routes(all.of(Owner, routes!(machines::update)))
        .routes(all.of(Owner, routes!(machines::wish)))
        .routes(all.of(Owner, routes!(machines::set_rule)))
        .routes(all.of(Owner, routes!(machines::preview)))
        .routes(all.of(Owner, routes!(machines::set_availability)))
        .routes(all.of(Owner, routes!(machines::block)))
        .routes(all.of(Owner, routes!(machines::unblock)))
        .routes(all.of(Account, routes!(machines::calendar)))
}

fn orders(all: &mut Policies) -> OpenApiRouter<Doors> {
    OpenApiRouter::new()
        .routes(all.of(Account, routes!(plots::own, plots::import)))
        .routes(all.of(Account, routes!(plots::delete)))
        .routes(all.of(Account, routes!(quotes::search)))
        .routes(all.of(Account, routes!(quotes::quote)))
        .routes(all.of(Account, routes!(orders::own, orders::book)))
        .routes(all.of(Account, routes!(orders::one)))
        .routes(all.of(Account, routes!(orders::fee)))
        .routes(all.of(Account, routes!(orders::command)))
        .routes(all.of(Account, routes!(orders::bills::all)))
        .routes(all.of(Account, routes!(orders::bills::preview)))
        .routes(all.of(Account, routes!(orders::messages, orders::say)))
}

/// The routes of staff.
fn staff(all: &mut Policies) -> OpenApiRouter<Doors> {
    OpenApiRouter::new()
        .routes(all.of(Staff("order.read"), routes!(admin::all_orders)))
        .routes(all.of(Staff("order.act_for"), routes!(admin::book_on_behalf)))
        .routes(all.of(Staff("order.read"), routes!(admin::one_order)))
        .routes(all.of(Staff("order.act"), routes!(admin::order_command)))
        .routes(all.of(Staff("order.read"), routes!(reviews::bills)))
        .routes(all.of(Staff("bill.review"), routes!(reviews::waiting)))
        .routes(all.of(Staff("bill.review"), routes!(reviews::decide)))
        .routes(all.of(Staff("test.pay"), routes!(admin::test_pay)))
        .routes(all.of(Staff("audit.decide"), routes!(admin::audits)))
        .routes(all.of(Staff("audit.decide"), routes!(admin::judge_machine)))
        .routes(all.of(Staff("audit.decide"), routes!(admin::judge_organisation)))
        .routes(all.of(Staff("account.read"), routes!(admin::accounts)))
        .routes(all.of(Staff("account.block"), routes!(admin::block_account)))
        .routes(all.of(Staff("account.phone"), routes!(staff::change_phone)))
        .routes(all.of(Staff("staff.write"), routes!(staff::all)))
        .routes(all.of(
            Staff("staff.write"),
            routes!(staff::appoint, staff::dismiss),
        ))
        .routes(all.of(
            Staff("policy.write"),
            routes!(admin::all_policies, admin::write_policy),
        ))
        .routes(all.of(Staff("policy.write"), routes!(admin::write_word)))
        .routes(all.of(Staff("audit.read"), routes!(admin::audit_log)))
        .routes(all.of(Staff("job.retry"), routes!(admin::timers)))
        .routes(all.of(Staff("job.retry"), routes!(admin::retry_timer)))
}

/// An amount as people read it.
fn yuan(fen: Fen) -> String {
    format!("¥{}", fen.yuan())
}

/// The API's description.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().0.split_for_parts().1
}

/// All routes.
pub fn router(doors: Doors) -> Router {
    let (api, policies) = api();
    let (api, description) = api.split_for_parts();
    let guard = Guard {
        policies: Arc::new(policies),
        doors: doors.clone(),
    };
    api.route_layer(middleware::from_fn_with_state(guard, policy::guard))
        .merge(docs::routes())
        .route("/metrics", get(health::own_metrics))
        .route(
            "/api/openapi.json",
            get(move || async move { Json(description) }),
        )
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(problem::dressed))
        .layer(middleware::from_fn(headers::add))
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
