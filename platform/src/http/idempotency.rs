//! A request that is sent twice is carried out once: the same key and body get the first answer again.

use axum::{
    Json,
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use chrono::TimeDelta;
use serde::Serialize;

use super::{Doors, problem::Problem};
use crate::{
    app::{devices::hash, who::Who},
    db::requests::{self, RequestKey},
};

/// The header.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// A request that was begun and never ended, by a process that died, may be tried again after so long.
const STALE: TimeDelta = TimeDelta::minutes(2);

fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(KEY) else {
        return Ok(None);
    };
    let key = value.to_str().unwrap_or_default();
    if (8..=128).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(Some(key.to_owned()));
    }
    Err(Problem::invalid(
        "Idempotency-Key",
        "must have 8 to 128 visible characters",
    ))
}

/// Carries a request out, once for its key. Without a key it is carried out each time.
pub(super) async fn once<T, F>(
    doors: &Doors,
    who: &Who,
    route: String,
    headers: &HeaderMap,
    body: &Bytes,
    work: F,
) -> Result<Response, Problem>
where
    T: Serialize,
    F: Future<Output = Result<(StatusCode, T), Problem>>,
{
    let Some(key) = key(headers)? else {
        let (status, view) = work.await?;
        return Ok((status, Json(view)).into_response());
    };
    let of = RequestKey {
        account: who.account.0,
        route,
        key,
    };
    let (now, body_hash) = (doors.clock.now(), hash(body));
    let former = requests::begin(&doors.pool, &of, &body_hash, now, now - STALE).await?;
    if let Some(former) = former {
        return again(&former, &body_hash);
    }
    match work.await {
        Ok((status, view)) => {
            let answer = serde_json::to_vec(&view).unwrap_or_default();
            let code = i16::try_from(status.as_u16()).unwrap_or(200);
            requests::keep_answer(&doors.pool, &of, code, &answer).await?;
            Ok(told(status, answer))
        }
        // What was refused changed nothing: it may be asked again with the same key.
        Err(problem) => {
            requests::forget(&doors.pool, &of).await?;
            Err(problem)
        }
    }
}

fn again(former: &requests::AnswerRow, body_hash: &[u8]) -> Result<Response, Problem> {
    if former.body_hash != body_hash {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "key_reused",
            "Idempotency-Key: was used for another body",
        ));
    }
    let (Some(status), Some(answer)) = (former.status, &former.answer) else {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "in_progress",
            "the same request is being carried out",
        )
        .retry_after(1));
    };
    let status = u16::try_from(status)
        .ok()
        .and_then(|s| StatusCode::from_u16(s).ok());
    Ok(told(status.unwrap_or(StatusCode::OK), answer.clone()))
}

fn told(status: StatusCode, answer: Vec<u8>) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(CONTENT_TYPE, json)], answer).into_response()
}
