//! The only folder that knows SQL: the pool, the migrations, and what a database error means.

pub mod devices;
pub mod frames;
pub mod partitions;
pub mod quarantine;

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::config::Database;

/// An error of the database or the way to it.
pub type DbError = sqlx::Error;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../migrations");

/// A pool; connects at first use.
///
/// Errors: the URL is none.
pub fn pool(settings: &Database) -> Result<PgPool, DbError> {
    PgPoolOptions::new()
        .max_connections(settings.max_connections)
        .acquire_timeout(Duration::from_secs(10))
        .connect_lazy(&settings.url)
}

/// Brings the schema up to date.
///
/// Errors: a migration fails, or the database has one that this build does not know.
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::migrate::MigrateError> {
    MIGRATIONS.run(pool).await
}

/// How many migrations are not applied yet.
///
/// Errors: the database.
pub async fn pending_migrations(pool: &PgPool) -> Result<usize, DbError> {
    let exists: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(pool)
        .await?;
    let applied: i64 = if exists {
        sqlx::query_scalar("select count(*) from _sqlx_migrations where success")
            .fetch_one(pool)
            .await?
    } else {
        0
    };
    Ok(MIGRATIONS
        .iter()
        .count()
        .saturating_sub(usize::try_from(applied).unwrap_or(0)))
}

/// The database's own time.
///
/// Errors: the database.
pub async fn now(pool: &PgPool) -> Result<DateTime<Utc>, DbError> {
    sqlx::query_scalar("select clock_timestamp()")
        .fetch_one(pool)
        .await
}

/// Whether trying once more may help: deadlock victims and serialization failures.
#[must_use]
pub fn retryable(error: &DbError) -> bool {
    matches!(code(error).as_deref(), Some("40P01" | "40001"))
}

/// Whether a unique constraint said no.
#[must_use]
pub fn unique_violation(error: &DbError) -> bool {
    code(error).as_deref() == Some("23505")
}

fn code(error: &DbError) -> Option<String> {
    error.as_database_error()?.code().map(|c| c.into_owned())
}
