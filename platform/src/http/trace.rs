//! What every request goes through: a trace id (taken from `traceparent` or made), a span, counters, a time limit. Never logs a body, a query or a header.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderValue, Method, StatusCode},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::problem::Problem;

/// A request takes at most so long, its body's coming included.
const REQUEST: Duration = Duration::from_secs(30);

tokio::task_local! {
    static TRACE: String;
}

/// The trace id of the request that is being answered; empty outside of one.
pub(super) fn current() -> String {
    TRACE.try_with(Clone::clone).unwrap_or_default()
}

/// The middleware.
pub(super) async fn trace(request: Request, next: Next) -> Response {
    let id = told(request.headers()).unwrap_or_else(crate::ids::trace_id);
    let method = request.method().clone();
    // Paths of strangers' making are neither a label nor a log line.
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let span = tracing::info_span!("http", method = %method, route = %route, trace_id = %id);
    let header = HeaderValue::from_str(&id);
    let begin = Instant::now();
    let work = TRACE.scope(id.clone(), whole(request, next).instrument(span.clone()));
    let answer = within_time(&method, work);
    let mut answer = TRACE.scope(id, answer.instrument(span.clone())).await;
    span.in_scope(|| note(&method, route, answer.status(), begin.elapsed()));
    if let Ok(header) = header {
        answer.headers_mut().insert("x-trace-id", header);
    }
    answer
}

/// The answer, also where its handler fails.
async fn whole(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::error!("http.panic");
            Problem::internal().into_response()
        }
    }
}

/// Waits for the answer as long as a request may take. What changes something runs to its end by itself,
/// whether its caller still waits or not: cut off after its commit it would leave a repeated request
/// without the answer to the first.
async fn within_time(
    method: &Method,
    work: impl Future<Output = Response> + Send + 'static,
) -> Response {
    let answer = if method.is_safe() {
        timeout(REQUEST, work).await
    } else {
        let running = tokio::spawn(work);
        let ended = timeout(REQUEST, running).await;
        ended.map(|answer| answer.unwrap_or_else(|_| Problem::internal().into_response()))
    };
    answer.unwrap_or_else(|_| {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the request did not come to its end in time",
        )
        .into_response()
    })
}

fn note(method: &Method, route: String, status: StatusCode, took: Duration) {
    let method = match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    };
    metrics::counter!(
        "furrow_http_requests_total",
        "method" => method, "route" => route.clone(), "status" => status.as_u16().to_string()
    )
    .increment(1);
    metrics::histogram!("furrow_http_request_seconds", "method" => method, "route" => route)
        .record(took.as_secs_f64());
    tracing::info!(
        status = status.as_u16(),
        took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "http.answer"
    );
}

/// The trace id of a W3C `traceparent`: version 00, four parts, ids of hex digits that are not all zero.
fn told(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("traceparent")?.to_str().ok()?;
    let mut parts = value.split('-');
    let (version, id) = (parts.next()?, parts.next()?);
    let (parent, flags) = (parts.next()?, parts.next()?);
    let hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let given = |text: &str, length| hex(text, length) && text.bytes().any(|b| b != b'0');
    let good = version == "00" && given(id, 32) && given(parent, 16) && hex(flags, 2);
    (good && parts.next().is_none()).then(|| id.to_owned())
}
