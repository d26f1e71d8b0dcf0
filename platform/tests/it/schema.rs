//! How a database stands to this build.

use furrow_platform::db::{self, Schema};
use sqlx::Executor as _;

use crate::world::World;

#[tokio::test]
async fn a_schema_is_told_as_behind_current_newer_or_different() {
    let world = World::bare().await;
    let schema = || async { db::schema(&world.pool).await.unwrap() };
    assert!(matches!(schema().await, Schema::Behind(n) if n > 1));
    db::migrate(&world.pool).await.unwrap();
    assert_eq!(schema().await, Schema::Current);

    let newer =
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
                 values (99990101000000, 'from the future', true, '\\x00', 0)";
    world.pool.execute(newer).await.unwrap();
    assert_eq!(schema().await, Schema::Ahead(1));

    let other = "update _sqlx_migrations set checksum = '\\x00' where version = 20261201000001";
    world.pool.execute(other).await.unwrap();
    assert_eq!(schema().await, Schema::Differs(20_261_201_000_001));
}

#[tokio::test]
async fn migrating_twice_changes_nothing() {
    let world = World::bare().await;
    db::migrate(&world.pool).await.unwrap();
    db::migrate(&world.pool).await.unwrap();
    assert_eq!(db::schema(&world.pool).await.unwrap(), Schema::Current);
}
