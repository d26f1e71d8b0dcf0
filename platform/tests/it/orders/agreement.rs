//! Search, quote and booking say the same of every time; days are the machine's own.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::people::{Person, Town, monday, work};

/// Half hours from Monday 08:00 in Shanghai.
fn at(half_hours: i64) -> DateTime<Utc> {
    monday() + TimeDelta::minutes(30 * half_hours)
}

/// A number that follows from a seed: the test is the same each time.
fn dice(seed: &mut u64, sides: u64) -> i64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    i64::try_from((*seed >> 33) % sides).unwrap()
}

async fn open_at_random(town: &Town, owner: &Person, machine: Uuid, seed: &mut u64) {
    let mut weekly = Vec::new();
    for weekday in 0..7 {
        let start = dice(seed, 20) * 30;
        weekly.push(json!({ "weekday": weekday, "start_min": start, "end_min": start + 30 * (4 + dice(seed, 24)) }));
    }
    let exceptions = json!([
        { "day": "2026-12-09", "start_min": 600, "end_min": 720, "open": false },
        { "day": "2026-12-10", "start_min": 1200, "end_min": 1440, "open": true },
    ]);
    let path = format!("/api/machines/{machine}/availability");
    let body = json!({ "weekly": weekly, "exceptions": exceptions });
    assert_eq!(town.send(owner, "PUT", &path, &body).await.status, 204);
}

#[tokio::test]
async fn search_quote_and_booking_agree_on_every_time() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    // By the hour: no area asks for a length.
    let hourly = json!({ "unit": "hour", "unit_price_fen": 12_000 });
    let path = format!("/api/machines/{machine}/rules");
    assert_eq!(town.post(&owner, &path, &hourly).await.status, 201);
    let (mut seed, mut free, mut taken) = (7, 0, 0);
    for round in 0..6 {
        open_at_random(&town, &owner, machine, &mut seed).await;
        for _ in 0..20 {
            let renter = town.person().await;
            let start = 12 + dice(&mut seed, 200);
            let (from, to) = (at(start), at(start + 1 + dice(&mut seed, 8)));
            let asked = json!({ "from": from, "to": to, "work": work() });
            let found = town.post(&renter, "/api/search", &asked).await.json();
            let hit = found["hits"].as_array().unwrap().len() == 1;
            let quoted = town.quote(&renter, machine, from, to).await;
            assert_eq!(
                quoted.status == 200,
                hit,
                "round {round}: {from} {to}: {quoted:?}"
            );
            let calendar = town
                .get(
                    &renter,
                    &format!(
                        "/api/machines/{machine}/calendar?from={}&to={}",
                        text(from),
                        text(to)
                    ),
                )
                .await
                .json();
            let all_free = calendar["cells"]
                .as_array()
                .unwrap()
                .iter()
                .all(|c| c["state"] == "free");
            assert_eq!(all_free, hit, "round {round}: {from} {to}: {calendar}");
            if hit {
                free += 1;
                assert_eq!(
                    quoted.json()["offer"]["total_fen"],
                    found["hits"][0]["offer"]["total_fen"]
                );
                let token = json!({ "quote_token": quoted.json()["quote_token"] });
                let booked = town.post(&renter, "/api/orders", &token).await;
                assert_eq!(booked.status, 201, "{booked:?}");
                assert_eq!(
                    booked.json()["estimate_fen"],
                    quoted.json()["offer"]["total_fen"]
                );
            } else {
                taken += 1;
            }
        }
    }
    assert!(free > 10 && taken > 10, "{free} {taken}");
}

fn text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

#[tokio::test]
async fn s09_a_whole_day_is_the_machines_day_wherever_the_server_stands() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let daily = json!({ "unit": "day", "unit_price_fen": 180_000 });
    town.post(&owner, &format!("/api/machines/{machine}/rules"), &daily)
        .await;
    // 15 December in Shanghai.
    let (from, to): (DateTime<Utc>, DateTime<Utc>) = (
        "2026-12-14T16:00:00Z".parse().unwrap(),
        "2026-12-15T16:00:00Z".parse().unwrap(),
    );
    let booked = town.book(&renter, machine, from, to).await;
    assert_eq!(booked.status, 201, "{booked:?}");
    let order = booked.json();
    assert_eq!((&order["from"], &order["to"]), (&json!(from), &json!(to)));
    assert_eq!(order["estimate_fen"], 180_000, "one day");
    for (span, count) in [
        ((from, to), 1),
        ((to, to + TimeDelta::days(1)), 0),
        ((from - TimeDelta::days(1), from), 0),
    ] {
        let path = format!("/api/orders?from={}&to={}", text(span.0), text(span.1));
        let page = town.get(&renter, &path).await.json();
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{path}");
    }
    // UTC's day is none of the machine's.
    let utc = town
        .quote(
            &renter,
            machine,
            from + TimeDelta::hours(32),
            from + TimeDelta::hours(56),
        )
        .await;
    assert_eq!(utc.status, 422, "{utc:?}");
    let next = town
        .book(&renter, machine, to, to + TimeDelta::days(2))
        .await;
    assert_eq!(
        (next.status, &next.json()["estimate_fen"]),
        (201, &Value::from(360_000)),
        "S03 by days"
    );
}

#[tokio::test]
async fn s11_half_days_block_what_lies_between_and_offer_what_does_not() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let halves = json!({ "unit": "half_day", "unit_price_fen": 60_000 });
    town.post(&owner, &format!("/api/machines/{machine}/rules"), &halves)
        .await;
    let shanghai =
        |text: &str| -> DateTime<Utc> { format!("2026-12-{text}:00:00+08:00").parse().unwrap() };
    let book = async |from: &str, to: &str| {
        let answer = town
            .book(&renter, machine, shanghai(from), shanghai(to))
            .await;
        (answer.status, answer.json()["estimate_fen"].clone())
    };
    assert_eq!(book("11T12", "13T12").await, (201, json!(240_000)));
    assert_eq!(book("12T06", "12T12").await.0, 409);
    assert_eq!(book("12T12", "12T18").await.0, 409);
    assert_eq!(book("11T06", "11T12").await, (201, json!(60_000)));
    assert_eq!(book("13T12", "13T18").await, (201, json!(60_000)));
    assert_eq!(book("14T07", "14T12").await.0, 422);
}
