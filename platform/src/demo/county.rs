//! A county to look at: owners with machines, renters with plots, orders in every state, all made by the use cases themselves. Never writes a row that they would not write.

use std::path::Path;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    id::{AccountId, OrderId, OrganisationId},
    order::command::{Command, DisputeCategory},
    period::Period,
    rent::Rule,
};
use serde_json::json;
use uuid::Uuid;

use super::people::{self, County, PASSWORD};
use crate::{
    app::{
        self,
        fault::Fault,
        machines::{self, Wish},
        orders::{self, BookRequest},
        quotes::{self, Place, Work},
        tokens::Tokens,
        who::{Function, Who},
        witness::{Question, Shown, Witness},
    },
    db::{self, Pool, machines::MachineDetails},
};

/// Machines of each owner.
const EACH: usize = 5;
/// What owners of the county let.
const KINDS: [(&str, &str, &str); EACH] = [
    ("tractor", "东方红", "LX1204"),
    ("combine", "沃得", "锐龙 4LZ"),
    ("transplanter", "久保田", "NSPU-68"),
    ("sprayer", "丰疆", "3WP-700"),
    ("baler", "中国一拖", "9YG-2.24"),
];

/// Tracks of seeded machines show nothing: they have no devices.
struct Nothing;

impl Witness for Nothing {
    fn look<'a>(
        &'a self,
        _: &'a Question,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Shown, Fault>> + Send + 'a>> {
        Box::pin(async { Ok(Shown::default()) })
    }
}

/// Fills an empty database; does nothing where people are already. Before the platform starts: its clocks
/// would close what is dated back.
///
/// Errors: the database, or a use case that refuses.
pub async fn seed(pool: &Pool, data_dir: &Path, now: DateTime<Utc>) -> anyhow::Result<()> {
    if !db::accounts::page(pool, "", Uuid::nil(), 1)
        .await?
        .is_empty()
    {
        return Ok(());
    }
    let tokens = Tokens::open(data_dir).context("data_dir")?;
    let county = people::settle(pool, now).await?;
    let mut lettable = Vec::new();
    for (number, (owner, organisation)) in county.owners.iter().enumerate() {
        let owner = member(*owner, *organisation);
        for (kind, parts) in KINDS.iter().enumerate() {
            let id = machine(
                pool,
                &county,
                &owner,
                *organisation,
                (number, kind),
                *parts,
                now,
            )
            .await?;
            if kind == 0 {
                lettable.push((owner.clone(), id));
            }
        }
    }
    let town = Town {
        pool,
        tokens: &tokens,
        county: &county,
        now,
    };
    town.orders(&lettable).await
}

fn member(account: AccountId, organisation: OrganisationId) -> Who {
    Who {
        organisations: vec![(organisation, Function::Owner)],
        ..people::who(account)
    }
}

/// A listed machine with its rule, its week and its papers passed.
async fn machine(
    pool: &Pool,
    county: &County,
    owner: &Who,
    organisation: OrganisationId,
    (number, kind): (usize, usize),
    (machine_type, brand, model): (&str, &str, &str),
    now: DateTime<Utc>,
) -> anyhow::Result<Uuid> {
    let step = i32::try_from(number * EACH + kind)?;
    let details = MachineDetails {
        name: format!("{brand} {} 号", number * EACH + kind + 1),
        machine_type: machine_type.into(),
        working_width_cm: 200 + 50 * i32::try_from(kind)?,
        brand: brand.into(),
        model: model.into(),
        region: people::REGION.into(),
        home_lat_e7: 318_000_000 + step * 90_000,
        home_lon_e7: 1_171_000_000 + (step % 7) * 250_000,
        capacity_centi_mu_h: 800 + 200 * i32::try_from(kind)?,
        crops: vec!["rice".into(), "wheat".into()],
        zone: "Asia/Shanghai".into(),
        auto_accept: number % 4 == 3,
    };
    let id = machines::create(pool, owner, organisation, &details, now).await?;
    machines::set_rule(pool, owner, id, &rule(kind, number)?, now).await?;
    // In the season tractors go day and night; the others from 06:00 to 20:00.
    let (start, end) = if kind == 0 { (0, 1440) } else { (360, 1200) };
    let week: Vec<_> = (0..7).map(|day| (day, start, end)).collect();
    machines::set_availability(pool, owner, id, &week, &[], now).await?;
    machines::wish(pool, owner, id, Wish::Submit, now).await?;
    machines::judge(pool, &county.admin, id, true, "papers complete", now).await?;
    machines::wish(pool, owner, id, Wish::List, now).await?;
    Ok(id)
}

/// Rules of every kind.
fn rule(kind: usize, number: usize) -> anyhow::Result<Rule> {
    let more = i64::try_from(number)? * 100;
    let overtime = json!({ "price_fen": 12_000, "step": "half_hour", "cap_bps": 5000 });
    let season = json!([{ "from": "2026-05-20", "to": "2026-06-20", "factor_bps": 12_500, "priority": 1 },
                        { "from": "2026-09-25", "to": "2026-10-25", "factor_bps": 13_000, "priority": 1 }]);
    let rule = match kind {
        0 => {
            json!({ "unit": "mu", "unit_price_fen": 6000 + more, "deposit_fen": 50_000, "minimum": { "quantity": 500 },
                     "overtime": overtime, "seasons": season, "travel_fen_per_km": 200 })
        }
        1 => {
            json!({ "unit": "mu", "unit_price_fen": 8000 + more, "deposit_fen": 100_000, "prepay_bps": 5000,
                     "seasons": season, "discounts": [{ "from_quantity": 20_000, "bps": 500 }] })
        }
        2 => json!({ "unit": "half_day", "unit_price_fen": 60_000 + more, "deposit_fen": 80_000 }),
        3 => {
            json!({ "unit": "hour", "unit_price_fen": 12_000 + more, "overtime": overtime, "grace_min": 15 })
        }
        _ => {
            json!({ "unit": "day", "unit_price_fen": 150_000 + more, "deposit_fen": 200_000, "service_mode": "self_drive" })
        }
    };
    Ok(serde_json::from_value(rule)?)
}

/// How far an order of the county goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Held days ago and never paid: the platform's clock closes it.
    Forgotten,
    Held,
    Paid,
    Accepted,
    Working,
    Finished,
    Billed,
    Completed,
    Disputed,
    Cancelled,
}

/// Where orders are made.
struct Town<'a> {
    pool: &'a Pool,
    tokens: &'a Tokens,
    county: &'a County,
    now: DateTime<Utc>,
}

impl Town<'_> {
    /// Some orders in each state.
    async fn orders(&self, machines: &[(Who, Uuid)]) -> anyhow::Result<()> {
        // The half hour that has begun, in UTC as in Shanghai.
        let seconds = self.now.timestamp();
        let half =
            DateTime::from_timestamp(seconds - seconds.rem_euclid(1800), 0).context("now")?;
        let plan = [
            (Reach::Forgotten, TimeDelta::hours(70)),
            (Reach::Held, TimeDelta::hours(30)),
            (Reach::Paid, TimeDelta::hours(40)),
            (Reach::Accepted, TimeDelta::hours(50)),
            (Reach::Accepted, TimeDelta::hours(75)),
            (Reach::Working, -TimeDelta::minutes(30)),
            (Reach::Finished, -TimeDelta::hours(20)),
            (Reach::Billed, -TimeDelta::hours(30)),
            (Reach::Completed, -TimeDelta::hours(60)),
            (Reach::Completed, -TimeDelta::hours(90)),
            (Reach::Disputed, -TimeDelta::hours(40)),
            (Reach::Cancelled, TimeDelta::hours(60)),
        ];
        for (number, (reach, from)) in plan.into_iter().enumerate() {
            let (owner, machine) = &machines[number % machines.len()];
            let renter = &self.county.renters[number % self.county.renters.len()];
            let start = half + from;
            let id = self.book(renter, *machine, start, reach).await;
            let id = id.with_context(|| format!("{reach:?}"))?;
            self.live(id, owner, renter, start, reach)
                .await
                .with_context(|| format!("{reach:?}"))?;
        }
        Ok(())
    }

    /// When an order is made: now if its work is to come, three days before it otherwise.
    fn made_at(&self, start: DateTime<Utc>) -> DateTime<Utc> {
        self.now
            .min(start - TimeDelta::days(3))
            .max(self.now - TimeDelta::days(9))
    }

    async fn book(
        &self,
        renter: &Who,
        machine: Uuid,
        start: DateTime<Utc>,
        reach: Reach,
    ) -> anyhow::Result<OrderId> {
        // One that waits for its payment was made just now.
        let now = match reach {
            Reach::Held | Reach::Paid => self.now,
            _ => self.made_at(start),
        };
        let period = Period::new(start, start + TimeDelta::hours(6))?;
        let work = Work {
            plots: vec![],
            place: Some(Place {
                lat_e7: 318_500_000,
                lon_e7: 1_171_500_000,
                area_centi_mu: 4000,
            }),
            crop: Some("wheat".into()),
        };
        let quote = quotes::quote(self.pool, self.tokens, renter, machine, &period, &work, now);
        let quoted = quotes::read(self.tokens, renter, &quote.await?.token, now)?;
        let request = BookRequest {
            quoted,
            on_behalf_of: None,
        };
        Ok(orders::book(self.pool, renter, &request, now)
            .await?
            .order
            .id)
    }

    async fn step(
        &self,
        id: OrderId,
        who: &Who,
        command: &Command,
        now: DateTime<Utc>,
    ) -> anyhow::Result<app::orders::Done> {
        Ok(orders::command(self.pool, &Nothing, who, id, false, command, now).await?)
    }

    /// Takes an order as far as it is to go.
    async fn live(
        &self,
        id: OrderId,
        owner: &Who,
        renter: &Who,
        start: DateTime<Utc>,
        reach: Reach,
    ) -> anyhow::Result<()> {
        if matches!(reach, Reach::Held | Reach::Forgotten) {
            return Ok(());
        }
        let made = if reach == Reach::Paid {
            self.now
        } else {
            self.made_at(start)
        };
        let paid = orders::test_pay(self.pool, &self.county.admin, id, made).await?;
        if reach == Reach::Paid {
            return Ok(());
        }
        if paid.order.accepted_at.is_none() {
            self.step(id, owner, &Command::Accept { seen_version: None }, made)
                .await?;
        }
        if reach == Reach::Accepted {
            return Ok(());
        }
        if reach == Reach::Cancelled {
            let fee = orders::preview_fee(self.pool, &Nothing, renter, id, self.now).await?;
            let cancel = Command::Cancel {
                shown_fee_fen: Some(fee),
            };
            self.step(id, renter, &cancel, self.now).await?;
            return Ok(());
        }
        let tap = Command::Start {
            photo: true,
            override_reason: None,
            acted_at: None,
        };
        let begin = start + TimeDelta::minutes(5);
        self.step(id, owner, &tap, begin).await?;
        self.step(id, renter, &tap, begin).await?;
        if reach == Reach::Working {
            return Ok(());
        }
        self.settle(id, owner, renter, start, reach).await
    }

    /// From the finish on.
    async fn settle(
        &self,
        id: OrderId,
        owner: &Who,
        renter: &Who,
        start: DateTime<Utc>,
        reach: Reach,
    ) -> anyhow::Result<()> {
        let end = start + TimeDelta::hours(5);
        let finish = Command::Finish {
            reason: None,
            acted_at: None,
        };
        self.step(id, owner, &finish, end).await?;
        if reach == Reach::Finished {
            return Ok(());
        }
        let items = furrow_domain::settlement::Items::default();
        orders::propose(
            self.pool,
            &Nothing,
            owner,
            (id, false),
            (&items, false),
            end,
        )
        .await?;
        match reach {
            Reach::Completed => {
                let confirm = Command::ConfirmBill { version: 1 };
                self.step(id, renter, &confirm, end + TimeDelta::hours(1))
                    .await?;
            }
            Reach::Disputed => {
                let dispute = Command::Dispute {
                    category: DisputeCategory::Area,
                    text: "地头没有耕到".into(),
                };
                self.step(id, renter, &dispute, end + TimeDelta::hours(1))
                    .await?;
            }
            Reach::Forgotten
            | Reach::Held
            | Reach::Paid
            | Reach::Accepted
            | Reach::Working
            | Reach::Finished
            | Reach::Billed
            | Reach::Cancelled => {}
        }
        Ok(())
    }
}

/// How to sign in, one of each role.
#[must_use]
pub fn sign_ins() -> String {
    format!(
        "sign in at POST /api/auth/sign-in with the password {PASSWORD:?}\n  renter      {}\n  owner       {}\n  admin       {}  with the six digits of the authenticator {}",
        people::RENTER,
        people::OWNER,
        people::ADMIN,
        people::totp_secret(),
    )
}
