//! Accounts and sessions: codes, sign-up, sign-in, refresh, passwords, phones, organisations.

use axum::{
    Json,
    extract::{ConnectInfo, Path, State},
    http::{HeaderMap, StatusCode},
};
use furrow_domain::id::{AccountId, OrganisationId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    body::Body,
    limits::{self, BY_ADDRESS, CODES_BY_PHONE, SIGN_IN_BY_PHONE},
    problem::Problem,
    serve::Peer,
    session::SignedIn,
    trace,
};
use crate::app::{
    accounts::{self, Door, Purpose, Session, Shown, normal_phone},
    organisations,
    who::Function,
};

/// What a code is for.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum CodePurpose {
    SignUp,
    SignIn,
    Reset,
    ChangePhone,
}

/// To which phone, and what for.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CodeBody {
    /// With country code; Chinese numbers may leave it out.
    phone: String,
    /// What for.
    purpose: CodePurpose,
}

/// A new account.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignUpBody {
    phone: String,
    /// Six digits, from the message.
    code: String,
    /// As others see it.
    name: String,
    /// 8 to 128 characters; without one, one signs in by codes.
    #[serde(default)]
    password: Option<String>,
    /// `zh` (default) or `en`.
    #[serde(default)]
    locale: Option<String>,
}

/// Password or code, and for staff the second factor.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInBody {
    phone: String,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    code: Option<String>,
    /// Six digits of the authenticator, for staff.
    #[serde(default)]
    totp: Option<String>,
}

/// A refresh token.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RefreshBody {
    refresh_token: String,
}

/// A new password.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResetBody {
    phone: String,
    code: String,
    password: String,
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

/// A session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct SessionView {
    account_id: Uuid,
    /// For `Authorization: Bearer`, 15 minutes.
    access_token: String,
    /// For the next session, once.
    refresh_token: String,
    /// Seconds that the access token lives.
    expires_in: i64,
}

impl From<Session> for SessionView {
    fn from(session: Session) -> Self {
        Self {
            account_id: session.account.0,
            access_token: session.access,
            refresh_token: session.refresh,
            expires_in: crate::app::tokens::ACCESS.num_seconds(),
        }
    }
}

fn door<'a>(doors: &'a Doors, trace_id: &'a str) -> Door<'a> {
    Door {
        pool: &doors.pool,
        tokens: &doors.tokens,
        now: doors.clock.now(),
        trace_id,
    }
}

/// Counts an unknown caller by where he comes from.
async fn count(doors: &Doors, peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
    let from = limits::address(peer.0.ip(), headers, &doors.proxies);
    limits::take(doors, BY_ADDRESS, &from.to_string(), doors.clock.now()).await
}

/// Sends a one-time code. The answer is the same whether the phone has an account or not.
#[utoipa::path(post, path = "/api/auth/codes", tag = "accounts", request_body = CodeBody, responses(
    (status = 202, description = "sent"),
    (status = 422, description = "no phone", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn send_code(
    State(doors): State<Doors>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    Body(body): Body<CodeBody>,
) -> Result<StatusCode, Problem> {
    count(&doors, peer, &headers).await?;
    let phone = normal_phone(&body.phone)?;
    limits::take(&doors, CODES_BY_PHONE, &phone, doors.clock.now()).await?;
    let purpose = match body.purpose {
        CodePurpose::SignUp => Purpose::SignUp,
        CodePurpose::SignIn => Purpose::SignIn,
        CodePurpose::Reset => Purpose::Reset,
        CodePurpose::ChangePhone => Purpose::ChangePhone,
    };
    let text = accounts::make_code(door(&doors, &trace::current()), &phone, purpose).await?;
    if let Err(error) = doors.sms.send(&phone, &text).await {
        tracing::error!(error = %error, "http.sms");
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "sms_away",
            "messages cannot be sent now",
        )
        .retry_after(30));
    }
    Ok(StatusCode::ACCEPTED)
}

/// Opens an account.
#[utoipa::path(post, path = "/api/auth/sign-up", tag = "accounts", request_body = SignUpBody, responses(
    (status = 201, description = "signed in", body = SessionView),
    (status = 401, description = "wrong code", body = Problem),
    (status = 409, description = "the phone has an account", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn sign_up(
    State(doors): State<Doors>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    Body(body): Body<SignUpBody>,
) -> Result<(StatusCode, Json<SessionView>), Problem> {
    count(&doors, peer, &headers).await?;
    let phone = normal_phone(&body.phone)?;
    let locale = body.locale.as_deref().unwrap_or("zh");
    let trace_id = trace::current();
    let session = accounts::sign_up(
        door(&doors, &trace_id),
        &phone,
        &body.code,
        &body.name,
        body.password.as_deref(),
        locale,
    )
    .await?;
    Ok((StatusCode::CREATED, Json(session.into())))
}

/// Opens a session.
#[utoipa::path(post, path = "/api/auth/sign-in", tag = "accounts", request_body = SignInBody, responses(
    (status = 200, description = "signed in", body = SessionView),
    (status = 401, description = "wrong credentials, code or second factor", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn sign_in(
    State(doors): State<Doors>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    Body(body): Body<SignInBody>,
) -> Result<Json<SessionView>, Problem> {
    count(&doors, peer, &headers).await?;
    let phone = normal_phone(&body.phone)?;
    limits::take(&doors, SIGN_IN_BY_PHONE, &phone, doors.clock.now()).await?;
    let shown = match (&body.password, &body.code) {
        (Some(password), None) => Shown::Password(password),
        (None, Some(code)) => Shown::Code(code),
        _ => {
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid",
                "password: either a password or a code",
            ));
        }
    };
    let trace_id = trace::current();
    let totp = body.totp.as_deref();
    let session = accounts::sign_in(door(&doors, &trace_id), &phone, shown, totp).await?;
    Ok(Json(session.into()))
}

/// Gives the next tokens of a session. A token that was used before ends it.
#[utoipa::path(post, path = "/api/auth/refresh", tag = "accounts", request_body = RefreshBody, responses(
    (status = 200, description = "the next tokens", body = SessionView),
    (status = 401, description = "the session is over", body = Problem)
))]
pub(super) async fn refresh(
    State(doors): State<Doors>,
    Body(body): Body<RefreshBody>,
) -> Result<Json<SessionView>, Problem> {
    let trace_id = trace::current();
    let session = accounts::refresh(door(&doors, &trace_id), &body.refresh_token).await?;
    Ok(Json(session.into()))
}

/// Ends a session.
#[utoipa::path(post, path = "/api/auth/sign-out", tag = "accounts", request_body = RefreshBody, responses(
    (status = 204, description = "over")
))]
pub(super) async fn sign_out(
    State(doors): State<Doors>,
    Body(body): Body<RefreshBody>,
) -> Result<StatusCode, Problem> {
    let trace_id = trace::current();
    accounts::sign_out(door(&doors, &trace_id), &body.refresh_token).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sets a new password by a code.
#[utoipa::path(post, path = "/api/auth/reset", tag = "accounts", request_body = ResetBody, responses(
    (status = 204, description = "set; all sessions are over"),
    (status = 401, description = "wrong code", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn reset(
    State(doors): State<Doors>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    Body(body): Body<ResetBody>,
) -> Result<StatusCode, Problem> {
    count(&doors, peer, &headers).await?;
    let phone = normal_phone(&body.phone)?;
    limits::take(&doors, SIGN_IN_BY_PHONE, &phone, doors.clock.now()).await?;
    let trace_id = trace::current();
    accounts::reset_password(door(&doors, &trace_id), &phone, &body.code, &body.password).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Who is signed in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MeView {
    account_id: Uuid,
    organisations: Vec<OwnOrganisation>,
    /// As staff.
    permissions: Vec<String>,
}

/// An organisation of one's own.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct OwnOrganisation {
    id: Uuid,
    /// `owner`, `manager` or `operator`.
    function: &'static str,
}

/// Who is signed in, and what as.
#[utoipa::path(get, path = "/api/me", tag = "accounts", responses(
    (status = 200, description = "you", body = MeView),
    (status = 401, description = "nobody is signed in", body = Problem)
))]
pub(super) async fn me(SignedIn(who): SignedIn) -> Json<MeView> {
    Json(MeView {
        account_id: who.account.0,
        organisations: who
            .organisations
            .iter()
            .map(|(id, function)| OwnOrganisation {
                id: id.0,
                function: function.name(),
            })
            .collect(),
        permissions: who.permissions,
    })
}

/// Changes the phone, by a code to each of the two.
#[utoipa::path(post, path = "/api/me/phone", tag = "accounts", request_body = PhoneBody, responses(
    (status = 204, description = "changed; all sessions are over"),
    (status = 401, description = "wrong code", body = Problem),
    (status = 409, description = "the phone has an account", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn change_phone(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<PhoneBody>,
) -> Result<StatusCode, Problem> {
    let new_phone = normal_phone(&body.new_phone)?;
    limits::take(&doors, SIGN_IN_BY_PHONE, &new_phone, doors.clock.now()).await?;
    let door = door(&doors, &who.trace_id);
    accounts::change_phone(door, who.account, &body.code, &new_phone, &body.new_code).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A new organisation.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OrganisationBody {
    name: String,
}

/// An id.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct IdView {
    pub id: Uuid,
}

/// Makes an organisation that lets machines.
#[utoipa::path(post, path = "/api/organisations", tag = "accounts", request_body = OrganisationBody, responses(
    (status = 201, description = "made", body = IdView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn create_organisation(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<OrganisationBody>,
) -> Result<(StatusCode, Json<IdView>), Problem> {
    let id = organisations::create(&doors.pool, &who, &body.name, doors.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(IdView { id: id.0 })))
}

/// Somebody of an organisation.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberBody {
    /// Of an account.
    phone: String,
    function: MemberFunction,
}

/// As what.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum MemberFunction {
    Owner,
    Manager,
    Operator,
}

/// A member.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct MemberView {
    account_id: Uuid,
    name: String,
    phone: String,
    function: String,
}

/// Puts somebody in, or changes the function.
#[utoipa::path(post, path = "/api/organisations/{id}/members", tag = "accounts", params(("id" = Uuid, Path)),
    request_body = MemberBody, responses(
    (status = 200, description = "in", body = IdView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn set_member(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<MemberBody>,
) -> Result<Json<IdView>, Problem> {
    let function = match body.function {
        MemberFunction::Owner => Function::Owner,
        MemberFunction::Manager => Function::Manager,
        MemberFunction::Operator => Function::Operator,
    };
    let (id, now) = (OrganisationId(id), doors.clock.now());
    let account =
        organisations::set_member(&doors.pool, &who, id, &body.phone, function, now).await?;
    Ok(Json(IdView { id: account.0 }))
}

/// The people of an organisation.
#[utoipa::path(get, path = "/api/organisations/{id}/members", tag = "accounts", params(("id" = Uuid, Path)), responses(
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
    let view = |row: crate::db::accounts::MemberRow| MemberView {
        account_id: row.account_id,
        name: row.name,
        phone: row.phone,
        function: row.function,
    };
    Ok(Json(members.into_iter().map(view).collect()))
}

/// Takes somebody out; the last owner stays.
#[utoipa::path(delete, path = "/api/organisations/{id}/members/{account}", tag = "accounts",
    params(("id" = Uuid, Path), ("account" = Uuid, Path)), responses(
    (status = 204, description = "out"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such organisation of yours, or nobody of it", body = Problem)
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
