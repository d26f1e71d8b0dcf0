//! Organisations: who comes in, who decides about whom, and that somebody always owns them.

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::people::{Person, Town};

/// An owner and his organisation's path.
async fn organisation(town: &Town) -> (Person, String) {
    let owner = town.person().await;
    let made = town
        .post(
            &owner,
            "/api/organisations",
            &json!({ "name": "Yang's machines", "kind": "company" }),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    (owner, format!("/api/organisations/{id}"))
}

async fn invite(town: &Town, by: &Person, path: &str, whom: &Person, function: &str) -> u16 {
    let body = json!({ "phone": town.phone(whom).await, "function": function });
    let path = format!("{path}/invitations");
    town.post(by, &path, &body).await.status
}

/// Answers the only invitation.
async fn answer(town: &Town, who: &Person, accept: bool) -> u16 {
    let open = town.get(who, "/api/me/invitations").await.json();
    let Some(id) = open[0]["id"].as_str() else {
        return 0;
    };
    let path = format!("/api/me/invitations/{id}");
    town.post(who, &path, &json!({ "accept": accept }))
        .await
        .status
}

async fn join(town: &Town, by: &Person, path: &str, who: &Person, function: &str) {
    assert_eq!(invite(town, by, path, who, function).await, 202);
    assert_eq!(answer(town, who, true).await, 204);
}

async fn set(town: &Town, by: &Person, path: &str, whom: &Person, function: &str) -> u16 {
    let path = format!("{path}/members/{}", whom.account);
    let body = json!({ "function": function });
    town.send(by, "PUT", &path, &body).await.status
}

async fn remove(town: &Town, by: &Person, path: &str, whom: &Person) -> u16 {
    let path = format!("{path}/members/{}", whom.account);
    town.send(by, "DELETE", &path, &json!({})).await.status
}

async fn functions(town: &Town, by: &Person, path: &str) -> Vec<String> {
    let told = town.get(by, &format!("{path}/members")).await.json();
    let name = |member: &Value| member["function"].as_str().unwrap().to_owned();
    told.as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn nobody_comes_in_unasked_or_without_a_yes() {
    let town = Town::new().await;
    let (owner, path) = organisation(&town).await;
    let (driver, stranger) = (town.person().await, town.person().await);
    assert_eq!(invite(&town, &owner, &path, &driver, "operator").await, 202);
    assert_eq!(functions(&town, &owner, &path).await, ["owner"]);
    let open = town.get(&driver, "/api/me/invitations").await.json();
    assert_eq!(open[0]["organisation"], "Yang's machines");
    let id = open[0]["id"].as_str().unwrap();
    let other = format!("/api/me/invitations/{id}");
    let yes = json!({ "accept": true });
    assert_eq!(town.post(&stranger, &other, &yes).await.status, 404);
    assert_eq!(answer(&town, &driver, false).await, 204);
    assert_eq!(
        town.post(&driver, &other, &yes).await.status,
        404,
        "he said no"
    );
    assert_eq!(functions(&town, &owner, &path).await, ["owner"]);

    join(&town, &owner, &path, &driver, "operator").await;
    assert_eq!(functions(&town, &owner, &path).await, ["owner", "operator"]);
    let me = town.get(&driver, "/api/me").await.json();
    assert_eq!(me["organisations"][0]["function"], "operator");
    assert_eq!(me["organisations"][0]["kind"], "company");
}

#[tokio::test]
async fn an_invitation_is_answered_alike_whether_the_phone_has_an_account_or_not() {
    let town = Town::new().await;
    let (owner, path) = organisation(&town).await;
    let known = town.phone(&town.person().await).await;
    let mut told = Vec::new();
    for phone in [known.as_str(), "+8613999999999"] {
        let body = json!({ "phone": phone, "function": "operator" });
        let path = format!("{path}/invitations");
        let answer = town.post(&owner, &path, &body).await;
        told.push((answer.status, answer.body));
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].0, 202);
}

#[tokio::test]
async fn an_invitation_can_be_withdrawn_and_is_over_after_two_weeks() {
    let town = Town::new().await;
    let (owner, path) = organisation(&town).await;
    let driver = town.person().await;
    assert_eq!(invite(&town, &owner, &path, &driver, "operator").await, 202);
    let open = town
        .get(&owner, &format!("{path}/invitations"))
        .await
        .json();
    let one = format!("{path}/invitations/{}", open[0]["id"].as_str().unwrap());
    let withdraw = async || town.send(&owner, "DELETE", &one, &json!({})).await.status;
    assert_eq!((withdraw().await, withdraw().await), (204, 404));
    assert_eq!(answer(&town, &driver, true).await, 0, "there is none");

    assert_eq!(invite(&town, &owner, &path, &driver, "operator").await, 202);
    let open = town.get(&driver, "/api/me/invitations").await.json();
    town.pass(TimeDelta::days(14) + TimeDelta::seconds(1));
    assert_eq!(
        town.get(&driver, "/api/me/invitations").await.json(),
        json!([])
    );
    let late = format!("/api/me/invitations/{}", open[0]["id"].as_str().unwrap());
    let yes = json!({ "accept": true });
    assert_eq!(town.post(&driver, &late, &yes).await.status, 404);
}

#[tokio::test]
async fn managers_decide_about_drivers_and_about_nobody_else() {
    let town = Town::new().await;
    let (owner, path) = organisation(&town).await;
    let (second, manager, other, driver) = (
        town.person().await,
        town.person().await,
        town.person().await,
        town.person().await,
    );
    join(&town, &owner, &path, &second, "owner").await;
    join(&town, &owner, &path, &manager, "manager").await;
    join(&town, &owner, &path, &other, "manager").await;
    join(&town, &manager, &path, &driver, "operator").await;

    for whom in [&owner, &second, &other] {
        assert_eq!(set(&town, &manager, &path, whom, "operator").await, 404);
        assert_eq!(remove(&town, &manager, &path, whom).await, 404);
    }
    for function in ["owner", "manager"] {
        assert_eq!(set(&town, &manager, &path, &driver, function).await, 404);
        assert_eq!(set(&town, &manager, &path, &manager, function).await, 404);
        assert_eq!(invite(&town, &manager, &path, &driver, function).await, 404);
    }
    // An invitation never takes a function away.
    assert_eq!(
        invite(&town, &manager, &path, &owner, "operator").await,
        202
    );
    assert_eq!(answer(&town, &owner, true).await, 204);
    assert_eq!(
        functions(&town, &owner, &path).await,
        ["owner", "owner", "manager", "manager", "operator"]
    );
    assert_eq!(
        invite(&town, &driver, &path, &manager, "operator").await,
        404
    );
    assert_eq!(remove(&town, &driver, &path, &manager).await, 404);
    assert_eq!(
        remove(&town, &driver, &path, &driver).await,
        204,
        "one may leave"
    );
    assert_eq!(set(&town, &owner, &path, &other, "operator").await, 204);
    assert_eq!(remove(&town, &manager, &path, &other).await, 204);
}

#[tokio::test]
async fn an_organisation_keeps_an_owner_whatever_its_owners_do_at_once() {
    let town = Town::new().await;
    let (first, path) = organisation(&town).await;
    assert_eq!(remove(&town, &first, &path, &first).await, 409);
    assert_eq!(set(&town, &first, &path, &first, "manager").await, 409);
    for _ in 0..5 {
        let (one, path) = organisation(&town).await;
        let other = town.person().await;
        join(&town, &one, &path, &other, "owner").await;
        let (a, b) = tokio::join!(
            remove(&town, &one, &path, &other),
            remove(&town, &other, &path, &one),
        );
        assert!([(204, 404), (404, 204)].contains(&(a, b)), "{a} {b}");
    }
    let without = "select count(*) from organisations o where not exists
        (select 1 from organisation_members m where m.organisation_id = o.id and m.function = 'owner')";
    assert_eq!(town.count(without).await, 0);
}
