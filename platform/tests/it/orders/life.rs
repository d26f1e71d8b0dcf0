//! An order from search to its end, as its parties see it.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    people::{Person, Town, monday, work},
    world::wait_until,
};

fn day(days: i64, hour: i64) -> DateTime<Utc> {
    monday() + TimeDelta::days(days) + TimeDelta::hours(hour)
}

#[tokio::test]
async fn an_order_goes_from_search_to_settlement_and_its_money_matures() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let (from, to) = (day(3, 0), day(3, 6));
    let found = town
        .post(
            &renter,
            "/api/search",
            &json!({ "from": from, "to": to, "within_km": 20, "work": work() }),
        )
        .await;
    assert_eq!(found.status, 200, "{found:?}");
    let hit = &found.json()["hits"][0];
    assert_eq!(hit["machine_id"], machine.to_string());
    // 50 mu at 65.00, and nothing for the way.
    assert_eq!(hit["offer"]["total_fen"], 325_000);
    assert_eq!(hit["offer"]["total_text"], "¥3250.00");

    let order = town.booked(&renter, machine, from, to).await;
    assert_eq!(town.status(order).await, "pending_payment");
    worked(&town, &owner, &renter, order, from, to).await;
    town.pass(TimeDelta::days(7));
    wait_until("the money matures", || async {
        town.count("select count(*) from orders where doc ->> 'sealed_at' is not null")
            .await
            == 1
    })
    .await;
    let seen = town
        .get(&renter, &format!("/api/orders/{order}"))
        .await
        .json();
    let steps: Vec<&str> = seen["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["transition"].as_str().unwrap())
        .collect();
    assert_eq!(
        steps,
        [
            "T01", "T02", "T05", "tap", "T12", "T16", "T19", "T20", "T22", "J13"
        ]
    );
    // I13, and every event has the trace of what caused it.
    let broken =
        "select count(*) from orders o where status <> (select to_status from order_events e
                  where e.order_id = o.id order by seq desc limit 1)";
    assert_eq!(town.count(broken).await, 0);
    assert_eq!(
        town.count("select count(*) from order_events where length(trace_id) <> 32")
            .await,
        0
    );
}

/// Paid, accepted, started by both, finished, billed, confirmed.
async fn worked(
    town: &Town,
    owner: &Person,
    renter: &Person,
    order: Uuid,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) {
    town.pay(order).await;
    town.done(owner, order, json!({ "command": "accept" }))
        .await;
    town.clock.set(from);
    let tap = json!({ "command": "start", "photo": true });
    let tapped = town.done(owner, order, tap.clone()).await;
    assert_eq!(tapped["status"], "accepted");
    let started = town.done(renter, order, tap).await;
    assert_eq!(
        (&started["status"], &started["start_evidence"]),
        (&json!("in_work"), &json!("photo"))
    );
    town.clock.set(to - TimeDelta::minutes(30));
    let finished = town
        .done(owner, order, json!({ "command": "finish" }))
        .await;
    assert_eq!(finished["phase"], "awaiting_bill");
    // 50 mu as they were booked, and something off for an old customer.
    let lines = json!([{ "label": "old customer", "amount_fen": -5_000 }]);
    let bill = json!({ "command": "propose_bill", "bill": { "lines": lines } });
    town.done(owner, order, bill).await;
    let settled = town
        .done(
            renter,
            order,
            json!({ "command": "confirm_bill", "version": 1, "consents": [1] }),
        )
        .await;
    assert_eq!(settled["status"], "completed");
    assert_eq!(settled["refunds_fen"], 105_000);
}

#[tokio::test]
async fn a_time_that_is_held_is_not_found_and_the_next_free_one_is_offered() {
    let town = Town::new().await;
    let (_, machine) = town.owner().await;
    let renter = town.person().await;
    let (from, to) = (day(3, 0), day(3, 6));
    town.booked(&renter, machine, from, to).await;
    let asked = json!({ "from": from, "to": to, "work": work() });
    let found = town.post(&renter, "/api/search", &asked).await.json();
    assert_eq!(found["hits"].as_array().unwrap().len(), 0);
    let next = &found["next_free"][0];
    assert_eq!(next["machine_id"], machine.to_string());
    // Five hours of 50 mu, right after the hold.
    assert_eq!(
        (&next["from"], &next["to"]),
        (&json!(to), &json!(to + TimeDelta::hours(5)))
    );
}

#[tokio::test]
async fn each_party_hears_of_each_step_once_in_both_languages() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let order = town.booked(&renter, machine, day(3, 0), day(3, 6)).await;
    town.pay(order).await;
    town.done(&owner, order, json!({ "command": "accept" }))
        .await;
    let kinds = |answer: Value| -> Vec<String> {
        let items = answer["items"].as_array().unwrap().clone();
        items
            .iter()
            .rev()
            .map(|n| n["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    let heard = town.get(&renter, "/api/notices").await.json();
    let code = heard["items"][0]["data"]["start_code"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        heard["items"][0]["text_zh"]
            .as_str()
            .unwrap()
            .contains(&code)
    );
    assert!(
        heard["items"][0]["text_en"]
            .as_str()
            .unwrap()
            .contains("accepted")
    );
    let expected = ["pay_countdown", "payment_received", "accepted"];
    assert_eq!(kinds(heard.clone()), expected);
    let seqs: Vec<i64> = heard["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["seq"].as_i64().unwrap())
        .collect();
    assert_eq!(seqs, [3, 2, 1]);
    assert_eq!(
        kinds(town.get(&owner, "/api/notices").await.json()),
        ["order_requested"]
    );
    wait_until("the relay has told all", || async {
        town.count("select count(*) from outbox where delivered_at is null")
            .await
            == 0
    })
    .await;

    // The owner types the renter's code in the field: both taps.
    town.clock.set(day(3, 0));
    let wrong = if code == "000000" { "000001" } else { "000000" };
    let typed = |code: &str| json!({ "command": "start", "photo": true, "start_code": code });
    assert_eq!(town.command(&owner, order, typed(wrong)).await.status, 422);
    assert_eq!(
        town.command(&renter, order, typed(&code)).await.status,
        422,
        "not by the renter"
    );
    let started = town.done(&owner, order, typed(&code)).await;
    assert_eq!(started["status"], "in_work");
}

#[tokio::test]
async fn unpaid_unanswered_and_never_started_orders_end_by_the_clock() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let unpaid = town.booked(&renter, machine, day(3, 0), day(3, 6)).await;
    let unanswered = town.booked(&renter, machine, day(4, 0), day(4, 6)).await;
    let never = town.booked(&renter, machine, day(5, 0), day(5, 6)).await;
    for order in [unanswered, never] {
        town.pay(order).await;
    }
    town.done(&owner, never, json!({ "command": "accept" }))
        .await;
    let ends = |order, status: &'static str| {
        let town = &town;
        async move {
            wait_until(status, || async { town.status(order).await == status }).await;
        }
    };
    town.pass(TimeDelta::minutes(18));
    ends(unpaid, "timed_out").await;
    town.pass(TimeDelta::hours(24));
    ends(unanswered, "timed_out").await;
    town.clock.set(day(5, 19));
    ends(never, "timed_out").await;
    let live = "select count(*) from machine_slots where released_at is null";
    assert_eq!(town.count(live).await, 0, "I11: nothing is blocked");
    let refunds = "select sum((doc #>> '{funds,refunds}')::bigint)::bigint from orders";
    assert_eq!(
        town.count(refunds).await,
        2 * 425_000,
        "all that was paid goes back"
    );
}

#[tokio::test]
async fn s06_whatever_ends_an_order_frees_its_time_in_the_same_commit() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let staff = town.staff(&["*"]).await;
    for way in [
        "unpaid", "pending", "accepted", "rejected", "owner", "forced",
    ] {
        let order = town.booked(&renter, machine, day(3, 0), day(3, 6)).await;
        if way != "unpaid" {
            town.pay(order).await;
        }
        if matches!(way, "accepted" | "owner" | "forced") {
            town.done(&owner, order, json!({ "command": "accept" }))
                .await;
        }
        let fee = json!({ "command": "cancel", "fee_fen": 0 });
        let ended = match way {
            "rejected" => {
                town.command(
                    &owner,
                    order,
                    json!({ "command": "reject", "reason": "full" }),
                )
                .await
            }
            "owner" => {
                let body =
                    json!({ "command": "owner_cancel", "reason": "broken", "penalty_fen": 0 });
                town.command(&owner, order, body).await
            }
            "forced" => {
                let path = format!("/api/admin/orders/{order}/commands");
                let body = json!({ "command": "force_cancel", "fee_fen": 0, "reason": "asked" });
                town.post(&staff, &path, &body).await
            }
            _ => town.command(&renter, order, fee).await,
        };
        assert_eq!(ended.status, 200, "{way}: {ended:?}");
        assert_eq!(town.status(order).await, "cancelled");
        let asked = json!({ "from": day(3, 0), "to": day(3, 6), "work": work() });
        let again = town.post(&renter, "/api/search", &asked).await.json();
        assert_eq!(again["hits"].as_array().unwrap().len(), 1, "{way}");
    }
}

#[tokio::test]
async fn s37_an_owners_new_price_changes_no_order_and_no_quote_of_before() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let order = town.booked(&renter, machine, day(3, 0), day(3, 6)).await;
    let quoted = town
        .quote(&renter, machine, day(4, 0), day(4, 6))
        .await
        .json();
    let dear = json!({ "unit": "mu", "unit_price_fen": 9900 });
    town.post(&owner, &format!("/api/machines/{machine}/rules"), &dear)
        .await;
    let stale = json!({ "quote_token": quoted["quote_token"] });
    let refused = town.post(&renter, "/api/orders", &stale).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (409, &json!("quote_changed"))
    );
    let seen = town
        .get(&renter, &format!("/api/orders/{order}"))
        .await
        .json();
    assert_eq!(seen["order"]["estimate_fen"], 325_000);
    assert_eq!(seen["estimate"]["lines"][0]["unit_price_fen"], 6500);
    town.pass(TimeDelta::minutes(15));
    let over = town.post(&renter, "/api/orders", &stale).await;
    assert_eq!(over.json()["code"], "quote_expired");
}

#[tokio::test]
async fn what_a_client_must_not_say_cannot_be_said() {
    let town = Town::new().await;
    let (_, machine) = town.owner().await;
    let renter = town.person().await;
    let quoted = town
        .quote(&renter, machine, day(3, 0), day(3, 6))
        .await
        .json();
    for (field, value) in [
        ("total_fen", json!(1)),
        ("status", json!("accepted")),
        ("owner_id", json!(renter.account)),
        ("commission_bps", json!(0)),
    ] {
        let mut body = json!({ "quote_token": quoted["quote_token"] });
        body[field] = value;
        let refused = town.post(&renter, "/api/orders", &body).await;
        assert_eq!(refused.status, 422, "S27 {field}: {refused:?}");
    }
    let mut forged = quoted["quote_token"].as_str().unwrap().to_owned();
    forged.replace_range(90..91, if &forged[90..91] == "A" { "B" } else { "A" });
    let refused = town
        .post(&renter, "/api/orders", &json!({ "quote_token": forged }))
        .await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let stranger = town.person().await;
    let stolen = json!({ "quote_token": quoted["quote_token"] });
    assert_eq!(
        town.post(&stranger, "/api/orders", &stolen).await.status,
        422
    );
    for area in [
        json!(-1),
        json!(0),
        json!(1e308),
        json!(9_223_372_036_854_775_808_u64),
        json!("NaN"),
    ] {
        let asked = json!({ "machine_id": machine, "from": day(3, 0), "to": day(3, 6),
            "work": { "place": { "lat_e7": 0, "lon_e7": 0, "area_centi_mu": area } } });
        let refused = town.post(&renter, "/api/quotes", &asked).await;
        assert_eq!(refused.status, 422, "{area}: {refused:?}");
    }
}

#[tokio::test]
async fn s43_strangers_find_nothing_and_s46_nobody_books_his_own_machine() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let (renter, stranger) = (town.person().await, town.person().await);
    let (other_owner, _) = town.owner().await;
    let order = town.booked(&renter, machine, day(3, 0), day(3, 6)).await;
    let none = uuid::Uuid::from_u128(7);
    for who in [stranger, other_owner] {
        for path in ["", "/fee", "/messages"] {
            let theirs = town.get(&who, &format!("/api/orders/{order}{path}")).await;
            let nothing = town.get(&who, &format!("/api/orders/{none}{path}")).await;
            assert_eq!((theirs.status, nothing.status), (404, 404));
            assert_eq!(theirs.json()["detail"], nothing.json()["detail"]);
        }
        let accept = town
            .command(&who, order, json!({ "command": "accept" }))
            .await;
        assert_eq!(accept.status, 404);
        assert_eq!(
            town.get(&who, &format!("/api/admin/orders/{order}"))
                .await
                .status,
            404
        );
        let path = format!("/api/machines/{machine}/wishes");
        assert_eq!(
            town.post(&who, &path, &json!({ "wish": "delete" }))
                .await
                .status,
            404
        );
    }
    let nobody = crate::world::ask(town.platform.http_addr, "GET", "/api/orders", &[], "").await;
    assert_eq!(nobody.status, 401);
    let own = town.book(&owner, machine, day(4, 0), day(4, 6)).await;
    assert_eq!(
        (own.status, &own.json()["code"]),
        (403, &json!("self_dealing"))
    );
    // The renter cannot accept, the owner cannot cancel as the renter.
    town.pay(order).await;
    assert_eq!(
        town.command(&renter, order, json!({ "command": "accept" }))
            .await
            .status,
        409
    );
    let as_renter = town
        .command(&owner, order, json!({ "command": "cancel", "fee_fen": 0 }))
        .await;
    assert_eq!(as_renter.status, 409);
}
