//! T01: a booking. The machine's row first, expired holds away, the one predicate, the price of the quote, then the hold.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use furrow_domain::{
    id::{AccountId, MachineId, OrderId, OrganisationId},
    money::{Bps, Fen},
    order::{
        Order,
        actor::{Actor, Role},
        command::Command,
        create::{Booking, create},
        decide,
        decision::{Decision, Outcome},
        facts::Facts,
        terms::{Policy, Terms},
    },
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::apply::{Cause, apply, columns, event, json as to_json};
use crate::{
    app::{
        calendars,
        fault::Fault,
        machines::taken,
        policies,
        quotes::{self, Offer, Quoted},
        who::Who,
    },
    db::{
        self, Connection, Pool,
        machines::{self, MachineRow, NewSlot},
        orders::{self, NewOrder, OrderRow},
        organisations,
    },
    ids,
};

/// How often a booking is tried again after losing a deadlock.
const TRIES: u32 = 3;

/// Who books what.
#[derive(Debug, Clone)]
pub struct BookRequest {
    /// The quote.
    pub quoted: Quoted,
    /// Staff books for somebody: the renter, and the consent that was recorded.
    pub on_behalf_of: Option<(AccountId, Value)>,
}

/// An order that was booked.
#[derive(Debug, Clone)]
pub struct Booked {
    /// It.
    pub order: Order,
    /// Its number.
    pub order_no: String,
}

/// Books. Exactly one of many who want the same time gets it; the others hear `slot_taken`.
///
/// # Errors
///
/// `slot_taken`, `not_open`, `quote_changed`, and those of T01.
pub async fn book(
    pool: &Pool,
    who: &Who,
    request: &BookRequest,
    now: DateTime<Utc>,
) -> Result<Booked, Fault> {
    let mut tries = 0;
    loop {
        match try_book(pool, who, request, now).await {
            Err(Fault::Database(error)) if db::retryable(&error) && tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

async fn try_book(
    pool: &Pool,
    who: &Who,
    request: &BookRequest,
    now: DateTime<Utc>,
) -> Result<Booked, Fault> {
    let quoted = &request.quoted;
    let mut tx = pool.begin().await?;
    let machine = machines::lock(&mut tx, quoted.machine).await?;
    let machine = machine.ok_or_else(Fault::not_found)?;
    let organisation = machine.organisation_id.ok_or_else(Fault::not_found)?;
    super::purge(&mut tx, machine.id, &quoted.period, &who.trace_id, now).await?;
    let rules = machines::newest_rules(&mut tx, &[machine.id]).await?;
    let rule = rules.first().ok_or_else(Fault::not_found)?;
    let (policy, commission) = policies::current(&mut tx).await?;
    let ground = quotes::ground(&mut tx, who, &quoted.work).await?;
    let calendar = calendars::load_one(&mut tx, &machine, &quoted.period, None, now).await?;
    let offer = quotes::offer(
        &machine,
        rule,
        commission,
        &calendar,
        &quoted.period,
        &ground,
    )?;
    let same = rule.id == quoted.rule
        && offer.estimate.total_fen == quoted.total_fen
        && policy.version == quoted.policy;
    if !same {
        return Err(Fault::conflict(
            "quote_changed",
            "the price has changed: ask for a new quote",
        ));
    }
    let asked = Asked {
        request,
        machine: &machine,
        organisation,
        offer: &offer,
        policy,
        commission,
        zone: calendar.zone,
        plots: ground.copies.len(),
    };
    let booking = booking(&mut tx, who, asked, now).await?;
    let made = create(booking, now)?;
    let cause = Cause {
        role: if request.on_behalf_of.is_some() {
            Role::Admin
        } else {
            Role::Renter
        },
        account: Some(who.account.0),
        trace_id: who.trace_id.clone(),
    };
    let booked = keep(&mut tx, request, &made, &offer, ground.copies, &cause, now).await?;
    tx.commit().await?;
    Ok(booked)
}

/// What a booking rests on, read under the machine's lock.
struct Asked<'a> {
    request: &'a BookRequest,
    machine: &'a MachineRow,
    organisation: Uuid,
    offer: &'a Offer,
    policy: Policy,
    commission: Bps,
    zone: Tz,
    plots: usize,
}

async fn booking(
    tx: &mut Connection,
    who: &Who,
    asked: Asked<'_>,
    now: DateTime<Utc>,
) -> Result<Booking, Fault> {
    let Asked {
        request,
        machine,
        organisation,
        offer,
        policy,
        commission,
        zone,
        plots,
    } = asked;
    let usable = machine.status == "listed"
        && machine.deleted_at.is_none()
        && !machine.in_repair
        && machines::owner_stands(tx, organisation).await?;
    let renter = request
        .on_behalf_of
        .as_ref()
        .map_or(who.account, |(renter, _)| *renter);
    let (unpaid, arrears, blocked) = orders::renter_standing(tx, renter.0).await?;
    let has_device = machines::device(tx, machine.id, now).await?.is_some();
    Ok(Booking {
        id: OrderId(ids::new_id(now)),
        renter,
        renter_organisations: organisations::of_account(tx, renter.0)
            .await?
            .into_iter()
            .map(OrganisationId)
            .collect(),
        organisation: OrganisationId(organisation),
        machine: MachineId(machine.id),
        period: request.quoted.period,
        start: offer.meet_at,
        end: offer.work_end,
        plots,
        on_behalf: request.on_behalf_of.is_some(),
        terms: Terms {
            policy,
            auto_accept: machine.auto_accept,
            service_mode: offer.snapshot.rule.service_mode,
            zone,
            estimate_fen: offer.estimate.total_fen,
            prepaid_fen: offer.prepaid_fen,
            deposit_fen: offer.deposit_fen,
            first_day_fen: offer.first_day_fen,
            commission_bps: commission,
            grace_min: u32::from(offer.snapshot.rule.grace_min),
            has_device,
        },
        unpaid_holds: u32::try_from(unpaid).unwrap_or(u32::MAX),
        renter_may_order: !arrears && !blocked,
        machine_usable: usable,
    })
}

/// Writes the new order, its hold, its first event and what the core plans; pays what costs nothing.
async fn keep(
    tx: &mut Connection,
    request: &BookRequest,
    made: &Decision,
    offer: &Offer,
    plots: Vec<Value>,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<Booked, Fault> {
    let order = &made.order;
    let row = OrderRow {
        id: order.id.0,
        order_no: order_no(order, now),
        doc: to_json(order)?,
        snapshot: to_json(&offer.snapshot)?,
        estimate: to_json(&offer.estimate)?,
        plots: Value::Array(plots),
        group_id: None,
    };
    let new = NewOrder {
        row: row.clone(),
        columns: columns(order),
        on_behalf_of: request
            .on_behalf_of
            .as_ref()
            .map(|(renter, consent)| json!({ "renter": renter, "consent": consent })),
    };
    orders::insert(tx, &new, now).await?;
    orders::insert_event(tx, row.id, &event(made, cause, now)?).await?;
    let hold = NewSlot {
        id: ids::new_id(now),
        machine: order.machine.0,
        kind: "hold",
        order: Some(row.id),
        during: (order.period.from(), order.period.to()),
        hold_expires_at: Some(order.terms.hold_expires_at(order.pay_deadline)),
        note: "",
    };
    machines::insert_slot(tx, &hold).await.map_err(taken)?;
    // The order stands as it was made: only what the step asks for is left to do.
    apply(tx, &row, order, std::slice::from_ref(made), cause, now).await?;
    let mut order = order.clone();
    if order.terms.payable_fen().is_zero() {
        let pay = Command::Pay {
            amount_fen: Fen::ZERO,
        };
        let paid = decide(&order, &pay, &Actor::system(), &Facts::default(), now)?;
        if let Outcome::Applied(steps) = paid {
            let system = Cause::system(&cause.trace_id);
            apply(tx, &row, &order, &steps, &system, now).await?;
            order = steps.last().map_or(order, |step| step.order.clone());
        }
    }
    Ok(Booked {
        order,
        order_no: row.order_no,
    })
}

/// Short, for people: the day and eight letters of chance.
fn order_no(order: &Order, now: DateTime<Utc>) -> String {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let chance: [u8; 8] = ids::secret();
    let letters: String = chance
        .iter()
        .map(|b| char::from(LETTERS[usize::from(b & 31)]))
        .collect();
    let day = now.with_timezone(&order.terms.zone).format("%y%m%d");
    format!("F{day}{letters}")
}
