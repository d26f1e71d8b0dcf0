//! A command of a person on an order, from lock to commit. Never decides: the core does.

use chrono::{DateTime, Utc};
use furrow_domain::{
    availability::Span,
    id::OrderId,
    money::Fen,
    order::{
        Order,
        actor::{Actor, Role},
        command::{Command, Proposed},
        decide,
        decision::Outcome,
        facts::{Facts, Presence},
        owner_penalty, renter_fee,
    },
    period::Period,
    rent::{Snapshot, Usage, price},
};
use uuid::Uuid;

use super::apply::{Cause, apply, code_hash, of_row};
use crate::{
    app::{
        calendars,
        fault::{Fault, Sort},
        quotes,
        who::Who,
        witness::{Question, Shown, Witness},
    },
    db::{
        self, Connection, Pool, machines,
        orders::{self, MessageRow, OrderRow, Scope},
    },
    ids,
};

/// How often a command is tried again after losing a deadlock.
const TRIES: u32 = 3;
/// Wrong start codes.
const CODE_TRIES: i32 = 5;

/// What came of a command.
#[derive(Debug, Clone)]
pub struct Done {
    /// The order as it is now.
    pub order: Order,
    /// Its number.
    pub order_no: String,
    /// It had been done before.
    pub already: bool,
}

/// Whose orders these are.
#[must_use]
pub fn scope(who: &Who, role: Role) -> Scope {
    if role == Role::Admin {
        Scope::All
    } else {
        let organisations = who.all_organisations().iter().map(|o| o.0).collect();
        Scope::Party(who.account.0, organisations)
    }
}

/// The role in which somebody acts on an order as a party: there is never a choice.
pub(super) fn party(who: &Who, order: &Order) -> Role {
    if order.renter == who.account {
        Role::Renter
    } else {
        Role::Owner
    }
}

/// Carries out a command. `staff`: as staff, otherwise as the party that one is.
///
/// # Errors
///
/// `not_found`, those of the core, `slot_taken`.
pub async fn command(
    pool: &Pool,
    witness: &dyn Witness,
    who: &Who,
    id: OrderId,
    staff: bool,
    command: &Command,
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    let role = if staff { Role::Admin } else { Role::Renter };
    let scope = scope(who, role);
    // Read before anything is locked: no track is read inside a transaction.
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, &scope, false).await?
    };
    let row = row.ok_or_else(Fault::not_found)?;
    let order = of_row(&row)?;
    let role = if staff {
        Role::Admin
    } else {
        party(who, &order)
    };
    let actor = who.acting(role, order.organisation)?;
    // A start that was tapped without a network is judged by where the machine was then.
    let then = match command {
        Command::Start {
            acted_at: Some(at), ..
        } => now.min(*at),
        _ => now,
    };
    let shown = look(witness, &row, &order, then).await?;
    let cause = Cause {
        role: actor.role,
        account: Some(who.account.0),
        trace_id: who.trace_id.clone(),
    };
    let mut tries = 0;
    loop {
        match step(pool, id, &actor, &shown, command, &cause, now).await {
            Err(Fault::Database(error)) if db::retryable(&error) && tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

/// What the track shows of an order.
pub(super) async fn look(
    witness: &dyn Witness,
    row: &OrderRow,
    order: &Order,
    now: DateTime<Utc>,
) -> Result<Shown, Fault> {
    if !order.terms.has_device {
        return Ok(Shown::default());
    }
    let question = Question {
        machine: order.machine.0,
        plots: row.plots.as_array().cloned().unwrap_or_default(),
        start: order.start,
        geofence_m: order.terms.policy.geofence_m,
        now,
    };
    witness.look(&question).await
}

/// Locks the machine and the order, in this order everywhere.
pub(super) async fn locked(
    tx: &mut Connection,
    id: OrderId,
) -> Result<Option<(OrderRow, Order)>, Fault> {
    let Some(machine) = orders::machine_of(tx, id.0).await? else {
        return Ok(None);
    };
    machines::lock(tx, machine).await?;
    let Some(row) = orders::by_id(tx, id.0, &Scope::All, true).await? else {
        return Ok(None);
    };
    let order = of_row(&row)?;
    if order.machine.0 != machine {
        // Moved to another machine between the two looks: that one's lock comes first.
        return Err(Fault::conflict("version_conflict", "the order has changed"));
    }
    Ok(Some((row, order)))
}

async fn step(
    pool: &Pool,
    id: OrderId,
    actor: &Actor,
    shown: &Shown,
    command: &Command,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    let mut tx = pool.begin().await?;
    let (row, order) = locked(&mut tx, id).await?.ok_or_else(Fault::not_found)?;
    let facts = facts(&mut tx, &row, &order, Some(command), shown, now).await?;
    let outcome = decide(&order, command, actor, &facts, now)?;
    let (after, already) = match outcome {
        Outcome::Applied(steps) => {
            apply(&mut tx, &row, &order, &steps, cause, now).await?;
            let last = steps.last().map(|step| step.order.clone());
            (last.unwrap_or(order), false)
        }
        Outcome::AlreadyApplied | Outcome::Skipped | Outcome::Postponed(_) => (order, true),
    };
    tx.commit().await?;
    Ok(Done {
        order: after,
        order_no: row.order_no,
        already,
    })
}

/// What the core must know beside the order. The machine is locked.
pub(super) async fn facts(
    tx: &mut Connection,
    row: &OrderRow,
    order: &Order,
    command: Option<&Command>,
    shown: &Shown,
    now: DateTime<Utc>,
) -> Result<Facts, Fault> {
    let machine = machines::by_id(tx, order.machine.0)
        .await?
        .ok_or_else(Fault::not_found)?;
    let owner = machines::owner_stands(tx, order.organisation.0).await?;
    let mut facts = Facts {
        presence: shown.presence.unwrap_or(Presence::NoDevice),
        arrived: shown.arrived,
        present_min: shown.present_min,
        online: shown.online,
        last_work_at: shown.last_work_at,
        stopped_since: shown.stopped_since,
        other_in_work: orders::other_in_work(tx, order.machine.0, row.id).await?,
        machine_usable: machine.deleted_at.is_none() && !machine.in_repair && owner,
        bill_in_review: super::bills::in_review(tx, row.id, order).await?,
        ..Facts::default()
    };
    if let Some(period) = moved_to(order, command) {
        change(tx, row, order, &period, &mut facts, now).await?;
    }
    Ok(facts)
}

/// The time that a command would give the order: a proposal that is made or answered, an undone finish, a
/// withdrawn dispute.
fn moved_to(order: &Order, command: Option<&Command>) -> Option<(Period, Option<Uuid>)> {
    let of = |proposed: &Proposed| match proposed {
        Proposed::NoFault(_) => None,
        Proposed::Extend { end } => {
            let to = (*end).max(order.period.to());
            Some((Period::new(order.period.from(), to).ok()?, None))
        }
        Proposed::Reschedule {
            period, machine, ..
        } => Some((*period, machine.map(|m| m.0))),
    };
    match command? {
        Command::Propose { proposed, .. } => of(proposed),
        Command::Answer { .. } => of(&order.proposal.as_ref()?.proposed),
        Command::UndoFinish | Command::Withdraw => Some((order.period, None)),
        _ => None,
    }
}

/// Whether the calendar takes a change of time, and what it would cost: by the predicate and the engine of
/// every booking.
async fn change(
    tx: &mut Connection,
    row: &OrderRow,
    order: &Order,
    (period, other): &(Period, Option<Uuid>),
    facts: &mut Facts,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let id = other.unwrap_or(order.machine.0);
    let machine = machines::by_id(tx, id).await?;
    let same_owner = |m: &machines::MachineRow| m.organisation_id == Some(order.organisation.0);
    let Some(machine) = machine.filter(same_owner) else {
        facts.slot_free = false;
        return Ok(());
    };
    let snapshot: Snapshot = serde_json::from_value(row.snapshot.clone())
        .map_err(|e| Fault::Broken(format!("order {}: {e}", row.id)))?;
    let calendar = calendars::load_one(tx, &machine, period, Some(row.id), now).await?;
    let span = quotes::span(&snapshot.rule, &calendar, period);
    // What lies inside the booked time already needs no opening: the owner agreed to it once.
    let inside = order.period.covers(period);
    let busy = calendar.busy.iter().filter(|b| b.period.overlaps(period));
    facts.next_busy_from = busy.map(|b| b.period.from()).min();
    let fits = match span {
        Span::Time if *period == order.period || inside => facts.next_busy_from.is_none(),
        _ => calendar.may_book(period, span).is_ok(),
    };
    facts.slot_free = fits;
    let area = area_centi_mu(row);
    let snapshot = snapshot.moved_to(period);
    let usage = Usage::booked(&snapshot, period, area);
    facts.new_estimate_fen = price(&snapshot, &usage).ok().map(|bill| bill.total_fen);
    Ok(())
}

/// The area that an order was booked for.
pub(super) fn area_centi_mu(row: &OrderRow) -> u64 {
    let plots = row.plots.as_array().map(Vec::as_slice).unwrap_or_default();
    let declared = plots
        .iter()
        .filter_map(|p| p.pointer("/place/area_centi_mu")?.as_u64())
        .sum::<u64>();
    let measured = plots
        .iter()
        .filter_map(|p| p.get("area_e4_m2")?.as_u64())
        .sum();
    declared + furrow_domain::rent::centi_mu_rounded_half_up(measured)
}

/// What a party would pay who ends the order now.
///
/// # Errors
///
/// `not_found`.
pub async fn preview_fee(
    pool: &Pool,
    witness: &dyn Witness,
    who: &Who,
    id: OrderId,
    now: DateTime<Utc>,
) -> Result<Fen, Fault> {
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, &scope(who, Role::Renter), false).await?
    };
    let row = row.ok_or_else(Fault::not_found)?;
    let order = of_row(&row)?;
    who.acting(party(who, &order), order.organisation)?
        .check(&order)?;
    if party(who, &order) == Role::Owner {
        return Ok(owner_penalty(&order, now)?);
    }
    let shown = look(witness, &row, &order, now).await?;
    Ok(renter_fee(&order, shown.arrived, now)?)
}

/// The renter's start code, typed in the field by the owner's side: it is the renter's tap beside the owner's.
///
/// # Errors
///
/// `invalid` for a wrong code, after which a try is gone; `too_many_tries`; those of T12.
pub async fn start_by_code(
    pool: &Pool,
    witness: &dyn Witness,
    who: &Who,
    id: OrderId,
    code: &str,
    photo: bool,
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, &scope(who, Role::Renter), false).await?
    };
    let row = row.ok_or_else(Fault::not_found)?;
    let order = of_row(&row)?;
    let owner = who.acting(party(who, &order), order.organisation)?;
    owner.check(&order)?;
    if owner.role == Role::Renter {
        return Err(Fault::invalid(
            "start_code",
            "is for the owner's side to type",
        ));
    }
    try_code(pool, id, code).await?;
    let shown = look(witness, &row, &order, now).await?;
    let start = Command::Start {
        photo,
        override_reason: None,
        acted_at: None,
    };
    let cause = |role| Cause {
        role,
        account: Some(who.account.0),
        trace_id: who.trace_id.clone(),
    };
    step(pool, id, &owner, &shown, &start, &cause(owner.role), now).await?;
    let renter = Actor {
        role: Role::Renter,
        account: Some(order.renter),
        organisations: vec![],
        permissions: vec![],
    };
    step(pool, id, &renter, &shown, &start, &cause(Role::Renter), now).await
}

async fn try_code(pool: &Pool, id: OrderId, code: &str) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    let hash = code_hash(id.0, code);
    let right = orders::try_start_code(&mut tx, id.0, &hash, CODE_TRIES).await?;
    tx.commit().await?;
    match right {
        Some(true) => Ok(()),
        Some(false) => Err(Fault::invalid("start_code", "is wrong")),
        None => Err(Fault::new(
            Sort::TooMany,
            "too_many_tries",
            "too many wrong start codes",
        )),
    }
}

/// Keeps what one party writes to the other.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn say(
    pool: &Pool,
    who: &Who,
    id: OrderId,
    text: &str,
    now: DateTime<Utc>,
) -> Result<Uuid, Fault> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > 2000 {
        return Err(Fault::invalid("text", "must have 1 to 2,000 characters"));
    }
    let mut tx = pool.begin().await?;
    let row = orders::by_id(&mut tx, id.0, &scope(who, Role::Renter), false).await?;
    row.ok_or_else(Fault::not_found)?;
    let new = MessageRow {
        id: ids::new_id(now),
        account_id: who.account.0,
        text: text.to_owned(),
        created_at: now,
    };
    orders::insert_message(&mut tx, id.0, &new).await?;
    tx.commit().await?;
    Ok(new.id)
}

/// What the parties wrote.
///
/// # Errors
///
/// `not_found`.
pub async fn messages(pool: &Pool, who: &Who, id: OrderId) -> Result<Vec<MessageRow>, Fault> {
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, &scope(who, Role::Renter), false).await?
    };
    row.ok_or_else(Fault::not_found)?;
    Ok(orders::messages(pool, id.0).await?)
}

/// Stands in for a payment provider until there is one: staff confirms an order's payment.
///
/// # Errors
///
/// `not_found`, those of T02.
pub async fn test_pay(
    pool: &Pool,
    who: &Who,
    id: OrderId,
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    who.need("test.pay")?;
    let amount_fen = {
        let mut connection = pool.acquire().await?;
        let row = orders::by_id(&mut connection, id.0, &Scope::All, false).await?;
        of_row(&row.ok_or_else(Fault::not_found)?)?
            .terms
            .payable_fen()
    };
    let cause = Cause {
        role: Role::Provider,
        account: Some(who.account.0),
        trace_id: who.trace_id.clone(),
    };
    let pay = Command::Pay { amount_fen };
    step(
        pool,
        id,
        &Actor::provider(),
        &Shown::default(),
        &pay,
        &cause,
        now,
    )
    .await
}
