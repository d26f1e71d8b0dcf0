//! Staff: rights need the second factor, nobody gives more than he has, and lost things have a way back.

use std::{collections::BTreeSet, fs, path::Path};

use chrono::TimeDelta;
use furrow_platform::app::accounts::{make_staff, staff::PERMISSIONS, totp};
use serde_json::{Value, json};

use crate::{
    accounts::{PASSWORD, PHONE, code, post, signed_up},
    people::{Person, Town},
    world::ask,
};

fn bearer(session: &Value) -> String {
    format!(
        "authorization: Bearer {}",
        session["access_token"].as_str().unwrap()
    )
}

/// Names in quotes that begin like a permission, in all sources under a folder.
fn named(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let quoted = text.split('"').filter(|word| {
            let begins = ["order.", "dispute.", "money."]
                .iter()
                .any(|b| word.starts_with(b));
            begins
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || matches!(b, b'.' | b'_'))
        });
        found.extend(quoted.map(str::to_owned));
    }
}

#[test]
fn every_permission_that_is_asked_for_can_be_given_and_no_other() {
    let mut asked = BTreeSet::from(["*".to_owned()]);
    named(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("domain/src/order"),
        &mut asked,
    );
    let told = serde_json::to_value(furrow_platform::http::openapi()).unwrap();
    for operations in told["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            let permission = operation["x-furrow-policy"]["permission"].as_str();
            asked.extend(permission.map(str::to_owned));
        }
    }
    let given: BTreeSet<String> = PERMISSIONS.iter().map(|p| (*p).to_owned()).collect();
    assert_eq!(asked, given);
}

#[tokio::test]
async fn a_session_of_before_gets_no_rights_when_its_account_becomes_staff() {
    let town = Town::new().await;
    let session = signed_up(&town).await;
    let pool = &town.world.pool;
    let all = ["*".to_owned()];
    make_staff(pool, PHONE, "Wang", PASSWORD, &all, town.now())
        .await
        .unwrap();
    let to = town.platform.http_addr;
    let asked = ask(to, "GET", "/api/admin/orders", &[&bearer(&session)], "").await;
    assert_eq!(asked.status, 401);
    let again = json!({ "refresh_token": session["refresh_token"] });
    assert_eq!(post(&town, "/api/auth/refresh", again).await.status, 401);
    // Even a session that somehow lives on has no rights without the second factor.
    let plain = town.person().await;
    sqlx::query("insert into admin_grants (account_id, permissions, totp_secret, granted_at) values ($1, '{*}', 'x', now())")
        .bind(plain.account)
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(town.get(&plain, "/api/admin/orders").await.status, 404);
}

#[tokio::test]
async fn a_recovery_code_stands_in_for_the_authenticator_once() {
    let town = Town::new().await;
    let (pool, all) = (&town.world.pool, ["*".to_owned()]);
    let made = make_staff(pool, PHONE, "Wang", PASSWORD, &all, town.now())
        .await
        .unwrap();
    assert_eq!(made.recovery.len(), 8);
    let sign_in = async |second: &str| {
        let body = json!({ "phone": PHONE, "password": PASSWORD, "totp": second });
        post(&town, "/api/auth/sign-in", body).await
    };
    let session = sign_in(&made.recovery[0]).await;
    assert_eq!(session.status, 200, "{session:?}");
    let to = town.platform.http_addr;
    let orders = ask(
        to,
        "GET",
        "/api/admin/orders",
        &[&bearer(&session.json())],
        "",
    )
    .await;
    assert_eq!(orders.status, 200);
    assert_eq!(sign_in(&made.recovery[0]).await.status, 401, "used");
    let typed = made.recovery[1].replace('-', "");
    assert_eq!(sign_in(&typed).await.status, 200, "without its dash");
    assert_eq!(
        town.count("select count(*) from audit_log where action = 'staff.recovery_used'")
            .await,
        2
    );
}

async fn appoint(town: &Town, by: &Person, whom: &Person, permissions: &[&str]) -> (u16, Value) {
    let path = format!("/api/admin/staff/{}", whom.account);
    let body = json!({ "permissions": permissions });
    let answer = town.send(by, "PUT", &path, &body).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn nobody_gives_or_takes_rights_that_he_does_not_have() {
    let town = Town::new().await;
    let chief = town.staff(&["staff.write", "order.read"]).await;
    let (above, new) = (town.staff(&["*"]).await, town.person().await);
    let code = |told: &(u16, Value)| (told.0, told.1["code"].as_str().unwrap_or("").to_owned());
    for (whom, permissions, refused) in [
        (
            &new,
            &["order.read", "order.waive_fee"][..],
            (403, "forbidden"),
        ),
        (&new, &["*"][..], (403, "forbidden")),
        (&new, &["whatever"][..], (422, "invalid")),
        (&new, &[][..], (422, "invalid")),
        (&above, &["order.read"][..], (403, "forbidden")),
        (&chief, &["order.read"][..], (403, "conflict_of_interest")),
    ] {
        let told = appoint(&town, &chief, whom, permissions).await;
        assert_eq!(
            code(&told),
            (refused.0, refused.1.to_owned()),
            "{permissions:?}"
        );
    }
    let dismiss = async |by: &Person, whom: &Person| {
        let path = format!("/api/admin/staff/{}", whom.account);
        town.send(by, "DELETE", &path, &json!({})).await.status
    };
    assert_eq!(dismiss(&chief, &above).await, 403);
    let (status, told) = appoint(&town, &chief, &new, &["order.read"]).await;
    assert_eq!(status, 200, "{told}");
    assert!(told["totp_secret"].as_str().unwrap().len() >= 32);
    assert_eq!(
        town.get(&new, "/api/me").await.status,
        401,
        "sessions of before are over"
    );
    assert_eq!(dismiss(&chief, &new).await, 204);
    assert_eq!(dismiss(&chief, &new).await, 404);
    assert_eq!(dismiss(&above, &chief).await, 204);
    assert_eq!(town.get(&chief, "/api/admin/staff").await.status, 401);
}

#[tokio::test]
async fn a_phone_that_was_lost_is_changed_by_staff_and_holds_payouts_for_72_hours() {
    let town = Town::new().await;
    let (staff, farmer) = (town.staff(&["account.phone"]).await, town.person().await);
    let new_phone = "+8613800003333";
    let path = |of: &Person| format!("/api/admin/accounts/{}/phone", of.account);
    let body = |code: &str| json!({ "new_phone": new_phone, "new_code": code, "identity_check": "ID card, seen by video" });
    let wrong = town.post(&staff, &path(&farmer), &body("")).await;
    assert_eq!(wrong.status, 401);
    let right = code(&town, new_phone, "change_phone").await;
    let own = town.post(&staff, &path(&staff), &body(&right)).await;
    assert_eq!(
        (own.status, own.json()["code"].clone()),
        (403, json!("conflict_of_interest"))
    );
    let done = town.post(&staff, &path(&farmer), &body(&right)).await;
    assert_eq!(done.status, 204, "{done:?}");
    assert_eq!(town.phone(&farmer).await, new_phone);
    assert_eq!(town.get(&farmer, "/api/me").await.status, 401);
    let held: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("select payouts_held_until from accounts where id = $1")
            .bind(farmer.account)
            .fetch_one(&town.world.pool)
            .await
            .unwrap();
    assert_eq!(held, town.now() + TimeDelta::hours(72));
    let told = town.staff(&["audit.read"]).await;
    let log = town
        .get(
            &told,
            &format!("/api/admin/audit-log?object={}", farmer.account),
        )
        .await;
    let line = &log.json()["items"][0];
    assert_eq!(line["action"], "account.phone_by_staff");
    assert_eq!(line["detail"]["identity_check"], "ID card, seen by video");
    assert_eq!(line["from_address"], "127.0.0.1");
    assert_eq!(line["account_id"], json!(staff.account));
}

#[tokio::test]
async fn a_second_factor_is_not_asked_for_before_the_first_is_right() {
    let town = Town::new().await;
    let (pool, all) = (&town.world.pool, ["*".to_owned()]);
    let made = make_staff(pool, PHONE, "Wang", PASSWORD, &all, town.now())
        .await
        .unwrap();
    assert!(totp(made.secret.as_bytes()).is_ok());
    let body = json!({ "phone": PHONE, "password": "wrong password", "totp": "000000" });
    let answer = post(&town, "/api/auth/sign-in", body).await;
    assert_eq!(answer.json()["code"], "wrong_credentials");
}
