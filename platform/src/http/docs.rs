//! The browsable page of the API, whole in this program. Never loads anything from elsewhere.

use axum::{
    Router,
    http::{
        HeaderValue,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY},
    },
    response::Response,
};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::Doors;

/// Where the page is.
const PAGE: &str = "/api/docs";
/// The page loads and asks its own host only; it writes its styles itself and keeps its icons in texts.
const OWN_HOST: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The page's routes.
pub(super) fn routes() -> Router<Doors> {
    let config = Config::from("/api/openapi.json")
        // It would show the description to a service elsewhere.
        .validator_url("none")
        .show_extensions(true)
        .persist_authorization(false);
    Router::from(SwaggerUi::new(PAGE).config(config)).layer(axum::middleware::map_response(headers))
}

async fn headers(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(OWN_HOST));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    answer
}
