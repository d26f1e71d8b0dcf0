//! The audit log as rows. Never changes or removes a line.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

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
    /// From where; none from the command line.
    pub address: Option<&'a str>,
}

/// Writes it down.
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    new: &NewAudit<'_>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into audit_log (id, at, account_id, action, object, detail, trace_id, from_address)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
        crate::ids::new_id(now),
        now,
        new.account,
        new.action,
        new.object,
        new.detail,
        new.trace_id,
        new.address,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A line of the audit log.
#[derive(Debug, Clone)]
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
    /// From where.
    pub from_address: Option<String>,
}

/// Lines of the audit log, newest first: those before one, of an object or of all.
///
/// Errors: the database.
pub async fn page(
    pool: &PgPool,
    object: Option<&str>,
    before: Option<Uuid>,
    most: i64,
) -> Result<Vec<AuditRow>, DbError> {
    sqlx::query_as!(
        AuditRow,
        "select id, at, account_id, action, object, detail, trace_id, from_address from audit_log
         where ($1::text is null or object = $1) and ($2::uuid is null or id < $2) order by id desc limit $3",
        object,
        before,
        most,
    )
    .fetch_all(pool)
    .await
}
