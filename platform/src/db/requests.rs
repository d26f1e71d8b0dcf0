//! Counters of limits, and answers to requests that may come again, as rows. Never knows what a request is for.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::DbError;

/// Counts a hit of a key in a window; gives how many it has now.
///
/// Errors: the database.
pub async fn hit(pool: &PgPool, key: &str, window_start: DateTime<Utc>) -> Result<i32, DbError> {
    sqlx::query_scalar!(
        "insert into rate_windows as r (key, window_start, hits) values ($1, $2, 1)
         on conflict (key, window_start) do update set hits = r.hits + 1 returning hits",
        key,
        window_start,
    )
    .fetch_one(pool)
    .await
}

/// An answer that was given, or is being made.
#[derive(Debug, Clone)]
pub struct AnswerRow {
    /// Of the request's body.
    pub body_hash: Vec<u8>,
    /// None while it is being made.
    pub status: Option<i16>,
    /// Its body.
    pub answer: Option<Vec<u8>>,
}

/// Which request.
#[derive(Debug, Clone)]
pub struct RequestKey {
    /// By whom.
    pub account: Uuid,
    /// Where.
    pub route: String,
    /// By which the client knows it.
    pub key: String,
}

/// Begins a request; the former one of this key, if there is one.
///
/// Errors: the database.
pub async fn begin(
    pool: &PgPool,
    of: &RequestKey,
    body_hash: &[u8],
    now: DateTime<Utc>,
    stale_before: DateTime<Utc>,
) -> Result<Option<AnswerRow>, DbError> {
    // The former one may be forgotten between the two looks: then this one begins after all.
    loop {
        let begun = sqlx::query!(
            "insert into idempotency_keys as i (account_id, route, key, body_hash, created_at) values ($1, $2, $3, $4, $5)
             on conflict (account_id, route, key) do update set created_at = excluded.created_at
             where i.status is null and i.created_at < $6 and i.body_hash = excluded.body_hash",
            of.account,
            of.route,
            of.key,
            body_hash,
            now,
            stale_before,
        )
        .execute(pool)
        .await?;
        if begun.rows_affected() == 1 {
            return Ok(None);
        }
        let former = sqlx::query_as!(
            AnswerRow,
            "select body_hash, status, answer from idempotency_keys where account_id = $1 and route = $2 and key = $3",
            of.account,
            of.route,
            of.key,
        )
        .fetch_optional(pool)
        .await?;
        if former.is_some() {
            return Ok(former);
        }
    }
}

/// Keeps the answer to a request.
///
/// Errors: the database.
pub async fn keep_answer(
    pool: &PgPool,
    of: &RequestKey,
    status: i16,
    answer: &[u8],
) -> Result<(), DbError> {
    sqlx::query!(
        "update idempotency_keys set status = $4, answer = $5 where account_id = $1 and route = $2 and key = $3",
        of.account,
        of.route,
        of.key,
        status,
        answer,
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Forgets a request that changed nothing, so that it may be tried again.
///
/// Errors: the database.
pub async fn forget(pool: &PgPool, of: &RequestKey) -> Result<(), DbError> {
    sqlx::query!(
        "delete from idempotency_keys where account_id = $1 and route = $2 and key = $3 and status is null",
        of.account,
        of.route,
        of.key,
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Lets go of windows and answers of before.
///
/// Errors: the database.
pub async fn sweep(pool: &PgPool, before: DateTime<Utc>) -> Result<(), DbError> {
    sqlx::query!("delete from rate_windows where window_start < $1", before)
        .execute(pool)
        .await?;
    sqlx::query!("delete from idempotency_keys where created_at < $1", before)
        .execute(pool)
        .await?;
    Ok(())
}
