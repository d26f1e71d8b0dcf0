//! Enrolment from the outside: who gets a number, and who does not.

use std::{net::SocketAddr, sync::Arc};

use chrono::{TimeDelta, Utc};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use furrow_platform::{
    app::devices,
    clock::{Clock as _, ManualClock},
    db, ids,
    mqtt::{
        cached::CachedRegister,
        register::{Refusal, Register as _},
    },
    platform::Platform,
};
use furrow_protocol::frame::Device;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use uuid::Uuid;

use crate::world::{Answer, World, ask, now};

/// An agent's key plus the point of order 2: signatures for it could fit in one way of looking at them
/// and not in another.
const MIXED: [u8; 32] = [
    0x7f, 0x85, 0xe3, 0x22, 0xd6, 0x4f, 0x48, 0x70, 0x2e, 0xc5, 0x0b, 0x3a, 0xa6, 0x70, 0x10, 0x0b,
    0x10, 0xd5, 0x68, 0xe9, 0x91, 0xc3, 0x59, 0x0d, 0x1b, 0x04, 0x03, 0x32, 0x7f, 0xaf, 0xa4, 0x0e,
];

async fn machine(world: &World) -> Uuid {
    let id = ids::new_id(now());
    db::devices::insert_machine(&world.pool, id, "Deutz", "tractor", 300, now())
        .await
        .unwrap();
    id
}

pub async fn code(world: &World) -> String {
    let machine = machine(world).await;
    devices::make_code(&world.pool, machine, now())
        .await
        .unwrap()
}

pub fn key() -> SigningKey {
    SigningKey::from_bytes(&ids::secret())
}

pub fn body(code: &str, key: &SigningKey) -> String {
    let normal = devices::normal_code(code).unwrap_or_else(|| code.to_owned());
    let public = key.verifying_key().to_bytes();
    let signed = [b"furrow enrol v1", normal.as_bytes(), &public[..]].concat();
    serde_json::json!({
        "code": code,
        "public_key": devices::hex(&public),
        "signature": devices::hex(&key.sign(&signed).to_bytes()),
    })
    .to_string()
}

pub async fn enrol(to: SocketAddr, body: &str) -> Answer {
    ask(to, "POST", "/api/devices/enrol", &[], body).await
}

async fn start() -> (World, Platform) {
    let world = World::new().await;
    let platform = world.platform().await;
    (world, platform)
}

#[tokio::test]
async fn a_box_with_a_code_gets_a_number_a_token_and_a_certificate_over_its_own_key() {
    let (world, platform) = start().await;
    let key = key();
    let answer = enrol(platform.http_addr, &body(&code(&world).await, &key)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let told = answer.json();
    let der = CertificateDer::from_pem_slice(told["certificate_pem"].as_str().unwrap().as_bytes());
    let certified = furrow_platform::mqtt::tls::ed25519_key(&der.unwrap());
    assert_eq!(certified, Some(key.verifying_key().to_bytes()));
    assert_eq!(told["ca_sha256"], platform.authority.fingerprint());
    assert_eq!(told["ca_pem"], platform.authority.certificate_pem());
    let mqtt = format!("mqtt://{}", platform.mqtt_addr.unwrap());
    assert_eq!(told["mqtt_url"], mqtt);

    // What the gate asks: the key and the token both lead to this device.
    let register = CachedRegister::new(world.pool.clone());
    let device = Device(u32::try_from(told["device"].as_u64().unwrap()).unwrap());
    let token = told["token"].as_str().unwrap().as_bytes();
    assert_eq!(register.by_token(device, token).await, Ok(device));
    let by_key = register.by_key(key.verifying_key().to_bytes()).await;
    assert_eq!(by_key, Ok(device));
    let other = devices::hex(&ids::secret::<32>());
    let wrong = register.by_token(device, other.as_bytes()).await;
    assert_eq!(wrong, Err(Refusal::Unknown));
}

#[tokio::test]
async fn a_code_is_taken_as_people_type_it_and_only_once() {
    let (world, platform) = start().await;
    let code = code(&world).await;
    let typed = code.replace('-', " ").to_lowercase();
    let first = enrol(platform.http_addr, &body(&typed, &key())).await;
    assert_eq!(first.status, 201, "{first:?}");
    let second = enrol(platform.http_addr, &body(&code, &key())).await;
    assert_eq!(
        (second.status, &second.json()["code"]),
        (404, &"unknown_code".into())
    );
}

#[tokio::test]
async fn of_many_boxes_that_use_one_code_at_once_one_gets_in() {
    let (world, platform) = start().await;
    let code = code(&world).await;
    let tries = (0..5).map(|_| {
        let body = body(&code, &key());
        async move { enrol(platform.http_addr, &body).await.status }
    });
    let mut all = futures_util::future::join_all(tries).await;
    all.sort_unstable();
    assert_eq!(all.first(), Some(&201), "{all:?}");
    assert!(all.get(1).is_some_and(|status| *status != 201), "{all:?}");
}

#[tokio::test]
async fn a_code_is_good_for_48_hours() {
    let world = World::new().await;
    let clock = Arc::new(ManualClock::new(Utc::now_at_second()));
    let platform = world.platform_at(clock.clone()).await;
    let machine = machine(&world).await;
    let made = clock.now();
    let code = devices::make_code(&world.pool, machine, made)
        .await
        .unwrap();
    let late = devices::make_code(&world.pool, machine, made)
        .await
        .unwrap();
    clock.set(made + TimeDelta::hours(48) - TimeDelta::seconds(1));
    let in_time = enrol(platform.http_addr, &body(&code, &key())).await;
    assert_eq!(in_time.status, 201, "{in_time:?}");
    clock.set(made + TimeDelta::hours(48));
    let too_late = enrol(platform.http_addr, &body(&late, &key())).await;
    assert_eq!(too_late.status, 404, "{too_late:?}");
}

#[tokio::test]
async fn the_sixth_wrong_code_of_an_hour_is_refused_even_if_it_were_right() {
    let world = World::new().await;
    let clock = Arc::new(ManualClock::new(Utc::now_at_second()));
    let platform = world.platform_at(clock.clone()).await;
    let right = code(&world).await;
    let tries = (0..20).map(|_| {
        let body = body("0000-0000-0000-0000", &key());
        async move { enrol(platform.http_addr, &body).await.status }
    });
    let all = futures_util::future::join_all(tries).await;
    assert_eq!(all.iter().filter(|s| **s == 404).count(), 5, "{all:?}");
    assert_eq!(all.iter().filter(|s| **s == 429).count(), 15, "{all:?}");
    let refused = enrol(platform.http_addr, &body(&right, &key())).await;
    assert_eq!(refused.status, 429);
    assert!(!refused.header("retry-after").is_empty(), "{refused:?}");
    clock.set(clock.now() + TimeDelta::minutes(61));
    let again = enrol(platform.http_addr, &body(&right, &key())).await;
    assert_eq!(again.status, 201, "{again:?}");
}

#[tokio::test]
async fn what_is_not_signed_by_its_own_key_uses_up_no_code() {
    let (world, platform) = start().await;
    let code = code(&world).await;
    let (own, other) = (key(), key());
    let mut forged: serde_json::Value = serde_json::from_str(&body(&code, &own)).unwrap();
    forged["public_key"] = devices::hex(&other.verifying_key().to_bytes()).into();
    let answer = enrol(platform.http_addr, &forged.to_string()).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (422, &"bad_signature".into())
    );
    // The identity point: a key of small order, for which a signature can be made without a secret.
    let mut weak: serde_json::Value = serde_json::from_str(&body(&code, &own)).unwrap();
    weak["public_key"] = format!("01{}", "00".repeat(31)).into();
    weak["signature"] = format!("01{}", "00".repeat(63)).into();
    let answer = enrol(platform.http_addr, &weak.to_string()).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (422, &"bad_key".into())
    );
    // A good key with a part of small order, and one that is no point in its one encoding.
    let mixed = VerifyingKey::from_bytes(&MIXED).unwrap();
    assert!(!mixed.is_weak(), "it is not of small order itself");
    for bad in [MIXED, [0xff; 32]] {
        let mut odd: serde_json::Value = serde_json::from_str(&body(&code, &own)).unwrap();
        odd["public_key"] = devices::hex(&bad).into();
        let answer = enrol(platform.http_addr, &odd.to_string()).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (422, &"bad_key".into())
        );
    }
    let answer = enrol(platform.http_addr, &body(&code, &own)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test]
async fn a_key_is_enrolled_once_for_life() {
    let (world, platform) = start().await;
    let key = key();
    let first = enrol(platform.http_addr, &body(&code(&world).await, &key)).await;
    assert_eq!(first.status, 201, "{first:?}");
    let unused = code(&world).await;
    let second = enrol(platform.http_addr, &body(&unused, &key)).await;
    assert_eq!(
        (second.status, &second.json()["code"]),
        (409, &"known_key".into())
    );
    let other = enrol(platform.http_addr, &body(&unused, &self::key())).await;
    assert_eq!(other.status, 201, "the code stayed usable: {other:?}");
}

#[tokio::test]
async fn bodies_that_are_none_are_problems_with_the_field_named() {
    let (_world, platform) = start().await;
    let good = body("0000-0000-0000-0000", &key());
    let with = |key: &str, value: serde_json::Value| {
        let mut body: serde_json::Value = serde_json::from_str(&good).unwrap();
        body[key] = value;
        body.to_string()
    };
    for (sent, status, named) in [
        ("{".to_owned(), 400, ""),
        ("[]".to_owned(), 422, ""),
        (with("extra", 1.into()), 422, "extra"),
        (with("code", 1.into()), 422, "code"),
        (with("public_key", "00".into()), 422, "public_key"),
        (with("signature", "zz".repeat(64).into()), 422, "signature"),
    ] {
        let answer = enrol(platform.http_addr, &sent).await;
        assert_eq!(answer.status, status, "{sent}: {answer:?}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(named), "{sent}: {detail}");
    }
    let huge = with("code", "x".repeat(100_000).into());
    assert_eq!(enrol(platform.http_addr, &huge).await.status, 413);
}

#[tokio::test]
async fn a_revoked_device_is_known_as_such_in_every_process_at_its_next_look() {
    let (world, platform) = start().await;
    let key = key();
    let told = enrol(platform.http_addr, &body(&code(&world).await, &key))
        .await
        .json();
    let number = i32::try_from(told["device"].as_i64().unwrap()).unwrap();
    let device = Device(number.cast_unsigned());
    let other_process = CachedRegister::new(world.pool.clone());
    other_process.refresh(now()).await.unwrap();
    assert!(!other_process.revoked(device));

    let revoke = || devices::revoke(&world.pool, number, "stolen", now());
    assert!(revoke().await.unwrap());
    assert!(!revoke().await.unwrap(), "a second time changes nothing");
    other_process.refresh(now()).await.unwrap();
    assert!(other_process.revoked(device));
    let by_key = other_process.by_key(key.verifying_key().to_bytes()).await;
    assert_eq!(by_key, Err(Refusal::Revoked));
    let token = told["token"].as_str().unwrap().as_bytes();
    let by_token = other_process.by_token(device, token).await;
    assert_eq!(by_token, Err(Refusal::Revoked));
    let ring = other_process.keys().snapshot();
    assert!(ring.get(&device.0).is_some_and(|key| key.revoked));
}

#[tokio::test]
async fn neither_code_nor_token_can_be_found_in_the_database() {
    let (world, platform) = start().await;
    let code = code(&world).await;
    let stored = db::devices::lock_code(
        &mut world.pool.acquire().await.unwrap(),
        &devices::hash(devices::normal_code(&code).unwrap().as_bytes()),
        now(),
    )
    .await
    .unwrap();
    assert!(stored.is_some(), "what is kept is the hash");
    let told = enrol(platform.http_addr, &body(&code, &key())).await.json();
    let token: [u8; 32] = devices::unhex(told["token"].as_str().unwrap().as_bytes()).unwrap();
    let number = i32::try_from(told["device"].as_i64().unwrap()).unwrap();
    let row = db::devices::by_number(&world.pool, number)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.token_hash, devices::hash(&token));
    assert_ne!(row.token_hash, token);
}

trait AtSecond {
    fn now_at_second() -> chrono::DateTime<Utc>;
}

impl AtSecond for Utc {
    /// PostgreSQL keeps microseconds: a test that compares to the second begins at one.
    fn now_at_second() -> chrono::DateTime<Utc> {
        chrono::DateTime::from_timestamp(now().timestamp(), 0).unwrap()
    }
}
