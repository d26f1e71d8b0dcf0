//! The demo's county: believable, whole, and in every state.

use furrow_platform::demo::county;

use crate::world::{World, now, wait_until};

#[tokio::test]
async fn the_county_has_machines_people_and_orders_in_every_state() {
    let world = World::new().await;
    county::seed(&world.pool, &world.settings.data_dir, now())
        .await
        .unwrap();
    let count = async |sql: &'static str| -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&world.pool)
            .await
            .unwrap()
    };
    assert_eq!(
        count("select count(*) from machines where status = 'listed'").await,
        40
    );
    assert_eq!(
        count("select count(*) from organisations where verified_at is not null").await,
        8
    );
    assert_eq!(
        count("select count(distinct rule ->> 'unit') from rent_rules").await,
        4
    );
    // The platform's own clock closes what was never paid.
    let platform = world.platform().await;
    wait_until("every state is there", || async {
        count("select count(distinct status) from orders").await == 9
    })
    .await;
    let broken =
        "select count(*) from orders o where (status in ('cancelled', 'timed_out')) = exists
        (select 1 from machine_slots s where s.order_id = o.id and s.released_at is null)";
    assert_eq!(count(broken).await, 0, "I11");
    // A second start finds people and leaves them alone.
    let before = count("select count(*) from orders").await;
    county::seed(&world.pool, &world.settings.data_dir, now())
        .await
        .unwrap();
    assert_eq!(count("select count(*) from orders").await, before);
    drop(platform);
}
