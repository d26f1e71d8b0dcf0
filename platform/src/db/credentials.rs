//! One-time codes, sessions, limits, repeated requests, the audit log. Only hashes of secrets come here.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// A code that waits.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct CodeRow {
    /// Its id.
    pub id: Uuid,
    /// Of it.
    pub code_hash: Vec<u8>,
    /// Wrong tries.
    pub tries: i32,
}

/// Keeps a code and hands its text to the gateway's outbox.
///
/// Errors: the database.
pub async fn insert_code(
    tx: &mut PgConnection,
    id: Uuid,
    phone: &str,
    purpose: &str,
    code_hash: &[u8],
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into sms_codes (id, phone, purpose, code_hash, created_at, expires_at) values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id)
    .bind(phone)
    .bind(purpose)
    .bind(code_hash)
    .bind(now)
    .bind(expires_at)
    .execute(tx)
    .await?;
    Ok(())
}

/// The newest code that can still be used, locked.
///
/// Errors: the database.
pub async fn open_code(
    tx: &mut PgConnection,
    phone: &str,
    purpose: &str,
    now: DateTime<Utc>,
    most_tries: i32,
) -> Result<Option<CodeRow>, DbError> {
    sqlx::query_as(
        "select id, code_hash, tries from sms_codes
         where phone = $1 and purpose = $2 and used_at is null and expires_at > $3 and tries < $4
         order by created_at desc, id desc limit 1 for update",
    )
    .bind(phone)
    .bind(purpose)
    .bind(now)
    .bind(most_tries)
    .fetch_optional(tx)
    .await
}

/// A code was used, or a wrong one was typed.
///
/// Errors: the database.
pub async fn note_code(
    tx: &mut PgConnection,
    id: Uuid,
    used_at: Option<DateTime<Utc>>,
) -> Result<(), DbError> {
    sqlx::query("update sms_codes set tries = tries + 1, used_at = $2 where id = $1")
        .bind(id)
        .bind(used_at)
        .execute(tx)
        .await?;
    Ok(())
}

/// What the development gateway "sends".
///
/// Errors: the database.
pub async fn insert_sms(
    pool: &PgPool,
    id: Uuid,
    phone: &str,
    text: &str,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query("insert into sms_outbox (id, phone, text, created_at) values ($1, $2, $3, $4)")
        .bind(id)
        .bind(phone)
        .bind(text)
        .bind(now)
        .execute(pool)
        .await?;
    Ok(())
}

/// Opens a session.
///
/// Errors: the database.
pub async fn insert_family(
    tx: &mut PgConnection,
    id: Uuid,
    account: Uuid,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query("insert into refresh_families (id, account_id, created_at) values ($1, $2, $3)")
        .bind(id)
        .bind(account)
        .bind(now)
        .execute(tx)
        .await?;
    Ok(())
}

/// Gives a session its next refresh token.
///
/// Errors: the database.
pub async fn insert_refresh(
    tx: &mut PgConnection,
    hash: &[u8],
    family: Uuid,
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into refresh_tokens (token_hash, family_id, issued_at, expires_at) values ($1, $2, $3, $4)",
    )
    .bind(hash)
    .bind(family)
    .bind(now)
    .bind(expires_at)
    .execute(tx)
    .await?;
    Ok(())
}

/// A refresh token.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct RefreshRow {
    /// Its session.
    pub family_id: Uuid,
    /// Whose.
    pub account_id: Uuid,
    /// Until.
    pub expires_at: DateTime<Utc>,
    /// It was used: whoever shows it now has a copy.
    pub used_at: Option<DateTime<Utc>>,
    /// Its session is over.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A refresh token with its session, locked.
///
/// Errors: the database.
pub async fn refresh(tx: &mut PgConnection, hash: &[u8]) -> Result<Option<RefreshRow>, DbError> {
    sqlx::query_as(
        "select t.family_id, f.account_id, t.expires_at, t.used_at, f.revoked_at
         from refresh_tokens t join refresh_families f on f.id = t.family_id
         where t.token_hash = $1 for update of f, t",
    )
    .bind(hash)
    .fetch_optional(tx)
    .await
}

/// Notes that a refresh token was used.
///
/// Errors: the database.
pub async fn use_refresh(
    tx: &mut PgConnection,
    hash: &[u8],
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query("update refresh_tokens set used_at = $2 where token_hash = $1")
        .bind(hash)
        .bind(now)
        .execute(tx)
        .await?;
    Ok(())
}

/// Ends a session, or all of an account.
///
/// Errors: the database.
pub async fn revoke(
    tx: &mut PgConnection,
    account: Uuid,
    family: Option<Uuid>,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "update refresh_families set revoked_at = $3, revoke_reason = $4
         where account_id = $1 and ($2::uuid is null or id = $2) and revoked_at is null",
    )
    .bind(account)
    .bind(family)
    .bind(now)
    .bind(reason)
    .execute(tx)
    .await?;
    Ok(())
}

/// Counts a hit of a key in a window; gives how many it has now.
///
/// Errors: the database.
pub async fn hit(pool: &PgPool, key: &str, window_start: DateTime<Utc>) -> Result<i32, DbError> {
    sqlx::query_scalar(
        "insert into rate_windows as r (key, window_start, hits) values ($1, $2, 1)
         on conflict (key, window_start) do update set hits = r.hits + 1 returning hits",
    )
    .bind(key)
    .bind(window_start)
    .fetch_one(pool)
    .await
}

/// Lets go of what is over: windows, codes, answers, tickets.
///
/// Errors: the database.
pub async fn sweep(pool: &PgPool, before: DateTime<Utc>) -> Result<(), DbError> {
    for sql in [
        "delete from rate_windows where window_start < $1",
        "delete from sms_codes where expires_at < $1",
        "delete from sms_outbox where created_at < $1",
        "delete from idempotency_keys where created_at < $1",
        "delete from live_tickets where expires_at < $1",
    ] {
        sqlx::query(sql).bind(before).execute(pool).await?;
    }
    Ok(())
}

/// An answer that was given, or is being made.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AnswerRow {
    /// Of the request's body.
    pub body_hash: Vec<u8>,
    /// None while it is being made.
    pub status: Option<i16>,
    /// Its body.
    pub answer: Option<Vec<u8>>,
    /// When the request came.
    pub created_at: DateTime<Utc>,
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
pub async fn begin_request(
    pool: &PgPool,
    of: &RequestKey,
    body_hash: &[u8],
    now: DateTime<Utc>,
    stale_before: DateTime<Utc>,
) -> Result<Option<AnswerRow>, DbError> {
    let begun = sqlx::query(
        "insert into idempotency_keys as i (account_id, route, key, body_hash, created_at) values ($1, $2, $3, $4, $5)
         on conflict (account_id, route, key) do update set created_at = excluded.created_at, body_hash = excluded.body_hash
         where i.status is null and i.created_at < $6",
    )
    .bind(of.account)
    .bind(&of.route)
    .bind(&of.key)
    .bind(body_hash)
    .bind(now)
    .bind(stale_before)
    .execute(pool)
    .await?;
    if begun.rows_affected() == 1 {
        return Ok(None);
    }
    sqlx::query_as(
        "select body_hash, status, answer, created_at from idempotency_keys where account_id = $1 and route = $2 and key = $3",
    )
    .bind(of.account)
    .bind(&of.route)
    .bind(&of.key)
    .fetch_optional(pool)
    .await
}

/// Keeps the answer to a request; without one the request is forgotten, to be tried again.
///
/// Errors: the database.
pub async fn end_request(
    pool: &PgPool,
    of: &RequestKey,
    answer: Option<(i16, &[u8])>,
) -> Result<(), DbError> {
    let sql = if answer.is_some() {
        "update idempotency_keys set status = $4, answer = $5 where account_id = $1 and route = $2 and key = $3"
    } else {
        "delete from idempotency_keys where account_id = $1 and route = $2 and key = $3 and $4::smallint is null and $5::bytea is null"
    };
    sqlx::query(sql)
        .bind(of.account)
        .bind(&of.route)
        .bind(&of.key)
        .bind(answer.map(|a| a.0))
        .bind(answer.map(|a| a.1))
        .execute(pool)
        .await?;
    Ok(())
}

/// Who did what on what.
#[derive(Debug, Clone)]
pub struct NewAudit<'a> {
    /// Who.
    pub account: Option<Uuid>,
    /// What.
    pub action: &'a str,
    /// On what.
    pub object: &'a str,
    /// More.
    pub detail: serde_json::Value,
    /// By which the logs know the request.
    pub trace_id: &'a str,
}

/// Writes it down.
///
/// Errors: the database.
pub async fn audit(
    tx: &mut PgConnection,
    new: &NewAudit<'_>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into audit_log (id, at, account_id, action, object, detail, trace_id) values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(crate::ids::new_id(now))
    .bind(now)
    .bind(new.account)
    .bind(new.action)
    .bind(new.object)
    .bind(&new.detail)
    .bind(new.trace_id)
    .execute(tx)
    .await?;
    Ok(())
}

/// A line of the audit log.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AuditRow {
    /// Its id.
    pub id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub account_id: Option<Uuid>,
    /// What.
    pub action: String,
    /// On what.
    pub object: String,
    /// More.
    pub detail: serde_json::Value,
    /// By which the logs know the request.
    pub trace_id: String,
}

/// Lines of the audit log, newest first: those before one, of an object or of all.
///
/// Errors: the database.
pub async fn audit_page(
    pool: &PgPool,
    object: Option<&str>,
    before: Option<Uuid>,
    most: i64,
) -> Result<Vec<AuditRow>, DbError> {
    sqlx::query_as(
        "select id, at, account_id, action, object, detail, trace_id from audit_log
         where ($1::text is null or object = $1) and ($2::uuid is null or id < $2) order by id desc limit $3",
    )
    .bind(object)
    .bind(before)
    .bind(most)
    .fetch_all(pool)
    .await
}
