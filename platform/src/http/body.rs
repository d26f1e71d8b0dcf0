//! Bodies, queries and pages: what cannot be parsed is a 400, what is out of range a 422, each with the field's path. Never clamps silently.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, Request, rejection},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::problem::{self, Problem};

/// A JSON body.
pub(super) struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Raw(bytes) = Raw::from_request(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// The bytes of a JSON body, for who needs them as they came.
pub(super) struct Raw(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "bad_body",
                "Content-Type: must be application/json",
            ));
        }
        let bytes = Bytes::from_request(request, state).await;
        bytes.map(Self).map_err(|error| unread(&error))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}

fn unread(error: &rejection::BytesRejection) -> Problem {
    let status = error.status();
    let code = if status == StatusCode::PAYLOAD_TOO_LARGE {
        "too_large"
    } else {
        "bad_body"
    };
    Problem::new(status, code, error.body_text())
}

/// A body as JSON: what is no JSON is a 400, what does not fit a 422 with the field's path.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would also take an array, by the order of the fields.
    if bytes.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice::<serde::de::IgnoredAny>(bytes).map_err(|e| bad_body(&e))?;
        return Err(Problem::invalid("", "the body must be an object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut json);
    let ended = |value| json.end().map(|()| value).map_err(|e| bad_body(&e));
    read.map_or_else(|error| Err(refused(error)), ended)
}

fn bad_body(error: &serde_json::Error) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad_body", error.to_string())
}

fn refused(error: serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let error = error.into_inner();
    if !error.is_data() {
        return bad_body(&error);
    }
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    Problem::invalid(&field(&path, said), said)
}

/// The path of a field with the name that the message tells, where the path ends before it.
fn field(path: &str, said: &str) -> String {
    let path = if path == "." { "" } else { path };
    let name = ["missing field `", "unknown field `"]
        .iter()
        .find_map(|begin| said.strip_prefix(begin))
        .and_then(|rest| rest.split('`').next());
    match name {
        None => path.to_owned(),
        Some(name) if path.is_empty() => name.to_owned(),
        Some(name) if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        Some(name) => format!("{path}.{name}"),
    }
}

/// The query of a URL.
pub(super) struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => {
                let said = error.body_text();
                let said = said.split_once("query string: ").map_or(&*said, |(_, s)| s);
                let path = said.split_once(": ").map_or("", |(path, _)| path);
                Err(Problem::invalid(&field(path, said), said))
            }
        }
    }
}

/// Ids in a path. What is no id is nobody's: there is nothing there.
pub(super) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(ids)) => Ok(Self(ids)),
            Err(_) => Err(problem::not_found().await),
        }
    }
}

/// An id.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct IdView {
    pub id: Uuid,
}

/// Which page of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PageOf {
    /// The cursor of the page before.
    #[serde(default)]
    pub cursor: Option<Uuid>,
    /// Entries, 1 to 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<u16>,
}

impl PageOf {
    /// How many entries, and one more to know whether there is a next page.
    pub fn most(&self) -> Result<usize, Problem> {
        match self.limit.unwrap_or(50) {
            limit @ 1..=100 => Ok(usize::from(limit)),
            _ => Err(Problem::invalid("limit", "must be 1 to 100")),
        }
    }
}

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// For the next page; none on the last.
    pub next_cursor: Option<Uuid>,
}

impl<T> Page<T> {
    /// Of entries that may be one too many.
    pub fn of(mut items: Vec<T>, most: usize, id: impl Fn(&T) -> Uuid) -> Self {
        let more = items.len() > most;
        items.truncate(most);
        let next_cursor = items.last().map(id).filter(|_| more);
        Self { items, next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_refused_field_is_named_by_its_whole_path() {
        for (path, said, whole) in [
            (".", "missing field `phone`", "phone"),
            (
                "rule.overtime",
                "missing field `step`",
                "rule.overtime.step",
            ),
            (".", "unknown field `x`, expected `a` or `b`", "x"),
            ("a.x", "unknown field `x`, expected `b`", "a.x"),
            (
                "weekly[2].start_min",
                "invalid type: string",
                "weekly[2].start_min",
            ),
            (".", "invalid type: sequence", ""),
        ] {
            assert_eq!(field(path, said), whole);
        }
    }
}
