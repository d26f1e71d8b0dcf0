//! The daily partitions of `track_frames`. Made ahead by a job, never by a frame's time.

use chrono::{Days, NaiveDate};
use sqlx::{AssertSqlSafe, PgPool};

use super::DbError;

/// Partitions reach so far back (frames are taken up to 97 days back) ...
pub const DAYS_BACK: u64 = 100;
/// ... and so far ahead.
pub const DAYS_AHEAD: u64 = 7;

/// Makes the partitions around `today` that are missing; gives how many it made.
///
/// Errors: the database.
pub async fn ensure(pool: &PgPool, today: NaiveDate) -> Result<usize, DbError> {
    let Some(first) = today.checked_sub_days(Days::new(DAYS_BACK)) else {
        return Ok(0);
    };
    let mut tx = pool.begin().await?;
    // Every process runs this job: one makes the tables, the others find them.
    sqlx::query("select pg_advisory_xact_lock(hashtext('furrow.partitions'))")
        .execute(&mut *tx)
        .await?;
    let attached: Vec<String> = sqlx::query_scalar(
        "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'track_frames'::regclass",
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut made = 0;
    for day in first
        .iter_days()
        .take(usize::try_from(DAYS_BACK + DAYS_AHEAD + 1).unwrap_or(0))
    {
        let (name, Some(next)) = (name(day), day.succ_opt()) else {
            continue;
        };
        if attached.contains(&name) {
            continue;
        }
        // Attached, not made as a partition: that would wait for every reader of the tracks, and
        // everything else behind it. A table that was taken out comes back with what it holds.
        // The name and the bounds are dates that we format ourselves.
        for sql in [
            format!("create table if not exists {name} (like track_frames including all)"),
            format!(
                "alter table track_frames attach partition {name} for values from ('{day}') to ('{next}')"
            ),
        ] {
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await?;
        }
        made += 1;
    }
    tx.commit().await?;
    Ok(made)
}

fn name(day: NaiveDate) -> String {
    format!("track_frames_{}", day.format("%Y%m%d"))
}
