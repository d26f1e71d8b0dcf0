//! The days of the tracks: made ahead, in the way of nobody. Never looks at what is in them.

use chrono::{Days, NaiveDate};
use furrow_platform::db::partitions::{self, DAYS_AHEAD, DAYS_BACK};
use sqlx::AssertSqlSafe;
use tokio::time::timeout;

use crate::world::{PATIENCE, World, now};

async fn attached(world: &World) -> Vec<String> {
    sqlx::query_scalar(
        "select inhrelid::regclass::text from pg_inherits
         where inhparent = 'track_frames'::regclass order by 1",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap()
}

fn name(day: NaiveDate) -> String {
    format!("track_frames_{}", day.format("%Y%m%d"))
}

async fn run(world: &World, sql: String) {
    sqlx::query(AssertSqlSafe(sql))
        .execute(&world.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn every_day_from_100_back_to_7_ahead_is_there_and_the_next_day_makes_one_more() {
    let world = World::new().await;
    let today = now().date_naive();
    let count = usize::try_from(DAYS_BACK + DAYS_AHEAD + 1).unwrap();
    let first = today - Days::new(DAYS_BACK);
    let expected: Vec<String> = first.iter_days().take(count).map(name).collect();
    assert_eq!(attached(&world).await, expected);
    assert_eq!(partitions::ensure(&world.pool, today).await.unwrap(), 0);
    let tomorrow = today + Days::new(1);
    assert_eq!(partitions::ensure(&world.pool, tomorrow).await.unwrap(), 1);
    assert_eq!(attached(&world).await.len(), count + 1);
}

#[tokio::test]
async fn a_day_is_made_beside_whoever_reads_and_writes_the_tracks() {
    let world = World::new().await;
    let mut busy = world.pool.begin().await.unwrap();
    sqlx::query("lock table only track_frames in row exclusive mode")
        .execute(&mut *busy)
        .await
        .unwrap();
    let tomorrow = now().date_naive() + Days::new(1);
    let made = timeout(PATIENCE, partitions::ensure(&world.pool, tomorrow)).await;
    assert_eq!(made.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_day_that_was_taken_out_comes_back_with_what_it_holds() {
    let world = World::new().await;
    let today = now().date_naive();
    let put =
        format!("insert into track_frames values ('{today}', 1, 5, 1, now(), now(), now(), 0, '')");
    run(&world, put).await;
    let day = name(today);
    run(
        &world,
        format!("alter table track_frames detach partition {day}"),
    )
    .await;
    assert_eq!(partitions::ensure(&world.pool, today).await.unwrap(), 1);
    let rows: i64 = sqlx::query_scalar("select count(*) from track_frames")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn processes_that_make_the_days_at_once_do_not_meet() {
    let world = World::bare().await;
    furrow_platform::db::migrate(&world.pool).await.unwrap();
    let today = now().date_naive();
    let tries = (0..4).map(|_| partitions::ensure(&world.pool, today));
    let made = futures_util::future::join_all(tries).await;
    let total: usize = made.into_iter().map(|made| made.unwrap()).sum();
    assert_eq!(total, usize::try_from(DAYS_BACK + DAYS_AHEAD + 1).unwrap());
    // The key of each day is the table's: a frame cannot be there twice.
    let alone: i64 = sqlx::query_scalar(
        "select count(*) from pg_index where indisprimary and indrelid::regclass::text like 'track_frames_%'",
    )
    .fetch_one(&world.pool)
    .await
    .unwrap();
    assert_eq!(usize::try_from(alone).unwrap(), total);
}
