//! Coming in and going out: codes, sign-up, sign-in, the next tokens, forgotten passwords. Never says whether a phone has an account.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Doors,
    body::Body,
    cookies,
    limits::{self, BY_ADDRESS, CODES_BY_ADDRESS, CODES_BY_PHONE, Limit, SIGN_IN_BY_PHONE},
    problem::Problem,
    session::Came,
};
use crate::app::{
    accounts::{self, Door, Purpose, Session, Shown, normal_phone},
    who::Origin,
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
    #[schema(examples("+8613800001111"))]
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
    #[schema(min_length = 1, max_length = 60)]
    name: String,
    /// 8 to 128 characters; without one, one signs in by codes.
    #[serde(default)]
    #[schema(min_length = 8, max_length = 128)]
    password: Option<String>,
    /// `zh` (default) or `en`.
    #[serde(default)]
    #[schema(pattern = "^(zh|en)$")]
    locale: Option<String>,
    /// For a web page: the refresh token comes as a cookie.
    #[serde(default)]
    cookie: bool,
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
    /// Six digits of the authenticator, or a recovery code; for staff.
    #[serde(default)]
    totp: Option<String>,
    /// For a web page: the refresh token comes as a cookie.
    #[serde(default)]
    cookie: bool,
}

/// A refresh token.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RefreshBody {
    /// Without it the cookie counts, and the header `X-CSRF-Token` with the value of `__Host-furrow_csrf`.
    #[serde(default)]
    refresh_token: Option<String>,
}

/// A new password.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResetBody {
    phone: String,
    code: String,
    #[schema(min_length = 8, max_length = 128)]
    password: String,
}

/// A session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct SessionView {
    account_id: Uuid,
    /// For `Authorization: Bearer`, 15 minutes.
    access_token: String,
    /// For the next session, once; not here where it came as a cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// Seconds that the access token lives.
    expires_in: i64,
}

/// A session as an answer, with its cookies for a web page.
fn answer(session: Session, cookie: bool) -> (HeaderMap, Json<SessionView>) {
    let headers = if cookie {
        cookies::of(Some(&session))
    } else {
        HeaderMap::new()
    };
    let view = SessionView {
        account_id: session.account.0,
        access_token: session.access,
        refresh_token: (!cookie).then_some(session.refresh),
        expires_in: crate::app::tokens::ACCESS.num_seconds(),
    };
    (headers, Json(view))
}

pub(super) fn door<'a>(doors: &'a Doors, origin: &'a Origin) -> Door<'a> {
    Door {
        pool: &doors.pool,
        tokens: &doors.tokens,
        now: doors.clock.now(),
        origin,
    }
}

/// Counts an unknown caller by where he comes from.
async fn count(doors: &Doors, origin: &Origin, limit: Limit) -> Result<(), Problem> {
    let from = origin.address.map(limits::counted).unwrap_or_default();
    limits::take(doors, limit, &from, doors.clock.now()).await
}

/// Sends a one-time code. The answer is the same whether the phone has an account or not.
#[utoipa::path(post, path = "/api/auth/codes", tag = "accounts", request_body = CodeBody, responses(
    (status = 202, description = "sent"),
    (status = 422, description = "no phone", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn send_code(
    State(doors): State<Doors>,
    Came(origin): Came,
    Body(body): Body<CodeBody>,
) -> Result<StatusCode, Problem> {
    count(&doors, &origin, CODES_BY_ADDRESS).await?;
    let phone = normal_phone(&body.phone)?;
    limits::take(&doors, CODES_BY_PHONE, &phone, doors.clock.now()).await?;
    let purpose = match body.purpose {
        CodePurpose::SignUp => Purpose::SignUp,
        CodePurpose::SignIn => Purpose::SignIn,
        CodePurpose::Reset => Purpose::Reset,
        CodePurpose::ChangePhone => Purpose::ChangePhone,
    };
    let text = accounts::make_code(door(&doors, &origin), &phone, purpose).await?;
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
    Came(origin): Came,
    Body(body): Body<SignUpBody>,
) -> Result<(StatusCode, HeaderMap, Json<SessionView>), Problem> {
    count(&doors, &origin, BY_ADDRESS).await?;
    let phone = normal_phone(&body.phone)?;
    let locale = body.locale.as_deref().unwrap_or("zh");
    let session = accounts::sign_up(
        door(&doors, &origin),
        &phone,
        &body.code,
        &body.name,
        body.password.as_deref(),
        locale,
    )
    .await?;
    let (headers, view) = answer(session, body.cookie);
    Ok((StatusCode::CREATED, headers, view))
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
    Came(origin): Came,
    Body(body): Body<SignInBody>,
) -> Result<(HeaderMap, Json<SessionView>), Problem> {
    count(&doors, &origin, BY_ADDRESS).await?;
    let phone = normal_phone(&body.phone)?;
    limits::take(&doors, SIGN_IN_BY_PHONE, &phone, doors.clock.now()).await?;
    let shown = match (&body.password, &body.code) {
        (Some(password), None) => Shown::Password(password),
        (None, Some(code)) => Shown::Code(code),
        _ => {
            return Err(Problem::invalid("password", "either a password or a code"));
        }
    };
    let totp = body.totp.as_deref();
    let session = accounts::sign_in(door(&doors, &origin), &phone, shown, totp).await?;
    Ok(answer(session, body.cookie))
}

/// Gives the next tokens of a session. A token that was used before ends it.
#[utoipa::path(post, path = "/api/auth/refresh", tag = "accounts", request_body = RefreshBody,
    params(("X-CSRF-Token" = Option<String>, Header)), responses(
    (status = 200, description = "the next tokens", body = SessionView),
    (status = 401, description = "the session is over", body = Problem),
    (status = 403, description = "a cookie without its token", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn refresh(
    State(doors): State<Doors>,
    Came(origin): Came,
    headers: HeaderMap,
    Body(body): Body<RefreshBody>,
) -> Result<(HeaderMap, Json<SessionView>), Problem> {
    count(&doors, &origin, BY_ADDRESS).await?;
    let cookie = body.refresh_token.is_none();
    let token = body
        .refresh_token
        .map_or_else(|| cookies::refresh_token(&headers), Ok)?;
    let session = accounts::refresh(door(&doors, &origin), &token).await?;
    Ok(answer(session, cookie))
}

/// Ends a session.
#[utoipa::path(post, path = "/api/auth/sign-out", tag = "accounts", request_body = RefreshBody,
    params(("X-CSRF-Token" = Option<String>, Header)), responses(
    (status = 204, description = "over"),
    (status = 401, description = "no session is shown", body = Problem),
    (status = 403, description = "a cookie without its token", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn sign_out(
    State(doors): State<Doors>,
    Came(origin): Came,
    headers: HeaderMap,
    Body(body): Body<RefreshBody>,
) -> Result<(StatusCode, HeaderMap), Problem> {
    count(&doors, &origin, BY_ADDRESS).await?;
    let told = match body.refresh_token {
        Some(_) => HeaderMap::new(),
        None => cookies::of(None),
    };
    let token = body
        .refresh_token
        .map_or_else(|| cookies::refresh_token(&headers), Ok)?;
    accounts::sign_out(door(&doors, &origin), &token).await?;
    Ok((StatusCode::NO_CONTENT, told))
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
    Came(origin): Came,
    Body(body): Body<ResetBody>,
) -> Result<StatusCode, Problem> {
    count(&doors, &origin, BY_ADDRESS).await?;
    let phone = normal_phone(&body.phone)?;
    limits::take(&doors, SIGN_IN_BY_PHONE, &phone, doors.clock.now()).await?;
    accounts::reset_password(door(&doors, &origin), &phone, &body.code, &body.password).await?;
    Ok(StatusCode::NO_CONTENT)
}
