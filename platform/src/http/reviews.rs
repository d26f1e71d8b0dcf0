//! Bills over the operator's bounds: staff passes them or sends them back. Never changes a line.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use furrow_domain::{id::OrderId, money::Fen};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    body::{Body, Path},
    orders::{BillsView, OrderView, bills_of},
    problem::Problem,
    session::Staff,
    yuan,
};
use crate::{app::orders, db::orders::Scope};

/// A bill that waits for staff.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ReviewView {
    order_id: Uuid,
    order_no: String,
    version: i32,
    /// Over which bounds it is.
    #[schema(value_type = Vec<Object>)]
    reasons: serde_json::Value,
    since: DateTime<Utc>,
    total_fen: i64,
    total_text: String,
}

/// Bills that wait for staff, the oldest first.
#[utoipa::path(get, path = "/api/admin/bill-reviews", tag = "admin", responses(
    (status = 200, description = "all that wait, at most 200", body = Vec<ReviewView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn waiting(
    State(doors): State<Doors>,
    Staff(who): Staff,
) -> Result<Json<Vec<ReviewView>>, Problem> {
    let rows = orders::reviews(&doors.pool, &who).await?;
    let view = |row: crate::db::bills::ReviewRow| ReviewView {
        order_id: row.order_id,
        order_no: row.order_no,
        version: row.version,
        reasons: row.reasons,
        since: row.created_at,
        total_fen: row.total_fen,
        total_text: yuan(Fen(row.total_fen)),
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// The bills of any order, every version as it was shown.
#[utoipa::path(get, path = "/api/admin/orders/{id}/bills", tag = "admin", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "all versions, the newest first", body = BillsView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn bills(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
) -> Result<Json<BillsView>, Problem> {
    who.need("order.read")?;
    bills_of(&doors, &Scope::All, id).await
}

/// What staff says of a bill.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReviewBody {
    /// It counts; otherwise the owner makes another one.
    passed: bool,
    /// Why, 1 to 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    note: String,
}

/// Passes a bill that is over the operator's bounds, or sends it back.
#[utoipa::path(post, path = "/api/admin/orders/{id}/bills/{version}/review", tag = "admin",
    params(("id" = Uuid, Path), ("version" = u32, Path)), request_body = ReviewBody, responses(
    (status = 200, description = "the order", body = OrderView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "an order of one's own", body = Problem),
    (status = 404, description = "nothing waits here", body = Problem),
    (status = 409, description = "there is a newer bill, or another state", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn decide(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path((id, version)): Path<(Uuid, u32)>,
    Body(body): Body<ReviewBody>,
) -> Result<Json<OrderView>, Problem> {
    let now = doors.clock.now();
    let of = (OrderId(id), version);
    let said = (body.passed, body.note.as_str());
    let done = orders::decide_review(&doors.pool, &who, of, said, now).await?;
    Ok(Json(OrderView::done(done, now)))
}
