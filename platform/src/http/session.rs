//! Who asks: the access token of a request, and the account's rights as the database has them now. Never trusts a right that a token tells.

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, header::AUTHORIZATION, request::Parts},
};
use furrow_domain::id::{AccountId, OrganisationId};

use super::{Doors, problem::Problem, trace};
use crate::{
    app::who::{Function, Who},
    db::accounts,
};

/// Somebody who is signed in.
pub(super) struct SignedIn(pub Who);

fn unauthorized() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "sign in first: the access token is missing, wrong or over",
    )
}

impl FromRequestParts<Doors> for SignedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Problem> {
        let header = parts.headers.get(AUTHORIZATION);
        let token = header
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or_else(unauthorized)?;
        who(doors, token).await.map(Self)
    }
}

/// Who shows this token now.
pub(super) async fn who(doors: &Doors, token: &str) -> Result<Who, Problem> {
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
        trace_id: trace::current(),
    })
}

/// Staff: everything under `/api/admin` comes through here, and to everybody else there is nothing.
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
