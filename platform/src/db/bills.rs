//! Versions of bills, objections to them, and the queue of those that staff looks at. Never changes what was shown.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// A version of a bill.
#[derive(Debug, Clone)]
pub struct BillRow {
    /// From 1.
    pub version: i32,
    /// When.
    pub proposed_at: DateTime<Utc>,
    /// As what.
    pub proposed_as: String,
    /// By whom; none where the system drafted it.
    pub proposed_by: Option<Uuid>,
    /// On what its quantity rests.
    pub basis: String,
    /// How good that is.
    pub mark: String,
    /// B.
    pub total_fen: i64,
    /// What the operator's share is taken of.
    pub commission_base_fen: i64,
    /// C.
    pub commission_fen: i64,
    /// X.
    pub damage_fen: i64,
    /// Something in it needs the renter's own word.
    pub needs_consent: bool,
    /// Photos and papers.
    pub evidence: Vec<Uuid>,
    /// As the core made it.
    pub doc: serde_json::Value,
    /// By which the logs know what proposed it.
    pub trace_id: String,
}

/// Keeps a version.
///
/// Errors: the database.
pub async fn insert(tx: &mut PgConnection, order: Uuid, row: &BillRow) -> Result<(), DbError> {
    sqlx::query!(
        "insert into bill_versions (order_id, version, proposed_at, proposed_as, proposed_by, basis, mark, total_fen,
            commission_base_fen, commission_fen, damage_fen, needs_consent, evidence, doc, trace_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        order,
        row.version,
        row.proposed_at,
        row.proposed_as,
        row.proposed_by,
        row.basis,
        row.mark,
        row.total_fen,
        row.commission_base_fen,
        row.commission_fen,
        row.damage_fen,
        row.needs_consent,
        &row.evidence,
        row.doc,
        row.trace_id,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// All versions of an order's bill, the newest first.
///
/// Errors: the database.
pub async fn versions(pool: &PgPool, order: Uuid) -> Result<Vec<BillRow>, DbError> {
    sqlx::query_as!(
        BillRow,
        "select version, proposed_at, proposed_as, proposed_by, basis, mark, total_fen, commission_base_fen,
            commission_fen, damage_fen, needs_consent, evidence, doc, trace_id
         from bill_versions where order_id = $1 order by version desc",
        order,
    )
    .fetch_all(pool)
    .await
}

/// One version.
///
/// Errors: the database.
pub async fn version(
    tx: &mut PgConnection,
    order: Uuid,
    version: i32,
) -> Result<Option<BillRow>, DbError> {
    sqlx::query_as!(
        BillRow,
        "select version, proposed_at, proposed_as, proposed_by, basis, mark, total_fen, commission_base_fen,
            commission_fen, damage_fen, needs_consent, evidence, doc, trace_id
         from bill_versions where order_id = $1 and version = $2",
        order,
        version,
    )
    .fetch_optional(tx)
    .await
}

/// What a renter said against a version.
#[derive(Debug, Clone)]
pub struct ObjectionRow {
    /// Its id.
    pub id: Uuid,
    /// Which version.
    pub version: i32,
    /// By whom.
    pub account_id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
    /// In words.
    pub text: String,
    /// Which lines, from 1.
    pub lines: Vec<i32>,
}

/// Keeps an objection.
///
/// Errors: the database.
pub async fn insert_objection(
    tx: &mut PgConnection,
    order: Uuid,
    row: &ObjectionRow,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into bill_objections (id, order_id, version, account_id, at, text, lines) values ($1, $2, $3, $4, $5, $6, $7)",
        row.id,
        order,
        row.version,
        row.account_id,
        row.at,
        row.text,
        &row.lines,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// All objections to an order's bills, in their order.
///
/// Errors: the database.
pub async fn objections(pool: &PgPool, order: Uuid) -> Result<Vec<ObjectionRow>, DbError> {
    sqlx::query_as!(
        ObjectionRow,
        "select id, version, account_id, at, text, lines from bill_objections where order_id = $1 order by id",
        order,
    )
    .fetch_all(pool)
    .await
}

/// Puts a version into the queue of staff.
///
/// Errors: the database.
pub async fn insert_review(
    tx: &mut PgConnection,
    order: Uuid,
    version: i32,
    reasons: &serde_json::Value,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into bill_reviews (order_id, version, reasons, created_at) values ($1, $2, $3, $4)",
        order,
        version,
        reasons,
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Whether a version waits for staff.
///
/// Errors: the database.
pub async fn in_review(tx: &mut PgConnection, order: Uuid, version: i32) -> Result<bool, DbError> {
    sqlx::query_scalar!(
        r#"select exists (select 1 from bill_reviews where order_id = $1 and version = $2 and decided_at is null) as "open!""#,
        order,
        version,
    )
    .fetch_one(tx)
    .await
}

/// Closes a review; false where none is open.
///
/// Errors: the database.
pub async fn decide_review(
    tx: &mut PgConnection,
    order: Uuid,
    version: i32,
    passed: bool,
    note: &str,
    by: Uuid,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "update bill_reviews set passed = $3, note = $4, decided_by = $5, decided_at = $6
         where order_id = $1 and version = $2 and decided_at is null",
        order,
        version,
        passed,
        note,
        by,
        now,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A bill that waits for staff.
#[derive(Debug, Clone)]
pub struct ReviewRow {
    /// Of which order.
    pub order_id: Uuid,
    /// Its number for people.
    pub order_no: String,
    /// Which version.
    pub version: i32,
    /// Over which bounds.
    pub reasons: serde_json::Value,
    /// Since when.
    pub created_at: DateTime<Utc>,
    /// B.
    pub total_fen: i64,
}

/// What waits, the oldest first: only versions that are still the proposed one.
///
/// Errors: the database.
pub async fn open_reviews(pool: &PgPool, most: i64) -> Result<Vec<ReviewRow>, DbError> {
    sqlx::query_as!(
        ReviewRow,
        r#"select r.order_id, o.order_no, r.version, r.reasons, r.created_at, b.total_fen
         from bill_reviews r join bill_versions b using (order_id, version) join orders o on o.id = r.order_id
         where r.decided_at is null and o.status = 'pending_settlement' and o.doc ->> 'phase' = 'bill_proposed'
           and (o.doc ->> 'bill_versions')::integer = r.version
         order by r.created_at limit $1"#,
        most,
    )
    .fetch_all(pool)
    .await
}

/// When the machine's next slot begins after an order's work, if one does.
///
/// Errors: the database.
pub async fn next_busy(
    tx: &mut PgConnection,
    machine: Uuid,
    order: Uuid,
    after: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, DbError> {
    sqlx::query_scalar!(
        "select min(lower(during)) from machine_slots
         where machine_id = $1 and released_at is null and order_id is distinct from $2 and lower(during) >= $3",
        machine,
        order,
        after,
    )
    .fetch_one(tx)
    .await
}
