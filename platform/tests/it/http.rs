//! The human door as such: problems, traces, health, limits.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use furrow_platform::{clock::ManualClock, db};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::people::Town;
use crate::world::{PATIENCE, World, ask, exchange, now, wait_until};

#[tokio::test]
async fn what_does_not_exist_and_wrong_methods_are_problems() {
    let world = World::new().await;
    let platform = world.platform().await;
    let to = platform.http_addr;
    let none = ask(to, "GET", "/api/nothing", &[], "").await;
    assert_eq!(none.status, 404);
    assert_eq!(none.header("content-type"), "application/problem+json");
    let told = none.json();
    assert_eq!(told["type"], "urn:furrow:problem:not_found");
    assert_eq!(told["code"], "not_found");
    assert_eq!(told["status"], 404);
    assert_eq!(told["trace_id"], none.header("x-trace-id"));

    let method = ask(to, "GET", "/api/devices/enrol", &[], "").await;
    assert_eq!(
        (method.status, &method.json()["code"]),
        (405, &"method_not_allowed".into())
    );
    assert_eq!(method.header("allow"), "POST");
}

#[tokio::test]
async fn a_request_keeps_the_trace_it_brings_and_gets_one_otherwise() {
    let world = World::new().await;
    let platform = world.platform().await;
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let with = |value: String| async move {
        let header = format!("traceparent: {value}");
        let answer = ask(platform.http_addr, "GET", "/healthz", &[&header], "").await;
        answer.header("x-trace-id").to_owned()
    };
    assert_eq!(with(format!("00-{id}-00f067aa0ba902b7-01")).await, id);
    for bad in [
        format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
        format!("00-{id}-{}-01", "0".repeat(16)),
        format!("ff-{id}-00f067aa0ba902b7-01"),
        format!("00-{id}x-00f067aa0ba902b7-01"),
        "x".to_owned(),
    ] {
        let made = with(bad.clone()).await;
        assert!(made.len() == 32 && made != id, "{bad}: {made}");
    }
}

#[tokio::test]
async fn a_platform_says_that_it_is_ready_and_why_not() {
    let world = World::new().await;
    let platform = world.platform().await;
    let to = platform.http_addr;
    assert_eq!(ask(to, "GET", "/healthz", &[], "").await.status, 200);
    let ready = ask(to, "GET", "/readyz", &[], "").await;
    assert_eq!(ready.status, 200, "{ready:?}");
    let told = ready.json();
    for part in ["ready", "database", "schema", "ingest"] {
        assert_eq!(told[part], true, "{part}");
    }
}

#[tokio::test]
async fn a_platform_whose_clock_is_wrong_is_not_ready() {
    let world = World::new().await;
    let wrong = Arc::new(ManualClock::new(now() - TimeDelta::minutes(1)));
    let platform = world.platform_at(wrong).await;
    let answer = ask(platform.http_addr, "GET", "/readyz", &[], "").await;
    assert_eq!(answer.status, 503);
    let skew = answer.json()["clock_skew_ms"].as_i64().unwrap();
    assert!((-70_000..-50_000).contains(&skew), "{skew}");
}

#[tokio::test]
async fn a_platform_refuses_a_database_whose_schema_is_behind() {
    let world = World::bare().await;
    let refused = furrow_platform::platform::Platform::start(&world.settings, None).await;
    let said = format!("{:#}", refused.err().unwrap());
    assert!(said.contains("furrow migrate"), "{said}");
    db::migrate(&world.pool).await.unwrap();
    world.platform().await;
}

#[tokio::test]
async fn a_peer_that_does_not_finish_its_request_is_sent_away() {
    let world = World::new().await;
    let platform = world.platform().await;
    let mut slow = TcpStream::connect(platform.http_addr).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")
        .await
        .unwrap();
    let mut said = Vec::new();
    let ended = timeout(PATIENCE, slow.read_to_end(&mut said)).await;
    assert!(ended.is_ok(), "the socket stays open");
    let answer = ask(platform.http_addr, "GET", "/healthz", &[], "").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn garbage_on_the_human_door_harms_nobody() {
    let world = World::new().await;
    let platform = world.platform().await;
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/devices/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"GET /%ff%fe\xff HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        &[b"GET / HTTP/1.1\r\nhost: x\r\nx: ", &[b'a'; 200_000][..], b"\r\n\r\n"].concat(),
    ] {
        let _ = timeout(Duration::from_secs(20), exchange(platform.http_addr, garbage)).await;
    }
    let answer = ask(platform.http_addr, "GET", "/healthz", &[], "").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_platform_told_to_stop_shuts_its_doors_and_ends_without_a_complaint() {
    let world = World::new().await;
    let platform = world.platform().await;
    let (http, mqtt) = (platform.http_addr, platform.mqtt_addr.unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(platform.run_until(async move {
        let _ = stopped.await;
    }));
    assert!(TcpStream::connect(mqtt).await.is_ok());
    drop(stop);
    let ended = timeout(PATIENCE, running).await.unwrap().unwrap();
    assert!(ended.is_ok(), "{ended:?}");
    wait_until("both doors are shut", || async {
        TcpStream::connect(http).await.is_err() && TcpStream::connect(mqtt).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn an_outside_broker_is_not_used_before_its_rules_are_proven() {
    let mut world = World::new().await;
    world.settings.mqtt.url = Some("mqtt://127.0.0.1:1".into());
    let start = |settings: furrow_platform::config::Settings| async move {
        let refused = furrow_platform::platform::Platform::start(&settings, None).await;
        format!("{:#}", refused.err().unwrap())
    };
    let said = start(world.settings.clone()).await;
    assert!(said.contains("mqtt.probe"), "{said}");

    let password_file = world.settings.data_dir.join("probe");
    std::fs::write(&password_file, "secret\n").unwrap();
    world.settings.mqtt.probe = Some(furrow_platform::config::Probe {
        device: 7,
        password_file,
    });
    let said = start(world.settings.clone()).await;
    assert!(said.contains("cannot connect"), "{said}");
}

#[tokio::test]
async fn the_api_can_be_browsed_without_the_internet() {
    let world = World::new().await;
    let platform = world.platform().await;
    let to = platform.http_addr;
    let moved = ask(to, "GET", "/api/docs", &[], "").await;
    assert_eq!(
        (moved.status, moved.header("location")),
        (303, "/api/docs/")
    );
    let page = ask(to, "GET", "/api/docs/", &[], "").await;
    assert_eq!(page.status, 200, "{page:?}");
    let policy = page.header("content-security-policy");
    assert!(
        policy.contains("script-src 'self';") && !policy.contains("http"),
        "{policy}"
    );
    for part in [
        "swagger-ui.css",
        "swagger-ui-bundle.js",
        "swagger-ui-standalone-preset.js",
    ] {
        let got = ask(to, "GET", &format!("/api/docs/{part}"), &[], "").await;
        assert_eq!(
            (got.status, got.header("content-encoding")),
            (200, "gzip"),
            "{part}"
        );
    }
    let begin = ask(to, "GET", "/api/docs/swagger-initializer.js", &[], "").await;
    assert!(begin.body.contains("/api/openapi.json"), "{begin:?}");
    assert!(
        begin.body.contains("\"validatorUrl\": \"none\""),
        "{begin:?}"
    );
    let none = ask(to, "GET", "/api/docs/nothing.js", &[], "").await;
    assert_eq!(
        (none.status, none.header("content-type")),
        (404, "application/problem+json")
    );
}

#[tokio::test]
async fn a_refused_value_is_named_by_the_path_of_its_field() {
    let town = Town::new().await;
    let person = town.person().await;
    for (path, body, field) in [
        ("/api/organisations", json!({}), "name"),
        (
            "/api/organisations",
            json!({ "name": "x", "colour": "red" }),
            "colour",
        ),
        ("/api/organisations", json!({ "name": 7 }), "name"),
        ("/api/organisations", json!({ "name": "" }), "name"),
        ("/api/organisations", json!(["by order", "person"]), ""),
        (
            "/api/search",
            json!({ "work": { "place": { "lat_e7": "x" } } }),
            "work.place.lat_e7",
        ),
    ] {
        let answer = town.post(&person, path, &body).await;
        let told = answer.json();
        assert_eq!(
            (answer.status, &told["code"]),
            (422, &json!("invalid")),
            "{body}: {told}"
        );
        assert_eq!(told["data"]["field"], field, "{body}: {told}");
    }
}

#[tokio::test]
async fn every_refusal_is_a_problem() {
    let town = Town::new().await;
    let to = town.platform.http_addr;
    let bearer = town.bearer(&town.person().await);
    let bearer = bearer.as_str();
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(70_000));
    for (method, path, headers, body, status, code) in [
        (
            "POST",
            "/api/organisations",
            &[bearer][..],
            "{",
            400,
            "bad_body",
        ),
        (
            "POST",
            "/api/organisations",
            &[bearer],
            "{} {}",
            422,
            "invalid",
        ),
        (
            "POST",
            "/api/organisations",
            &[bearer],
            large.as_str(),
            413,
            "too_large",
        ),
        ("POST", "/api/orders", &[bearer], "[", 400, "bad_body"),
        (
            "GET",
            "/api/orders/not-an-id",
            &[bearer],
            "",
            404,
            "not_found",
        ),
        ("DELETE", "/api/plots/%FF", &[bearer], "", 404, "not_found"),
        ("GET", "/api/orders?limit=0", &[bearer], "", 422, "invalid"),
        (
            "GET",
            "/api/orders?colour=red",
            &[bearer],
            "",
            422,
            "invalid",
        ),
        ("GET", "/api/live?ticket=x", &[], "", 400, "bad_request"),
    ] {
        let answer = ask(to, method, path, headers, body).await;
        assert_eq!(
            answer.header("content-type"),
            "application/problem+json",
            "{answer:?}"
        );
        let told = answer.json();
        assert_eq!(
            (answer.status, &told["code"]),
            (status, &json!(code)),
            "{method} {path}: {told}"
        );
        assert_eq!(told["trace_id"], answer.header("x-trace-id"));
    }
    let plain = format!(
        "POST /api/organisations HTTP/1.1\r\nhost: f\r\nconnection: close\r\n{bearer}\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    assert_eq!(exchange(to, plain.as_bytes()).await.unwrap().status, 415);
}
