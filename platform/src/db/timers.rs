//! What is due on orders: planned, leased, ended. Never carries anything out.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// Plans a timer, or plans it anew.
///
/// Errors: the database.
pub async fn plan(
    tx: &mut PgConnection,
    id: Uuid,
    order: Uuid,
    kind: &str,
    epoch: i32,
    due_at: DateTime<Utc>,
    trace_id: &str,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into order_timers (id, order_id, kind, epoch, due_at, trace_id) values ($1, $2, $3, $4, $5, $6)
         on conflict on constraint order_timers_once do update set due_at = excluded.due_at, trace_id = excluded.trace_id,
            lease_until = null, lease_token = null, tries = 0, done_at = null, outcome = null",
    )
    .bind(id)
    .bind(order)
    .bind(kind)
    .bind(epoch)
    .bind(due_at)
    .bind(trace_id)
    .execute(tx)
    .await?;
    Ok(())
}

/// Clears timers of an order.
///
/// Errors: the database.
pub async fn clear(
    tx: &mut PgConnection,
    order: Uuid,
    kinds: &[String],
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "update order_timers set done_at = $3, outcome = 'cleared', lease_token = null
         where order_id = $1 and kind = any($2) and done_at is null",
    )
    .bind(order)
    .bind(kinds)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
}

/// A timer that is due and leased.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct TimerRow {
    /// Its id.
    pub id: Uuid,
    /// Of which order.
    pub order_id: Uuid,
    /// Which.
    pub kind: String,
    /// Of which epoch of the order.
    pub epoch: i32,
    /// When it was due.
    pub due_at: DateTime<Utc>,
    /// By which the logs know what planned it.
    pub trace_id: String,
    /// Leases so far.
    pub tries: i32,
}

/// Leases timers that are due. Other processes skip them until the lease is over.
///
/// Errors: the database.
pub async fn lease(
    pool: &PgPool,
    token: Uuid,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    most_tries: i32,
    most: i64,
) -> Result<Vec<TimerRow>, DbError> {
    sqlx::query_as(
        "update order_timers set lease_until = $3, lease_token = $1, tries = tries + 1
         where id in (select id from order_timers where done_at is null and due_at <= $2
              and (lease_until is null or lease_until < $2) and tries < $4 order by due_at limit $5 for update skip locked)
         returning id, order_id, kind, epoch, due_at, trace_id, tries",
    )
    .bind(token)
    .bind(now)
    .bind(lease_until)
    .bind(most_tries)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// Ends a timer, or puts it off, if the lease still stands.
///
/// Errors: the database.
pub async fn end(
    tx: &mut PgConnection,
    id: Uuid,
    token: Uuid,
    outcome: &str,
    again: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "update order_timers set due_at = coalesce($4, due_at), done_at = case when $4::timestamptz is null then $5 end,
            outcome = $3, lease_until = null, lease_token = null, tries = case when $4::timestamptz is null then tries else 0 end
         where id = $1 and lease_token = $2",
    )
    .bind(id)
    .bind(token)
    .bind(outcome)
    .bind(again)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Timers that were tried too often: for the admins.
///
/// Errors: the database.
pub async fn dead(pool: &PgPool, tries: i32) -> Result<Vec<TimerRow>, DbError> {
    sqlx::query_as(
        "select id, order_id, kind, epoch, due_at, trace_id, tries from order_timers
         where done_at is null and tries >= $1 order by due_at limit 500",
    )
    .bind(tries)
    .fetch_all(pool)
    .await
}

/// Gives a dead timer its tries back.
///
/// Errors: the database.
pub async fn retry(pool: &PgPool, id: Uuid) -> Result<bool, DbError> {
    let done = sqlx::query(
        "update order_timers set tries = 0, lease_until = null, lease_token = null where id = $1 and done_at is null",
    )
    .bind(id)
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}
