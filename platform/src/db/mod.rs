//! The only folder that knows SQL: the pool, the migrations, and what a database error means.

pub mod accounts;
pub mod audits;
pub mod bills;
pub mod bindings;
pub mod credentials;
pub mod devices;
pub mod frames;
pub mod machines;
pub mod notices;
pub mod orders;
pub mod organisations;
pub mod partitions;
pub mod plots;
pub mod policies;
pub mod quarantine;
pub mod requests;
pub mod sessions;
pub mod staff;
pub mod states;
pub mod timers;

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, Utc};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::config::Database;

/// An error of the database or the way to it.
pub type DbError = sqlx::Error;

/// Connections to the database.
pub type Pool = PgPool;

/// One connection, or a transaction on it.
pub type Connection = PgConnection;

/// A connection that goes back to its pool.
pub type Pooled = sqlx::pool::PoolConnection<sqlx::Postgres>;

/// A transaction; undone unless it is committed.
pub type Transaction<'c> = sqlx::Transaction<'c, sqlx::Postgres>;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../migrations");

/// A pool; connects at first use.
///
/// Errors: the URL is none.
pub fn pool(settings: &Database) -> Result<Pool, DbError> {
    connect(&settings.url, settings.max_connections)
}

/// The pool of the database that keeps the tracks: the same as `main`, unless it is told apart.
///
/// Errors: the URL is none.
pub fn telemetry_pool(settings: &Database, main: &Pool) -> Result<Pool, DbError> {
    match &settings.telemetry_url {
        None => Ok(main.clone()),
        Some(url) => connect(url, settings.max_connections),
    }
}

fn connect(url: &str, max_connections: u32) -> Result<Pool, DbError> {
    if url.is_empty() {
        return Err(DbError::Configuration("it is not set".into()));
    }
    let options = PgConnectOptions::from_url(
        &url.parse()
            .map_err(|error| DbError::Configuration(Box::new(error)))?,
    )?
    .application_name("furrow")
    // Terms and partitions rest on UTC, whatever the server's default is.
    .options([("timezone", "UTC")]);
    Ok(PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(Duration::from_secs(10))
        .connect_lazy_with(options))
}

/// Brings the schema up to date.
///
/// Errors: a migration fails, or the database has one that this build does not know.
pub async fn migrate(pool: &Pool) -> Result<(), sqlx::migrate::MigrateError> {
    MIGRATIONS.run(pool).await
}

/// How a database's schema stands to this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// It is this build's.
    Current,
    /// So many migrations are not applied yet.
    Behind(usize),
    /// It has migrations that this build does not know: a newer platform was here.
    Ahead(usize),
    /// A migration was applied with another text than this build has.
    Differs(i64),
}

/// Compares the schema with this build.
///
/// Errors: the database.
pub async fn schema(pool: &Pool) -> Result<Schema, DbError> {
    let exists: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(pool)
        .await?;
    let applied: Vec<(i64, Vec<u8>)> = if exists {
        sqlx::query_as("select version, checksum from _sqlx_migrations where success")
            .fetch_all(pool)
            .await?
    } else {
        vec![]
    };
    let ours: BTreeMap<i64, &[u8]> = MIGRATIONS
        .iter()
        .map(|m| (m.version, &*m.checksum))
        .collect();
    let unknown = applied
        .iter()
        .filter(|(version, _)| !ours.contains_key(version))
        .count();
    let differs = applied
        .iter()
        .find(|(version, sum)| ours.get(version).is_some_and(|our| our != sum));
    Ok(
        match (differs, ours.len() + unknown - applied.len(), unknown) {
            (Some((version, _)), ..) => Schema::Differs(*version),
            (None, 0, 0) => Schema::Current,
            (None, 0, unknown) => Schema::Ahead(unknown),
            (None, behind, _) => Schema::Behind(behind),
        },
    )
}

/// A number that changes with every change of the migrations.
#[must_use]
pub fn schema_version() -> u64 {
    // FNV-1a: it tells texts apart, nobody is to be fooled by it.
    MIGRATIONS
        .iter()
        .flat_map(|m| m.checksum.iter())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// The database's own time.
///
/// Errors: the database.
pub async fn now(pool: &Pool) -> Result<DateTime<Utc>, DbError> {
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

/// Whether this constraint said no.
#[must_use]
pub fn violates(error: &DbError, constraint: &str) -> bool {
    error
        .as_database_error()
        .is_some_and(|e| e.constraint() == Some(constraint))
}

/// Whether a day's partition of the tracks is missing.
#[must_use]
pub fn partition_missing(error: &DbError) -> bool {
    code(error).as_deref() == Some("23514")
        && error
            .as_database_error()
            .is_some_and(|e| e.constraint().is_none())
}

/// Whether what was to be written is at fault, so that trying the same again cannot help: SQLSTATE
/// classes 22 (data), 23 (integrity) and 54 (limits).
#[must_use]
pub fn blames_content(error: &DbError) -> bool {
    code(error).is_some_and(|code| {
        ["22", "23", "54"]
            .iter()
            .any(|class| code.starts_with(class))
    })
}

/// Begins a transaction that the server ends if a statement takes longer than `limit`, or if nothing
/// is heard from us for so long: what a client holds that has given up, or is cut off, others wait for.
///
/// Errors: the database.
pub async fn begin_within(
    connection: &mut PgConnection,
    limit: Duration,
) -> Result<Transaction<'_>, DbError> {
    let limit_ms = limit.as_millis();
    let begin = format!(
        "begin; set local statement_timeout = {limit_ms}; \
         set local idle_in_transaction_session_timeout = {limit_ms}"
    );
    // A number of our own.
    connection.begin_with(AssertSqlSafe(begin)).await
}

/// Gives a connection up that does not answer: it is closed, not asked whether it still lives.
#[must_use]
pub fn give_up(mut connection: Pooled) -> DbError {
    connection.close_on_drop();
    DbError::Io(std::io::ErrorKind::TimedOut.into())
}

fn code(error: &DbError) -> Option<String> {
    error.as_database_error()?.code().map(|c| c.into_owned())
}

/// Whether the database cannot be reached now, or has no room for us.
#[must_use]
pub fn away(error: &DbError) -> bool {
    // 57P01 to 57P03: it shuts down or starts up; 53300: too many connections.
    let told = matches!(
        code(error).as_deref(),
        Some("57P01" | "57P02" | "57P03" | "53300")
    );
    told || matches!(
        error,
        DbError::PoolTimedOut | DbError::PoolClosed | DbError::Io(_) | DbError::WorkerCrashed
    )
}
