//! Headers that keep browsers from doing what nobody asked for. Never lets another site read an answer: there is no CORS.

use axum::{
    extract::Request,
    http::{
        HeaderName, HeaderValue,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
            X_FRAME_OPTIONS,
        },
    },
    middleware::Next,
    response::Response,
};

/// An answer of the API is no page and loads nothing.
const NOTHING: &str =
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The middleware. What a route says itself stays.
pub(super) async fn add(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    let always = [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, NOTHING),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    let headers = answer.headers_mut();
    for (name, value) in always {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}
