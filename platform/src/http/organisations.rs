//! Owners' organisations and their people. Never tells whether a phone has an account.

use axum::{Json, extract::State, http::StatusCode};
use chrono::{DateTime, Utc};
use furrow_domain::id::{AccountId, OrganisationId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    body::{Body, IdView, Path},
    limits::{self, INVITATIONS_BY_ACCOUNT},
    problem::Problem,
    session::SignedIn,
};
use crate::{
    app::{
        organisations::{self, Kind},
        who::{Function, Who},
    },
    db::organisations::{InvitationRow, MemberRow},
};

/// By law.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum OrganisationKind {
    #[default]
    Person,
    Company,
}

/// A new organisation.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OrganisationBody {
    /// 1 to 80 characters.
    #[schema(min_length = 1, max_length = 80)]
    name: String,
    /// `person` (default) or `company`.
    #[serde(default)]
    #[schema(inline)]
    kind: OrganisationKind,
}

async fn count(doors: &Doors, who: &Who) -> Result<(), Problem> {
    let (key, now) = (who.account.to_string(), doors.clock.now());
    limits::take(doors, INVITATIONS_BY_ACCOUNT, &key, now).await
}

/// Makes an organisation that lets machines.
#[utoipa::path(post, path = "/api/organisations", tag = "organisations", request_body = OrganisationBody, responses(
    (status = 201, description = "made", body = IdView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn create(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<OrganisationBody>,
) -> Result<(StatusCode, Json<IdView>), Problem> {
    count(&doors, &who).await?;
    let kind = match body.kind {
        OrganisationKind::Person => Kind::Person,
        OrganisationKind::Company => Kind::Company,
    };
    let now = doors.clock.now();
    let id = organisations::create(&doors.pool, &who, &body.name, kind, now).await?;
    Ok((StatusCode::CREATED, Json(IdView { id: id.0 })))
}

/// As what.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum MemberFunction {
    Owner,
    Manager,
    Operator,
}

impl From<MemberFunction> for Function {
    fn from(function: MemberFunction) -> Self {
        match function {
            MemberFunction::Owner => Self::Owner,
            MemberFunction::Manager => Self::Manager,
            MemberFunction::Operator => Self::Operator,
        }
    }
}

/// Whom to ask in.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InvitationBody {
    /// With country code; Chinese numbers may leave it out.
    phone: String,
    function: MemberFunction,
}

/// Asks somebody in by phone. Who has the phone finds it under `/api/me/invitations`, now or after signing up.
#[utoipa::path(post, path = "/api/organisations/{id}/invitations", tag = "organisations", params(("id" = Uuid, Path)),
    request_body = InvitationBody, responses(
    (status = 202, description = "asked, whether the phone has an account or not"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn invite(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<InvitationBody>,
) -> Result<StatusCode, Problem> {
    count(&doors, &who).await?;
    let (id, now) = (OrganisationId(id), doors.clock.now());
    let function = body.function.into();
    organisations::invite(&doors.pool, &who, id, &body.phone, function, now).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Somebody who was asked in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct InvitationView {
    id: Uuid,
    phone: String,
    /// `owner`, `manager` or `operator`.
    function: String,
    invited_at: DateTime<Utc>,
}

/// Who was asked in and has not answered, for two weeks.
#[utoipa::path(get, path = "/api/organisations/{id}/invitations", tag = "organisations", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "all of them", body = Vec<InvitationView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours", body = Problem)
))]
pub(super) async fn invitations(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<Json<Vec<InvitationView>>, Problem> {
    let (id, now) = (OrganisationId(id), doors.clock.now());
    let rows = organisations::invitations_by(&doors.pool, &who, id, now).await?;
    let view = |row: InvitationRow| InvitationView {
        id: row.id,
        phone: row.phone,
        function: row.function,
        invited_at: row.invited_at,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// Withdraws an invitation.
#[utoipa::path(delete, path = "/api/organisations/{id}/invitations/{invitation}", tag = "organisations",
    params(("id" = Uuid, Path), ("invitation" = Uuid, Path)), responses(
    (status = 204, description = "withdrawn"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours, or no open invitation", body = Problem)
))]
pub(super) async fn withdraw(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path((id, invitation)): Path<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    organisations::withdraw(&doors.pool, &who, OrganisationId(id), invitation).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A member.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MemberView {
    account_id: Uuid,
    name: String,
    phone: String,
    function: String,
}

/// The people of an organisation.
#[utoipa::path(get, path = "/api/organisations/{id}/members", tag = "organisations", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "all of them", body = Vec<MemberView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours", body = Problem)
))]
pub(super) async fn members(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<Json<Vec<MemberView>>, Problem> {
    let members = organisations::members(&doors.pool, &who, OrganisationId(id)).await?;
    let view = |row: MemberRow| MemberView {
        account_id: row.account_id,
        name: row.name,
        phone: row.phone,
        function: row.function,
    };
    Ok(Json(members.into_iter().map(view).collect()))
}

/// Another function.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionBody {
    function: MemberFunction,
}

/// Changes a member's function. Owners decide about everybody, managers about operators; the last owner stays one.
#[utoipa::path(put, path = "/api/organisations/{id}/members/{account}", tag = "organisations",
    params(("id" = Uuid, Path), ("account" = Uuid, Path)), request_body = FunctionBody, responses(
    (status = 204, description = "changed"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours, or nobody of it", body = Problem),
    (status = 409, description = "the last owner", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn set_function(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path((id, account)): Path<(Uuid, Uuid)>,
    Body(body): Body<FunctionBody>,
) -> Result<StatusCode, Problem> {
    let (id, account) = (OrganisationId(id), AccountId(account));
    let (function, now) = (body.function.into(), doors.clock.now());
    organisations::set_function(&doors.pool, &who, id, account, function, now).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes somebody out, or leaves; the last owner stays.
#[utoipa::path(delete, path = "/api/organisations/{id}/members/{account}", tag = "organisations",
    params(("id" = Uuid, Path), ("account" = Uuid, Path)), responses(
    (status = 204, description = "out"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours, or nobody of it", body = Problem),
    (status = 409, description = "the last owner", body = Problem)
))]
pub(super) async fn remove_member(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path((id, account)): Path<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let (id, account) = (OrganisationId(id), AccountId(account));
    organisations::remove_member(&doors.pool, &who, id, account, doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}
