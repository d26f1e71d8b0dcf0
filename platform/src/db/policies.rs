//! The operator's windows and share, by version; dictionaries.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// A version.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct PolicyRow {
    /// From 1.
    pub version: i32,
    /// As the core knows it.
    pub policy: serde_json::Value,
    /// The operator's share.
    pub commission_bps: i32,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// The one in force; none before the first was written.
///
/// Errors: the database.
pub async fn newest(tx: &mut PgConnection) -> Result<Option<PolicyRow>, DbError> {
    sqlx::query_as(
        "select version, policy, commission_bps, created_at from policies order by version desc limit 1",
    )
    .fetch_optional(tx)
    .await
}

/// All versions, newest first.
///
/// Errors: the database.
pub async fn all(pool: &PgPool) -> Result<Vec<PolicyRow>, DbError> {
    sqlx::query_as(
        "select version, policy, commission_bps, created_at from policies order by version desc limit 200",
    )
    .fetch_all(pool)
    .await
}

/// Writes the next version.
///
/// Errors: the database; a unique violation where another was written at once.
pub async fn insert(
    tx: &mut PgConnection,
    version: i32,
    policy: &serde_json::Value,
    commission_bps: i32,
    by: Option<Uuid>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into policies (version, policy, commission_bps, created_at, created_by) values ($1, $2, $3, $4, $5)",
    )
    .bind(version)
    .bind(policy)
    .bind(commission_bps)
    .bind(now)
    .bind(by)
    .execute(tx)
    .await?;
    Ok(())
}

/// A word of a dictionary.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct WordRow {
    /// Its code.
    pub code: String,
    /// Chinese.
    pub name_zh: String,
    /// English.
    pub name_en: String,
}

/// A dictionary.
///
/// Errors: the database.
pub async fn words(pool: &PgPool, kind: &str) -> Result<Vec<WordRow>, DbError> {
    sqlx::query_as("select code, name_zh, name_en from dictionaries where kind = $1 order by code")
        .bind(kind)
        .fetch_all(pool)
        .await
}

/// Writes a word, or writes it anew.
///
/// Errors: the database.
pub async fn set_word(tx: &mut PgConnection, kind: &str, word: &WordRow) -> Result<(), DbError> {
    sqlx::query(
        "insert into dictionaries (kind, code, name_zh, name_en) values ($1, $2, $3, $4)
         on conflict (kind, code) do update set name_zh = excluded.name_zh, name_en = excluded.name_en",
    )
    .bind(kind)
    .bind(&word.code)
    .bind(&word.name_zh)
    .bind(&word.name_en)
    .execute(tx)
    .await?;
    Ok(())
}
