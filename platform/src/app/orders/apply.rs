//! What a decision says, written down: the order, its event, its slot, its timers, its notices. Never decides.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    order::{
        Order,
        actor::Role,
        decision::{Decision, Outcome},
        effect::{Effect, SlotChange, TimerKind},
        facts::Facts,
        fire,
    },
    period::Period,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    app::{
        devices::hash,
        fault::Fault,
        machines::taken,
        notices::{self, About},
    },
    db::{
        Connection, machines,
        orders::{self, EventRow, OrderColumns, OrderRow, Scope, SlotUpdate},
        timers,
    },
    ids,
};

/// Owners with three strikes in so long are suspended.
const STRIKES: TimeDelta = TimeDelta::days(90);

/// Who and what caused a step.
#[derive(Debug, Clone)]
pub struct Cause {
    /// As what.
    pub role: Role,
    /// Who; none for the clock.
    pub account: Option<Uuid>,
    /// By which the logs know it.
    pub trace_id: String,
}

impl Cause {
    /// The clock, in the trace of what planned it.
    #[must_use]
    pub fn system(trace_id: &str) -> Self {
        Self {
            role: Role::System,
            account: None,
            trace_id: trace_id.to_owned(),
        }
    }
}

/// The order of a row.
///
/// # Errors
///
/// Our own: a document that this build cannot read.
pub fn of_row(row: &OrderRow) -> Result<Order, Fault> {
    serde_json::from_value(row.doc.clone())
        .map_err(|e| Fault::Broken(format!("order {}: {e}", row.id)))
}

/// The columns of an order: written from here and nowhere else.
pub(super) fn columns(order: &Order) -> OrderColumns {
    OrderColumns {
        renter: order.renter.0,
        organisation: order.organisation.0,
        machine: order.machine.0,
        status: order.status.name(),
        version: i32::try_from(order.version).unwrap_or(i32::MAX),
        epoch: i32::try_from(order.epoch).unwrap_or(i32::MAX),
        starts_at: order.start,
        ends_at: order.end,
    }
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<Value, Fault> {
    serde_json::to_value(value).map_err(|e| Fault::Broken(e.to_string()))
}

/// Writes decisions down, one after another, in the transaction that holds the machine and the order.
///
/// # Errors
///
/// `version_conflict`, `slot_taken`.
pub(super) async fn apply(
    tx: &mut Connection,
    row: &OrderRow,
    before: &Order,
    steps: &[Decision],
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let mut seen = before.version;
    for step in steps {
        if step.order.version != seen {
            write(tx, row, step, seen, cause, now).await?;
            seen = step.order.version;
        }
        for effect in &step.effects {
            carry_out(tx, row, step, effect, cause, now).await?;
        }
    }
    Ok(())
}

async fn write(
    tx: &mut Connection,
    row: &OrderRow,
    step: &Decision,
    seen: u32,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let columns = columns(&step.order);
    let seen = i32::try_from(seen).unwrap_or(i32::MAX);
    let doc = json(&step.order)?;
    if !orders::update(tx, row.id, seen, &columns, &doc, now).await? {
        return Err(Fault::conflict("version_conflict", "the order has changed"));
    }
    orders::insert_event(tx, row.id, &event(step, cause, now)?).await?;
    Ok(())
}

pub(super) fn event(step: &Decision, cause: &Cause, now: DateTime<Utc>) -> Result<EventRow, Fault> {
    Ok(EventRow {
        seq: i32::try_from(step.order.version).unwrap_or(i32::MAX),
        at: now,
        transition: step.transition.to_owned(),
        from_status: step.from.name().to_owned(),
        to_status: step.order.status.name().to_owned(),
        actor_role: json(&cause.role)?.as_str().unwrap_or_default().to_owned(),
        actor_id: cause.account,
        reason: step.reason.clone(),
        trace_id: cause.trace_id.clone(),
        effects: json(&step.effects)?,
    })
}

async fn carry_out(
    tx: &mut Connection,
    row: &OrderRow,
    step: &Decision,
    effect: &Effect,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let order = &step.order;
    match effect {
        Effect::Slot(change) => slot(tx, order, *change, step.transition, now).await,
        Effect::Plan(kind, due) => {
            let epoch = i32::try_from(order.epoch).unwrap_or(i32::MAX);
            let id = ids::new_id(now);
            let trace = &cause.trace_id;
            timers::plan(tx, id, row.id, kind.name(), epoch, *due, trace).await?;
            Ok(())
        }
        Effect::Clear(kinds) => {
            let names: Vec<String> = kinds.iter().map(|k| k.name().to_owned()).collect();
            timers::clear(tx, row.id, &names, now).await?;
            Ok(())
        }
        Effect::Notice(to, kind) => {
            notices::tell(tx, about(row, step, cause), *to, *kind, &Value::Null, now).await
        }
        Effect::IssueStartCode => start_code(tx, row, step, cause, now).await,
        Effect::Strike => {
            let organisation = order.organisation.0;
            orders::insert_strike(tx, organisation, row.id, now).await?;
            orders::suspend_after_strikes(tx, organisation, now - STRIKES, now).await?;
            Ok(())
        }
        // Amounts stand in the order's document and in its event; the ledger posts them from there.
        Effect::Money(_) | Effect::CloseAtProvider => Ok(()),
    }
}

async fn slot(
    tx: &mut Connection,
    order: &Order,
    change: SlotChange,
    transition: &'static str,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let update = match change {
        SlotChange::Book => SlotUpdate::Book,
        SlotChange::Release => SlotUpdate::Release(now, transition),
        SlotChange::TrimTo(to) => SlotUpdate::TrimTo(to),
        SlotChange::WidenFrom(from) => SlotUpdate::WidenFrom(from),
        SlotChange::MoveTo { period, machine } => {
            let machine = machine.unwrap_or(order.machine);
            // Whoever holds an expired hold in the way loses it first.
            purge(tx, machine.0, &period, "move", now).await?;
            SlotUpdate::MoveTo(machine.0, period.from(), period.to())
        }
    };
    let changed = orders::update_slot(tx, order.id.0, &update)
        .await
        .map_err(taken)?;
    if changed {
        Ok(())
    } else {
        Err(Fault::Broken(format!(
            "order {} has no live slot",
            order.id
        )))
    }
}

/// Six digits that the renter shows in the field; only their hash is kept.
async fn start_code(
    tx: &mut Connection,
    row: &OrderRow,
    step: &Decision,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    use furrow_domain::order::effect::{NoticeKind, Recipient};
    let code = format!("{:06}", u32::from_be_bytes(ids::secret()) % 1_000_000);
    orders::set_start_code(tx, row.id, &code_hash(row.id, &code)).await?;
    let more = json!({ "start_code": code });
    let about = about(row, step, cause);
    notices::tell(
        tx,
        about,
        Recipient::Renter,
        NoticeKind::Accepted,
        &more,
        now,
    )
    .await
}

const fn about<'a>(row: &'a OrderRow, step: &'a Decision, cause: &'a Cause) -> About<'a> {
    About {
        order: &step.order,
        step: step.transition,
        order_no: row.order_no.as_str(),
        trace_id: cause.trace_id.as_str(),
    }
}

pub(super) fn code_hash(order: Uuid, code: &str) -> [u8; 32] {
    hash(format!("{order}:{}", code.trim()).as_bytes())
}

/// Closes the orders whose holds have expired and lie in the way. The machine is locked. The slot is free
/// in the same commit as whatever takes it.
///
/// # Errors
///
/// The database.
pub async fn purge(
    tx: &mut Connection,
    machine: Uuid,
    period: &Period,
    trace_id: &str,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let stale = machines::expired_holds(tx, machine, period.from(), period.to(), now).await?;
    for id in stale {
        let Some(row) = orders::by_id(tx, id, &Scope::All, true).await? else {
            continue;
        };
        let order = of_row(&row)?;
        let facts = Facts::default();
        if let Outcome::Applied(steps) = fire(&order, TimerKind::J1, &facts, now)? {
            let cause = Cause::system(trace_id);
            // A closed order releases its slot and moves none: this does not come back here.
            Box::pin(apply(tx, &row, &order, &steps, &cause, now)).await?;
        }
    }
    Ok(())
}
