//! The session of a web page: its refresh token in a cookie that scripts cannot read, and a second one beside it that they must show. Never takes a cookie alone for a yes.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{COOKIE, SET_COOKIE},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::problem::Problem;
use crate::app::{
    accounts::sessions::{SESSION, Session},
    devices::hash,
};

/// The refresh token. `__Host-`: of this host alone, over TLS alone, for every path.
const SESSION_COOKIE: &str = "__Host-furrow_session";
/// What a script shows again, in the header below; another site can neither read nor set it.
const CSRF_COOKIE: &str = "__Host-furrow_csrf";
/// Where it is shown.
const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");

/// What belongs to a refresh token and tells nothing about it.
fn csrf(refresh: &str) -> String {
    URL_SAFE_NO_PAD.encode(hash(format!("furrow csrf v1:{refresh}").as_bytes()))
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then(|| value.to_owned()))
}

/// The cookies of a session, as headers of an answer; over ones without a session.
pub(super) fn of(session: Option<&Session>) -> HeaderMap {
    let (refresh, token, age) = match session {
        Some(session) => (
            session.refresh.as_str(),
            csrf(&session.refresh),
            SESSION.num_seconds(),
        ),
        None => ("", String::new(), 0),
    };
    let mut headers = HeaderMap::new();
    for line in [
        format!(
            "{SESSION_COOKIE}={refresh}; Path=/; Max-Age={age}; Secure; HttpOnly; SameSite=Lax"
        ),
        format!("{CSRF_COOKIE}={token}; Path=/; Max-Age={age}; Secure; SameSite=Strict"),
    ] {
        if let Ok(value) = HeaderValue::from_str(&line) {
            headers.append(SET_COOKIE, value);
        }
    }
    headers
}

/// The refresh token of a request's cookie, if the page has shown that it is ours.
pub(super) fn refresh_token(headers: &HeaderMap) -> Result<String, Problem> {
    let over = || Problem::new(StatusCode::UNAUTHORIZED, "session_over", "sign in again");
    let refresh = cookie(headers, SESSION_COOKIE).ok_or_else(over)?;
    let shown = headers.get(CSRF).and_then(|value| value.to_str().ok());
    if shown == Some(csrf(&refresh).as_str()) {
        return Ok(refresh);
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "csrf",
        "X-CSRF-Token: must be the value of the cookie __Host-furrow_csrf",
    ))
}
