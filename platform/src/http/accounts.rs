//! One's own account: profile, phone, sessions, invitations. Never shows anybody else's.

use axum::{Json, extract::State, http::StatusCode};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    auth::door,
    body::{Body, Path},
    limits::{self, SIGN_IN_BY_PHONE},
    problem::Problem,
    session::{Came, SignedIn},
};
use crate::app::{
    accounts::{self, normal_phone, sessions},
    organisations,
};

/// Who is signed in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MeView {
    account_id: Uuid,
    phone: String,
    name: String,
    /// `zh` or `en`.
    locale: String,
    /// New orders are stopped since then.
    blocked_at: Option<DateTime<Utc>>,
    organisations: Vec<OwnOrganisation>,
    /// As staff.
    permissions: Vec<String>,
}

/// An organisation of one's own.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct OwnOrganisation {
    id: Uuid,
    name: String,
    /// `person` or `company`.
    kind: String,
    /// `owner`, `manager` or `operator`.
    function: String,
    /// Its papers were found good.
    verified: bool,
    /// Its listings are stopped.
    suspended: bool,
}

/// Who is signed in, and what as.
#[utoipa::path(get, path = "/api/me", tag = "accounts", responses(
    (status = 200, description = "you", body = MeView),
    (status = 401, description = "nobody is signed in", body = Problem)
))]
pub(super) async fn me(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
) -> Result<Json<MeView>, Problem> {
    let account = accounts::own(&doors.pool, &who).await?;
    let organisations = organisations::own(&doors.pool, &who).await?;
    Ok(Json(MeView {
        account_id: account.id,
        phone: account.phone,
        name: account.name,
        locale: account.locale,
        blocked_at: account.blocked_at,
        organisations: organisations
            .into_iter()
            .map(|row| OwnOrganisation {
                id: row.id,
                name: row.name,
                kind: row.kind,
                function: row.function,
                verified: row.verified_at.is_some(),
                suspended: row.suspended_at.is_some(),
            })
            .collect(),
        permissions: who.permissions,
    }))
}

/// What others see.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileBody {
    /// 1 to 60 characters.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 60)]
    name: Option<String>,
    /// `zh` or `en`.
    #[serde(default)]
    #[schema(pattern = "^(zh|en)$")]
    locale: Option<String>,
}

/// Changes name or language; what is left out stays.
#[utoipa::path(patch, path = "/api/me", tag = "accounts", request_body = ProfileBody, responses(
    (status = 204, description = "changed"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn set_profile(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<ProfileBody>,
) -> Result<StatusCode, Problem> {
    let (name, locale) = (body.name.as_deref(), body.locale.as_deref());
    accounts::set_profile(&doors.pool, &who, name, locale).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Another phone.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PhoneBody {
    /// Sent to the phone of before.
    code: String,
    new_phone: String,
    /// Sent to the new phone.
    new_code: String,
}

/// Changes the phone, by a code to each of the two.
#[utoipa::path(post, path = "/api/me/phone", tag = "accounts", request_body = PhoneBody, responses(
    (status = 204, description = "changed; all sessions are over"),
    (status = 401, description = "wrong code, or nobody is signed in", body = Problem),
    (status = 409, description = "the phone has an account", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn change_phone(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Came(origin): Came,
    Body(body): Body<PhoneBody>,
) -> Result<StatusCode, Problem> {
    let new_phone = normal_phone(&body.new_phone)?;
    limits::take(&doors, SIGN_IN_BY_PHONE, &new_phone, doors.clock.now()).await?;
    let door = door(&doors, &origin);
    accounts::change_phone(door, &who, &body.code, &new_phone, &body.new_code).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An open session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct OpenSession {
    id: Uuid,
    opened_at: DateTime<Utc>,
    /// When its tokens were last renewed.
    used_at: DateTime<Utc>,
    /// The address from which it was opened.
    from_address: Option<String>,
}

/// One's open sessions, newest first.
#[utoipa::path(get, path = "/api/me/sessions", tag = "accounts", responses(
    (status = 200, description = "up to 100", body = Vec<OpenSession>),
    (status = 401, description = "nobody is signed in", body = Problem)
))]
pub(super) async fn own_sessions(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
) -> Result<Json<Vec<OpenSession>>, Problem> {
    let rows = sessions::own(&doors.pool, &who, doors.clock.now()).await?;
    let view = |row: crate::db::credentials::SessionRow| OpenSession {
        id: row.id,
        opened_at: row.created_at,
        used_at: row.used_at,
        from_address: row.from_address,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// Ends a session, for a phone that was lost.
#[utoipa::path(delete, path = "/api/me/sessions/{id}", tag = "accounts", params(("id" = Uuid, Path)), responses(
    (status = 204, description = "over"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no open session of yours", body = Problem)
))]
pub(super) async fn end_session(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, Problem> {
    sessions::end(&doors.pool, &who, id, doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An organisation that asks one in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct OwnInvitation {
    id: Uuid,
    organisation_id: Uuid,
    organisation: String,
    /// `owner`, `manager` or `operator`.
    function: String,
    invited_at: DateTime<Utc>,
}

/// Organisations that ask one in.
#[utoipa::path(get, path = "/api/me/invitations", tag = "accounts", responses(
    (status = 200, description = "all of them", body = Vec<OwnInvitation>),
    (status = 401, description = "nobody is signed in", body = Problem)
))]
pub(super) async fn own_invitations(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
) -> Result<Json<Vec<OwnInvitation>>, Problem> {
    let rows = organisations::invitations_to(&doors.pool, &who, doors.clock.now()).await?;
    let view = |row: crate::db::organisations::InvitationRow| OwnInvitation {
        id: row.id,
        organisation_id: row.organisation_id,
        organisation: row.organisation,
        function: row.function,
        invited_at: row.invited_at,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// Yes or no.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    accept: bool,
}

/// Says yes or no to an invitation.
#[utoipa::path(post, path = "/api/me/invitations/{id}", tag = "accounts", params(("id" = Uuid, Path)),
    request_body = AnswerBody, responses(
    (status = 204, description = "answered"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no open invitation of yours", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn answer_invitation(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<AnswerBody>,
) -> Result<StatusCode, Problem> {
    let now = doors.clock.now();
    organisations::answer(&doors.pool, &who, id, body.accept, now).await?;
    Ok(StatusCode::NO_CONTENT)
}
