//! Bodies, queries and pages: what cannot be parsed is a 400, what is out of range a 422, each with the field's path. Never clamps silently.

use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Query, Request, rejection::JsonRejection},
    http::{StatusCode, request::Parts},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::problem::Problem;

/// A JSON body.
pub(super) struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(JsonRejection::JsonDataError(error)) => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid",
                error.body_text(),
            )),
            Err(other) => Err(Problem::new(other.status(), "bad_body", other.body_text())),
        }
    }
}

/// The query of a URL.
pub(super) struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid",
                error.body_text(),
            )),
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
    pub limit: Option<u16>,
}

impl PageOf {
    /// How many entries, and one more to know whether there is a next page.
    pub fn most(&self) -> Result<usize, Problem> {
        match self.limit.unwrap_or(50) {
            limit @ 1..=100 => Ok(usize::from(limit)),
            _ => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid",
                "limit: must be 1 to 100",
            )),
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
