//! Accounts and what they may, as rows. Never decides who may what.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{DbError, violates};

/// An account.
#[derive(Debug, Clone)]
pub struct AccountRow {
    /// Its id.
    pub id: Uuid,
    /// With country code.
    pub phone: String,
    /// As people know it.
    pub name: String,
    /// `zh` or `en`.
    pub locale: String,
    /// Of the password.
    pub password_salt: Option<Vec<u8>>,
    /// Of the password.
    pub password_hash: Option<Vec<u8>>,
    /// Of its tokens.
    pub token_version: i32,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// New orders are stopped since then.
    pub blocked_at: Option<DateTime<Utc>>,
    /// Nothing is paid out until then.
    pub payouts_held_until: Option<DateTime<Utc>>,
}

/// A new account; false if the phone has one.
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    id: Uuid,
    phone: &str,
    name: &str,
    locale: &str,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "insert into accounts (id, phone, name, locale, created_at) values ($1, $2, $3, $4, $5)
         on conflict on constraint accounts_phone_once do nothing",
        id,
        phone,
        name,
        locale,
        now,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The account of a phone.
///
/// Errors: the database.
pub async fn by_phone(tx: &mut PgConnection, phone: &str) -> Result<Option<AccountRow>, DbError> {
    sqlx::query_as!(
        AccountRow,
        "select id, phone, name, locale, password_salt, password_hash, token_version, created_at, blocked_at,
                payouts_held_until
         from accounts where phone = $1",
        phone,
    )
    .fetch_optional(tx)
    .await
}

/// An account.
///
/// Errors: the database.
pub async fn by_id(tx: &mut PgConnection, id: Uuid) -> Result<Option<AccountRow>, DbError> {
    sqlx::query_as!(
        AccountRow,
        "select id, phone, name, locale, password_salt, password_hash, token_version, created_at, blocked_at,
                payouts_held_until
         from accounts where id = $1",
        id,
    )
    .fetch_optional(tx)
    .await
}

/// Accounts in order of their ids, after one, of a phone's beginning.
///
/// Errors: the database.
pub async fn page(
    pool: &PgPool,
    phone: &str,
    after: Uuid,
    most: i64,
) -> Result<Vec<AccountRow>, DbError> {
    sqlx::query_as!(
        AccountRow,
        "select id, phone, name, locale, password_salt, password_hash, token_version, created_at, blocked_at,
                payouts_held_until
         from accounts where id > $1 and starts_with(phone, $2) order by id limit $3",
        after,
        phone,
        most,
    )
    .fetch_all(pool)
    .await
}

/// Sets a password and voids the tokens of before.
///
/// Errors: the database.
pub async fn set_password(
    tx: &mut PgConnection,
    id: Uuid,
    salt: &[u8],
    hash: &[u8],
) -> Result<(), DbError> {
    sqlx::query!(
        "update accounts set password_salt = $2, password_hash = $3, token_version = token_version + 1 where id = $1",
        id,
        salt,
        hash,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Gives an account another phone and voids the tokens of before; false if the phone has an account.
///
/// Errors: the database.
pub async fn set_phone(tx: &mut PgConnection, id: Uuid, phone: &str) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "update accounts set phone = $2, token_version = token_version + 1 where id = $1",
        id,
        phone,
    )
    .execute(tx)
    .await;
    match done {
        Ok(done) => Ok(done.rows_affected() == 1),
        Err(error) if violates(&error, "accounts_phone_once") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Changes what others see; what is not given stays.
///
/// Errors: the database.
pub async fn set_profile(
    tx: &mut PgConnection,
    id: Uuid,
    name: Option<&str>,
    locale: Option<&str>,
) -> Result<(), DbError> {
    sqlx::query!(
        "update accounts set name = coalesce($2, name), locale = coalesce($3, locale) where id = $1",
        id,
        name,
        locale,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Holds an account's payouts, never for a shorter time than before.
///
/// Errors: the database.
pub async fn hold_payouts(
    tx: &mut PgConnection,
    id: Uuid,
    until: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "update accounts set payouts_held_until = greatest(payouts_held_until, $2) where id = $1",
        id,
        until,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Blocks, or unblocks, an account; false if there is none.
///
/// Errors: the database.
pub async fn set_blocked(
    tx: &mut PgConnection,
    id: Uuid,
    at: Option<DateTime<Utc>>,
    reason: Option<&str>,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "update accounts set blocked_at = $2, block_reason = $3 where id = $1",
        id,
        at,
        reason,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// What an account may: its token version, its organisations with its function, its permissions.
#[derive(Debug, Clone, Default)]
pub struct RightsRow {
    /// Of its tokens.
    pub token_version: i32,
    /// Its session is open.
    pub session_open: bool,
    /// Its organisations.
    pub organisations: Vec<Uuid>,
    /// Its function in each.
    pub functions: Vec<String>,
    /// As staff; none in a session that was opened without the second factor.
    pub permissions: Vec<String>,
}

/// The rights of an account in a session, in one look.
///
/// Errors: the database.
pub async fn rights(pool: &PgPool, id: Uuid, session: Uuid) -> Result<Option<RightsRow>, DbError> {
    sqlx::query_as!(
        RightsRow,
        r#"select a.token_version,
                  f.id is not null as "session_open!",
                  coalesce((select array_agg(m.organisation_id order by m.organisation_id)
                            from organisation_members m where m.account_id = a.id), '{}') as "organisations!",
                  coalesce((select array_agg(m.function order by m.organisation_id)
                            from organisation_members m where m.account_id = a.id), '{}') as "functions!",
                  coalesce((select g.permissions from admin_grants g
                            where g.account_id = a.id and f.second_factor_at is not null), '{}') as "permissions!"
           from accounts a
           left join refresh_families f on f.id = $2 and f.account_id = a.id and f.revoked_at is null
           where a.id = $1"#,
        id,
        session,
    )
    .fetch_optional(pool)
    .await
}
