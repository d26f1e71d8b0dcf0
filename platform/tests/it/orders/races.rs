//! Two at once on one order, repeated requests, changed times, and a worker that dies.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use furrow_platform::{
    app::{orders::due, witness::Witness},
    clock::Clock as _,
    db, ids,
    ingest::witness::Tracks,
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    people::{Person, Town, monday},
    world::wait_until,
};

fn at(days: i64, minutes: i64) -> DateTime<Utc> {
    monday() + TimeDelta::days(days) + TimeDelta::minutes(minutes)
}

async fn pending(town: &Town, renter: &Person, machine: Uuid, days: i64) -> Uuid {
    let order = town
        .booked(renter, machine, at(days, 0), at(days, 360))
        .await;
    town.pay(order).await;
    order
}

#[tokio::test]
async fn s02_two_accepts_at_once_are_one_step_one_freeze_and_one_notice_each() {
    let town = Arc::new(Town::new().await);
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    for day in 2..42 {
        let order = pending(&town, &renter, machine, day).await;
        let accept = || {
            let town = Arc::clone(&town);
            async move {
                town.command(&owner, order, json!({ "command": "accept" }))
                    .await
            }
        };
        let (one, other) = tokio::join!(accept(), accept());
        assert_eq!((one.status, other.status), (200, 200), "{one:?} {other:?}");
        let already = [&one, &other]
            .iter()
            .filter(|a| a.json()["already_applied"] == true)
            .count();
        assert_eq!(already, 1);
    }
    let twice = "select count(*) from (select order_id from order_events where transition = 'T05' group by 1 having count(*) <> 1) x";
    assert_eq!(town.count(twice).await, 0);
    assert_eq!(
        town.count("select count(*) from notices where kind = 'accepted'")
            .await,
        40
    );
}

#[tokio::test]
async fn an_accept_and_a_cancel_at_once_leave_one_of_the_two_ends() {
    let town = Arc::new(Town::new().await);
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    for day in 2..22 {
        let order = pending(&town, &renter, machine, day).await;
        let send = |who: Person, body: serde_json::Value| {
            let town = Arc::clone(&town);
            async move { town.command(&who, order, body).await }
        };
        let (accepted, cancelled) = tokio::join!(
            send(owner, json!({ "command": "accept" })),
            // Without a fee shown it is the cancel of an order that waits.
            send(renter, json!({ "command": "cancel" })),
        );
        let ends = (accepted.status, cancelled.status, town.status(order).await);
        let fine = matches!(
            (ends.0, ends.1, ends.2.as_str()),
            (200, 409, "accepted") | (409, 200, "cancelled")
        );
        assert!(fine, "{ends:?}");
    }
}

#[tokio::test]
async fn a_request_with_a_key_is_carried_out_once_and_answered_alike() {
    let town = Arc::new(Town::new().await);
    let (_, machine) = town.owner().await;
    let renter = town.person().await;
    let quoted = town
        .quote(&renter, machine, at(3, 0), at(3, 360))
        .await
        .json();
    let body = json!({ "quote_token": quoted["quote_token"] });
    let first = town
        .post_once(&renter, "/api/orders", "key-0001", &body)
        .await;
    let again = town
        .post_once(&renter, "/api/orders", "key-0001", &body)
        .await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    assert_eq!(town.count("select count(*) from orders").await, 1);
    let other = json!({ "quote_token": "x" });
    let reused = town
        .post_once(&renter, "/api/orders", "key-0001", &other)
        .await;
    assert_eq!(
        (reused.status, &reused.json()["code"]),
        (422, &json!("key_reused"))
    );
    let bad = town.post_once(&renter, "/api/orders", "short", &body).await;
    assert_eq!(bad.status, 422);
    // At once: one is carried out, the others hear its answer or that it is under way.
    let quoted = town
        .quote(&renter, machine, at(4, 0), at(4, 360))
        .await
        .json();
    let body = json!({ "quote_token": quoted["quote_token"] });
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (town, body) = (Arc::clone(&town), body.clone());
        running.spawn(async move {
            town.post_once(&renter, "/api/orders", "key-0002", &body)
                .await
        });
    }
    for answer in running.join_all().await {
        let told = answer.status == 201 || answer.json()["code"] == "in_progress";
        assert!(told, "{answer:?}");
    }
    assert_eq!(town.count("select count(*) from orders").await, 2);
}

#[tokio::test]
async fn s12_a_reschedule_moves_one_slot_and_keeps_the_old_one_when_it_cannot() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let (renter, other) = (town.person().await, town.person().await);
    let order = pending(&town, &renter, machine, 3).await;
    town.done(&owner, order, json!({ "command": "accept" }))
        .await;
    town.booked(&other, machine, at(3, 720), at(3, 1080)).await;
    let propose = |from: i64| json!({ "command": "propose", "proposal": { "kind": "reschedule", "from": at(3, from), "to": at(3, from + 360) } });
    let onto = town.command(&renter, order, propose(600)).await;
    assert_eq!(
        (onto.status, &onto.json()["code"]),
        (409, &json!("slot_taken"))
    );
    // Over itself: fine.
    let told = town.done(&renter, order, propose(120)).await;
    let answer =
        json!({ "command": "answer", "proposal_id": told["proposal"]["id"], "agree": true });
    let moved = town.done(&owner, order, answer.clone()).await;
    assert_eq!(
        (&moved["epoch"], &moved["from"]),
        (&json!(2), &json!(at(3, 120)))
    );
    let second = town.command(&owner, order, answer).await;
    assert_eq!(
        (second.status, &second.json()["code"]),
        (409, &json!("proposal_gone"))
    );
    let slots = "select count(*) from machine_slots where released_at is null";
    assert_eq!(town.count(slots).await, 2);
    // Reminders of the new time belong to the new epoch.
    let epochs = "select count(*) from order_timers where kind = 'j5_hours' and epoch = 2 and done_at is null";
    assert_eq!(town.count(epochs).await, 1);
}

#[tokio::test]
async fn s13_an_extension_that_meets_the_next_booking_says_where_it_begins() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let (renter, other) = (town.person().await, town.person().await);
    let order = pending(&town, &renter, machine, 3).await;
    town.done(&owner, order, json!({ "command": "accept" }))
        .await;
    let next = town.booked(&other, machine, at(3, 420), at(3, 780)).await;
    let extend = |to: i64| json!({ "command": "propose", "proposal": { "kind": "extend", "end": at(3, to) } });
    let refused = town.command(&renter, order, extend(480)).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (409, &json!("slot_taken"))
    );
    assert_eq!(refused.json()["data"]["next_busy_from"], json!(at(3, 420)));
    let fits = town.done(&renter, order, extend(420)).await;
    let id = fits["proposal"]["id"].clone();
    let agreed = json!({ "command": "answer", "proposal_id": id, "agree": true });
    assert_eq!(
        town.done(&owner, order, agreed).await["to"],
        json!(at(3, 420))
    );
    town.done(&other, next, json!({ "command": "cancel" }))
        .await;
    town.done(&renter, order, extend(480)).await;
}

#[tokio::test]
async fn s41_a_worker_that_lost_its_lease_writes_nothing_and_another_does_it_once() {
    let town = Town::new().await;
    let (_, machine) = town.owner().await;
    let renter = town.person().await;
    let order = town.booked(&renter, machine, at(3, 0), at(3, 360)).await;
    let (pool, now) = (&town.world.pool, town.clock.now() + TimeDelta::minutes(17));
    let witness: Arc<dyn Witness> = Arc::new(Tracks {
        pool: pool.clone(),
        tracks: pool.clone(),
    });
    let lease = async |at: DateTime<Utc>| {
        let token = ids::new_id(at);
        let until = at + TimeDelta::seconds(60);
        let leased = db::timers::lease(pool, token, at, until, 8, 10)
            .await
            .unwrap();
        (token, leased)
    };
    let (dead, leased) = lease(now).await;
    assert_eq!(leased.len(), 1);
    assert!(
        lease(now).await.1.is_empty(),
        "nobody else has it meanwhile"
    );
    // The first worker hangs; its lease runs out and another takes over.
    let later = now + TimeDelta::seconds(61);
    let (alive, again) = lease(later).await;
    assert_eq!(again.len(), 1);
    due(pool, &*witness, &again[0], alive, later).await.unwrap();
    assert_eq!(town.status(order).await, "timed_out");
    // The first wakes up and goes on: nothing more happens.
    due(pool, &*witness, &leased[0], dead, later).await.unwrap();
    assert_eq!(
        town.count("select count(*) from order_events where transition = 'T03'")
            .await,
        1
    );
    let open = "select count(*) from order_timers where done_at is null";
    assert_eq!(town.count(open).await, 0);
}

#[tokio::test]
async fn a_timer_that_fails_again_and_again_waits_for_a_person_who_may_retry_it() {
    let town = Town::new().await;
    let (_, machine) = town.owner().await;
    let renter = town.person().await;
    town.booked(&renter, machine, at(3, 0), at(3, 360)).await;
    sqlx::query("update order_timers set tries = 8 where kind = 'j1'")
        .execute(&town.world.pool)
        .await
        .unwrap();
    let staff = town.staff(&["job.retry"]).await;
    let dead = town.get(&staff, "/api/admin/timers").await.json();
    let id = dead[0]["id"].as_str().unwrap().to_owned();
    town.pass(TimeDelta::minutes(18));
    let retried = town
        .post(&staff, &format!("/api/admin/timers/{id}/retry"), &json!({}))
        .await;
    assert_eq!(retried.status, 204);
    wait_until("it is carried out", || async {
        town.count("select count(*) from orders where status = 'timed_out'")
            .await
            == 1
    })
    .await;
}
