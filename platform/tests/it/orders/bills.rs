//! Bills through the human door: what they rest on, who must say yes to what, what silence agrees to, and what staff sees first.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use furrow_platform::{
    app::{orders::due, witness::Witness},
    db::{self, partitions},
    ids,
    ingest::witness::Tracks,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    facts::{passes, ring, store},
    people::{Person, Town, monday},
};

fn day(days: i64, minute: i64) -> DateTime<Utc> {
    monday() + TimeDelta::days(days) + TimeDelta::minutes(minute)
}

/// An order of six hours whose work is over after five, without a device.
async fn finished(town: &Town) -> (Person, Person, Uuid) {
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let order = town.booked(&renter, machine, day(3, 0), day(3, 360)).await;
    town.pay(order).await;
    town.done(&owner, order, json!({ "command": "accept" }))
        .await;
    town.clock.set(day(3, 0));
    let tap = json!({ "command": "start", "photo": true });
    town.done(&owner, order, tap.clone()).await;
    town.done(&renter, order, tap).await;
    town.clock.set(day(3, 300));
    town.done(&owner, order, json!({ "command": "finish" }))
        .await;
    (owner, renter, order)
}

fn bill(items: &Value) -> Value {
    json!({ "command": "propose_bill", "bill": items })
}

async fn newest(town: &Town, who: &Person, order: Uuid) -> Value {
    let bills = town.get(who, &format!("/api/orders/{order}/bills")).await;
    assert_eq!(bills.status, 200, "{bills:?}");
    bills.json()["versions"][0].clone()
}

/// Everything that is due now, until nothing is.
async fn clocks(town: &Town) {
    let pool = &town.world.pool;
    let witness: Arc<dyn Witness> = Arc::new(Tracks {
        pool: pool.clone(),
        tracks: pool.clone(),
    });
    loop {
        let (now, token) = (town.now(), ids::new_id(town.now()));
        let until = now + TimeDelta::minutes(5);
        let leased = db::timers::lease(pool, token, now, until, 8, 100)
            .await
            .unwrap();
        if leased.is_empty() {
            return;
        }
        for timer in leased {
            due(pool, &*witness, &timer, token, now).await.unwrap();
        }
    }
}

#[tokio::test]
async fn each_line_says_how_it_was_calculated_and_the_renter_says_yes_to_those_that_need_it() {
    let town = Town::new().await;
    let (owner, renter, order) = finished(&town).await;
    let items = json!({
        "lines": [{ "label": "柴油", "amount_fen": 12_000 }, { "label": "老客户", "amount_fen": -5_000 }],
        "damage": [{ "label": "灯", "amount_fen": 30_000, "evidence": [Uuid::from_u128(9)] }],
    });
    let path = format!("/api/orders/{order}/bills/preview");
    let shown = town.post(&owner, &path, &items).await.json();
    assert_eq!(shown["total_fen"], 332_000, "{shown}");
    assert_eq!(
        town.post(&renter, &path, &items).await.json()["code"],
        "forbidden"
    );
    town.done(&owner, order, bill(&items)).await;
    let kept = newest(&town, &renter, order).await;
    assert_eq!(
        (&kept["version"], &kept["proposed"], &kept["proposed_as"]),
        (&json!(1), &json!(true), &json!("owner"))
    );
    assert_eq!(
        (&kept["basis"], &kept["mark"]),
        (&json!("booked"), &json!("red"))
    );
    let lines = kept["lines"].as_array().unwrap();
    let of = |key: &str| lines.iter().map(|l| l[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("kind"), ["rent", "extra", "discount"]);
    assert_eq!(of("amount_fen"), [325_000, 12_000, -5_000]);
    assert_eq!(of("needs_consent"), [true, true, false]);
    assert_eq!(lines[0]["text_zh"], "50.00 亩 × 65.00 元 = 3250.00 元");
    assert_eq!(lines[0]["amount_text"], "¥3250.00");
    assert_eq!(kept["damage_text"], "¥300.00");
    // Of 3,200.00: neither fuel nor damage bears our share.
    assert_eq!(kept["share"]["base_fen"], 320_000);
    assert_eq!(kept["unanswered_fen"], 320_000);
    let why: Vec<&str> = kept["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["text_en"].as_str().unwrap())
        .collect();
    assert_eq!(why, ["added: 柴油", "added: 老客户"]);
    let confirm =
        |consents: Value| json!({ "command": "confirm_bill", "version": 1, "consents": consents });
    for (consents, missing) in [(json!([]), json!([1, 2])), (json!([1]), json!([2]))] {
        let refused = town.command(&renter, order, confirm(consents)).await;
        let said = refused.json();
        assert_eq!(
            (&said["code"], &said["data"]["lines"]),
            (&json!("consent_missing"), &missing),
            "{said}"
        );
    }
    let over = town.done(&renter, order, confirm(json!([1, 2]))).await;
    assert_eq!(
        (&over["status"], &over["phase"]),
        (&json!("pending_settlement"), &json!("balance_due"))
    );
    assert_eq!(over["balance_fen"], 7_000);
    let paid = json!({ "command": "balance_from_deposit" });
    let over = town.done(&renter, order, paid).await;
    assert_eq!(over["status"], "completed");
    // R 3,250.00 and D 1,000.00 less B 3,320.00 and X 300.00.
    assert_eq!(over["refunds_fen"], 63_000);
    let change = sqlx::query("update bill_versions set total_fen = 0")
        .execute(&town.world.pool)
        .await;
    assert!(change.unwrap_err().to_string().contains("never change"));
}

#[tokio::test]
async fn a_claim_waits_for_the_renter_who_may_object_and_silence_gives_no_more_than_was_estimated()
{
    let town = Town::new().await;
    let (owner, renter, order) = finished(&town).await;
    let claim = |ask: bool| bill(&json!({ "claimed_centi_mu": 6_000, "ask_consent": ask }));
    let refused = town.command(&owner, order, claim(false)).await.json();
    assert_eq!(refused["code"], "consent_needed");
    assert_eq!(refused["data"]["check"]["claimed_centi_mu"], 6_000);
    town.done(&owner, order, claim(true)).await;
    let object = json!({ "command": "object_bill", "text": "it was 50", "lines": [2] });
    let wrong = town.command(&renter, order, object).await;
    assert_eq!(wrong.status, 422, "there is one line: {wrong:?}");
    let object = json!({ "command": "object_bill", "text": "it was 50", "lines": [1] });
    let objected = town.done(&renter, order, object).await;
    assert_eq!(objected["phase"], "awaiting_bill");
    town.done(&owner, order, claim(true)).await;
    let stale = json!({ "command": "confirm_bill", "version": 1, "consents": [1] });
    let stale = town.command(&renter, order, stale).await;
    assert_eq!(stale.json()["code"], "version_conflict");
    let all = town
        .get(&owner, &format!("/api/orders/{order}/bills"))
        .await;
    let all = all.json();
    assert_eq!(all["versions"].as_array().unwrap().len(), 2);
    assert_eq!(all["objections"][0]["lines"], json!([1]));
    let stranger = town.person().await;
    let hidden = town
        .get(&stranger, &format!("/api/orders/{order}/bills"))
        .await;
    assert_eq!(hidden.status, 404);
    town.pass(TimeDelta::hours(72));
    clocks(&town).await;
    assert_eq!(town.status(order).await, "completed");
    let refunds = "select (doc -> 'funds' ->> 'refunds')::bigint from orders";
    // The estimate and no more: the deposit comes back whole.
    assert_eq!(town.count(refunds).await, 100_000);
}

#[tokio::test]
async fn the_clock_bills_what_was_booked_where_nothing_was_measured() {
    let town = Town::new().await;
    let (_, renter, order) = finished(&town).await;
    town.pass(TimeDelta::hours(24) - TimeDelta::milliseconds(1));
    clocks(&town).await;
    assert_eq!(newest(&town, &renter, order).await, Value::Null);
    town.pass(TimeDelta::milliseconds(1));
    clocks(&town).await;
    let drafted = newest(&town, &renter, order).await;
    assert_eq!(
        (&drafted["proposed_as"], &drafted["total_fen"]),
        (&json!("system"), &json!(325_000))
    );
    assert_eq!(drafted["proposed_by"], Value::Null);
}

#[tokio::test]
async fn staff_sees_a_bill_over_the_bounds_before_it_counts() {
    let town = Town::new().await;
    let (owner, renter, order) = finished(&town).await;
    let staff = town.staff(&["bill.review", "order.read"]).await;
    let claim = bill(&json!({ "claimed_centi_mu": 6_600, "ask_consent": true }));
    town.done(&owner, order, claim.clone()).await;
    let waiting = town.get(&staff, "/api/admin/bill-reviews").await.json();
    assert_eq!(
        waiting[0]["reasons"][0]["reason"], "over_estimate",
        "{waiting}"
    );
    let confirm =
        |version: u32| json!({ "command": "confirm_bill", "version": version, "consents": [1] });
    let early = town.command(&renter, order, confirm(1)).await;
    assert_eq!(early.json()["code"], "still_open");
    let path = |version: u32| format!("/api/admin/orders/{order}/bills/{version}/review");
    let said = |passed: bool| json!({ "passed": passed, "note": "seen" });
    assert_eq!(town.post(&owner, &path(1), &said(true)).await.status, 404);
    let back = town.post(&staff, &path(1), &said(false)).await;
    assert_eq!(back.json()["phase"], "awaiting_bill", "{back:?}");
    assert_eq!(town.post(&staff, &path(1), &said(true)).await.status, 404);
    town.done(&owner, order, claim).await;
    let passed = town.post(&staff, &path(2), &said(true)).await;
    assert_eq!(passed.json()["phase"], "bill_proposed", "{passed:?}");
    let none = town.get(&staff, "/api/admin/bill-reviews").await.json();
    assert_eq!(none, json!([]));
    let owed = town.done(&renter, order, confirm(2)).await;
    assert_eq!(owed["balance_fen"], 104_000);
    let trail = "select count(*) from audit_log where action = 'bill.reviewed'";
    assert_eq!(town.count(trail).await, 2);
}

/// Binds a device to a machine from Monday on; its number.
async fn bound(town: &Town, machine: Uuid) -> u32 {
    let number: i32 = sqlx::query_scalar(
        "insert into devices (public_key, token_hash, enrolled_at, enrolment_request, changed_at)
         values (decode(repeat('07', 32), 'hex'), decode(repeat('07', 32), 'hex'), $1, '\\x00', $1) returning number",
    )
    .bind(monday())
    .fetch_one(&town.world.pool)
    .await
    .unwrap();
    sqlx::query("insert into device_bindings (id, device, machine_id, during) values ($1, $2, $3, tstzrange($4, null))")
        .bind(ids::new_id(monday()))
        .bind(number)
        .bind(machine)
        .bind(monday() - TimeDelta::days(1))
        .execute(&town.world.pool)
        .await
        .unwrap();
    number.unsigned_abs()
}

#[tokio::test]
async fn what_a_track_shows_is_what_is_billed() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let device = bound(&town, machine).await;
    let outline = json!({ "type": "Polygon", "coordinates": [ring()] });
    let plot = json!({ "geojson": outline, "name": "north", "crop": "rice" });
    let plots = town.post(&renter, "/api/plots", &plot).await;
    assert_eq!(plots.status, 201, "{plots:?}");
    let plot = plots.json()[0]["id"].clone();
    let (from, to) = (day(3, 0), day(3, 360));
    let asked = json!({ "machine_id": machine, "from": from, "to": to, "work": { "plots": [plot], "crop": "rice" } });
    let quote = town.post(&renter, "/api/quotes", &asked).await.json();
    let token = json!({ "quote_token": quote["quote_token"] });
    let booked = town.post(&renter, "/api/orders", &token).await.json();
    let order: Uuid = booked["id"].as_str().unwrap().parse().unwrap();
    town.pay(order).await;
    town.done(&owner, order, json!({ "command": "accept" }))
        .await;
    partitions::ensure(&town.world.pool, from.date_naive())
        .await
        .unwrap();
    // Six passes of 6 m: the machine is 3 m wide and leaves half of it undone.
    let begin = from + TimeDelta::minutes(5);
    store(&town.world, device, &passes(begin.timestamp_millis())).await;
    town.clock.set(from + TimeDelta::minutes(12));
    let tap = json!({ "command": "start" });
    town.done(&owner, order, tap.clone()).await;
    let started = town.done(&renter, order, tap).await;
    assert_eq!(started["start_evidence"], "taps", "{started}");
    town.pass(TimeDelta::minutes(4));
    town.done(
        &owner,
        order,
        json!({ "command": "finish", "reason": "done" }),
    )
    .await;
    town.pass(TimeDelta::hours(24));
    clocks(&town).await;
    let bill = newest(&town, &renter, order).await;
    assert_eq!(
        (&bill["basis"], &bill["mark"], &bill["needs_consent"]),
        (&json!("measured"), &json!("green"), &json!(false)),
        "{bill}"
    );
    let area = bill["check"]["measured_centi_mu"].as_u64().unwrap();
    // 6 passes of 120 m and 3 m: 2,160 m2, 3.24 mu.
    assert!((310..=340).contains(&area), "{bill}");
    assert_eq!(bill["lines"][0]["quantity"], area);
    assert_eq!(bill["lines"][0]["evidence"][0]["kind"], "track");
    let why = bill["differences"][0].clone();
    assert_eq!(
        (&why["reason"], &why["billed"]),
        (&json!("quantity"), &json!(area)),
        "{why}"
    );
    let done = town
        .done(
            &renter,
            order,
            json!({ "command": "confirm_bill", "version": 1 }),
        )
        .await;
    assert_eq!(done["status"], "completed");
}

#[tokio::test]
async fn what_a_bill_cannot_hold_is_refused_with_the_field() {
    let town = Town::new().await;
    let (owner, _, order) = finished(&town).await;
    let many: Vec<Value> = (0..21)
        .map(|n| json!({ "label": "a", "amount_fen": n + 1 }))
        .collect();
    for (items, field) in [
        (json!({ "claimed_minutes": 60 }), "claimed_minutes"),
        (
            json!({ "claimed_centi_mu": 1, "claimed_minutes": 60 }),
            "claimed_minutes",
        ),
        (
            json!({ "claimed_centi_mu": 100_000_001_u64 }),
            "claimed_centi_mu",
        ),
        (
            json!({ "lines": [{ "label": " ", "amount_fen": 1 }] }),
            "lines[0].label",
        ),
        (
            json!({ "lines": [{ "label": "a", "amount_fen": 0 }] }),
            "lines[0].amount_fen",
        ),
        (
            json!({ "lines": [{ "label": "a", "amount_fen": i64::MIN }] }),
            "lines[0].amount_fen",
        ),
        (json!({ "lines": many }), "lines"),
        (
            json!({ "damage": [{ "label": "a", "amount_fen": -1 }] }),
            "damage[0].amount_fen",
        ),
        (
            json!({ "damage": [{ "label": "a", "amount_fen": 100_001 }] }),
            "damage_fen",
        ),
    ] {
        let refused = town.command(&owner, order, bill(&items)).await;
        assert_eq!(refused.status, 422, "{items}: {refused:?}");
        assert_eq!(refused.json()["data"]["field"], field, "{items}");
    }
    let unknown = town
        .command(&owner, order, bill(&json!({ "total_fen": 1 })))
        .await;
    assert_eq!(unknown.status, 422, "{unknown:?}");
    assert_eq!(town.count("select count(*) from bill_versions").await, 0);
}
