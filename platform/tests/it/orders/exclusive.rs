//! One machine, one time, one order: whatever the concurrency, and however the ranges lie.

use std::{sync::Arc, time::Instant};

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{id::AccountId, period::Period};
use furrow_platform::{
    app::{
        fault::Fault,
        orders::{BookRequest, book},
        quotes::{self, Work},
        tokens::Tokens,
        who::Who,
    },
    clock::Clock as _,
};
use serde_json::json;
use uuid::Uuid;

use crate::people::{Town, monday, work};

const OVERLAPS: &str =
    "select count(*) from machine_slots a join machine_slots b on a.machine_id = b.machine_id
    and a.id < b.id and a.during && b.during where a.released_at is null and b.released_at is null";

fn at(days: i64, minutes: i64) -> DateTime<Utc> {
    monday() + TimeDelta::days(days) + TimeDelta::minutes(minutes)
}

#[tokio::test]
async fn s01_of_a_thousand_who_want_one_slot_one_gets_it_and_the_others_hear_why() {
    let town = Arc::new(Town::new().await);
    let (_, machine) = town.owner().await;
    let people = Arc::new(town.people(1000).await);
    let mut running = tokio::task::JoinSet::new();
    for lane in 0..50 {
        let (town, people) = (Arc::clone(&town), Arc::clone(&people));
        running.spawn(async move {
            let mut heard = Vec::new();
            for person in people.iter().skip(lane).step_by(50) {
                let begin = Instant::now();
                let answer = town.book(person, machine, at(3, 0), at(3, 360)).await;
                heard.push((
                    answer.status,
                    answer.json()["code"].clone(),
                    begin.elapsed(),
                ));
            }
            heard
        });
    }
    let all: Vec<_> = running.join_all().await.into_iter().flatten().collect();
    assert_eq!(all.len(), 1000);
    assert_eq!(all.iter().filter(|(status, ..)| *status == 201).count(), 1);
    let refused = |(status, code, _): &&(u16, serde_json::Value, _)| {
        *status == 409 && *code == json!("slot_taken")
    };
    assert_eq!(all.iter().filter(refused).count(), 999);
    assert_eq!(town.count(OVERLAPS).await, 0);
    assert_eq!(town.count("select count(*) from orders").await, 1);
}

#[tokio::test]
async fn s01_random_ranges_never_overlap_and_any_of_three_machines_is_three_orders() {
    let town = Arc::new(Town::new().await);
    let (owner, machine) = town.owner().await;
    let organisation = town.get(&owner, "/api/me").await.json()["organisations"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut machines = vec![machine];
    for _ in 0..2 {
        machines.push(
            town.machine(&owner, &organisation, &crate::people::rule())
                .await,
        );
    }
    let people = town.people(60).await;
    let mut running = tokio::task::JoinSet::new();
    for (i, person) in people.iter().copied().enumerate() {
        let (town, machines) = (Arc::clone(&town), machines.clone());
        running.spawn(async move {
            let start = i64::try_from(i * 7 % 23).unwrap() * 30;
            let random = town
                .book(&person, machines[0], at(3, start), at(3, start + 330))
                .await;
            assert!(matches!(random.status, 201 | 409), "{random:?}");
            for machine in machines {
                let any = town.book(&person, machine, at(9, 0), at(9, 360)).await;
                match any.status {
                    201 => return 1,
                    409 => {}
                    _ => panic!("{any:?}"),
                }
            }
            0
        });
    }
    assert_eq!(running.join_all().await.into_iter().sum::<i32>(), 3);
    assert_eq!(town.count(OVERLAPS).await, 0);
    assert!(town.count("select count(*) from orders").await > 4);
}

#[tokio::test]
async fn s03_and_s04_neighbours_fit_and_every_other_way_to_lie_is_taken() {
    let town = Town::new().await;
    let (_, machine) = town.owner().await;
    let renter = town.person().await;
    // 50 mu need five hours here: ranges of six.
    town.booked(&renter, machine, at(3, 480), at(3, 840)).await;
    for (from, to, status) in [
        (840, 1200, 201),
        (120, 480, 201),
        (450, 810, 409),
        (510, 870, 409),
        (480, 840, 409),
        (480, 870, 409),
        (450, 840, 409),
        (420, 900, 409),
    ] {
        let answer = town.book(&renter, machine, at(3, from), at(3, to)).await;
        assert_eq!(answer.status, status, "{from} {to}: {answer:?}");
    }
    let empty = town.quote(&renter, machine, at(4, 0), at(4, 0)).await;
    assert_eq!(
        (empty.status, &empty.json()["code"]),
        (422, &json!("empty_range"))
    );
    let reversed = town.quote(&renter, machine, at(4, 60), at(4, 0)).await;
    assert_eq!(
        (reversed.status, &reversed.json()["code"]),
        (422, &json!("reversed_range"))
    );
    let odd = town.quote(&renter, machine, at(4, 1), at(4, 361)).await;
    assert_eq!(odd.status, 422, "off the grid");
    let short = town.quote(&renter, machine, at(4, 0), at(4, 240)).await;
    assert_eq!(
        (short.status, &short.json()["code"]),
        (422, &json!("time_too_short"))
    );
    assert_eq!(short.json()["data"]["needed_minutes"], 300);
}

#[tokio::test]
async fn s16_the_servers_clock_decides_whether_it_is_too_late() {
    let town = Town::new().await;
    let (_, machine) = town.owner().await;
    let renter = town.person().await;
    let start = at(3, 480);
    let book_at = async |now: DateTime<Utc>| {
        town.clock.set(now);
        let answer = town
            .book(&renter, machine, start, start + TimeDelta::hours(6))
            .await;
        (
            answer.status,
            answer.json()["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    assert_eq!(
        book_at(start + TimeDelta::seconds(1)).await,
        (422, "in_past".into())
    );
    // Two hours are the cutoff itself; the lead is 2 h 45 min.
    assert_eq!(
        book_at(start - TimeDelta::hours(2)).await,
        (409, "too_late".into())
    );
    let lead = start - TimeDelta::minutes(165);
    assert_eq!(
        book_at(lead + TimeDelta::seconds(1)).await,
        (409, "too_late".into())
    );
    assert_eq!(book_at(lead).await.0, 201);
}

/// Somebody as the use cases know him.
fn who(account: Uuid) -> Who {
    Who {
        account: AccountId(account),
        organisations: vec![],
        permissions: vec![],
        trace_id: "0123456789abcdef0123456789abcdef".into(),
        address: None,
    }
}

#[tokio::test]
async fn s07_an_expired_hold_is_no_obstacle_even_when_no_worker_runs() {
    let town = Town::new().await;
    let (_, machine) = town.owner().await;
    let (first, second) = (town.person().await, town.person().await);
    // No timer is ever due for the platform's own worker: only the clock of the booking passes.
    let tokens = Tokens::open(&town.world.settings.data_dir).unwrap();
    let asked: Work = serde_json::from_value(work()).unwrap();
    let period = Period::new(at(3, 0), at(3, 360)).unwrap();
    let attempt = async |person: Uuid, now: DateTime<Utc>| {
        let who = who(person);
        let pool = &town.world.pool;
        let quote = quotes::quote(pool, &tokens, &who, machine, &period, &asked, now).await?;
        let quoted = quotes::read(&tokens, &who, &quote.token, now)?;
        let request = BookRequest {
            quoted,
            on_behalf_of: None,
        };
        book(pool, &who, &request, now).await
    };
    let now = town.clock.now();
    let held = attempt(first.account, now).await.unwrap();
    let expires = now + TimeDelta::minutes(17);
    let early = attempt(second.account, expires - TimeDelta::milliseconds(1)).await;
    assert_eq!(
        early.err().and_then(|f: Fault| f.code()),
        Some("slot_taken")
    );
    let booked = attempt(second.account, expires).await.unwrap();
    assert_eq!(town.status(held.order.id.0).await, "timed_out");
    assert_eq!(town.status(booked.order.id.0).await, "pending_payment");
    assert_eq!(town.count(OVERLAPS).await, 0);
    // The worker finds nothing left to close.
    town.clock.set(expires);
    crate::world::wait_until("the timer is over", || async {
        town.count("select count(*) from order_timers where kind in ('j1', 'j3') and done_at is null and order_id in (select id from orders where status = 'timed_out')").await == 0
    })
    .await;
    assert_eq!(
        town.count("select count(*) from order_events where transition = 'T03'")
            .await,
        1
    );
}
