//! Notices and their way out. The inbox is the truth; everything else only speeds it up.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// A notice.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct NoticeRow {
    /// Its id.
    pub id: Uuid,
    /// For whom.
    pub account_id: Uuid,
    /// From 1 for each account.
    pub seq: i64,
    /// What.
    pub kind: String,
    /// Of which order.
    pub order_id: Option<Uuid>,
    /// What its text is made of.
    pub data: serde_json::Value,
    /// When.
    pub created_at: DateTime<Utc>,
    /// When it was read.
    pub read_at: Option<DateTime<Utc>>,
}

/// A new notice.
#[derive(Debug, Clone)]
pub struct NewNotice<'a> {
    /// For whom.
    pub account: Uuid,
    /// What.
    pub kind: &'a str,
    /// Of which order.
    pub order: Option<Uuid>,
    /// What its text is made of.
    pub data: &'a serde_json::Value,
    /// What caused it: one cause is told once to one person.
    pub cause: &'a str,
    /// By which the logs know the request.
    pub trace_id: &'a str,
}

/// Puts a notice into the inbox and the outbox; one that is there already changes nothing.
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    new: &NewNotice<'_>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let id = crate::ids::new_id(now);
    // The head's row lock gives each account one order of its notices.
    sqlx::query(
        "with fresh as (select 1 where not exists (select 1 from notices where account_id = $2 and cause = $7)),
              head as (insert into notice_heads as h (account_id, last_seq) select $2, 1 from fresh
                       on conflict (account_id) do update set last_seq = h.last_seq + 1 returning last_seq),
              put as (insert into notices (id, account_id, seq, kind, order_id, data, created_at, trace_id, cause)
                      select $1, $2, last_seq, $3, $4, $5, $6, $8, $7 from head returning id)
         insert into outbox (id, notice_id, created_at) select $1, id, $6 from put",
    )
    .bind(id)
    .bind(new.account)
    .bind(new.kind)
    .bind(new.order)
    .bind(new.data)
    .bind(now)
    .bind(new.cause)
    .bind(new.trace_id)
    .execute(tx)
    .await?;
    Ok(())
}

/// Who runs an organisation.
///
/// Errors: the database.
pub async fn runners(tx: &mut PgConnection, organisation: Uuid) -> Result<Vec<Uuid>, DbError> {
    sqlx::query_scalar(
        "select account_id from organisation_members where organisation_id = $1 and function in ('owner', 'manager') order by 1",
    )
    .bind(organisation)
    .fetch_all(tx)
    .await
}

/// Staff that decides disputes.
///
/// Errors: the database.
pub async fn judges(tx: &mut PgConnection) -> Result<Vec<Uuid>, DbError> {
    sqlx::query_scalar(
        "select account_id from admin_grants where permissions && array['dispute.rule', '*'] order by 1",
    )
    .fetch_all(tx)
    .await
}

/// The notices of an account after a sequence, in order.
///
/// Errors: the database.
pub async fn after(
    pool: &PgPool,
    account: Uuid,
    seq: i64,
    most: i64,
) -> Result<Vec<NoticeRow>, DbError> {
    sqlx::query_as(
        "select id, account_id, seq, kind, order_id, data, created_at, read_at from notices
         where account_id = $1 and seq > $2 order by seq limit $3",
    )
    .bind(account)
    .bind(seq)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// The newest notices of an account, before one.
///
/// Errors: the database.
pub async fn page(
    pool: &PgPool,
    account: Uuid,
    before: Option<Uuid>,
    most: i64,
) -> Result<Vec<NoticeRow>, DbError> {
    sqlx::query_as(
        "select id, account_id, seq, kind, order_id, data, created_at, read_at from notices
         where account_id = $1 and ($2::uuid is null or seq < (select seq from notices where id = $2 and account_id = $1))
         order by seq desc limit $3",
    )
    .bind(account)
    .bind(before)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// Marks notices up to a sequence as read.
///
/// Errors: the database.
pub async fn read(
    pool: &PgPool,
    account: Uuid,
    up_to: i64,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "update notices set read_at = $3 where account_id = $1 and seq <= $2 and read_at is null",
    )
    .bind(account)
    .bind(up_to)
    .bind(now)
    .execute(pool)
    .await?;
    Ok(())
}

/// Leases notices that wait in the outbox.
///
/// Errors: the database.
pub async fn lease(
    pool: &PgPool,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    most: i64,
) -> Result<Vec<NoticeRow>, DbError> {
    sqlx::query_as(
        "with due as (update outbox set lease_until = $2, tries = tries + 1 where id in (
                select id from outbox where delivered_at is null and (lease_until is null or lease_until < $1)
                order by created_at limit $3 for update skip locked) returning notice_id)
         select n.id, n.account_id, n.seq, n.kind, n.order_id, n.data, n.created_at, n.read_at
         from notices n join due on due.notice_id = n.id order by n.account_id, n.seq",
    )
    .bind(now)
    .bind(lease_until)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// Notices that were told.
///
/// Errors: the database.
pub async fn delivered(pool: &PgPool, notices: &[Uuid], now: DateTime<Utc>) -> Result<(), DbError> {
    sqlx::query("update outbox set delivered_at = $2 where notice_id = any($1)")
        .bind(notices)
        .bind(now)
        .execute(pool)
        .await?;
    Ok(())
}

/// A place that an organisation wants to be told at.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct WebhookRow {
    /// Its id.
    pub id: Uuid,
    /// Whose.
    pub organisation_id: Uuid,
    /// Where.
    pub url: String,
    /// By which it is signed.
    pub secret: Vec<u8>,
}

/// The webhooks of the organisations that accounts run.
///
/// Errors: the database.
pub async fn webhooks_of(
    pool: &PgPool,
    accounts: &[Uuid],
) -> Result<Vec<(Uuid, Uuid, String, Vec<u8>)>, DbError> {
    sqlx::query_as(
        "select m.account_id, w.id, w.url, w.secret from webhooks w
         join organisation_members m on m.organisation_id = w.organisation_id and m.function in ('owner', 'manager')
         where m.account_id = any($1)",
    )
    .bind(accounts)
    .fetch_all(pool)
    .await
}

/// Keeps a webhook.
///
/// Errors: the database.
pub async fn insert_webhook(
    pool: &PgPool,
    new: &WebhookRow,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into webhooks (id, organisation_id, url, secret, created_at) values ($1, $2, $3, $4, $5)",
    )
    .bind(new.id)
    .bind(new.organisation_id)
    .bind(&new.url)
    .bind(&new.secret)
    .bind(now)
    .execute(pool)
    .await?;
    Ok(())
}

/// Keeps a ticket for the live socket.
///
/// Errors: the database.
pub async fn insert_ticket(
    pool: &PgPool,
    hash: &[u8],
    account: Uuid,
    expires_at: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into live_tickets (ticket_hash, account_id, expires_at) values ($1, $2, $3)",
    )
    .bind(hash)
    .bind(account)
    .bind(expires_at)
    .execute(pool)
    .await?;
    Ok(())
}

/// Uses a ticket, once.
///
/// Errors: the database.
pub async fn use_ticket(
    pool: &PgPool,
    hash: &[u8],
    now: DateTime<Utc>,
) -> Result<Option<Uuid>, DbError> {
    sqlx::query_scalar(
        "update live_tickets set used_at = $2 where ticket_hash = $1 and used_at is null and expires_at > $2 returning account_id",
    )
    .bind(hash)
    .bind(now)
    .fetch_optional(pool)
    .await
}
