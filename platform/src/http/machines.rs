//! Machines: the owner's side of them, their calendars for everybody.

use axum::{Json, extract::State, http::StatusCode};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use furrow_domain::{
    availability::Cell,
    id::OrganisationId,
    period::Period,
    rent::{Bill, Rule},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    body::{Asked, Body, IdView, Page, PageOf, Path},
    limits::{self, MACHINES_BY_ACCOUNT},
    problem::Problem,
    session::SignedIn,
};
use crate::{
    app::{
        calendars,
        fault::Fault,
        machines::{self, Wish},
        policies, quotes,
        who::Who,
    },
    db::{
        self,
        machines::{MachineDetails, MachineRow},
    },
};

/// What an owner writes about a machine.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineBody {
    name: String,
    /// Code of the dictionary.
    machine_type: String,
    /// 10 to 10,000.
    working_width_cm: i32,
    #[serde(default)]
    brand: String,
    #[serde(default)]
    model: String,
    /// Code of its region.
    #[serde(default)]
    region: String,
    /// WGS-84, 1e-7 degree.
    home_lat_e7: i32,
    /// WGS-84, 1e-7 degree.
    home_lon_e7: i32,
    /// What it does in an hour; 0 is not known.
    #[serde(default)]
    capacity_centi_mu_h: i32,
    /// Codes; none is all.
    #[serde(default)]
    crops: Vec<String>,
    /// Of its wall clock; Asia/Shanghai.
    #[serde(default)]
    zone: Option<String>,
    #[serde(default)]
    auto_accept: bool,
}

impl From<MachineBody> for MachineDetails {
    fn from(body: MachineBody) -> Self {
        Self {
            name: body.name,
            machine_type: body.machine_type,
            working_width_cm: body.working_width_cm,
            brand: body.brand,
            model: body.model,
            region: body.region,
            home_lat_e7: body.home_lat_e7,
            home_lon_e7: body.home_lon_e7,
            capacity_centi_mu_h: body.capacity_centi_mu_h,
            crops: body.crops,
            zone: body.zone.unwrap_or_else(|| "Asia/Shanghai".into()),
            auto_accept: body.auto_accept,
        }
    }
}

/// A machine as its owner sees it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MachineView {
    id: Uuid,
    name: String,
    machine_type: String,
    working_width_cm: i32,
    brand: String,
    model: String,
    region: String,
    home_lat_e7: Option<i32>,
    home_lon_e7: Option<i32>,
    capacity_centi_mu_h: i32,
    crops: Vec<String>,
    zone: String,
    auto_accept: bool,
    /// `draft`, `listed`, `unlisted`.
    status: String,
    /// `none`, `pending`, `passed`, `refused`.
    audit: String,
    audit_reason: Option<String>,
    in_repair: bool,
}

impl MachineView {
    /// Its id, for pages.
    pub fn id(&self) -> Uuid {
        self.id
    }
}

impl From<MachineRow> for MachineView {
    fn from(row: MachineRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            machine_type: row.machine_type,
            working_width_cm: row.working_width_cm,
            brand: row.brand,
            model: row.model,
            region: row.region,
            home_lat_e7: row.home_lat_e7,
            home_lon_e7: row.home_lon_e7,
            capacity_centi_mu_h: row.capacity_centi_mu_h,
            crops: row.crops,
            zone: row.zone,
            auto_accept: row.auto_accept,
            status: row.status,
            audit: row.audit,
            audit_reason: row.audit_reason,
            in_repair: row.in_repair,
        }
    }
}

/// Adds a machine to an organisation.
#[utoipa::path(post, path = "/api/organisations/{id}/machines", tag = "machines", params(("id" = Uuid, Path)),
    request_body = MachineBody, responses(
    (status = 201, description = "added, not listed yet", body = IdView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn create(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<MachineBody>,
) -> Result<(StatusCode, Json<IdView>), Problem> {
    let (organisation, now) = (OrganisationId(id), doors.clock.now());
    limits::take(&doors, MACHINES_BY_ACCOUNT, &who.account.to_string(), now).await?;
    let id = machines::create(&doors.pool, &who, organisation, &body.into(), now).await?;
    Ok((StatusCode::CREATED, Json(IdView { id })))
}

/// One's own machines.
#[utoipa::path(get, path = "/api/machines", tag = "machines", params(PageOf), responses(
    (status = 200, description = "a page", body = Page<MachineView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn own(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Asked(page): Asked<PageOf>,
) -> Result<Json<Page<MachineView>>, Problem> {
    let most = page.most()?;
    let organisations: Vec<Uuid> = who.runs().iter().map(|o| o.0).collect();
    let after = page.cursor.unwrap_or(Uuid::nil());
    let limit = i64::try_from(most + 1).unwrap_or(101);
    let rows = db::machines::of_organisations(&doors.pool, &organisations, after, limit).await?;
    let views = rows.into_iter().map(MachineView::from).collect();
    Ok(Json(Page::of(views, most, MachineView::id)))
}

/// Writes a machine's details anew.
#[utoipa::path(put, path = "/api/machines/{id}", tag = "machines", params(("id" = Uuid, Path)), request_body = MachineBody, responses(
    (status = 204, description = "written"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine of yours", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn update(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<MachineBody>,
) -> Result<StatusCode, Problem> {
    machines::update(&doors.pool, &who, id, &body.into(), doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What an owner wants of a machine.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum MachineWish {
    Submit,
    List,
    Unlist,
    Repair,
    Repaired,
    Delete,
}

/// A wish.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WishBody {
    wish: MachineWish,
}

/// Submits, lists, unlists, repairs or removes a machine.
#[utoipa::path(post, path = "/api/machines/{id}/wishes", tag = "machines", params(("id" = Uuid, Path)), request_body = WishBody, responses(
    (status = 204, description = "done"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine of yours", body = Problem),
    (status = 409, description = "live orders, no rule, not audited", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn wish(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<WishBody>,
) -> Result<StatusCode, Problem> {
    let wish = match body.wish {
        MachineWish::Submit => Wish::Submit,
        MachineWish::List => Wish::List,
        MachineWish::Unlist => Wish::Unlist,
        MachineWish::Repair => Wish::Repair,
        MachineWish::Repaired => Wish::Repaired,
        MachineWish::Delete => Wish::Delete,
    };
    machines::wish(&doors.pool, &who, id, wish, doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A version of a rule.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RuleVersion {
    version: i32,
}

/// Writes the next version of a machine's rent rule. Orders keep the one that they were made with.
#[utoipa::path(post, path = "/api/machines/{id}/rules", tag = "machines", params(("id" = Uuid, Path)),
    request_body(content = Object, description = "unit, unit_price_fen, minimum, prepay_bps, deposit_fen, service_mode, grace_min, overtime, seasons, travel_fen_per_km, discounts"), responses(
    (status = 201, description = "written", body = RuleVersion),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine of yours", body = Problem),
    (status = 422, description = "a field, with its path", body = Problem)
))]
pub(super) async fn set_rule(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(rule): Body<Rule>,
) -> Result<(StatusCode, Json<RuleVersion>), Problem> {
    let version = machines::set_rule(&doors.pool, &who, id, &rule, doors.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(RuleVersion { version })))
}

/// A weekly opening.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WeeklyBody {
    /// Monday is 0.
    weekday: i16,
    /// Minutes of local wall time, on the half hour.
    start_min: i16,
    /// At most 1440, the end of the day.
    end_min: i16,
}

/// A date that differs.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExceptionBody {
    day: NaiveDate,
    start_min: i16,
    end_min: i16,
    /// Open then, or closed.
    open: bool,
}

/// When a machine can be had.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AvailabilityBody {
    weekly: Vec<WeeklyBody>,
    #[serde(default)]
    exceptions: Vec<ExceptionBody>,
}

/// Replaces a machine's week and exceptions.
#[utoipa::path(put, path = "/api/machines/{id}/availability", tag = "machines", params(("id" = Uuid, Path)), request_body = AvailabilityBody, responses(
    (status = 204, description = "written"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine of yours", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn set_availability(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<AvailabilityBody>,
) -> Result<StatusCode, Problem> {
    let weekly: Vec<_> = body
        .weekly
        .iter()
        .map(|w| (w.weekday, w.start_min, w.end_min))
        .collect();
    let exceptions: Vec<_> = body
        .exceptions
        .iter()
        .map(|e| (e.day, e.start_min, e.end_min, e.open))
        .collect();
    let now = doors.clock.now();
    machines::set_availability(&doors.pool, &who, id, &weekly, &exceptions, now).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A time to block.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockBody {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    #[serde(default)]
    note: String,
}

/// A time of a request.
pub(super) fn period(from: DateTime<Utc>, to: DateTime<Utc>) -> Result<Period, Problem> {
    use furrow_domain::period::PeriodError;
    Period::new(from, to).map_err(|error| {
        let code = match error {
            PeriodError::Empty => "empty_range",
            PeriodError::Reversed => "reversed_range",
        };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string())
    })
}

/// Blocks a time of a machine.
#[utoipa::path(post, path = "/api/machines/{id}/blocks", tag = "machines", params(("id" = Uuid, Path)), request_body = BlockBody, responses(
    (status = 201, description = "blocked", body = IdView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine of yours", body = Problem),
    (status = 409, description = "somebody has the time", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn block(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<BlockBody>,
) -> Result<(StatusCode, Json<IdView>), Problem> {
    let (period, now) = (period(body.from, body.to)?, doors.clock.now());
    let id = machines::block(&doors.pool, &who, id, &period, &body.note, now).await?;
    Ok((StatusCode::CREATED, Json(IdView { id })))
}

/// Gives a blocked time back.
#[utoipa::path(delete, path = "/api/machines/{id}/blocks/{slot}", tag = "machines",
    params(("id" = Uuid, Path), ("slot" = Uuid, Path)), responses(
    (status = 204, description = "free again"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such block of yours", body = Problem)
))]
pub(super) async fn unblock(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path((id, slot)): Path<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    machines::unblock(&doors.pool, &who, id, slot, doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which part of a calendar.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CalendarOf {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

/// A part of a calendar.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct CalendarView {
    /// Of the machine's wall clock.
    zone: String,
    /// Half hours of one state in a row: `from`, `to`, `state` (`free`, `closed`, `block`, `hold`, `booking`).
    #[schema(value_type = Vec<Object>)]
    cells: Vec<Cell>,
}

/// A machine that this one may see: listed, or of an own organisation.
async fn visible(doors: &Doors, who: &Who, id: Uuid) -> Result<MachineRow, Problem> {
    let mut connection = doors.pool.acquire().await?;
    let machine = db::machines::by_id(&mut connection, id).await?;
    let own = |m: &MachineRow| {
        let mine = who.all_organisations();
        mine.iter().any(|o| m.organisation_id == Some(o.0))
    };
    let seen = machine.filter(|m| m.deleted_at.is_none() && (m.status == "listed" || own(m)));
    Ok(seen.ok_or_else(Fault::not_found)?)
}

/// When a machine can be had, down to half an hour.
#[utoipa::path(get, path = "/api/machines/{id}/calendar", tag = "machines", params(("id" = Uuid, Path), CalendarOf), responses(
    (status = 200, description = "up to 93 days of it", body = CalendarView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn calendar(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Asked(of): Asked<CalendarOf>,
) -> Result<Json<CalendarView>, Problem> {
    let asked = period(of.from, of.to)?;
    if asked.length() > TimeDelta::days(93) {
        return Err(Fault::invalid("to", "must lie within 93 days of from").into());
    }
    let machine = visible(&doors, &who, id).await?;
    let mut connection = doors.pool.acquire().await?;
    let now = doors.clock.now();
    let calendar = calendars::load_one(&mut connection, &machine, &asked, None, now).await?;
    Ok(Json(CalendarView {
        zone: machine.zone,
        cells: calendar.cells(&asked),
    }))
}

/// An example to price.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewBody {
    /// A rule as it would be saved.
    #[schema(value_type = Object)]
    rule: Rule,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    area_centi_mu: u64,
    /// Whole km of the way.
    #[serde(default)]
    travel_km: u32,
}

/// Prices an example by a rule that is not saved yet.
#[utoipa::path(post, path = "/api/machines/{id}/rules/preview", tag = "machines", params(("id" = Uuid, Path)), request_body = PreviewBody, responses(
    (status = 200, description = "the bill of the example", body = Object),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine of yours", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn preview(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<PreviewBody>,
) -> Result<Json<Bill>, Problem> {
    let asked = period(body.from, body.to)?;
    let machine = visible(&doors, &who, id).await?;
    let organisation = machine.organisation_id.map(OrganisationId);
    who.need_run(organisation.ok_or_else(Fault::not_found)?)?;
    let mut connection = doors.pool.acquire().await?;
    let (_, commission) = policies::current(&mut connection).await?;
    let zone = calendars::zone(&machine)?;
    let example = quotes::Example {
        rule: body.rule,
        commission,
        zone,
        period: asked,
        area_centi_mu: body.area_centi_mu,
        travel_km: body.travel_km,
    };
    Ok(Json(quotes::example(example)?))
}
