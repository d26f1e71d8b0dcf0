//! Accounts: how people come in, and how nobody else does.

use chrono::TimeDelta;
use furrow_platform::app::accounts::{make_staff, totp};
use serde_json::{Value, json};

use crate::{
    people::Town,
    world::{Answer, ask},
};

pub const PHONE: &str = "+8613800001111";
pub const PASSWORD: &str = "correct horse";

pub async fn post(town: &Town, path: &str, body: Value) -> Answer {
    ask(
        town.platform.http_addr,
        "POST",
        path,
        &[],
        &body.to_string(),
    )
    .await
}

/// Asks for a code and reads it where the gateway keeps it.
pub async fn code(town: &Town, phone: &str, purpose: &str) -> String {
    let body = json!({ "phone": phone, "purpose": purpose });
    assert_eq!(post(town, "/api/auth/codes", body).await.status, 202);
    let text: String =
        sqlx::query_scalar("select text from sms_outbox where phone = $1 order by id desc limit 1")
            .bind(phone)
            .fetch_one(&town.world.pool)
            .await
            .unwrap();
    text.chars().filter(char::is_ascii_digit).take(6).collect()
}

pub async fn signed_up(town: &Town) -> Value {
    let code = code(town, PHONE, "sign_up").await;
    let body =
        json!({ "phone": "138 0000 1111", "code": code, "name": "Zhang", "password": PASSWORD });
    let answer = post(town, "/api/auth/sign-up", body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

pub async fn me(town: &Town, session: &Value) -> u16 {
    let bearer = format!(
        "authorization: Bearer {}",
        session["access_token"].as_str().unwrap()
    );
    ask(town.platform.http_addr, "GET", "/api/me", &[&bearer], "")
        .await
        .status
}

#[tokio::test]
async fn one_signs_up_by_a_code_and_in_by_password_or_code() {
    let town = Town::new().await;
    let session = signed_up(&town).await;
    assert_eq!(me(&town, &session).await, 200);
    let by_password = json!({ "phone": PHONE, "password": PASSWORD });
    let in_again = post(&town, "/api/auth/sign-in", by_password.clone()).await;
    assert_eq!(in_again.status, 200);
    let code = code(&town, PHONE, "sign_in").await;
    let by_code = json!({ "phone": PHONE, "code": code });
    assert_eq!(
        post(&town, "/api/auth/sign-in", by_code.clone())
            .await
            .status,
        200
    );
    assert_eq!(
        post(&town, "/api/auth/sign-in", by_code).await.status,
        401,
        "a code works once"
    );
    town.pass(TimeDelta::minutes(15));
    assert_eq!(me(&town, &session).await, 401, "the token is over");
    let taken = code_taken(&town).await;
    assert_eq!(
        (taken.status, &taken.json()["code"]),
        (409, &json!("phone_taken"))
    );
}

async fn code_taken(town: &Town) -> Answer {
    let code = code(town, PHONE, "sign_up").await;
    post(
        town,
        "/api/auth/sign-up",
        json!({ "phone": PHONE, "code": code, "name": "Li" }),
    )
    .await
}

#[tokio::test]
async fn an_unknown_phone_is_answered_like_a_known_one() {
    let town = Town::new().await;
    signed_up(&town).await;
    let mut answers = Vec::new();
    for phone in [PHONE, "+8613899999999"] {
        let mut told = Vec::new();
        for body in [
            json!({ "phone": phone, "password": "wrong password" }),
            json!({ "phone": phone, "code": "000000" }),
        ] {
            let answer = post(&town, "/api/auth/sign-in", body).await;
            told.push((
                answer.status,
                answer.json()["code"].clone(),
                answer.json()["detail"].clone(),
            ));
        }
        let reset = json!({ "phone": phone, "code": "000000", "password": "another one" });
        let answer = post(&town, "/api/auth/reset", reset).await;
        told.push((
            answer.status,
            answer.json()["code"].clone(),
            answer.json()["detail"].clone(),
        ));
        answers.push(told);
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].iter().all(|a| a.0 == 401));
}

#[tokio::test]
async fn a_code_bears_five_tries_and_five_minutes() {
    let town = Town::new().await;
    let right = code(&town, PHONE, "sign_up").await;
    let wrong = if right == "000000" {
        "000001"
    } else {
        "000000"
    };
    let body = |code: &str| json!({ "phone": PHONE, "code": code, "name": "Zhang" });
    for _ in 0..5 {
        assert_eq!(
            post(&town, "/api/auth/sign-up", body(wrong)).await.status,
            401
        );
    }
    assert_eq!(
        post(&town, "/api/auth/sign-up", body(&right)).await.status,
        401,
        "tried out"
    );
    let right = code(&town, PHONE, "sign_up").await;
    town.pass(TimeDelta::minutes(5));
    assert_eq!(
        post(&town, "/api/auth/sign-up", body(&right)).await.status,
        401,
        "too old"
    );
    let other_purpose = code(&town, PHONE, "sign_in").await;
    assert_eq!(
        post(&town, "/api/auth/sign-up", body(&other_purpose))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn a_refresh_token_that_is_used_twice_ends_its_session() {
    let town = Town::new().await;
    let first = signed_up(&town).await;
    let refresh = |session: &Value| json!({ "refresh_token": session["refresh_token"] });
    let second = post(&town, "/api/auth/refresh", refresh(&first)).await;
    assert_eq!(second.status, 200);
    let second = second.json();
    assert_eq!(me(&town, &second).await, 200);
    let stolen = post(&town, "/api/auth/refresh", refresh(&first)).await;
    assert_eq!(stolen.status, 401);
    assert_eq!(me(&town, &second).await, 401, "the whole family is over");
    assert_eq!(
        post(&town, "/api/auth/refresh", refresh(&second))
            .await
            .status,
        401
    );
    assert_eq!(
        town.count("select count(*) from audit_log where action = 'session.reused'")
            .await,
        1
    );
    // Another session of the same account lives on.
    let again = post(
        &town,
        "/api/auth/sign-in",
        json!({ "phone": PHONE, "password": PASSWORD }),
    )
    .await
    .json();
    assert_eq!(me(&town, &again).await, 200);
    assert_eq!(
        post(&town, "/api/auth/sign-out", refresh(&again))
            .await
            .status,
        204
    );
    assert_eq!(me(&town, &again).await, 401);
    assert_eq!(
        post(&town, "/api/auth/sign-out", refresh(&again))
            .await
            .status,
        204
    );
}

#[tokio::test]
async fn a_reset_and_a_new_phone_end_all_sessions() {
    let town = Town::new().await;
    let session = signed_up(&town).await;
    let reset = code(&town, PHONE, "reset").await;
    let body = json!({ "phone": PHONE, "code": reset, "password": "a new password" });
    assert_eq!(post(&town, "/api/auth/reset", body).await.status, 204);
    assert_eq!(me(&town, &session).await, 401);
    let old = json!({ "phone": PHONE, "password": PASSWORD });
    assert_eq!(post(&town, "/api/auth/sign-in", old).await.status, 401);
    let new = json!({ "phone": PHONE, "password": "a new password" });
    let session = post(&town, "/api/auth/sign-in", new).await.json();

    let new_phone = "+8613800002222";
    let (code_old, code_new) = (
        code(&town, PHONE, "change_phone").await,
        code(&town, new_phone, "change_phone").await,
    );
    let bearer = format!(
        "authorization: Bearer {}",
        session["access_token"].as_str().unwrap()
    );
    let change = |code: &str, new_code: &str| {
        json!({ "code": code, "new_phone": new_phone, "new_code": new_code }).to_string()
    };
    let to = town.platform.http_addr;
    let swapped = ask(
        to,
        "POST",
        "/api/me/phone",
        &[&bearer],
        &change(&code_new, &code_old),
    )
    .await;
    assert!(swapped.status == 401 || code_old == code_new);
    let changed = ask(
        to,
        "POST",
        "/api/me/phone",
        &[&bearer],
        &change(&code_old, &code_new),
    )
    .await;
    assert_eq!(changed.status, 204, "{changed:?}");
    assert_eq!(me(&town, &session).await, 401);
    let back = json!({ "phone": new_phone, "password": "a new password" });
    assert_eq!(post(&town, "/api/auth/sign-in", back).await.status, 200);
}

#[tokio::test]
async fn staff_shows_a_second_factor_whose_code_works_once() {
    let town = Town::new().await;
    let made = make_staff(
        &town.world.pool,
        PHONE,
        "Wang",
        PASSWORD,
        &["*".into()],
        town.now(),
    )
    .await
    .unwrap();
    let secret: Vec<u8> =
        sqlx::query_scalar("select totp_secret from admin_grants where account_id = $1")
            .bind(made.account.0)
            .fetch_one(&town.world.pool)
            .await
            .unwrap();
    let now = u64::try_from(town.now().timestamp()).unwrap();
    let shown = totp(&secret).unwrap().generate(now).to_string();
    let sign_in =
        |totp: Option<&str>| json!({ "phone": PHONE, "password": PASSWORD, "totp": totp });
    for none in [None, Some("12"), Some("")] {
        let refused = post(&town, "/api/auth/sign-in", sign_in(none)).await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (401, &json!("second_factor"))
        );
    }
    let session = post(&town, "/api/auth/sign-in", sign_in(Some(&shown))).await;
    assert_eq!(session.status, 200, "{session:?}");
    assert_eq!(
        post(&town, "/api/auth/sign-in", sign_in(Some(&shown)))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn too_many_tries_are_told_how_long_to_wait() {
    let mut town = Town::new().await;
    town.world.settings.http.limit_factor = 1;
    let platform = town.world.platform_at(town.clock.clone()).await;
    let to = platform.http_addr;
    let wrong = json!({ "phone": PHONE, "password": "wrong password" }).to_string();
    for _ in 0..10 {
        assert_eq!(
            ask(to, "POST", "/api/auth/sign-in", &[], &wrong)
                .await
                .status,
            401
        );
    }
    let limited = ask(to, "POST", "/api/auth/sign-in", &[], &wrong).await;
    assert_eq!(
        (limited.status, &limited.json()["code"]),
        (429, &json!("too_many"))
    );
    let wait: i64 = limited.header("retry-after").parse().unwrap();
    assert!((1..=900).contains(&wait));
    // What a client writes about where it comes from changes nothing.
    let header = "x-forwarded-for: 203.0.113.9";
    assert_eq!(
        ask(to, "POST", "/api/auth/sign-in", &[header], &wrong)
            .await
            .status,
        429
    );
    town.pass(TimeDelta::seconds(wait));
    assert_eq!(
        ask(to, "POST", "/api/auth/sign-in", &[], &wrong)
            .await
            .status,
        401
    );
}
