//! Machines, their rules and their calendars. Never decides what is free.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, postgres::types::PgRange};
use uuid::Uuid;

use super::DbError;

/// A machine.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct MachineRow {
    /// Its id.
    pub id: Uuid,
    /// Whose; none for one that was only ever measured.
    pub organisation_id: Option<Uuid>,
    /// As its people call it.
    pub name: String,
    /// Code of the dictionary.
    pub machine_type: String,
    /// Of its implement.
    pub working_width_cm: i32,
    /// `draft`, `listed`, `unlisted`.
    pub status: String,
    /// `none`, `pending`, `passed`, `refused`.
    pub audit: String,
    /// Why.
    pub audit_reason: Option<String>,
    /// Maker.
    pub brand: String,
    /// Model.
    pub model: String,
    /// Code of its region.
    pub region: String,
    /// Where it lives, 1e-7 degree.
    pub home_lat_e7: Option<i32>,
    /// Where it lives, 1e-7 degree.
    pub home_lon_e7: Option<i32>,
    /// What it does in an hour; 0 is not known.
    pub capacity_centi_mu_h: i32,
    /// Codes of crops; none is all.
    pub crops: Vec<String>,
    /// Of its wall clock.
    pub zone: String,
    /// It accepts by itself.
    pub auto_accept: bool,
    /// It cannot be let now.
    pub in_repair: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// It is gone.
    pub deleted_at: Option<DateTime<Utc>>,
}

const COLUMNS: &str = "m.id, m.organisation_id, m.name, m.machine_type, m.working_width_cm, m.status, m.audit, m.audit_reason,
    m.brand, m.model, m.region, m.home_lat_e7, m.home_lon_e7, m.capacity_centi_mu_h, m.crops, m.zone, m.auto_accept,
    m.in_repair, m.created_at, m.deleted_at";

/// What an owner writes about a machine.
#[derive(Debug, Clone)]
pub struct MachineDetails {
    /// As its people call it.
    pub name: String,
    /// Code of the dictionary.
    pub machine_type: String,
    /// Of its implement.
    pub working_width_cm: i32,
    /// Maker.
    pub brand: String,
    /// Model.
    pub model: String,
    /// Code of its region.
    pub region: String,
    /// Where it lives, 1e-7 degree.
    pub home_lat_e7: i32,
    /// Where it lives, 1e-7 degree.
    pub home_lon_e7: i32,
    /// What it does in an hour.
    pub capacity_centi_mu_h: i32,
    /// Codes of crops.
    pub crops: Vec<String>,
    /// Of its wall clock.
    pub zone: String,
    /// It accepts by itself.
    pub auto_accept: bool,
}

/// Writes a machine: a new one of an organisation, or its details anew.
///
/// Errors: the database.
pub async fn put(
    tx: &mut PgConnection,
    id: Uuid,
    organisation: Uuid,
    new: &MachineDetails,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into machines (id, organisation_id, name, machine_type, working_width_cm, brand, model, region,
            home_lat_e7, home_lon_e7, capacity_centi_mu_h, crops, zone, auto_accept, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         on conflict (id) do update set name = excluded.name, machine_type = excluded.machine_type,
            working_width_cm = excluded.working_width_cm, brand = excluded.brand, model = excluded.model,
            region = excluded.region, home_lat_e7 = excluded.home_lat_e7, home_lon_e7 = excluded.home_lon_e7,
            capacity_centi_mu_h = excluded.capacity_centi_mu_h, crops = excluded.crops, zone = excluded.zone,
            auto_accept = excluded.auto_accept",
    )
    .bind(id)
    .bind(organisation)
    .bind(&new.name)
    .bind(&new.machine_type)
    .bind(new.working_width_cm)
    .bind(&new.brand)
    .bind(&new.model)
    .bind(&new.region)
    .bind(new.home_lat_e7)
    .bind(new.home_lon_e7)
    .bind(new.capacity_centi_mu_h)
    .bind(&new.crops)
    .bind(&new.zone)
    .bind(new.auto_accept)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
}

/// A machine.
///
/// Errors: the database.
pub async fn by_id(tx: &mut PgConnection, id: Uuid) -> Result<Option<MachineRow>, DbError> {
    sqlx::query_as(AssertSqlSafe(format!(
        "select {COLUMNS} from machines m where m.id = $1"
    )))
    .bind(id)
    .fetch_optional(tx)
    .await
}

/// A machine, locked: everything that takes its time goes through here first.
///
/// Errors: the database.
pub async fn lock(tx: &mut PgConnection, id: Uuid) -> Result<Option<MachineRow>, DbError> {
    sqlx::query_as(AssertSqlSafe(format!(
        "select {COLUMNS} from machines m where m.id = $1 for update"
    )))
    .bind(id)
    .fetch_optional(tx)
    .await
}

/// The machines of organisations, after one, in order of their ids.
///
/// Errors: the database.
pub async fn of_organisations(
    pool: &PgPool,
    organisations: &[Uuid],
    after: Uuid,
    most: i64,
) -> Result<Vec<MachineRow>, DbError> {
    sqlx::query_as(AssertSqlSafe(format!(
        "select {COLUMNS} from machines m where m.organisation_id = any($1) and m.deleted_at is null and m.id > $2
         order by m.id limit $3"
    )))
    .bind(organisations)
    .bind(after)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// Machines that wait for an audit.
///
/// Errors: the database.
pub async fn audits(pool: &PgPool, after: Uuid, most: i64) -> Result<Vec<MachineRow>, DbError> {
    sqlx::query_as(AssertSqlSafe(format!(
        "select {COLUMNS} from machines m where m.audit = 'pending' and m.deleted_at is null and m.id > $1 order by m.id limit $2"
    )))
    .bind(after)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// What changes about a machine's standing.
#[derive(Debug, Clone, Default)]
pub struct Standing<'a> {
    /// `draft`, `listed`, `unlisted`.
    pub status: Option<&'a str>,
    /// `none`, `pending`, `passed`, `refused`.
    pub audit: Option<&'a str>,
    /// Why.
    pub audit_reason: Option<&'a str>,
    /// It cannot be let now.
    pub in_repair: Option<bool>,
    /// It is gone.
    pub deleted_at: Option<DateTime<Utc>>,
}

/// Changes a machine's standing.
///
/// Errors: the database.
pub async fn stand(tx: &mut PgConnection, id: Uuid, new: &Standing<'_>) -> Result<(), DbError> {
    sqlx::query(
        "update machines set status = coalesce($2, status), audit = coalesce($3, audit), audit_reason = coalesce($4, audit_reason),
            in_repair = coalesce($5, in_repair), deleted_at = coalesce($6, deleted_at) where id = $1",
    )
    .bind(id)
    .bind(new.status)
    .bind(new.audit)
    .bind(new.audit_reason)
    .bind(new.in_repair)
    .bind(new.deleted_at)
    .execute(tx)
    .await?;
    Ok(())
}

/// Whether the machine's owner is verified and not suspended.
///
/// Errors: the database.
pub async fn owner_stands(tx: &mut PgConnection, organisation: Uuid) -> Result<bool, DbError> {
    sqlx::query_scalar(
        "select exists (select 1 from organisations where id = $1 and verified_at is not null and suspended_at is null)",
    )
    .bind(organisation)
    .fetch_one(tx)
    .await
}

/// What is looked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted<'a> {
    /// Beginning of a region's code.
    pub region: Option<&'a str>,
    /// Code of a type.
    pub machine_type: Option<&'a str>,
    /// Code of a crop.
    pub crop: Option<&'a str>,
    /// South, west, north, east, 1e-7 degree; east may be below west over the antimeridian.
    pub within: Option<[i32; 4]>,
}

/// Listed machines that could be meant, at most `most`.
///
/// Errors: the database.
pub async fn candidates(
    pool: &PgPool,
    wanted: &Wanted<'_>,
    most: i64,
) -> Result<Vec<MachineRow>, DbError> {
    let within = wanted.within.map(Vec::from);
    sqlx::query_as(AssertSqlSafe(format!(
        "select {COLUMNS} from machines m join organisations o on o.id = m.organisation_id
         where m.status = 'listed' and m.deleted_at is null and not m.in_repair
           and o.verified_at is not null and o.suspended_at is null
           and ($1::text is null or starts_with(m.region, $1))
           and ($2::text is null or m.machine_type = $2)
           and ($3::text is null or m.crops = '{{}}' or $3 = any(m.crops))
           and ($4::integer[] is null or (m.home_lat_e7 between $4[1] and $4[3]
                and (m.home_lon_e7 between $4[2] and $4[4]
                     or ($4[2] > $4[4] and (m.home_lon_e7 >= $4[2] or m.home_lon_e7 <= $4[4])))))
           and exists (select 1 from rent_rules r where r.machine_id = m.id)
         order by m.id limit $5"
    )))
    .bind(wanted.region)
    .bind(wanted.machine_type)
    .bind(wanted.crop)
    .bind(within)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// A version of a rent rule.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct RuleRow {
    /// Its id.
    pub id: Uuid,
    /// Whose.
    pub machine_id: Uuid,
    /// From 1.
    pub version: i32,
    /// As the core knows it.
    pub rule: serde_json::Value,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// The newest rules of machines.
///
/// Errors: the database.
pub async fn newest_rules(
    tx: &mut PgConnection,
    machines: &[Uuid],
) -> Result<Vec<RuleRow>, DbError> {
    sqlx::query_as(
        "select distinct on (machine_id) id, machine_id, version, rule, created_at from rent_rules
         where machine_id = any($1) order by machine_id, version desc",
    )
    .bind(machines)
    .fetch_all(tx)
    .await
}

/// All versions of a machine's rule, newest first.
///
/// Errors: the database.
pub async fn rules(pool: &PgPool, machine: Uuid) -> Result<Vec<RuleRow>, DbError> {
    sqlx::query_as(
        "select id, machine_id, version, rule, created_at from rent_rules where machine_id = $1 order by version desc limit 200",
    )
    .bind(machine)
    .fetch_all(pool)
    .await
}

/// The next version of a machine's rule. The machine is locked.
///
/// Errors: the database.
pub async fn insert_rule(
    tx: &mut PgConnection,
    id: Uuid,
    machine: Uuid,
    rule: &serde_json::Value,
    by: Uuid,
    now: DateTime<Utc>,
) -> Result<i32, DbError> {
    sqlx::query_scalar(
        "insert into rent_rules (id, machine_id, version, rule, created_at, created_by)
         values ($1, $2, coalesce((select max(version) from rent_rules where machine_id = $2), 0) + 1, $3, $4, $5)
         returning version",
    )
    .bind(id)
    .bind(machine)
    .bind(rule)
    .bind(now)
    .bind(by)
    .fetch_one(tx)
    .await
}

/// A weekly opening: weekday (Monday 0), first minute, minute after.
pub type WeeklyRow = (i16, i16, i16);
/// A date that differs: day, first minute, minute after, open.
pub type ExceptionRow = (NaiveDate, i16, i16, bool);

/// Replaces a machine's week and exceptions.
///
/// Errors: the database.
pub async fn set_availability(
    tx: &mut PgConnection,
    machine: Uuid,
    weekly: &[WeeklyRow],
    exceptions: &[ExceptionRow],
) -> Result<(), DbError> {
    for sql in [
        "delete from availability_weekly where machine_id = $1",
        "delete from availability_exceptions where machine_id = $1",
    ] {
        sqlx::query(sql).bind(machine).execute(&mut *tx).await?;
    }
    let column = |of: fn(&WeeklyRow) -> i16| weekly.iter().map(of).collect::<Vec<_>>();
    sqlx::query(
        "insert into availability_weekly (machine_id, weekday, start_min, end_min)
         select $1, d, s, e from unnest($2::smallint[], $3::smallint[], $4::smallint[]) as u (d, s, e)",
    )
    .bind(machine)
    .bind(column(|w| w.0))
    .bind(column(|w| w.1))
    .bind(column(|w| w.2))
    .execute(&mut *tx)
    .await?;
    for (day, start, end, open) in exceptions {
        sqlx::query(
            "insert into availability_exceptions (machine_id, day, start_min, end_min, open) values ($1, $2, $3, $4, $5)",
        )
        .bind(machine)
        .bind(day)
        .bind(start)
        .bind(end)
        .bind(open)
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Machine, weekday, minutes.
pub type WeeklyOf = (Uuid, i16, i16, i16);
/// Machine, day, minutes, open.
pub type ExceptionOf = (Uuid, NaiveDate, i16, i16, bool);

/// The weeks and exceptions of machines, exceptions from a day to a day.
///
/// Errors: the database.
pub async fn availability(
    tx: &mut PgConnection,
    machines: &[Uuid],
    from: NaiveDate,
    to: NaiveDate,
) -> Result<(Vec<WeeklyOf>, Vec<ExceptionOf>), DbError> {
    let weekly = sqlx::query_as(
        "select machine_id, weekday, start_min, end_min from availability_weekly where machine_id = any($1)",
    )
    .bind(machines)
    .fetch_all(&mut *tx)
    .await?;
    let exceptions = sqlx::query_as(
        "select machine_id, day, start_min, end_min, open from availability_exceptions
         where machine_id = any($1) and day between $2 and $3",
    )
    .bind(machines)
    .bind(from)
    .bind(to)
    .fetch_all(tx)
    .await?;
    Ok((weekly, exceptions))
}

/// A time that a machine is taken.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct SlotRow {
    /// Its id.
    pub id: Uuid,
    /// Whose.
    pub machine_id: Uuid,
    /// `hold`, `booking`, `block`.
    pub kind: String,
    /// Of which order.
    pub order_id: Option<Uuid>,
    /// From.
    pub starts_at: DateTime<Utc>,
    /// To.
    pub ends_at: DateTime<Utc>,
    /// Until when a hold holds.
    pub hold_expires_at: Option<DateTime<Utc>>,
    /// Of a block.
    pub note: String,
}

/// Live slots of machines that touch a time. Holds that have expired at `now` are left out unless asked for.
///
/// Errors: the database.
pub async fn slots(
    tx: &mut PgConnection,
    machines: &[Uuid],
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Vec<SlotRow>, DbError> {
    sqlx::query_as(
        "select id, machine_id, kind, order_id, lower(during) as starts_at, upper(during) as ends_at, hold_expires_at, note
         from machine_slots where machine_id = any($1) and released_at is null and during && $2
           and not (kind = 'hold' and hold_expires_at <= $3) order by lower(during)",
    )
    .bind(machines)
    .bind(PgRange::from(from..to))
    .bind(now)
    .fetch_all(tx)
    .await
}

/// Orders whose holds have expired and lie in the way.
///
/// Errors: the database.
pub async fn expired_holds(
    tx: &mut PgConnection,
    machine: Uuid,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>, DbError> {
    sqlx::query_scalar(
        "select order_id from machine_slots where machine_id = $1 and released_at is null and kind = 'hold'
         and hold_expires_at <= $2 and during && $3 order by order_id",
    )
    .bind(machine)
    .bind(now)
    .bind(PgRange::from(from..to))
    .fetch_all(tx)
    .await
}

/// A new slot.
#[derive(Debug, Clone)]
pub struct NewSlot<'a> {
    /// Its id.
    pub id: Uuid,
    /// Whose.
    pub machine: Uuid,
    /// `hold` or `block`.
    pub kind: &'a str,
    /// Of which order.
    pub order: Option<Uuid>,
    /// When.
    pub during: (DateTime<Utc>, DateTime<Utc>),
    /// Until when a hold holds.
    pub hold_expires_at: Option<DateTime<Utc>>,
    /// Of a block.
    pub note: &'a str,
}

/// Takes a time.
///
/// Errors: the database; `machine_slots_exclusive` where somebody has it.
pub async fn insert_slot(tx: &mut PgConnection, new: &NewSlot<'_>) -> Result<(), DbError> {
    sqlx::query(
        "insert into machine_slots (id, machine_id, kind, order_id, during, hold_expires_at, note) values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(new.id)
    .bind(new.machine)
    .bind(new.kind)
    .bind(new.order)
    .bind(PgRange::from(new.during.0..new.during.1))
    .bind(new.hold_expires_at)
    .bind(new.note)
    .execute(tx)
    .await?;
    Ok(())
}

/// Gives a block back.
///
/// Errors: the database.
pub async fn release_block(
    tx: &mut PgConnection,
    machine: Uuid,
    slot: Uuid,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "update machine_slots set released_at = $3, release_reason = 'unblocked'
         where id = $2 and machine_id = $1 and kind = 'block' and released_at is null",
    )
    .bind(machine)
    .bind(slot)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Whether a machine has a device now.
///
/// Errors: the database.
pub async fn device(
    tx: &mut PgConnection,
    machine: Uuid,
    at: DateTime<Utc>,
) -> Result<Option<i32>, DbError> {
    sqlx::query_scalar(
        "select b.device from device_bindings b join devices d on d.number = b.device
         where b.machine_id = $1 and b.during @> $2 and d.revoked_at is null order by b.device limit 1",
    )
    .bind(machine)
    .bind(at)
    .fetch_optional(tx)
    .await
}

/// Live orders of a machine.
///
/// Errors: the database.
pub async fn live_orders(tx: &mut PgConnection, machine: Uuid) -> Result<Vec<String>, DbError> {
    sqlx::query_scalar(
        "select order_no from orders where machine_id = $1
         and status not in ('completed', 'cancelled', 'timed_out') order by id limit 20",
    )
    .bind(machine)
    .fetch_all(tx)
    .await
}
