//! Reminders come as often as they are due, and each of them once.

use chrono::TimeDelta;
use serde_json::json;

use crate::{
    people::{Town, monday},
    world::wait_until,
};

#[tokio::test]
async fn a_start_is_reminded_of_the_day_before_and_two_hours_before() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let start = monday() + TimeDelta::days(3);
    let order = town
        .booked(&renter, machine, start, start + TimeDelta::hours(6))
        .await;
    town.pay(order).await;
    town.done(&owner, order, json!({ "command": "accept" }))
        .await;
    // Owner and renter: one person is told each time.
    let told = "select count(*) / count(distinct account_id) from notices
                where kind = 'start_reminder' having count(*) > 0
                union all select 0 limit 1";
    for (hours, count) in [(24, 1), (2, 2)] {
        town.clock.set(start - TimeDelta::hours(hours));
        wait_until("the reminder", || async { town.count(told).await == count }).await;
    }
}
