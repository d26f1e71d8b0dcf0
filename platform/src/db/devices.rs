//! Devices, their machines and enrolment codes, as rows.

use std::net::IpAddr;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::DbError;

/// A device of the register.
#[derive(Debug, Clone)]
pub struct DeviceRow {
    /// Short number.
    pub number: i32,
    /// Ed25519, 32 bytes.
    pub public_key: Vec<u8>,
    /// SHA-256 of its token.
    pub token_hash: Vec<u8>,
    /// Whether it was turned away for good.
    pub revoked: bool,
}

/// A device as lists show it.
#[derive(Debug, Clone)]
pub struct DeviceListRow {
    /// Short number.
    pub number: i32,
    /// When its key came.
    pub enrolled_at: DateTime<Utc>,
    /// When it was turned away for good.
    pub revoked_at: Option<DateTime<Utc>>,
    /// Why.
    pub revoke_reason: Option<String>,
    /// The machine that it is on.
    pub machine_id: Option<Uuid>,
    /// The machine's name.
    pub machine: Option<String>,
}

/// Devices whose row was written at or after a time; all of them for none.
///
/// Errors: the database.
pub async fn changed_since(
    pool: &PgPool,
    since: Option<DateTime<Utc>>,
) -> Result<Vec<DeviceRow>, DbError> {
    sqlx::query_as!(
        DeviceRow,
        r#"select number, public_key, token_hash, revoked_at is not null as "revoked!" from devices
           where $1::timestamptz is null or changed_at >= $1"#,
        since,
    )
    .fetch_all(pool)
    .await
}

/// A device by its number.
///
/// Errors: the database.
pub async fn by_number(pool: &PgPool, number: i32) -> Result<Option<DeviceRow>, DbError> {
    sqlx::query_as!(
        DeviceRow,
        r#"select number, public_key, token_hash, revoked_at is not null as "revoked!" from devices
           where number = $1"#,
        number,
    )
    .fetch_optional(pool)
    .await
}

/// A device by its key.
///
/// Errors: the database.
pub async fn by_key(pool: &PgPool, key: &[u8]) -> Result<Option<DeviceRow>, DbError> {
    sqlx::query_as!(
        DeviceRow,
        r#"select number, public_key, token_hash, revoked_at is not null as "revoked!" from devices
           where public_key = $1"#,
        key,
    )
    .fetch_optional(pool)
    .await
}

/// Devices with the machine that they are on.
///
/// Errors: the database.
pub async fn list(pool: &PgPool, now: DateTime<Utc>) -> Result<Vec<DeviceListRow>, DbError> {
    sqlx::query_as!(
        DeviceListRow,
        r#"select d.number, d.enrolled_at, d.revoked_at, d.revoke_reason,
                  m.id as "machine_id?", m.name as "machine?"
           from devices d
           left join device_bindings b on b.device = d.number and b.during @> $1::timestamptz
           left join machines m on m.id = b.machine_id
           order by d.number"#,
        now,
    )
    .fetch_all(pool)
    .await
}

/// Turns a device away for good. False if there is none or it is already.
///
/// Errors: the database.
pub async fn revoke(
    pool: &PgPool,
    number: i32,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "update devices set revoked_at = $2, revoke_reason = $3, changed_at = $2
         where number = $1 and revoked_at is null",
        number,
        now,
        reason,
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A machine to put devices on.
///
/// Errors: the database.
pub async fn insert_machine(
    pool: &PgPool,
    id: Uuid,
    name: &str,
    machine_type: &str,
    width_cm: i32,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into machines (id, name, machine_type, working_width_cm, created_at)
         values ($1, $2, $3, $4, $5)",
        id,
        name,
        machine_type,
        width_cm,
        now,
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Whether there is such a machine.
///
/// Errors: the database.
pub async fn machine_exists(pool: &PgPool, id: Uuid) -> Result<bool, DbError> {
    sqlx::query_scalar!(
        r#"select exists (select 1 from machines where id = $1) as "exists!""#,
        id,
    )
    .fetch_one(pool)
    .await
}

/// Keeps a code's hash.
///
/// Errors: the database.
pub async fn insert_code(
    pool: &PgPool,
    hash: &[u8],
    machine: Uuid,
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into enrolment_codes (id, code_hash, machine_id, created_at, expires_at)
         values ($1, $2, $3, $4, $5)",
        crate::ids::new_id(now),
        hash,
        machine,
        now,
        expires_at,
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Wrong tries of an address since a time.
///
/// Errors: the database.
pub async fn failures_since(
    on: impl PgExecutor<'_>,
    address: IpAddr,
    since: DateTime<Utc>,
) -> Result<i64, DbError> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from enrolment_failures
           where address = $1::text::inet and failed_at > $2"#,
        address.to_string(),
        since,
    )
    .fetch_one(on)
    .await
}

/// Holds an address until the transaction ends.
///
/// Errors: the database.
pub async fn lock_address(tx: &mut PgConnection, address: IpAddr) -> Result<(), DbError> {
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('furrow.enrol ' || $1::text, 0))",
        address.to_string(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Forgets wrong tries before a time.
///
/// Errors: the database.
pub async fn expire_failures(pool: &PgPool, before: DateTime<Utc>) -> Result<(), DbError> {
    sqlx::query!(
        "delete from enrolment_failures where failed_at < $1",
        before
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Notes a wrong try.
///
/// Errors: the database.
pub async fn insert_failure(
    tx: &mut PgConnection,
    address: IpAddr,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into enrolment_failures (address, failed_at) values ($1::text::inet, $2)",
        address.to_string(),
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A code that can be used now.
#[derive(Debug, Clone, Copy)]
pub struct CodeRow {
    /// Its id.
    pub id: Uuid,
    /// The machine that it is for.
    pub machine_id: Uuid,
}

/// The code of a hash if it can be used now; the row is locked.
///
/// Errors: the database.
pub async fn lock_code(
    tx: &mut PgConnection,
    hash: &[u8],
    now: DateTime<Utc>,
) -> Result<Option<CodeRow>, DbError> {
    sqlx::query_as!(
        CodeRow,
        "select id, machine_id from enrolment_codes
         where code_hash = $1 and used_at is null and expires_at > $2 for update",
        hash,
        now,
    )
    .fetch_optional(tx)
    .await
}

/// What enrolment writes.
#[derive(Debug)]
pub struct NewDevice<'a> {
    /// Ed25519, 32 bytes.
    pub public_key: &'a [u8],
    /// SHA-256 of the token.
    pub token_hash: &'a [u8],
    /// The signed request, as evidence.
    pub request: &'a [u8],
    /// The code that it used.
    pub code: Uuid,
    /// The machine that it is on from now.
    pub machine: Uuid,
    /// Now.
    pub now: DateTime<Utc>,
}

/// Adds a device, binds it to its machine and uses up its code. Another device of the machine is
/// unbound from now on.
///
/// Errors: the database; a key that is known already is a unique violation.
pub async fn insert(tx: &mut PgConnection, new: &NewDevice<'_>) -> Result<i32, DbError> {
    let number = sqlx::query_scalar!(
        "insert into devices (public_key, token_hash, enrolled_at, changed_at, enrolment_request)
         values ($1, $2, $3, $3, $4) returning number",
        new.public_key,
        new.token_hash,
        new.now,
        new.request,
    )
    .fetch_one(&mut *tx)
    .await?;
    sqlx::query!(
        "update device_bindings set during = tstzrange(lower(during), $2::timestamptz)
         where machine_id = $1 and upper_inf(during) and lower(during) < $2",
        new.machine,
        new.now,
    )
    .execute(&mut *tx)
    .await?;
    // A machine's track may begin before its box was enrolled: recorded tracks are sent later.
    sqlx::query!(
        "insert into device_bindings (id, device, machine_id, during)
         values ($1, $2, $3, tstzrange($4::timestamptz - interval '1 day', null))",
        crate::ids::new_id(new.now),
        number,
        new.machine,
        new.now,
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "update enrolment_codes set used_at = $2, device = $3 where id = $1",
        new.code,
        new.now,
        number,
    )
    .execute(&mut *tx)
    .await?;
    Ok(number)
}
