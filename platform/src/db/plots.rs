//! Renters' plots. Outlines are GeoJSON in WGS-84.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;

/// A plot.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct PlotRow {
    /// Its id.
    pub id: Uuid,
    /// As its farmer calls it.
    pub name: String,
    /// Code of a crop.
    pub crop: String,
    /// GeoJSON geometry.
    pub outline: serde_json::Value,
    /// 1/10,000 m².
    pub area_e4_m2: i64,
    /// Its middle, 1e-7 degree.
    pub lat_e7: i32,
    /// Its middle, 1e-7 degree.
    pub lon_e7: i32,
}

/// Keeps a plot.
///
/// Errors: the database.
pub async fn insert(
    tx: &mut PgConnection,
    account: Uuid,
    new: &PlotRow,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query(
        "insert into plots (id, account_id, name, crop, outline, area_e4_m2, lat_e7, lon_e7, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(new.id)
    .bind(account)
    .bind(&new.name)
    .bind(&new.crop)
    .bind(&new.outline)
    .bind(new.area_e4_m2)
    .bind(new.lat_e7)
    .bind(new.lon_e7)
    .bind(now)
    .execute(tx)
    .await?;
    Ok(())
}

/// The plots of an account, after one, in order of their ids.
///
/// Errors: the database.
pub async fn page(
    pool: &PgPool,
    account: Uuid,
    after: Uuid,
    most: i64,
) -> Result<Vec<PlotRow>, DbError> {
    sqlx::query_as(
        "select id, name, crop, outline, area_e4_m2, lat_e7, lon_e7 from plots
         where account_id = $1 and deleted_at is null and id > $2 order by id limit $3",
    )
    .bind(account)
    .bind(after)
    .bind(most)
    .fetch_all(pool)
    .await
}

/// Those of these plots that are the account's own.
///
/// Errors: the database.
pub async fn own(
    tx: &mut PgConnection,
    account: Uuid,
    ids: &[Uuid],
) -> Result<Vec<PlotRow>, DbError> {
    sqlx::query_as(
        "select id, name, crop, outline, area_e4_m2, lat_e7, lon_e7 from plots
         where account_id = $1 and deleted_at is null and id = any($2) order by id",
    )
    .bind(account)
    .bind(ids)
    .fetch_all(tx)
    .await
}

/// Takes a plot from the list; orders keep their copy.
///
/// Errors: the database.
pub async fn delete(
    pool: &PgPool,
    account: Uuid,
    id: Uuid,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "update plots set deleted_at = $3 where id = $2 and account_id = $1 and deleted_at is null",
    )
    .bind(account)
    .bind(id)
    .bind(now)
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}
