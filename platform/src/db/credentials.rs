//! One-time codes and sessions as rows. Only hashes of secrets come here, except for the outbox of the development gateway.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// Keeps a code.
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
    sqlx::query!(
        "insert into sms_codes (id, phone, purpose, code_hash, created_at, expires_at) values ($1, $2, $3, $4, $5, $6)",
        id,
        phone,
        purpose,
        code_hash,
        now,
        expires_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A code that waits.
#[derive(Debug, Clone)]
pub struct CodeRow {
    /// Its id.
    pub id: Uuid,
    /// Of it.
    pub code_hash: Vec<u8>,
}

/// The newest code, locked, if it can still be used: a newer code voids those before it.
///
/// Errors: the database.
pub async fn open_code(
    tx: &mut PgConnection,
    phone: &str,
    purpose: &str,
    now: DateTime<Utc>,
    most_tries: i32,
) -> Result<Option<CodeRow>, DbError> {
    sqlx::query_as!(
        CodeRow,
        "with newest as (
             select id from sms_codes where phone = $1 and purpose = $2
             order by created_at desc, id desc limit 1
         )
         select c.id, c.code_hash from sms_codes c join newest on newest.id = c.id
         where c.used_at is null and c.expires_at > $3 and c.tries < $4
         for update of c",
        phone,
        purpose,
        now,
        most_tries,
    )
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
    sqlx::query!(
        "update sms_codes set tries = tries + 1, used_at = $2 where id = $1",
        id,
        used_at,
    )
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
    sqlx::query!(
        "insert into sms_outbox (id, phone, text, created_at) values ($1, $2, $3, $4)",
        id,
        phone,
        text,
        now,
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// A session that begins.
#[derive(Debug, Clone)]
pub struct NewFamily<'a> {
    /// Its id.
    pub id: Uuid,
    /// Whose.
    pub account: Uuid,
    /// When the second factor was shown.
    pub second_factor_at: Option<DateTime<Utc>>,
    /// From where.
    pub address: Option<&'a str>,
}

/// Opens a session.
///
/// Errors: the database.
pub async fn insert_family(
    tx: &mut PgConnection,
    new: &NewFamily<'_>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into refresh_families (id, account_id, created_at, second_factor_at, from_address)
         values ($1, $2, $3, $4, $5)",
        new.id,
        new.account,
        now,
        new.second_factor_at,
        new.address,
    )
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
    sqlx::query!(
        "insert into refresh_tokens (token_hash, family_id, issued_at, expires_at) values ($1, $2, $3, $4)",
        hash,
        family,
        now,
        expires_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A refresh token.
#[derive(Debug, Clone)]
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
    sqlx::query_as!(
        RefreshRow,
        "select t.family_id, f.account_id, t.expires_at, t.used_at, f.revoked_at
         from refresh_tokens t join refresh_families f on f.id = t.family_id
         where t.token_hash = $1 for update of f, t",
        hash,
    )
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
    sqlx::query!(
        "update refresh_tokens set used_at = $2 where token_hash = $1",
        hash,
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Ends a session, or all of an account; gives how many were open.
///
/// Errors: the database.
pub async fn revoke(
    tx: &mut PgConnection,
    account: Uuid,
    family: Option<Uuid>,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<u64, DbError> {
    let done = sqlx::query!(
        "update refresh_families set revoked_at = $3, revoke_reason = $4
         where account_id = $1 and ($2::uuid is null or id = $2) and revoked_at is null",
        account,
        family,
        now,
        reason,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

/// An open session as its owner sees it.
#[derive(Debug, Clone)]
pub struct SessionRow {
    /// Its id.
    pub id: Uuid,
    /// Since when.
    pub created_at: DateTime<Utc>,
    /// When it was used last.
    pub used_at: DateTime<Utc>,
    /// From where it was opened.
    pub from_address: Option<String>,
}

/// The open sessions of an account, newest first.
///
/// Errors: the database.
pub async fn open_sessions(
    pool: &PgPool,
    account: Uuid,
    now: DateTime<Utc>,
) -> Result<Vec<SessionRow>, DbError> {
    sqlx::query_as!(
        SessionRow,
        r#"select f.id, f.created_at, max(t.issued_at) as "used_at!", f.from_address
           from refresh_families f join refresh_tokens t on t.family_id = f.id
           where f.account_id = $1 and f.revoked_at is null and t.used_at is null and t.expires_at > $2
           group by f.id order by f.id desc limit 100"#,
        account,
        now,
    )
    .fetch_all(pool)
    .await
}

/// Lets go of what is over: codes and what the development gateway kept, tickets, and sessions whose
/// last token is over.
///
/// Errors: the database.
pub async fn sweep(pool: &PgPool, before: DateTime<Utc>) -> Result<(), DbError> {
    sqlx::query!("delete from sms_codes where expires_at < $1", before)
        .execute(pool)
        .await?;
    sqlx::query!("delete from sms_outbox where created_at < $1", before)
        .execute(pool)
        .await?;
    sqlx::query!("delete from live_tickets where expires_at < $1", before)
        .execute(pool)
        .await?;
    // A token that was used is kept as long as it would have lived: shown again, it ends its session.
    sqlx::query!("delete from refresh_tokens where expires_at < $1", before)
        .execute(pool)
        .await?;
    sqlx::query!(
        "delete from refresh_families f where f.created_at < $1
         and not exists (select 1 from refresh_tokens t where t.family_id = f.id)",
        before,
    )
    .execute(pool)
    .await?;
    Ok(())
}
