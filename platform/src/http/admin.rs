//! Staff: everything under `/api/admin`, where the role is checked once. Everybody else finds nothing here.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use chrono::{DateTime, Utc};
use furrow_domain::{
    id::{AccountId, OrderId},
    money::Bps,
    order::terms::Policy,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    body::{Asked, Body, Page, PageOf, Path, Raw, parse},
    idempotency,
    machines::MachineView,
    orders::{CommandBody, OrderDetail, OrderView, OrdersOf, carry_out, detail, page},
    problem::Problem,
    session::Staff,
};
use crate::{
    app::{fault::Fault, machines, orders, orders::BookRequest, organisations, policies, quotes},
    db::{self, audits::AuditRow, orders::Scope, policies::WordRow},
};

fn limit(most: usize) -> i64 {
    i64::try_from(most + 1).unwrap_or(101)
}

/// All orders, newest first.
#[utoipa::path(get, path = "/api/admin/orders", tag = "admin", params(OrdersOf), responses(
    (status = 200, description = "a page", body = Page<OrderView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn all_orders(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Asked(of): Asked<OrdersOf>,
) -> Result<Json<Page<OrderView>>, Problem> {
    who.need("order.read")?;
    page(&doors, &Scope::All, of).await
}

/// Any order with its full timeline.
#[utoipa::path(get, path = "/api/admin/orders/{id}", tag = "admin", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "the order", body = OrderDetail),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn one_order(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
) -> Result<Json<OrderDetail>, Problem> {
    who.need("order.read")?;
    detail(&doors, &Scope::All, id).await
}

/// Carries out a command of staff: `force_cancel`, `waive_fee`, `rule`, `void`, `withdraw`, `start` against the track, `finish` and others.
#[utoipa::path(post, path = "/api/admin/orders/{id}/commands", tag = "admin", request_body = CommandBody,
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "done, or done before", body = OrderView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "an order of one's own, or without the permission", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 409, description = "not in this state", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn order_command(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    who.need("order.act")?;
    let route = format!("POST /api/admin/orders/{id}/commands");
    let work = async {
        let parsed: CommandBody = parse(&body)?;
        carry_out(&doors, &who, OrderId(id), true, parsed).await
    };
    Box::pin(idempotency::once(
        &doors, &who, route, &headers, &body, work,
    ))
    .await
}

/// Stands in for a payment provider until there is one: confirms the payment of an order.
#[utoipa::path(post, path = "/api/admin/test/orders/{id}/pay", tag = "admin", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "paid", body = OrderView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 409, description = "it does not wait for a payment", body = Problem)
))]
pub(super) async fn test_pay(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
) -> Result<Json<OrderView>, Problem> {
    let now = doors.clock.now();
    let done = orders::test_pay(&doors.pool, &who, OrderId(id), now).await?;
    Ok(Json(OrderView::done(done, now)))
}

/// A booking for somebody.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BehalfBody {
    quote_token: String,
    /// Who rents.
    renter_id: Uuid,
    /// How the consent was given, and where its record is.
    #[schema(value_type = Object)]
    consent: serde_json::Value,
}

/// Books for a farmer without a phone, with the consent that was recorded. The quote was asked for by this member of staff.
#[utoipa::path(post, path = "/api/admin/orders", tag = "admin", request_body = BehalfBody, responses(
    (status = 201, description = "held; the renter is told how to pay", body = OrderView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "the renter's own machine, or a blocked account", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 409, description = "taken, closed, the quote has changed", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn book_on_behalf(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Body(body): Body<BehalfBody>,
) -> Result<(StatusCode, Json<OrderView>), Problem> {
    who.need("order.act_for")?;
    if body
        .consent
        .as_object()
        .is_none_or(serde_json::Map::is_empty)
    {
        return Err(Fault::invalid("consent", "is missing").into());
    }
    let now = doors.clock.now();
    let request = BookRequest {
        quoted: quotes::read(&doors.tokens, &who, &body.quote_token, now)?,
        on_behalf_of: Some((AccountId(body.renter_id), body.consent)),
    };
    let booked = orders::book(&doors.pool, &who, &request, now).await?;
    let view = OrderView::of(&booked.order, booked.order_no, now);
    Ok((StatusCode::CREATED, Json(view)))
}

/// Machines whose papers wait.
#[utoipa::path(get, path = "/api/admin/audits", tag = "admin", params(PageOf), responses(
    (status = 200, description = "a page", body = Page<MachineView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn audits(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Asked(page): Asked<PageOf>,
) -> Result<Json<Page<MachineView>>, Problem> {
    who.need("audit.decide")?;
    let most = page.most()?;
    let after = page.cursor.unwrap_or(Uuid::nil());
    let rows = db::machines::audits(&doors.pool, after, limit(most)).await?;
    let views = rows.into_iter().map(MachineView::from).collect();
    Ok(Json(Page::of(views, most, MachineView::id)))
}

/// A decision on papers.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgeBody {
    passed: bool,
    #[serde(default)]
    reason: String,
}

/// Passes or refuses a machine's papers.
#[utoipa::path(post, path = "/api/admin/machines/{id}/audit", tag = "admin", params(("id" = Uuid, Path)), request_body = JudgeBody, responses(
    (status = 204, description = "decided"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "a machine of one's own", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn judge_machine(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
    Body(body): Body<JudgeBody>,
) -> Result<StatusCode, Problem> {
    machines::judge(
        &doors.pool,
        &who,
        id,
        body.passed,
        &body.reason,
        doors.clock.now(),
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A decision on an organisation.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgeOrganisationBody {
    verified: bool,
    #[serde(default)]
    suspended: bool,
    #[serde(default)]
    reason: String,
}

/// Verifies or suspends an organisation.
#[utoipa::path(post, path = "/api/admin/organisations/{id}/audit", tag = "admin", params(("id" = Uuid, Path)), request_body = JudgeOrganisationBody, responses(
    (status = 204, description = "decided"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "an organisation of one's own", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn judge_organisation(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
    Body(body): Body<JudgeOrganisationBody>,
) -> Result<StatusCode, Problem> {
    let now = doors.clock.now();
    organisations::judge(
        &doors.pool,
        &who,
        id,
        body.verified,
        body.suspended,
        &body.reason,
        now,
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An account.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct AccountView {
    id: Uuid,
    /// With its middle hidden.
    phone: String,
    name: String,
    created_at: DateTime<Utc>,
    blocked_at: Option<DateTime<Utc>>,
}

/// Which accounts.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountsOf {
    /// Beginning of a phone.
    #[serde(default)]
    phone: Option<String>,
    /// The cursor of the page before.
    #[serde(default)]
    cursor: Option<Uuid>,
}

/// Accounts.
#[utoipa::path(get, path = "/api/admin/accounts", tag = "admin", params(AccountsOf), responses(
    (status = 200, description = "a page of 50", body = Page<AccountView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn accounts(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Asked(of): Asked<AccountsOf>,
) -> Result<Json<Page<AccountView>>, Problem> {
    who.need("account.read")?;
    let after = of.cursor.unwrap_or(Uuid::nil());
    let phone = of.phone.unwrap_or_default();
    let rows = db::accounts::page(&doors.pool, &phone, after, limit(50)).await?;
    let views = rows
        .into_iter()
        .map(|row| AccountView {
            id: row.id,
            phone: crate::views::masked(&row.phone),
            name: row.name,
            created_at: row.created_at,
            blocked_at: row.blocked_at,
        })
        .collect();
    Ok(Json(Page::of(views, 50, |a: &AccountView| a.id)))
}

/// Whether an account may make orders.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockAccountBody {
    blocked: bool,
    reason: String,
}

/// Blocks an account from new orders, or lets it again.
#[utoipa::path(post, path = "/api/admin/accounts/{id}/block", tag = "admin", params(("id" = Uuid, Path)), request_body = BlockAccountBody, responses(
    (status = 204, description = "done"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "one's own account", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn block_account(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
    Body(body): Body<BlockAccountBody>,
) -> Result<StatusCode, Problem> {
    let now = doors.clock.now();
    organisations::block(&doors.pool, &who, id, body.blocked, &body.reason, now).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A version of the operator's windows.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct PolicyView {
    version: i32,
    #[schema(value_type = Object)]
    policy: serde_json::Value,
    commission_bps: i32,
    created_at: DateTime<Utc>,
}

/// The operator's windows and share, newest first.
#[utoipa::path(get, path = "/api/admin/policies", tag = "admin", responses(
    (status = 200, description = "all versions", body = Vec<PolicyView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn all_policies(
    State(doors): State<Doors>,
    Staff(who): Staff,
) -> Result<Json<Vec<PolicyView>>, Problem> {
    who.need("policy.write")?;
    let rows = db::policies::all(&doors.pool).await?;
    let view = |row: db::policies::PolicyRow| PolicyView {
        version: row.version,
        policy: row.policy,
        commission_bps: row.commission_bps,
        created_at: row.created_at,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// The next version.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyBody {
    /// Windows and fees; what is left out has its default.
    #[schema(value_type = Object)]
    policy: Policy,
    commission_bps: u32,
}

/// A version's number.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct VersionView {
    version: u32,
}

/// Writes the next version. Orders keep the one that they were made with.
#[utoipa::path(post, path = "/api/admin/policies", tag = "admin", request_body = PolicyBody, responses(
    (status = 201, description = "written", body = VersionView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 409, description = "another version was just written", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn write_policy(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Body(body): Body<PolicyBody>,
) -> Result<(StatusCode, Json<VersionView>), Problem> {
    let (share, now) = (Bps(body.commission_bps), doors.clock.now());
    let version = policies::write(&doors.pool, &who, body.policy, share, now).await?;
    Ok((StatusCode::CREATED, Json(VersionView { version })))
}

/// A word of a dictionary.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WordBody {
    code: String,
    name_zh: String,
    name_en: String,
}

/// Writes a word of a dictionary: `machine_type`, `crop` or `region`.
#[utoipa::path(put, path = "/api/admin/dictionaries/{kind}", tag = "admin", params(("kind" = String, Path)), request_body = WordBody, responses(
    (status = 204, description = "written"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn write_word(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(kind): Path<String>,
    Body(body): Body<WordBody>,
) -> Result<StatusCode, Problem> {
    let word = WordRow {
        code: body.code,
        name_zh: body.name_zh,
        name_en: body.name_en,
    };
    policies::set_word(&doors.pool, &who, &kind, &word, doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A dictionary, for everybody.
#[utoipa::path(get, path = "/api/dictionaries/{kind}", tag = "search", params(("kind" = String, Path)), responses(
    (status = 200, description = "its words", body = Vec<WordBody>)
))]
pub(super) async fn words(
    State(doors): State<Doors>,
    Path(kind): Path<String>,
) -> Result<Json<Vec<WordBody>>, Problem> {
    let rows = db::policies::words(&doors.pool, &kind).await?;
    let view = |row: WordRow| WordBody {
        code: row.code,
        name_zh: row.name_zh,
        name_en: row.name_en,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// A line of the audit log.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct AuditView {
    id: Uuid,
    at: DateTime<Utc>,
    account_id: Option<Uuid>,
    action: String,
    object: String,
    #[schema(value_type = Object)]
    detail: serde_json::Value,
    trace_id: String,
    /// From where; none from the command line.
    from_address: Option<String>,
}

/// Which lines.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditOf {
    /// Of what.
    #[serde(default)]
    object: Option<String>,
    /// The cursor of the page before.
    #[serde(default)]
    cursor: Option<Uuid>,
}

/// The audit log, newest first.
#[utoipa::path(get, path = "/api/admin/audit-log", tag = "admin", params(AuditOf), responses(
    (status = 200, description = "a page of 50", body = Page<AuditView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn audit_log(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Asked(of): Asked<AuditOf>,
) -> Result<Json<Page<AuditView>>, Problem> {
    who.need("audit.read")?;
    let object = of.object.as_deref();
    let rows = db::audits::page(&doors.pool, object, of.cursor, limit(50)).await?;
    let view = |row: AuditRow| AuditView {
        id: row.id,
        at: row.at,
        account_id: row.account_id,
        action: row.action,
        object: row.object,
        detail: row.detail,
        trace_id: row.trace_id,
        from_address: row.from_address,
    };
    let views = rows.into_iter().map(view).collect();
    Ok(Json(Page::of(views, 50, |a: &AuditView| a.id)))
}

/// A timer that was tried too often.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct TimerView {
    id: Uuid,
    order_id: Uuid,
    kind: String,
    due_at: DateTime<Utc>,
    tries: i32,
    trace_id: String,
}

/// Timers that wait for a person.
#[utoipa::path(get, path = "/api/admin/timers", tag = "admin", responses(
    (status = 200, description = "those that were tried too often", body = Vec<TimerView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn timers(
    State(doors): State<Doors>,
    Staff(who): Staff,
) -> Result<Json<Vec<TimerView>>, Problem> {
    who.need("job.retry")?;
    let rows = db::timers::dead(&doors.pool, orders::MOST_TRIES).await?;
    let view = |row: db::timers::TimerRow| TimerView {
        id: row.id,
        order_id: row.order_id,
        kind: row.kind,
        due_at: row.due_at,
        tries: row.tries,
        trace_id: row.trace_id,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// Lets a timer be tried again.
#[utoipa::path(post, path = "/api/admin/timers/{id}/retry", tag = "admin", params(("id" = Uuid, Path)), responses(
    (status = 204, description = "it is tried again"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn retry_timer(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, Problem> {
    who.need("job.retry")?;
    if db::timers::retry(&doors.pool, id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Fault::not_found().into())
    }
}
