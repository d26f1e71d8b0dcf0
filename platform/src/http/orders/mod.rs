//! Orders: booked, listed, looked at, and moved by their parties. Each command is a line here and a rule in the core.

pub(super) mod bills;
mod commands;
mod view;

pub(super) use bills::{BillsView, bills_of};
pub(super) use commands::{CommandBody, carry_out};
pub(super) use view::{EventView, OrderView};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use chrono::{DateTime, Utc};
use furrow_domain::{id::OrderId, order::actor::Role};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    body::{Asked, Body, IdView, Page, Path, Raw, parse},
    idempotency,
    limits::{self, ORDERS_BY_ACCOUNT},
    problem::Problem,
    session::SignedIn,
    yuan,
};
use crate::{
    app::{
        fault::Fault,
        orders::{self, BookRequest},
        quotes,
        who::Who,
    },
    db::{
        self,
        orders::{Filter, OrderRow, Scope},
    },
};

/// What is booked.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BookBody {
    /// From `POST /api/quotes`.
    quote_token: String,
}

/// Books a machine by a quote: the time is held at once, and exactly one of many who want it gets it.
#[utoipa::path(post, path = "/api/orders", tag = "orders", request_body = BookBody, params(("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 201, description = "held; pay in time", body = OrderView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "one's own machine, or a blocked account", body = Problem),
    (status = 404, description = "no such machine", body = Problem),
    (status = 409, description = "taken, closed, the quote is over or has changed", body = Problem),
    (status = 422, description = "a field, too late, in the past", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn book(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    let work = async {
        let parsed: BookBody = parse(&body)?;
        let now = doors.clock.now();
        limits::take(&doors, ORDERS_BY_ACCOUNT, &who.account.to_string(), now).await?;
        let request = BookRequest {
            quoted: quotes::read(&doors.tokens, &who, &parsed.quote_token, now)?,
            on_behalf_of: None,
        };
        let booked = orders::book(&doors.pool, &who, &request, now).await?;
        let view = OrderView::of(&booked.order, booked.order_no, now);
        Ok((StatusCode::CREATED, view))
    };
    Box::pin(idempotency::once(
        &doors,
        &who,
        "POST /api/orders".into(),
        &headers,
        &body,
        work,
    ))
    .await
}

/// Which orders.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OrdersOf {
    /// States, by comma; all without it.
    #[serde(default)]
    pub status: Option<String>,
    /// That touch the time from here on.
    #[serde(default)]
    pub from: Option<DateTime<Utc>>,
    /// That touch the time up to here.
    #[serde(default)]
    pub to: Option<DateTime<Utc>>,
    /// By its number.
    #[serde(default)]
    pub order_no: Option<String>,
    /// The cursor of the page before.
    #[serde(default)]
    pub cursor: Option<Uuid>,
    /// Entries, 1 to 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<u16>,
}

/// A page of orders of a scope.
pub(super) async fn page(
    doors: &Doors,
    scope: &Scope,
    of: OrdersOf,
) -> Result<Json<Page<OrderView>>, Problem> {
    let most = usize::from(of.limit.unwrap_or(50));
    if !(1..=100).contains(&most) {
        return Err(Fault::invalid("limit", "must be 1 to 100").into());
    }
    let filter = Filter {
        statuses: of
            .status
            .iter()
            .flat_map(|s| s.split(','))
            .map(|s| s.trim().to_owned())
            .collect(),
        from: of.from,
        to: of.to,
        order_no: of.order_no,
        before: of.cursor,
    };
    let limit = i64::try_from(most + 1).unwrap_or(101);
    let rows = db::orders::page(&doors.pool, scope, &filter, limit).await?;
    let now = doors.clock.now();
    let views: Result<Vec<_>, Problem> = rows.iter().map(|row| view_of(row, now)).collect();
    Ok(Json(Page::of(views?, most, |o: &OrderView| o.id)))
}

fn view_of(row: &OrderRow, now: DateTime<Utc>) -> Result<OrderView, Problem> {
    Ok(OrderView::of(
        &orders::of_row(row)?,
        row.order_no.clone(),
        now,
    ))
}

/// The orders that one is a party of, newest first.
#[utoipa::path(get, path = "/api/orders", tag = "orders", params(OrdersOf), responses(
    (status = 200, description = "a page", body = Page<OrderView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn own(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Asked(of): Asked<OrdersOf>,
) -> Result<Json<Page<OrderView>>, Problem> {
    page(&doors, &orders::scope(&who, Role::Renter), of).await
}

/// An order with its steps.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct OrderDetail {
    order: OrderView,
    events: Vec<EventView>,
    /// Its plots as they were.
    #[schema(value_type = Vec<Object>)]
    plots: serde_json::Value,
    /// The lines it was quoted.
    #[schema(value_type = Object)]
    estimate: serde_json::Value,
}

/// An order of a scope, with everything.
pub(super) async fn detail(
    doors: &Doors,
    scope: &Scope,
    id: Uuid,
) -> Result<Json<OrderDetail>, Problem> {
    let row = {
        let mut connection = doors.pool.acquire().await?;
        db::orders::by_id(&mut connection, id, scope, false).await?
    };
    let row = row.ok_or_else(Fault::not_found)?;
    let events = db::orders::events(&doors.pool, id).await?;
    Ok(Json(OrderDetail {
        order: view_of(&row, doors.clock.now())?,
        events: events.into_iter().map(EventView::from).collect(),
        plots: row.plots,
        estimate: row.estimate,
    }))
}

/// An order of one's own.
#[utoipa::path(get, path = "/api/orders/{id}", tag = "orders", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "the order", body = OrderDetail),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such order of yours", body = Problem)
))]
pub(super) async fn one(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<Json<OrderDetail>, Problem> {
    detail(&doors, &orders::scope(&who, Role::Renter), id).await
}

/// What it costs to end an order now: the renter's fee, or the owner's penalty.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct FeeView {
    fee_fen: i64,
    fee_text: String,
}

/// What it would cost to end the order now. The command must name the same amount.
#[utoipa::path(get, path = "/api/orders/{id}/fee", tag = "orders", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "the fee", body = FeeView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "on both sides of the order", body = Problem),
    (status = 404, description = "no such order of yours", body = Problem)
))]
pub(super) async fn fee(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<Json<FeeView>, Problem> {
    let (id, now) = (OrderId(id), doors.clock.now());
    let fee = orders::preview_fee(&doors.pool, &*doors.witness, &who, id, now).await?;
    Ok(Json(FeeView {
        fee_fen: fee.0,
        fee_text: yuan(fee),
    }))
}

/// Carries out a command of a party: `accept`, `reject`, `cancel`, `owner_cancel`, `propose`, `answer`, `depart`, `start`, `finish` and the others of the order's life.
#[utoipa::path(post, path = "/api/orders/{id}/commands", tag = "orders", request_body = CommandBody,
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "done, or done before", body = OrderView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "on both sides of the order", body = Problem),
    (status = 404, description = "no such order of yours", body = Problem),
    (status = 409, description = "not in this state, or the state of things is against it", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too many wrong start codes", body = Problem)
))]
pub(super) async fn command(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    let route = format!("POST /api/orders/{id}/commands");
    let work = async {
        let parsed: CommandBody = parse(&body)?;
        carry_out(&doors, &who, OrderId(id), false, parsed).await
    };
    Box::pin(idempotency::once(
        &doors, &who, route, &headers, &body, work,
    ))
    .await
}

/// What one party writes to the other.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageBody {
    text: String,
}

/// A message.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MessageView {
    id: Uuid,
    account_id: Uuid,
    text: String,
    created_at: DateTime<Utc>,
}

/// Writes to the other party. It is kept as evidence.
#[utoipa::path(post, path = "/api/orders/{id}/messages", tag = "orders", params(("id" = Uuid, Path)), request_body = MessageBody, responses(
    (status = 201, description = "kept", body = IdView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such order of yours", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn say(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<MessageBody>,
) -> Result<(StatusCode, Json<IdView>), Problem> {
    let now = doors.clock.now();
    let id = orders::say(&doors.pool, &who, OrderId(id), &body.text, now).await?;
    Ok((StatusCode::CREATED, Json(IdView { id })))
}

/// What the parties wrote.
#[utoipa::path(get, path = "/api/orders/{id}/messages", tag = "orders", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "all of it", body = Vec<MessageView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such order of yours", body = Problem)
))]
pub(super) async fn messages(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<Json<Vec<MessageView>>, Problem> {
    let rows = orders::messages(&doors.pool, &who, OrderId(id)).await?;
    let view = |row: db::orders::MessageRow| MessageView {
        id: row.id,
        account_id: row.account_id,
        text: row.text,
        created_at: row.created_at,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// So that the commands' file need not know the doors' shape.
async fn run(
    doors: &Doors,
    who: &Who,
    id: OrderId,
    staff: bool,
    command: &furrow_domain::order::command::Command,
) -> Result<(StatusCode, OrderView), Problem> {
    let now = doors.clock.now();
    let done = orders::command(&doors.pool, &*doors.witness, who, id, staff, command, now).await?;
    Ok((StatusCode::OK, OrderView::done(done, now)))
}
