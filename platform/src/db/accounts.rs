//! Accounts, organisations and rights. Never decides who may what.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// An account.
#[derive(Debug, Clone, sqlx::FromRow)]
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
}

const COLUMNS: &str =
    "id, phone, name, locale, password_salt, password_hash, token_version, created_at, blocked_at";

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
    let done = sqlx::query(
        "insert into accounts (id, phone, name, locale, created_at) values ($1, $2, $3, $4, $5)
         on conflict on constraint accounts_phone_once do nothing",
    )
    .bind(id)
    .bind(phone)
    .bind(name)
    .bind(locale)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The account of a phone.
///
/// Errors: the database.
pub async fn by_phone(tx: &mut PgConnection, phone: &str) -> Result<Option<AccountRow>, DbError> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "select {COLUMNS} from accounts where phone = $1"
    )))
    .bind(phone)
    .fetch_optional(tx)
    .await
}

/// An account.
///
/// Errors: the database.
pub async fn by_id(tx: &mut PgConnection, id: Uuid) -> Result<Option<AccountRow>, DbError> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "select {COLUMNS} from accounts where id = $1"
    )))
    .bind(id)
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
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "select {COLUMNS} from accounts where id > $1 and starts_with(phone, $2) order by id limit $3"
    )))
    .bind(after)
    .bind(phone)
    .bind(most)
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
    sqlx::query(
        "update accounts set password_salt = $2, password_hash = $3, token_version = token_version + 1 where id = $1",
    )
    .bind(id)
    .bind(salt)
    .bind(hash)
    .execute(tx)
    .await?;
    Ok(())
}

/// Gives an account another phone; false if that has one.
///
/// Errors: the database.
pub async fn set_phone(tx: &mut PgConnection, id: Uuid, phone: &str) -> Result<bool, DbError> {
    let done = sqlx::query(
        "update accounts set phone = $2, token_version = token_version + 1
         where id = $1 and not exists (select 1 from accounts where phone = $2)",
    )
    .bind(id)
    .bind(phone)
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Blocks, or unblocks, an account.
///
/// Errors: the database.
pub async fn set_blocked(
    tx: &mut PgConnection,
    id: Uuid,
    at: Option<DateTime<Utc>>,
    reason: Option<&str>,
) -> Result<bool, DbError> {
    let done = sqlx::query("update accounts set blocked_at = $2, block_reason = $3 where id = $1")
        .bind(id)
        .bind(at)
        .bind(reason)
        .execute(tx)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// What an account may: its token version, its organisations with its function, its permissions.
#[derive(Debug, Clone, Default, sqlx::FromRow)]
pub struct RightsRow {
    /// Of its tokens.
    pub token_version: i32,
    /// Its session is open.
    pub session_open: bool,
    /// Its organisations.
    pub organisations: Vec<Uuid>,
    /// Its function in each.
    pub functions: Vec<String>,
    /// As staff.
    pub permissions: Vec<String>,
}

/// The rights of an account in a session, in one look.
///
/// Errors: the database.
pub async fn rights(pool: &PgPool, id: Uuid, session: Uuid) -> Result<Option<RightsRow>, DbError> {
    sqlx::query_as(
        "select a.token_version,
                exists (select 1 from refresh_families f where f.id = $2 and f.account_id = a.id and f.revoked_at is null) as session_open,
                coalesce((select array_agg(m.organisation_id order by m.organisation_id) from organisation_members m where m.account_id = a.id), '{}') as organisations,
                coalesce((select array_agg(m.function order by m.organisation_id) from organisation_members m where m.account_id = a.id), '{}') as functions,
                coalesce((select g.permissions from admin_grants g where g.account_id = a.id), '{}') as permissions
         from accounts a where a.id = $1",
    )
    .bind(id)
    .bind(session)
    .fetch_optional(pool)
    .await
}

/// A new organisation with its owner.
///
/// Errors: the database.
pub async fn insert_organisation(
    tx: &mut PgConnection,
    id: Uuid,
    name: &str,
    owner: Uuid,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query("insert into organisations (id, name, created_at) values ($1, $2, $3)")
        .bind(id)
        .bind(name)
        .bind(now)
        .execute(&mut *tx)
        .await?;
    set_member(tx, id, owner, "owner", now).await
}

/// Puts somebody into an organisation, or changes the function.
///
/// Errors: the database.
pub async fn set_member(
    tx: &mut PgConnection,
    organisation: Uuid,
    account: Uuid,
    function: &str,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into organisation_members (organisation_id, account_id, function, added_at) values ($1, $2, $3, $4)
         on conflict (organisation_id, account_id) do update set function = excluded.function",
    )
    .bind(organisation)
    .bind(account)
    .bind(function)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
}

/// Takes somebody out; the last owner stays.
///
/// Errors: the database.
pub async fn remove_member(
    tx: &mut PgConnection,
    organisation: Uuid,
    account: Uuid,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "delete from organisation_members m where organisation_id = $1 and account_id = $2
         and (function <> 'owner' or exists (select 1 from organisation_members o
              where o.organisation_id = $1 and o.function = 'owner' and o.account_id <> $2))",
    )
    .bind(organisation)
    .bind(account)
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The organisations of an account.
///
/// Errors: the database.
pub async fn organisations_of(tx: &mut PgConnection, account: Uuid) -> Result<Vec<Uuid>, DbError> {
    sqlx::query_scalar(
        "select organisation_id from organisation_members where account_id = $1 order by 1",
    )
    .bind(account)
    .fetch_all(tx)
    .await
}

/// A member.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct MemberRow {
    /// Who.
    pub account_id: Uuid,
    /// As people know him.
    pub name: String,
    /// With country code.
    pub phone: String,
    /// As what.
    pub function: String,
}

/// The members of an organisation.
///
/// Errors: the database.
pub async fn members(pool: &PgPool, organisation: Uuid) -> Result<Vec<MemberRow>, DbError> {
    sqlx::query_as(
        "select m.account_id, a.name, a.phone, m.function from organisation_members m
         join accounts a on a.id = m.account_id where m.organisation_id = $1 order by m.added_at",
    )
    .bind(organisation)
    .fetch_all(pool)
    .await
}

/// An organisation.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct OrganisationRow {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its papers were found good.
    pub verified_at: Option<DateTime<Utc>>,
    /// Its listings are stopped.
    pub suspended_at: Option<DateTime<Utc>>,
}

/// An organisation.
///
/// Errors: the database.
pub async fn organisation(pool: &PgPool, id: Uuid) -> Result<Option<OrganisationRow>, DbError> {
    sqlx::query_as("select id, name, verified_at, suspended_at from organisations where id = $1")
        .bind(id)
        .fetch_optional(pool)
        .await
}

/// Verifies, or suspends, an organisation.
///
/// Errors: the database.
pub async fn judge_organisation(
    tx: &mut PgConnection,
    id: Uuid,
    verified_at: Option<DateTime<Utc>>,
    suspended_at: Option<DateTime<Utc>>,
) -> Result<bool, DbError> {
    let done =
        sqlx::query("update organisations set verified_at = $2, suspended_at = $3 where id = $1")
            .bind(id)
            .bind(verified_at)
            .bind(suspended_at)
            .execute(tx)
            .await?;
    Ok(done.rows_affected() == 1)
}

/// Staff.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct GrantRow {
    /// What it may.
    pub permissions: Vec<String>,
    /// Of its second factor.
    pub totp_secret: Vec<u8>,
    /// The last step that was used.
    pub totp_step: i64,
}

/// The grant of an account.
///
/// Errors: the database.
pub async fn grant(tx: &mut PgConnection, account: Uuid) -> Result<Option<GrantRow>, DbError> {
    sqlx::query_as("select permissions, totp_secret, totp_step from admin_grants where account_id = $1 for update")
        .bind(account)
        .fetch_optional(tx)
        .await
}

/// Gives rights, with a fresh second factor.
///
/// Errors: the database.
pub async fn set_grant(
    tx: &mut PgConnection,
    account: Uuid,
    permissions: &[String],
    totp_secret: &[u8],
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into admin_grants (account_id, permissions, totp_secret, granted_at) values ($1, $2, $3, $4)
         on conflict (account_id) do update set permissions = excluded.permissions, totp_secret = excluded.totp_secret, totp_step = 0",
    )
    .bind(account)
    .bind(permissions)
    .bind(totp_secret)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
}

/// Notes the step of a code that was used.
///
/// Errors: the database.
pub async fn use_totp_step(tx: &mut PgConnection, account: Uuid, step: i64) -> Result<(), DbError> {
    sqlx::query("update admin_grants set totp_step = $2 where account_id = $1")
        .bind(account)
        .bind(step)
        .execute(tx)
        .await?;
    Ok(())
}
