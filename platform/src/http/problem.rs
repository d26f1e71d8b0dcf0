//! Errors as RFC 9457 problem documents; the only place that turns an error into a status. Never shows a source to the outside.

use axum::{
    Json,
    extract::Request,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::trace;
use crate::{
    app::{
        devices::EnrolError,
        fault::{Fault, Sort},
    },
    db::{self, DbError},
};

/// A problem document.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// `urn:furrow:problem:CODE`, stable.
    #[serde(rename = "type")]
    kind: Box<str>,
    /// Short and the same for all of its kind.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong here, for people.
    detail: Box<str>,
    /// The stable code.
    code: &'static str,
    /// By which the logs know the request.
    trace_id: Box<str>,
    /// What helps to go on: a field's path, a fee, a version, a free time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    data: Option<Box<serde_json::Value>>,
    /// After how many seconds another try may go better.
    #[serde(skip)]
    retry_after_s: Option<u32>,
}

impl Problem {
    /// A problem of the request that is being answered.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:furrow:problem:{code}").into(),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into().into(),
            code,
            trace_id: trace::current().into(),
            data: None,
            retry_after_s: None,
        }
    }

    /// A value that cannot be, with the path of its field; none where it is about the whole.
    #[must_use]
    pub fn invalid(field: &str, said: &str) -> Self {
        let detail = if field.is_empty() || said.contains(&format!("`{field}`")) {
            said.to_owned()
        } else {
            format!("{field}: {said}")
        };
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
        problem.data = Some(Box::new(serde_json::json!({ "field": field })));
        problem
    }

    /// The same with `Retry-After`.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Something went wrong on this side; the logs say what.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "something went wrong here; the trace id names it",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after_s;
        let mut answer = (
            status,
            [(CONTENT_TYPE, "application/problem+json")],
            Json(self),
        )
            .into_response();
        if let Some(seconds) = retry_after {
            answer
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

impl From<EnrolError> for Problem {
    fn from(error: EnrolError) -> Self {
        let detail = error.to_string();
        match error {
            EnrolError::TooManyTries => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_tries", detail).retry_after(3600)
            }
            EnrolError::UnknownCode => Self::new(StatusCode::NOT_FOUND, "unknown_code", detail),
            EnrolError::BadKey => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_key", detail),
            EnrolError::BadSignature => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_signature", detail)
            }
            EnrolError::KnownKey => Self::new(StatusCode::CONFLICT, "known_key", detail),
            EnrolError::Database(error) => error.into(),
            EnrolError::Authority(error) => {
                tracing::error!(error = %error, "http.authority");
                Self::internal()
            }
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused {
                sort,
                code,
                detail,
                data,
            } => {
                let status = match sort {
                    Sort::Unreadable => StatusCode::BAD_REQUEST,
                    Sort::Unauthorized => StatusCode::UNAUTHORIZED,
                    Sort::Forbidden => StatusCode::FORBIDDEN,
                    Sort::NotFound => StatusCode::NOT_FOUND,
                    Sort::Conflict => StatusCode::CONFLICT,
                    Sort::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
                    Sort::TooMany => StatusCode::TOO_MANY_REQUESTS,
                };
                let mut problem = Self::new(status, code, detail);
                problem.data = (!data.is_null()).then(|| Box::new(data));
                problem
            }
            Fault::Database(error) => error.into(),
            Fault::Broken(what) => {
                tracing::error!(error = what, "http.broken");
                Self::internal()
            }
        }
    }
}

impl From<DbError> for Problem {
    fn from(error: DbError) -> Self {
        tracing::error!(error = %error, "http.database");
        if db::away(&error) {
            return Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "database_away",
                "the database cannot be reached now",
            )
            .retry_after(5);
        }
        Self::internal()
    }
}

/// A refusal that is no problem document yet, because axum itself made it, as one.
pub(super) async fn dressed(request: Request, next: Next) -> Response {
    let answer = next.run(request).await;
    let status = answer.status();
    let plain = || {
        let kind = answer.headers().get(CONTENT_TYPE);
        kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"))
    };
    if !(status.is_client_error() || status.is_server_error()) || !plain() {
        return answer;
    }
    let said = status.canonical_reason().unwrap_or("refused");
    let code = if status.is_server_error() {
        "internal"
    } else {
        "bad_request"
    };
    let mut dressed = Problem::new(status, code, said).into_response();
    // `Allow`, `Upgrade` and the like say what would be right.
    for (name, value) in answer.headers() {
        if *name != CONTENT_TYPE && *name != CONTENT_LENGTH {
            dressed.headers_mut().append(name, value.clone());
        }
    }
    dressed
}

/// No such route.
pub(super) async fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here")
}

/// A route, but not for this method.
pub(super) async fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "not with this method",
    )
}
