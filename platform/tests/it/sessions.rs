//! Sessions: web pages' cookies, lists, rights that a session has, and requests whose caller goes away.

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    accounts::{PASSWORD, PHONE, code, me, post, signed_up},
    people::Town,
    world::{Answer, ask, wait_until},
};

/// The value of a cookie that an answer sets.
fn cookie(answer: &Answer, name: &str) -> String {
    let begin = format!("set-cookie: {name}=");
    let line = answer.head.lines().find(|line| line.starts_with(&begin));
    let value = line.unwrap().strip_prefix(&begin).unwrap();
    value.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_web_page_gets_a_cookie_that_scripts_cannot_read_and_must_show_its_token() {
    let town = Town::new().await;
    signed_up(&town).await;
    let to = town.platform.http_addr;
    let body = json!({ "phone": PHONE, "password": PASSWORD, "cookie": true });
    let session = post(&town, "/api/auth/sign-in", body).await;
    assert_eq!(session.status, 200, "{session:?}");
    assert!(session.json().get("refresh_token").is_none());
    for line in session
        .head
        .lines()
        .filter(|l| l.starts_with("set-cookie: "))
    {
        assert!(line.starts_with("set-cookie: __Host-"), "{line}");
        assert!(
            line.contains("; Path=/;") && line.contains("; Secure"),
            "{line}"
        );
        assert!(!line.contains("Domain"), "{line}");
        assert_eq!(
            line.contains("_session="),
            line.contains("HttpOnly"),
            "{line}"
        );
    }
    let shown = |answer: &Answer| {
        let session = cookie(answer, "__Host-furrow_session");
        let csrf = cookie(answer, "__Host-furrow_csrf");
        (
            format!("cookie: a=b; __Host-furrow_session={session}"),
            format!("x-csrf-token: {csrf}"),
        )
    };
    let (first, csrf) = shown(&session);
    let refresh =
        async |headers: &[&str]| ask(to, "POST", "/api/auth/refresh", headers, "{}").await;
    assert_eq!(refresh(&[]).await.status, 401);
    assert_eq!(
        refresh(&[&first]).await.status,
        403,
        "another site can do that"
    );
    assert_eq!(refresh(&[&first, "x-csrf-token: x"]).await.status, 403);
    let next = refresh(&[&first, &csrf]).await;
    assert_eq!(next.status, 200, "{next:?}");
    assert_eq!(me(&town, &next.json()).await, 200);
    let (second, next_csrf) = shown(&next);
    assert_ne!((&first, &csrf), (&second, &next_csrf));
    assert_eq!(
        refresh(&[&second, &csrf]).await.status,
        403,
        "of the token before"
    );
    let out = ask(
        to,
        "POST",
        "/api/auth/sign-out",
        &[&second, &next_csrf],
        "{}",
    )
    .await;
    assert_eq!(out.status, 204);
    assert_eq!(cookie(&out, "__Host-furrow_session"), "");
    assert_eq!(refresh(&[&second, &next_csrf]).await.status, 401);
}

#[tokio::test]
async fn one_sees_ones_sessions_and_ends_one_of_them() {
    let town = Town::new().await;
    let first = signed_up(&town).await;
    let body = json!({ "phone": PHONE, "password": PASSWORD });
    let second = post(&town, "/api/auth/sign-in", body).await.json();
    let bearer = |session: &Value| {
        format!(
            "authorization: Bearer {}",
            session["access_token"].as_str().unwrap()
        )
    };
    let to = town.platform.http_addr;
    let list = ask(to, "GET", "/api/me/sessions", &[&bearer(&second)], "")
        .await
        .json();
    let list = list.as_array().unwrap().clone();
    assert_eq!(list.len(), 2);
    assert_eq!(list[0]["from_address"], "127.0.0.1");
    let old = format!("/api/me/sessions/{}", list[1]["id"].as_str().unwrap());
    let end = async || {
        ask(to, "DELETE", &old, &[&bearer(&second)], "")
            .await
            .status
    };
    assert_eq!((end().await, end().await), (204, 404));
    assert_eq!(
        (me(&town, &first).await, me(&town, &second).await),
        (401, 200)
    );
    let stranger = town.person().await;
    let other = format!("/api/me/sessions/{}", list[0]["id"].as_str().unwrap());
    let theirs = town.send(&stranger, "DELETE", &other, &json!({})).await;
    assert_eq!((theirs.status, me(&town, &second).await), (404, 200));
}

#[tokio::test]
async fn a_newer_code_voids_the_one_before_it() {
    let town = Town::new().await;
    let before = code(&town, PHONE, "sign_up").await;
    let newest = code(&town, PHONE, "sign_up").await;
    let body = |code: &str| json!({ "phone": PHONE, "code": code, "name": "Zhang" });
    let wrong = if newest == "000000" {
        "000001"
    } else {
        "000000"
    };
    for _ in 0..5 {
        assert_eq!(
            post(&town, "/api/auth/sign-up", body(wrong)).await.status,
            401
        );
    }
    // The newest is tried out; that must not bring the one before it back.
    assert_eq!(
        post(&town, "/api/auth/sign-up", body(&before)).await.status,
        401
    );
}

#[tokio::test]
async fn a_code_is_used_once_however_many_use_it_at_once() {
    let town = Town::new().await;
    signed_up(&town).await;
    let code = code(&town, PHONE, "sign_in").await;
    let body = json!({ "phone": PHONE, "code": code });
    let tries = (0..8).map(|_| post(&town, "/api/auth/sign-in", body.clone()));
    let answers = futures_util::future::join_all(tries).await;
    let good = answers.iter().filter(|a| a.status == 200).count();
    assert_eq!(good, 1, "{answers:?}");
}

#[tokio::test]
async fn a_refresh_token_that_two_use_at_once_gives_one_session_or_none() {
    let town = Town::new().await;
    let session = signed_up(&town).await;
    let body = json!({ "refresh_token": session["refresh_token"] });
    let (a, b) = tokio::join!(
        post(&town, "/api/auth/refresh", body.clone()),
        post(&town, "/api/auth/refresh", body),
    );
    let mut statuses = [a.status, b.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401]);
    let winner = if a.status == 200 { a } else { b };
    assert_eq!(me(&town, &winner.json()).await, 401, "somebody has a copy");
}

#[tokio::test]
async fn what_changes_something_is_done_to_its_end_though_its_caller_goes_away() {
    let town = Town::new().await;
    let (person, to) = (town.person().await, town.platform.http_addr);
    // Whoever puts this account into an organisation waits for us, in the midst of a transaction.
    let mut held = town.world.pool.begin().await.unwrap();
    sqlx::query("select 1 from accounts where id = $1 for update")
        .bind(person.account)
        .execute(&mut *held)
        .await
        .unwrap();
    let (bearer, body) = (town.bearer(&person), r#"{"name":"Yang"}"#);
    let length = body.len();
    let text = format!(
        "POST /api/organisations HTTP/1.1\r\nhost: furrow\r\n{bearer}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut caller = TcpStream::connect(to).await.unwrap();
    caller.write_all(text.as_bytes()).await.unwrap();
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    wait_until("the request waits for the row", || async {
        town.count(waits).await > 0
    })
    .await;
    drop(caller);
    // While these are answered the door hears that the caller is gone.
    for _ in 0..20 {
        assert_eq!(ask(to, "GET", "/healthz", &[], "").await.status, 200);
    }
    held.rollback().await.unwrap();
    let done = "select count(*) from audit_log where action = 'organisation.created'";
    wait_until("it is done all the same", || async {
        town.count(done).await == 1
    })
    .await;
}

#[tokio::test]
async fn answers_tell_browsers_to_keep_out_and_no_other_site_is_let_in() {
    let town = Town::new().await;
    let to = town.platform.http_addr;
    let origin = "origin: https://elsewhere.example";
    for path in ["/api/me", "/healthz", "/nothing"] {
        let answer = ask(to, "GET", path, &[origin], "").await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(
            answer
                .header("content-security-policy")
                .contains("default-src 'none'")
        );
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    let asked = ["access-control-request-method: POST", origin];
    let before = ask(to, "OPTIONS", "/api/orders", &asked, "").await;
    assert_eq!(
        (before.status, before.header("access-control-allow-origin")),
        (405, "")
    );
}
