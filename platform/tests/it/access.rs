//! Who may come in where, for every route that the API's description has: a new route is closed until this file says otherwise.

use chrono::TimeDelta;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    people::{Person, Town, monday},
    world::{Answer, ask},
};

/// An operation of the API's description.
struct Route {
    method: String,
    path: String,
    /// Who may: `everybody`, `account`, `owner`, `staff`.
    who: String,
}

fn routes() -> Vec<Route> {
    let told = serde_json::to_value(furrow_platform::http::openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, operations) in told["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let who = operation["x-furrow-policy"]["who"].as_str();
            routes.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                who: who.unwrap_or("nobody has said").to_owned(),
            });
        }
    }
    routes
}

/// What everybody may. Whoever adds a route here has thought about it.
const PUBLIC: &[&str] = &[
    "GET /api/dictionaries/{kind}",
    // By a one-time ticket, which only an account gets.
    "GET /api/live",
    "GET /healthz",
    "GET /readyz",
    "POST /api/auth/codes",
    "POST /api/auth/refresh",
    "POST /api/auth/reset",
    "POST /api/auth/sign-in",
    "POST /api/auth/sign-out",
    "POST /api/auth/sign-up",
    "POST /api/devices/enrol",
];

#[test]
fn every_route_says_who_may_and_staff_has_its_own_paths() {
    let mut public = Vec::new();
    for route in routes() {
        let Route { method, path, who } = &route;
        assert!(
            ["everybody", "account", "owner", "staff"].contains(&who.as_str()),
            "{method} {path}: {who}"
        );
        assert_eq!(who == "staff", path.starts_with("/api/admin/"), "{path}");
        if who == "everybody" {
            public.push(format!("{method} {path}"));
        }
    }
    public.sort();
    assert_eq!(public, PUBLIC);
}

/// Things of an owner and a renter that others have no business with.
struct Things {
    order: Uuid,
    machine: Uuid,
    organisation: Uuid,
    account: Uuid,
}

impl Things {
    /// A path with the ids of these things, or with ids of nothing.
    fn fill(&self, path: &str, real: bool) -> String {
        let id = if path.contains("/orders/") {
            self.order
        } else if path.contains("/machines/") {
            self.machine
        } else if path.contains("/organisations/") {
            self.organisation
        } else {
            self.account
        };
        let none = Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0001);
        let (id, other) = if real {
            (id, self.account)
        } else {
            (none, none)
        };
        path.replace("{id}", &id.to_string())
            .replace("{account}", &other.to_string())
            .replace("{slot}", &other.to_string())
            .replace("{invitation}", &other.to_string())
            .replace("{kind}", "crop")
    }
}

/// A body that a route would take, so that its own checks do not hide whether the thing was found.
fn body(method: &str, path: &str) -> Value {
    let at = |hours: i64| monday() + TimeDelta::hours(hours);
    match path {
        "/api/orders/{id}/commands" | "/api/admin/orders/{id}/commands" => {
            json!({ "command": "pause", "reason": "rain" })
        }
        "/api/orders/{id}/messages" => json!({ "text": "hello" }),
        "/api/machines/{id}/wishes" => json!({ "wish": "delete" }),
        "/api/machines/{id}/rules" => crate::people::rule(),
        "/api/machines/{id}/rules/preview" => {
            json!({ "rule": crate::people::rule(), "from": at(1), "to": at(2), "area_centi_mu": 100 })
        }
        "/api/machines/{id}/availability" => json!({ "weekly": [] }),
        "/api/machines/{id}/blocks" => json!({ "from": at(1), "to": at(2) }),
        "/api/organisations/{id}/invitations" => {
            json!({ "phone": "+8613800000000", "function": "operator" })
        }
        "/api/organisations/{id}/members/{account}" => json!({ "function": "operator" }),
        "/api/me/invitations/{id}" => json!({ "accept": true }),
        "/api/admin/staff/{id}" => json!({ "permissions": ["order.read"] }),
        "/api/admin/accounts/{id}/phone" => {
            json!({ "new_phone": "+8613800000000", "new_code": "000000", "identity_check": "x" })
        }
        "/api/admin/machines/{id}/audit" => json!({ "passed": true }),
        "/api/admin/organisations/{id}/audit" => json!({ "verified": true }),
        "/api/admin/accounts/{id}/block" => json!({ "blocked": true, "reason": "x" }),
        "/api/machines/{id}" | "/api/organisations/{id}/machines" if method != "GET" => json!({
            "name": "N", "machine_type": "tractor", "working_width_cm": 300, "home_lat_e7": 1, "home_lon_e7": 1,
        }),
        _ => json!({}),
    }
}

/// What an answer says, without what differs by request.
fn said(answer: &Answer) -> (u16, Value) {
    let mut body: Value = serde_json::from_str(&answer.body).unwrap_or(Value::Null);
    if let Some(body) = body.as_object_mut() {
        body.remove("trace_id");
    }
    (answer.status, body)
}

async fn call(town: &Town, who: &Person, method: &str, path: &str, body: &Value) -> Answer {
    let query = if path.ends_with("/calendar") {
        "?from=2026-12-07T00:00:00Z&to=2026-12-08T00:00:00Z"
    } else {
        ""
    };
    town.send(who, method, &format!("{path}{query}"), body)
        .await
}

async fn things(town: &Town) -> Things {
    let (owner, machine) = town.owner().await;
    let renter = town.person().await;
    let from = monday() + TimeDelta::days(3);
    let order = town
        .booked(&renter, machine, from, from + TimeDelta::hours(6))
        .await;
    let me = town.get(&owner, "/api/me").await.json();
    Things {
        order,
        machine,
        organisation: me["organisations"][0]["id"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap(),
        account: renter.account,
    }
}

#[tokio::test]
async fn s43_nobody_comes_in_without_an_account_or_with_a_token_that_is_not_ours() {
    let town = Town::new().await;
    let things = things(&town).await;
    let foreign = {
        let folder = tempfile::tempdir().unwrap();
        let tokens = furrow_platform::app::tokens::Tokens::open(folder.path()).unwrap();
        let account = furrow_domain::id::AccountId(things.account);
        tokens.make(account, Uuid::nil(), 1, town.now()).unwrap()
    };
    let headers = [
        String::new(),
        format!("authorization: Bearer {foreign}"),
        "authorization: Bearer x".into(),
        "authorization: Basic x".into(),
    ];
    let mut closed = 0;
    for Route { method, path, who } in routes() {
        if who == "everybody" {
            continue;
        }
        closed += 1;
        for header in &headers {
            let lines: Vec<&str> = [header.as_str()]
                .into_iter()
                .filter(|h| !h.is_empty())
                .collect();
            let body = body(&method, &path).to_string();
            let answer = ask(
                town.platform.http_addr,
                &method,
                &things.fill(&path, true),
                &lines,
                &body,
            )
            .await;
            assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
        }
    }
    assert!(closed > 40, "{closed}");
}

#[tokio::test]
async fn s43_strangers_cannot_tell_a_thing_of_others_from_nothing_at_all() {
    let town = Town::new().await;
    let things = things(&town).await;
    let stranger = town.person().await;
    let (other_owner, _) = town.owner().await;
    // What everybody with an account may see of a listed machine.
    let open = ["GET /api/machines/{id}/calendar"];
    for Route { method, path, who } in routes() {
        let route = format!("{method} {path}");
        if !path.contains("{id}") || who == "everybody" || open.contains(&route.as_str()) {
            continue;
        }
        let body = body(&method, &path);
        for who in [&stranger, &other_owner] {
            let theirs = call(&town, who, &method, &things.fill(&path, true), &body).await;
            let nothing = call(&town, who, &method, &things.fill(&path, false), &body).await;
            assert_eq!(said(&theirs), said(&nothing), "{route}");
            assert_eq!(theirs.status, 404, "{route}: {theirs:?}");
        }
    }
    assert_eq!(town.status(things.order).await, "pending_payment");
}

#[tokio::test]
async fn s43_staff_finds_only_what_its_permissions_name() {
    let town = Town::new().await;
    let things = things(&town).await;
    let (plain, poor) = (town.person().await, town.staff(&["nothing"]).await);
    let mut seen = 0;
    for Route { method, path, who } in routes() {
        if who != "staff" {
            continue;
        }
        seen += 1;
        let body = body(&method, &path);
        for who in [&plain, &poor] {
            let answer = call(&town, who, &method, &things.fill(&path, true), &body).await;
            assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
            // Not even that a body would be asked for.
            let empty = town
                .send(who, &method, &things.fill(&path, true), &json!([]))
                .await;
            assert_eq!(said(&empty), said(&answer), "{method} {path}");
        }
    }
    assert!(seen >= 14, "{seen}");
    assert_eq!(town.status(things.order).await, "pending_payment");
    let changed = "select count(*) from audit_log where action in ('account.blocked', 'machine.judged', 'organisation.judged', 'policy.written')";
    assert_eq!(town.count(changed).await, 0);
}

#[tokio::test]
async fn rights_are_those_of_now_and_not_those_of_the_token() {
    let town = Town::new().await;
    let (owner, machine) = town.owner().await;
    let blocks = format!("/api/machines/{machine}/blocks");
    let at = |hours: i64| monday() + TimeDelta::days(3) + TimeDelta::hours(hours);
    let block = |hours: i64| json!({ "from": at(hours), "to": at(hours + 1) });
    assert_eq!(town.post(&owner, &blocks, &block(0)).await.status, 201);
    sqlx::query("update organisation_members set function = 'operator' where account_id = $1")
        .bind(owner.account)
        .execute(&town.world.pool)
        .await
        .unwrap();
    assert_eq!(town.post(&owner, &blocks, &block(2)).await.status, 404);
    sqlx::query("update accounts set token_version = 2 where id = $1")
        .bind(owner.account)
        .execute(&town.world.pool)
        .await
        .unwrap();
    assert_eq!(
        town.get(&owner, "/api/me").await.status,
        401,
        "the token is of before"
    );
}
