//! Staff about people: who is staff, and phones that their owners have lost. Everybody else finds nothing here.

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
    session::{Came, Staff},
};
use crate::{
    app::accounts::{self, normal_phone, staff},
    db::staff::StaffRow,
};

/// A member of staff.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct StaffView {
    account_id: Uuid,
    name: String,
    permissions: Vec<String>,
    granted_at: DateTime<Utc>,
}

/// All staff.
#[utoipa::path(get, path = "/api/admin/staff", tag = "admin", responses(
    (status = 200, description = "all of it", body = Vec<StaffView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn all(
    State(doors): State<Doors>,
    Staff(who): Staff,
) -> Result<Json<Vec<StaffView>>, Problem> {
    let rows = staff::all(&doors.pool, &who).await?;
    let view = |row: StaffRow| StaffView {
        account_id: row.account_id,
        name: row.name,
        permissions: row.permissions,
        granted_at: row.granted_at,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// What somebody may.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantBody {
    /// `*` is all of them.
    #[schema(min_items = 1)]
    permissions: Vec<String>,
}

/// What a new member of staff sets up.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct NewStaffView {
    account_id: Uuid,
    /// For the authenticator, base 32. It is not shown again.
    totp_secret: String,
    /// In place of the authenticator, each once. They are not shown again.
    recovery_codes: Vec<String>,
}

/// Makes staff of an account, or changes its rights; nobody gives more than he has. Its sessions end, and its second factor is new.
#[utoipa::path(put, path = "/api/admin/staff/{id}", tag = "admin", params(("id" = Uuid, Path)), request_body = GrantBody, responses(
    (status = 200, description = "hand it over by a safe way", body = NewStaffView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "oneself, or more than one has", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn appoint(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
    Body(body): Body<GrantBody>,
) -> Result<Json<NewStaffView>, Problem> {
    let now = doors.clock.now();
    let made = staff::appoint(&doors.pool, &who, id, &body.permissions, now).await?;
    Ok(Json(NewStaffView {
        account_id: made.account.0,
        totp_secret: made.secret,
        recovery_codes: made.recovery,
    }))
}

/// Takes all rights of staff from an account.
#[utoipa::path(delete, path = "/api/admin/staff/{id}", tag = "admin", params(("id" = Uuid, Path)), responses(
    (status = 204, description = "no longer staff"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "oneself, or who has more rights", body = Problem),
    (status = 404, description = "nothing here", body = Problem)
))]
pub(super) async fn dismiss(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, Problem> {
    staff::dismiss(&doors.pool, &who, id, doors.clock.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A phone in place of one that its owner has lost.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LostPhoneBody {
    new_phone: String,
    /// Sent to the new phone for `change_phone`.
    new_code: String,
    /// How it was made sure who asks.
    #[schema(min_length = 1, max_length = 500)]
    identity_check: String,
}

/// Gives an account another phone after a look at who asks. Its sessions end; nothing is paid out for 72 hours.
#[utoipa::path(post, path = "/api/admin/accounts/{id}/phone", tag = "admin", params(("id" = Uuid, Path)), request_body = LostPhoneBody, responses(
    (status = 204, description = "changed"),
    (status = 401, description = "wrong code, or nobody is signed in", body = Problem),
    (status = 403, description = "one's own account", body = Problem),
    (status = 404, description = "nothing here", body = Problem),
    (status = 409, description = "the phone has an account", body = Problem),
    (status = 422, description = "a field", body = Problem),
    (status = 429, description = "too often", body = Problem)
))]
pub(super) async fn change_phone(
    State(doors): State<Doors>,
    Staff(who): Staff,
    Came(origin): Came,
    Path(id): Path<Uuid>,
    Body(body): Body<LostPhoneBody>,
) -> Result<StatusCode, Problem> {
    let phone = normal_phone(&body.new_phone)?;
    limits::take(&doors, SIGN_IN_BY_PHONE, &phone, doors.clock.now()).await?;
    let (door, check) = (door(&doors, &origin), &body.identity_check);
    accounts::change_phone_by_staff(door, &who, id, &phone, &body.new_code, check).await?;
    Ok(StatusCode::NO_CONTENT)
}
