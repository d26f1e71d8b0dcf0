//! Who asks: the access token of a request, and the account's rights as the database has them now. Never trusts a right that a token tells.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION, request::Parts},
};
use furrow_domain::id::{AccountId, OrganisationId};

use super::{Doors, problem::Problem};
use crate::{
    app::who::{Function, Origin, Who},
    db::accounts,
};

fn unauthorized() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "sign in first: the access token is missing, wrong or over",
    )
}

/// Who shows the access token of these headers now.
pub(super) async fn who(
    doors: &Doors,
    headers: &HeaderMap,
    origin: &Origin,
) -> Result<Who, Problem> {
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .ok_or_else(unauthorized)?;
    let claims = doors.tokens.read(token, doors.clock.now());
    let claims = claims.ok_or_else(unauthorized)?;
    let rights = accounts::rights(&doors.pool, claims.sub, claims.sid).await?;
    let rights = rights
        .filter(|r| r.session_open && r.token_version == claims.ver)
        .ok_or_else(unauthorized)?;
    let functions = rights.functions.iter().map(|name| Function::of_name(name));
    let organisations = rights
        .organisations
        .into_iter()
        .zip(functions)
        .filter_map(|(id, function)| Some((OrganisationId(id), function?)))
        .collect();
    Ok(Who {
        account: AccountId(claims.sub),
        organisations,
        permissions: rights.permissions,
        trace_id: origin.trace_id.clone(),
        address: origin.address,
    })
}

/// Somebody whom the guard has let in.
pub(super) struct SignedIn(pub Who);

impl FromRequestParts<Doors> for SignedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Doors) -> Result<Self, Problem> {
        // A route that asks for somebody and lets everybody in is closed.
        let who = parts.extensions.get::<Who>().cloned();
        who.map(Self).ok_or_else(unauthorized)
    }
}

/// Staff whom the guard has let in by the route's permission.
pub(super) struct Staff(pub Who);

impl FromRequestParts<Doors> for Staff {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Problem> {
        let SignedIn(who) = SignedIn::from_request_parts(parts, doors).await?;
        if who.permissions.is_empty() {
            return Err(super::problem::not_found().await);
        }
        Ok(Self(who))
    }
}

/// Where a request comes from, as the guard has seen it.
pub(super) struct Came(pub Origin);

impl FromRequestParts<Doors> for Came {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Doors) -> Result<Self, Problem> {
        let origin = parts.extensions.get::<Origin>().cloned();
        Ok(Self(origin.unwrap_or_default()))
    }
}
