//! The operator's staff as rows: permissions, second factors, recovery codes. Never decides who may what.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// Staff.
#[derive(Debug, Clone)]
pub struct GrantRow {
    /// What it may.
    pub permissions: Vec<String>,
    /// Of its second factor.
    pub totp_secret: Vec<u8>,
    /// The last step that was used.
    pub totp_step: i64,
}

/// The grant of an account, locked.
///
/// Errors: the database.
pub async fn grant(tx: &mut PgConnection, account: Uuid) -> Result<Option<GrantRow>, DbError> {
    sqlx::query_as!(
        GrantRow,
        "select permissions, totp_secret, totp_step from admin_grants where account_id = $1 for update",
        account,
    )
    .fetch_optional(tx)
    .await
}

/// Gives rights, with a fresh second factor and fresh recovery codes.
///
/// Errors: the database.
pub async fn set_grant(
    tx: &mut PgConnection,
    account: Uuid,
    permissions: &[String],
    totp_secret: &[u8],
    recovery: &[Vec<u8>],
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into admin_grants (account_id, permissions, totp_secret, granted_at) values ($1, $2, $3, $4)
         on conflict (account_id) do update
         set permissions = excluded.permissions, totp_secret = excluded.totp_secret, totp_step = 0",
        account,
        permissions,
        totp_secret,
        now,
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "delete from admin_recovery_codes where account_id = $1",
        account
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "insert into admin_recovery_codes (account_id, code_hash) select $1, unnest($2::bytea[])",
        account,
        recovery,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Takes all rights; false if there were none.
///
/// Errors: the database.
pub async fn remove_grant(tx: &mut PgConnection, account: Uuid) -> Result<bool, DbError> {
    let done = sqlx::query!("delete from admin_grants where account_id = $1", account)
        .execute(tx)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Notes the step of a code that was used.
///
/// Errors: the database.
pub async fn use_totp_step(tx: &mut PgConnection, account: Uuid, step: i64) -> Result<(), DbError> {
    sqlx::query!(
        "update admin_grants set totp_step = $2 where account_id = $1",
        account,
        step,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Uses a recovery code; false if it is none, or used.
///
/// Errors: the database.
pub async fn use_recovery(
    tx: &mut PgConnection,
    account: Uuid,
    code_hash: &[u8],
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "update admin_recovery_codes set used_at = $3
         where account_id = $1 and code_hash = $2 and used_at is null",
        account,
        code_hash,
        now,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A member of staff as lists show it.
#[derive(Debug, Clone)]
pub struct StaffRow {
    /// Who.
    pub account_id: Uuid,
    /// As people know him.
    pub name: String,
    /// What he may.
    pub permissions: Vec<String>,
    /// Since when.
    pub granted_at: DateTime<Utc>,
}

/// All staff.
///
/// Errors: the database.
pub async fn all(pool: &PgPool) -> Result<Vec<StaffRow>, DbError> {
    sqlx::query_as!(
        StaffRow,
        "select g.account_id, a.name, g.permissions, g.granted_at from admin_grants g
         join accounts a on a.id = g.account_id order by g.account_id",
    )
    .fetch_all(pool)
    .await
}
