//! Orders, their events, slots, timers and start codes. Never decides a step.

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, postgres::types::PgRange};
use uuid::Uuid;

use super::DbError;

/// An order.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct OrderRow {
    /// Its id.
    pub id: Uuid,
    /// Short, for people.
    pub order_no: String,
    /// As the core knows it.
    pub doc: serde_json::Value,
    /// What it was priced by.
    pub snapshot: serde_json::Value,
    /// The lines it was quoted.
    pub estimate: serde_json::Value,
    /// Its plots as they were.
    pub plots: serde_json::Value,
    /// With other orders, made at once.
    pub group_id: Option<Uuid>,
}

const COLUMNS: &str = "id, order_no, doc, snapshot, estimate, plots, group_id";

/// A new order.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// The order.
    pub row: OrderRow,
    /// The columns beside its document.
    pub columns: OrderColumns,
    /// Who acted for the renter.
    pub on_behalf_of: Option<serde_json::Value>,
}

/// What is looked for in SQL.
#[derive(Debug, Clone)]
pub struct OrderColumns {
    /// Who rents.
    pub renter: Uuid,
    /// Whose the machine is.
    pub organisation: Uuid,
    /// The machine.
    pub machine: Uuid,
    /// Where it stands.
    pub status: &'static str,
    /// What a writer saw.
    pub version: i32,
    /// Of its reminders.
    pub epoch: i32,
    /// When one meets.
    pub starts_at: DateTime<Utc>,
    /// When work ends.
    pub ends_at: DateTime<Utc>,
}

/// Keeps a new order.
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    new: &NewOrder,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let NewOrder { row, columns, .. } = new;
    sqlx::query(
        "insert into orders (id, order_no, renter_id, organisation_id, machine_id, group_id, on_behalf_of, status, version,
            epoch, starts_at, ends_at, doc, snapshot, estimate, plots, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17)",
    )
    .bind(row.id)
    .bind(&row.order_no)
    .bind(columns.renter)
    .bind(columns.organisation)
    .bind(columns.machine)
    .bind(row.group_id)
    .bind(&new.on_behalf_of)
    .bind(columns.status)
    .bind(columns.version)
    .bind(columns.epoch)
    .bind(columns.starts_at)
    .bind(columns.ends_at)
    .bind(&row.doc)
    .bind(&row.snapshot)
    .bind(&row.estimate)
    .bind(&row.plots)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
}

/// Writes a step: compare and set. False where somebody was faster.
///
/// Errors: the database.
pub async fn update(
    tx: &mut PgConnection,
    id: Uuid,
    seen_version: i32,
    columns: &OrderColumns,
    doc: &serde_json::Value,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "update orders set status = $3, version = $4, epoch = $5, starts_at = $6, ends_at = $7, machine_id = $8, doc = $9, updated_at = $10
         where id = $1 and version = $2",
    )
    .bind(id)
    .bind(seen_version)
    .bind(columns.status)
    .bind(columns.version)
    .bind(columns.epoch)
    .bind(columns.starts_at)
    .bind(columns.ends_at)
    .bind(columns.machine)
    .bind(doc)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// For whom an order is shown.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Renter, or member of one of these organisations.
    Party(Uuid, Vec<Uuid>),
    /// Staff and the clock.
    All,
}

impl Scope {
    fn parts(&self) -> (Option<Uuid>, Vec<Uuid>) {
        match self {
            Self::Party(account, organisations) => (Some(*account), organisations.clone()),
            Self::All => (None, vec![]),
        }
    }
}

/// An order, if it is theirs; locked where it is to be changed. The machine is locked first, by its id,
/// which never takes a lock to read.
///
/// Errors: the database.
pub async fn by_id(
    tx: &mut PgConnection,
    id: Uuid,
    scope: &Scope,
    lock: bool,
) -> Result<Option<OrderRow>, DbError> {
    let (account, organisations) = scope.parts();
    let sql = format!(
        "select {COLUMNS} from orders where id = $1 and ($2::uuid is null or renter_id = $2 or organisation_id = any($3)){}",
        if lock { " for update" } else { "" }
    );
    sqlx::query_as(AssertSqlSafe(sql))
        .bind(id)
        .bind(account)
        .bind(organisations)
        .fetch_optional(tx)
        .await
}

/// The machine of an order.
///
/// Errors: the database.
pub async fn machine_of(tx: &mut PgConnection, id: Uuid) -> Result<Option<Uuid>, DbError> {
    sqlx::query_scalar("select machine_id from orders where id = $1")
        .bind(id)
        .fetch_optional(tx)
        .await
}

/// Orders, newest first: those before one, in one of these states (all where there are none), that touch a time.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// States.
    pub statuses: Vec<String>,
    /// From.
    pub from: Option<DateTime<Utc>>,
    /// To.
    pub to: Option<DateTime<Utc>>,
    /// By its number.
    pub order_no: Option<String>,
    /// Before this one.
    pub before: Option<Uuid>,
}

/// A page of orders.
///
/// Errors: the database.
pub async fn page(
    pool: &PgPool,
    scope: &Scope,
    filter: &Filter,
    most: i64,
) -> Result<Vec<OrderRow>, DbError> {
    let (account, organisations) = scope.parts();
    sqlx::query_as(AssertSqlSafe(format!(
        "select {COLUMNS} from orders where ($1::uuid is null or renter_id = $1 or organisation_id = any($2))
           and (cardinality($3::text[]) = 0 or status = any($3)) and ($4::timestamptz is null or ends_at > $4)
           and ($5::timestamptz is null or starts_at < $5) and ($6::text is null or order_no = $6)
           and ($7::uuid is null or id < $7) order by id desc limit $8"
    )))
    .bind(account)
    .bind(organisations)
    .bind(&filter.statuses)
    .bind(filter.from)
    .bind(filter.to)
    .bind(&filter.order_no)
    .bind(filter.before)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// Unpaid orders of a renter, and whether one of his is in arrears.
///
/// Errors: the database.
pub async fn renter_standing(
    tx: &mut PgConnection,
    renter: Uuid,
) -> Result<(i64, bool, bool), DbError> {
    sqlx::query_as(
        "select count(*) filter (where o.status = 'pending_payment'),
                coalesce(bool_or(o.status = 'disputed' and exists (
                    select 1 from jsonb_array_elements(o.doc -> 'disputes') d
                    where d ->> 'category' = 'arrears' and d ->> 'closed_at' is null)), false),
                (select blocked_at is not null from accounts where id = $1)
         from orders o where o.renter_id = $1",
    )
    .bind(renter)
    .fetch_one(tx)
    .await
}

/// Whether another order of the machine is in work.
///
/// Errors: the database.
pub async fn other_in_work(
    tx: &mut PgConnection,
    machine: Uuid,
    order: Uuid,
) -> Result<bool, DbError> {
    sqlx::query_scalar(
        "select exists (select 1 from orders where machine_id = $1 and id <> $2 and status = 'in_work')",
    )
    .bind(machine)
    .bind(order)
    .fetch_one(tx)
    .await
}

/// A step that was taken.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct EventRow {
    /// The order's version after it.
    pub seq: i32,
    /// When.
    pub at: DateTime<Utc>,
    /// Which.
    pub transition: String,
    /// From.
    pub from_status: String,
    /// To.
    pub to_status: String,
    /// As what.
    pub actor_role: String,
    /// By whom.
    pub actor_id: Option<Uuid>,
    /// In words.
    pub reason: Option<String>,
    /// By which the logs know the request.
    pub trace_id: String,
    /// What it moved and planned.
    pub effects: serde_json::Value,
}

/// Writes a step down.
///
/// Errors: the database.
pub async fn insert_event(
    tx: &mut PgConnection,
    order: Uuid,
    event: &EventRow,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into order_events (order_id, seq, at, transition, from_status, to_status, actor_role, actor_id, reason, trace_id, effects)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(order)
    .bind(event.seq)
    .bind(event.at)
    .bind(&event.transition)
    .bind(&event.from_status)
    .bind(&event.to_status)
    .bind(&event.actor_role)
    .bind(event.actor_id)
    .bind(&event.reason)
    .bind(&event.trace_id)
    .bind(&event.effects)
    .execute(tx)
    .await?;
    Ok(())
}

/// All steps of an order.
///
/// Errors: the database.
pub async fn events(pool: &PgPool, order: Uuid) -> Result<Vec<EventRow>, DbError> {
    sqlx::query_as(
        "select seq, at, transition, from_status, to_status, actor_role, actor_id, reason, trace_id, effects
         from order_events where order_id = $1 order by seq",
    )
    .bind(order)
    .fetch_all(pool)
    .await
}

/// A change of an order's live slot.
#[derive(Debug, Clone)]
pub enum SlotUpdate {
    /// Hold to booking.
    Book,
    /// Free again.
    Release(DateTime<Utc>, &'static str),
    /// Upper bound, but not beyond the next live slot, nor below the lower one and half an hour.
    TrimTo(DateTime<Utc>),
    /// Lower bound.
    WidenFrom(DateTime<Utc>),
    /// All of it.
    MoveTo(Uuid, DateTime<Utc>, DateTime<Utc>),
}

/// Changes an order's live slot by one statement; false where it has none.
///
/// Errors: the database; `machine_slots_exclusive` where somebody has the time.
pub async fn update_slot(
    tx: &mut PgConnection,
    order: Uuid,
    change: &SlotUpdate,
) -> Result<bool, DbError> {
    let live = "where order_id = $1 and released_at is null";
    let query = |set: &str| AssertSqlSafe(format!("update machine_slots s set {set} {live}"));
    let done = match change {
        SlotUpdate::Book => {
            sqlx::query(query("kind = 'booking', hold_expires_at = null"))
                .bind(order)
                .execute(tx)
                .await?
        }
        SlotUpdate::Release(at, reason) => {
            sqlx::query(query("released_at = $2, release_reason = $3"))
                .bind(order)
                .bind(at)
                .bind(reason)
                .execute(tx)
                .await?
        }
        SlotUpdate::TrimTo(to) => {
            let next = "(select min(lower(n.during)) from machine_slots n where n.machine_id = s.machine_id
                and n.released_at is null and n.id <> s.id and lower(n.during) >= upper(s.during))";
            let least = "lower(during) + interval '30 minutes'";
            let set = format!(
                "during = tstzrange(lower(during), greatest({least}, least($2, coalesce({next}, $2))))"
            );
            sqlx::query(query(&set))
                .bind(order)
                .bind(to)
                .execute(tx)
                .await?
        }
        SlotUpdate::WidenFrom(from) => {
            sqlx::query(query(
                "during = tstzrange(least($2, lower(during)), upper(during))",
            ))
            .bind(order)
            .bind(from)
            .execute(tx)
            .await?
        }
        SlotUpdate::MoveTo(machine, from, to) => {
            sqlx::query(query("during = $2, machine_id = $3"))
                .bind(order)
                .bind(PgRange::from(*from..*to))
                .bind(machine)
                .execute(tx)
                .await?
        }
    };
    Ok(done.rows_affected() == 1)
}

/// Keeps the hash of an order's start code.
///
/// Errors: the database.
pub async fn set_start_code(
    tx: &mut PgConnection,
    order: Uuid,
    hash: &[u8],
) -> Result<(), DbError> {
    sqlx::query(
        "insert into start_codes (order_id, code_hash) values ($1, $2)
         on conflict (order_id) do update set code_hash = excluded.code_hash, tries = 0",
    )
    .bind(order)
    .bind(hash)
    .execute(tx)
    .await?;
    Ok(())
}

/// Tries a start code; None once it was tried too often.
///
/// Errors: the database.
pub async fn try_start_code(
    tx: &mut PgConnection,
    order: Uuid,
    hash: &[u8],
    most: i32,
) -> Result<Option<bool>, DbError> {
    sqlx::query_scalar(
        "update start_codes set tries = tries + 1 where order_id = $1 and tries < $3 returning code_hash = $2",
    )
    .bind(order)
    .bind(hash)
    .bind(most)
    .fetch_optional(tx)
    .await
}

/// Notes a strike.
///
/// Errors: the database.
pub async fn insert_strike(
    tx: &mut PgConnection,
    organisation: Uuid,
    order: Uuid,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into strikes (organisation_id, order_id, at) values ($1, $2, $3) on conflict do nothing",
    )
    .bind(organisation)
    .bind(order)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
}

/// Suspends an owner with three strikes in 90 days; whether it did.
///
/// Errors: the database.
pub async fn suspend_after_strikes(
    tx: &mut PgConnection,
    organisation: Uuid,
    since: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "update organisations set suspended_at = $3 where id = $1 and suspended_at is null
         and (select count(*) from strikes where organisation_id = $1 and at > $2) >= 3",
    )
    .bind(organisation)
    .bind(since)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A message between the parties.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct MessageRow {
    /// Its id.
    pub id: Uuid,
    /// By whom.
    pub account_id: Uuid,
    /// What.
    pub text: String,
    /// When.
    pub created_at: DateTime<Utc>,
}

/// Keeps a message.
///
/// Errors: the database.
pub async fn insert_message(
    tx: &mut PgConnection,
    order: Uuid,
    new: &MessageRow,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into order_messages (id, order_id, account_id, text, created_at) values ($1, $2, $3, $4, $5)",
    )
    .bind(new.id)
    .bind(order)
    .bind(new.account_id)
    .bind(&new.text)
    .bind(new.created_at)
    .execute(tx)
    .await?;
    Ok(())
}

/// The messages of an order.
///
/// Errors: the database.
pub async fn messages(pool: &PgPool, order: Uuid) -> Result<Vec<MessageRow>, DbError> {
    sqlx::query_as(
        "select id, account_id, text, created_at from order_messages where order_id = $1 order by id limit 1000",
    )
    .bind(order)
    .fetch_all(pool)
    .await
}
