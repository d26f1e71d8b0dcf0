//! People of a world who talk to its human door, and machines that they let. The clock is set by hand.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::id::AccountId;
use furrow_platform::{
    app::tokens::Tokens,
    clock::{Clock as _, ManualClock},
    ids,
    platform::Platform,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{Answer, World, ask};

/// Somebody with an account and an open session.
#[derive(Debug, Clone, Copy)]
pub struct Person {
    pub account: Uuid,
    session: Uuid,
}

/// A world with a platform and people.
pub struct Town {
    pub world: World,
    pub platform: Platform,
    pub clock: Arc<ManualClock>,
    tokens: Tokens,
}

/// When towns begin: a Monday, 08:00 in Shanghai.
pub fn monday() -> DateTime<Utc> {
    "2026-12-07T00:00:00Z".parse().unwrap()
}

impl Town {
    pub async fn new() -> Self {
        let mut world = World::new().await;
        world.settings.http.limit_factor = 1_000_000;
        world.settings.http.webhooks_inside = true;
        world.settings.database.max_connections = 24;
        let clock = Arc::new(ManualClock::new(monday()));
        let platform = world.platform_at(clock.clone()).await;
        let tokens = Tokens::open(&world.settings.data_dir).unwrap();
        Self {
            world,
            platform,
            clock,
            tokens,
        }
    }

    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Time passes.
    pub fn pass(&self, time: TimeDelta) {
        self.clock.set(self.now() + time);
    }

    /// New people.
    pub async fn people(&self, count: usize) -> Vec<Person> {
        let mut people = Vec::new();
        for _ in 0..count {
            let (account, session) = (ids::new_id(self.now()), ids::new_id(self.now()));
            let number = u32::from_be_bytes(ids::secret());
            let phone = format!("+8613{:09}", number % 1_000_000_000);
            sqlx::query(
                "with a as (insert into accounts (id, phone, name, created_at) values ($1, $2, 'N', $4) returning id),
                 f as (insert into refresh_families (id, account_id, created_at) select $3, id, $4 from a returning id)
                 insert into refresh_tokens (token_hash, family_id, issued_at, expires_at)
                 select uuid_send($3), id, $4, 'infinity' from f",
            )
            .bind(account)
            .bind(phone)
            .bind(session)
            .bind(self.now())
            .execute(&self.world.pool)
            .await
            .unwrap();
            people.push(Person { account, session });
        }
        people
    }

    pub async fn person(&self) -> Person {
        self.people(1).await[0]
    }

    /// A member of staff with these permissions.
    pub async fn staff(&self, permissions: &[&str]) -> Person {
        let person = self.person().await;
        sqlx::query("insert into admin_grants (account_id, permissions, totp_secret, granted_at) values ($1, $2, 'x', now())")
            .bind(person.account)
            .bind(permissions.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>())
            .execute(&self.world.pool)
            .await
            .unwrap();
        sqlx::query("update refresh_families set second_factor_at = now() where id = $1")
            .bind(person.session)
            .execute(&self.world.pool)
            .await
            .unwrap();
        person
    }

    /// The phone of somebody.
    pub async fn phone(&self, who: &Person) -> String {
        sqlx::query_scalar("select phone from accounts where id = $1")
            .bind(who.account)
            .fetch_one(&self.world.pool)
            .await
            .unwrap()
    }

    pub fn bearer(&self, who: &Person) -> String {
        let account = AccountId(who.account);
        let token = self.tokens.make(account, who.session, 1, self.now());
        format!("authorization: Bearer {}", token.unwrap())
    }

    pub async fn get(&self, who: &Person, path: &str) -> Answer {
        let bearer = self.bearer(who);
        ask(self.platform.http_addr, "GET", path, &[&bearer], "").await
    }

    pub async fn send(&self, who: &Person, method: &str, path: &str, body: &Value) -> Answer {
        let bearer = self.bearer(who);
        ask(
            self.platform.http_addr,
            method,
            path,
            &[&bearer],
            &body.to_string(),
        )
        .await
    }

    pub async fn post(&self, who: &Person, path: &str, body: &Value) -> Answer {
        self.send(who, "POST", path, body).await
    }

    /// A post with a key.
    pub async fn post_once(&self, who: &Person, path: &str, key: &str, body: &Value) -> Answer {
        let (bearer, key) = (self.bearer(who), format!("idempotency-key: {key}"));
        let headers = [bearer.as_str(), key.as_str()];
        ask(
            self.platform.http_addr,
            "POST",
            path,
            &headers,
            &body.to_string(),
        )
        .await
    }

    /// A verified owner with a listed machine at 65.00 a mu, open every day, deposit 1,000.00.
    pub async fn owner(&self) -> (Person, Uuid) {
        let owner = self.person().await;
        let made = self
            .post(
                &owner,
                "/api/organisations",
                &json!({ "name": "Yang's machines" }),
            )
            .await;
        assert_eq!(made.status, 201, "{made:?}");
        let organisation = made.json()["id"].as_str().unwrap().to_owned();
        sqlx::query("update organisations set verified_at = now()")
            .execute(&self.world.pool)
            .await
            .unwrap();
        let machine = self.machine(&owner, &organisation, &rule()).await;
        (owner, machine)
    }

    /// A listed machine of an organisation.
    pub async fn machine(&self, owner: &Person, organisation: &str, rule: &Value) -> Uuid {
        let details = json!({
            "name": "Dongfeng 1204", "machine_type": "tractor", "working_width_cm": 300, "region": "340100",
            "home_lat_e7": 318_600_000, "home_lon_e7": 1_172_800_000, "capacity_centi_mu_h": 1000, "crops": ["rice"],
        });
        let path = format!("/api/organisations/{organisation}/machines");
        let made = self.post(owner, &path, &details).await;
        assert_eq!(made.status, 201, "{made:?}");
        let id: Uuid = made.json()["id"].as_str().unwrap().parse().unwrap();
        let path = |rest: &str| format!("/api/machines/{id}/{rest}");
        let ruled = self.post(owner, &path("rules"), rule).await;
        assert_eq!(ruled.status, 201, "{ruled:?}");
        let week: Vec<Value> = (0..7)
            .map(|d| json!({ "weekday": d, "start_min": 0, "end_min": 1440 }))
            .collect();
        let open = self
            .send(
                owner,
                "PUT",
                &path("availability"),
                &json!({ "weekly": week }),
            )
            .await;
        assert_eq!(open.status, 204, "{open:?}");
        sqlx::query("update machines set audit = 'passed' where id = $1")
            .bind(id)
            .execute(&self.world.pool)
            .await
            .unwrap();
        let listed = self
            .post(owner, &path("wishes"), &json!({ "wish": "list" }))
            .await;
        assert_eq!(listed.status, 204, "{listed:?}");
        id
    }

    /// A quote's token for 50 mu a few km away.
    pub async fn quote(
        &self,
        who: &Person,
        machine: Uuid,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
    ) -> Answer {
        let asked = json!({ "machine_id": machine, "from": from, "to": to, "work": work() });
        self.post(who, "/api/quotes", &asked).await
    }

    /// Quotes and books.
    pub async fn book(
        &self,
        who: &Person,
        machine: Uuid,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
    ) -> Answer {
        let quoted = self.quote(who, machine, from, to).await;
        if quoted.status != 200 {
            return quoted;
        }
        let token = quoted.json()["quote_token"].clone();
        self.post(who, "/api/orders", &json!({ "quote_token": token }))
            .await
    }

    /// An order that is booked; its id.
    pub async fn booked(
        &self,
        who: &Person,
        machine: Uuid,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
    ) -> Uuid {
        let booked = self.book(who, machine, from, to).await;
        assert_eq!(booked.status, 201, "{booked:?}");
        booked.json()["id"].as_str().unwrap().parse().unwrap()
    }

    /// Staff stands in for the provider.
    pub async fn pay(&self, order: Uuid) {
        let staff = self.staff(&["test.pay"]).await;
        let path = format!("/api/admin/test/orders/{order}/pay");
        let paid = self.post(&staff, &path, &json!({})).await;
        assert_eq!(paid.status, 200, "{paid:?}");
    }

    pub async fn command(&self, who: &Person, order: Uuid, body: Value) -> Answer {
        self.post(who, &format!("/api/orders/{order}/commands"), &body)
            .await
    }

    /// A command that must be done.
    pub async fn done(&self, who: &Person, order: Uuid, body: Value) -> Value {
        let answer = self.command(who, order, body.clone()).await;
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()
    }

    pub async fn status(&self, order: Uuid) -> String {
        sqlx::query_scalar("select status from orders where id = $1")
            .bind(order)
            .fetch_one(&self.world.pool)
            .await
            .unwrap()
    }

    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&self.world.pool)
            .await
            .unwrap()
    }
}

/// 50 mu a few km away.
pub fn work() -> Value {
    json!({ "place": { "lat_e7": 318_900_000, "lon_e7": 1_172_800_000, "area_centi_mu": 5000 }, "crop": "rice" })
}

/// 65.00 a mu, deposit 1,000.00.
pub fn rule() -> Value {
    json!({ "unit": "mu", "unit_price_fen": 6500, "deposit_fen": 100_000,
            "overtime": { "price_fen": 9000, "step": "half_hour", "cap_bps": 5000 } })
}
