//! A trace id for every request: taken from `traceparent` or made; in logs, problems and `X-Trace-Id`.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue},
    middleware::Next,
    response::Response,
};
use tracing::Instrument as _;

tokio::task_local! {
    static TRACE: String;
}

/// The trace id of the request that is being answered; empty outside of one.
pub(super) fn current() -> String {
    TRACE.try_with(Clone::clone).unwrap_or_default()
}

/// The middleware.
pub(super) async fn trace(request: Request, next: Next) -> Response {
    let id =
        told(request.headers()).unwrap_or_else(|| format!("{:032x}", rand::random::<u128>() | 1));
    let span = tracing::info_span!("http", method = %request.method(), path = %request.uri().path(), trace_id = %id);
    let header = HeaderValue::from_str(&id);
    let answer = TRACE.scope(
        id,
        async move {
            let answer = next.run(request).await;
            tracing::info!(status = answer.status().as_u16(), "http.answer");
            answer
        }
        .instrument(span),
    );
    let mut answer = answer.await;
    if let Ok(header) = header {
        answer.headers_mut().insert("x-trace-id", header);
    }
    answer
}

/// The trace id of a W3C `traceparent`: version 00, 32 hex digits that are not all zero.
fn told(headers: &HeaderMap) -> Option<String> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let (version, id) = (parts.next()?, parts.next()?);
    let good = version == "00"
        && id.len() == 32
        && id.bytes().all(|b| b.is_ascii_hexdigit())
        && id.bytes().any(|b| b != b'0');
    good.then(|| id.to_ascii_lowercase())
}
