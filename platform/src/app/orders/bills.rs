//! Bills of orders: drafted from what was measured, tapped or booked, proposed, objected to, confirmed, looked at by staff; each version kept as it was shown. Never prices: the core does.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    id::OrderId,
    order::{
        Order,
        actor::{Actor, Role},
        command::Command,
        decide,
        decision::{Decision, Outcome},
        facts::Facts,
    },
    rent::{Bill, Snapshot, Unit, Usage, price},
    settlement::{Basis, Draft, DraftError, Items, Measured, Record, draft, review},
};
use serde_json::json;
use uuid::Uuid;

use super::{
    apply::{Cause, apply, json as to_json, of_row},
    command::{Done, area_centi_mu, command, facts, locked, look, party, scope},
};
use crate::{
    app::{
        fault::{Fault, Sort},
        organisations::audit,
        who::Who,
        witness::{Shown, Witness, Work},
    },
    db::{
        Connection, Pool,
        bills::{self, BillRow, ObjectionRow, ReviewRow},
        orders::{self, OrderRow, Scope},
    },
    ids,
};

/// Work may begin so long before one meets.
const EARLY: TimeDelta = TimeDelta::minutes(60);
/// Work that was said to be over is still seen for so long: as long as a finish may be taken back.
const AFTER: TimeDelta = TimeDelta::minutes(10);
/// Where nobody said that it was over, for so long after the booked end.
const LATEST: TimeDelta = TimeDelta::hours(12);
/// Of works by the day only the last so much is read: they are counted by dates, not by the track.
const LAST_DAY: TimeDelta = TimeDelta::hours(24);

impl From<DraftError> for Fault {
    fn from(error: DraftError) -> Self {
        match error {
            DraftError::Item(fault) => Self::invalid(&fault.field, fault.message),
            DraftError::Price(_) | DraftError::Overflow(_) => {
                Self::new(Sort::Invalid, "amount_out_of_range", error.to_string())
            }
        }
    }
}

fn snapshot_of(row: &OrderRow) -> Result<Snapshot, Fault> {
    serde_json::from_value(row.snapshot.clone())
        .map_err(|e| Fault::Broken(format!("order {}: {e}", row.id)))
}

fn estimate_of(row: &OrderRow) -> Result<Bill, Fault> {
    serde_json::from_value(row.estimate.clone())
        .map_err(|e| Fault::Broken(format!("order {}: {e}", row.id)))
}

/// A bill as it was kept.
///
/// # Errors
///
/// Our own: a document that this build cannot read.
pub fn draft_of(row: &BillRow) -> Result<Draft, Fault> {
    serde_json::from_value(row.doc.clone())
        .map_err(|e| Fault::Broken(format!("bill version {}: {e}", row.version)))
}

/// What the track shows of an order's work. Read before anything is locked.
pub(super) async fn measure(
    pool: &Pool,
    witness: &dyn Witness,
    row: &OrderRow,
    order: &Order,
    now: DateTime<Utc>,
) -> Result<Option<Measured>, Fault> {
    let Some(started) = order.started_at.filter(|_| order.terms.has_device) else {
        return Ok(None);
    };
    let next = {
        let mut connection = pool.acquire().await?;
        let (machine, after) = (order.machine.0, order.period.to());
        bills::next_busy(&mut connection, machine, row.id, after).await?
    };
    // A finish at the very end of the booked time is the clock's: nobody was there to say when it was.
    let finished = order.finished_at.unwrap_or(now);
    let seen = if finished == order.end {
        finished + LATEST
    } else {
        finished + AFTER
    };
    let to = seen.min(next.unwrap_or(seen)).min(now);
    let by_days = match snapshot_of(row)?.rule.unit {
        Unit::Mu | Unit::Hour => false,
        Unit::Day | Unit::HalfDay | Unit::Season => true,
    };
    let whole = started.min(order.start - EARLY);
    let from = if by_days {
        whole.max(to - LAST_DAY)
    } else {
        whole
    };
    let work = Work {
        machine: order.machine.0,
        plots: row.plots.as_array().cloned().unwrap_or_default(),
        geofence_m: order.terms.policy.geofence_m,
        zone: order.terms.zone,
        from,
        to,
    };
    let mut measured = witness.measure(&work).await?;
    if let Some(measured) = measured.as_mut().filter(|_| from > whole) {
        // Its coming lies before what was read.
        measured.arrived = None;
    }
    Ok(measured)
}

/// The bill of an order with what its owner puts beside it.
fn drafted(
    row: &OrderRow,
    order: &Order,
    measured: Option<Measured>,
    items: &Items,
    now: DateTime<Utc>,
) -> Result<Draft, Fault> {
    let area = area_centi_mu(row);
    let mut record = Record::of(order, area, measured, now);
    // A place without an outline clips nothing: what was measured around it needs the renter's word.
    let plots = row.plots.as_array().map(Vec::as_slice).unwrap_or_default();
    record.needs_word |= plots.iter().any(|plot| plot.get("outline").is_none());
    let (snapshot, estimate) = terms_of(row, order, area)?;
    Ok(draft(&snapshot, &estimate, &record, items)?)
}

/// What the order is priced by and was estimated at: for the time that both have agreed to last.
fn terms_of(row: &OrderRow, order: &Order, area: u64) -> Result<(Snapshot, Bill), Fault> {
    let snapshot = snapshot_of(row)?;
    if order.epoch <= 1 {
        return Ok((snapshot, estimate_of(row)?));
    }
    let snapshot = snapshot.moved_to(&order.period);
    let booked = Usage::booked(&snapshot, &order.period, area);
    let estimate = price(&snapshot, &booked).map_err(DraftError::from)?;
    Ok((snapshot, estimate))
}

/// J10: the bill that the system proposes.
pub(super) async fn propose_by_clock(
    tx: &mut Connection,
    row: &OrderRow,
    order: &Order,
    measured: Option<Measured>,
    facts: &Facts,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<Outcome, Fault> {
    use furrow_domain::order::status::{Phase, Status};
    let waits =
        order.status == Status::PendingSettlement && order.phase == Some(Phase::AwaitingBill);
    if !waits {
        return Ok(Outcome::Skipped);
    }
    let drafted = drafted(row, order, measured, &Items::default(), now)?;
    let actor = Actor::system();
    let outcome = proposed(order, &drafted, &actor, facts, now)?;
    if let Outcome::Applied(steps) = &outcome {
        apply(tx, row, order, steps, cause, now).await?;
        keep(tx, row, steps, &drafted, cause, now).await?;
    }
    Ok(outcome)
}

fn proposed(
    order: &Order,
    drafted: &Draft,
    actor: &Actor,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Result<Outcome, Fault> {
    let bill = drafted.sum();
    Ok(decide(
        order,
        &Command::ProposeBill { bill },
        actor,
        facts,
        now,
    )?)
}

/// Keeps the version that a step has proposed, and puts it before staff where it is over the bounds.
async fn keep(
    tx: &mut Connection,
    row: &OrderRow,
    steps: &[Decision],
    drafted: &Draft,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let Some(step) = steps.last() else {
        return Ok(());
    };
    let bill = step
        .order
        .bill
        .ok_or_else(|| Fault::Broken("a bill was proposed and is none".into()))?;
    let version = i32::try_from(bill.version).unwrap_or(i32::MAX);
    let others = drafted.lines.iter().flat_map(|line| &line.evidence);
    let uploads = others.filter_map(|evidence| match evidence {
        furrow_domain::settlement::Evidence::Upload { id } => Some(*id),
        furrow_domain::settlement::Evidence::Track { .. }
        | furrow_domain::settlement::Evidence::Steps
        | furrow_domain::settlement::Evidence::Booking
        | furrow_domain::settlement::Evidence::Rule => None,
    });
    let damage = drafted
        .damage
        .iter()
        .flat_map(|line| line.evidence.iter().copied());
    let new = BillRow {
        version,
        proposed_at: now,
        proposed_as: to_json(&cause.role)?
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        proposed_by: cause.account,
        basis: drafted.basis.name().to_owned(),
        mark: drafted.mark.name().to_owned(),
        total_fen: drafted.total_fen.0,
        commission_base_fen: drafted.commission_base_fen.0,
        commission_fen: drafted.commission_fen.0,
        damage_fen: drafted.damage_fen.0,
        needs_consent: bill.sum.needs_consent,
        evidence: uploads.chain(damage).collect(),
        doc: to_json(drafted)?,
        trace_id: cause.trace_id.clone(),
    };
    bills::insert(tx, row.id, &new).await?;
    let terms = &step.order.terms;
    let reasons = review(&terms.policy, terms.estimate_fen, drafted.total_fen)?;
    if !reasons.is_empty() {
        bills::insert_review(tx, row.id, version, &to_json(&reasons)?, now).await?;
    }
    Ok(())
}

/// An order that somebody acts on, read before anything is locked.
async fn seen(pool: &Pool, who: &Who, id: OrderId) -> Result<(OrderRow, Order, Actor), Fault> {
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, &scope(who, Role::Renter), false).await?
    };
    let row = row.ok_or_else(Fault::not_found)?;
    let order = of_row(&row)?;
    let actor = who.acting(party(who, &order), order.organisation)?;
    actor.check(&order)?;
    Ok((row, order, actor))
}

fn by(who: &Who, actor: &Actor) -> Cause {
    Cause {
        role: actor.role,
        account: Some(who.account.0),
        trace_id: who.trace_id.clone(),
    }
}

/// What an owner's bill would be, before it is proposed.
///
/// # Errors
///
/// `not_found`, `invalid`; `illegal_transition` before work has begun.
pub async fn preview(
    pool: &Pool,
    witness: &dyn Witness,
    who: &Who,
    id: OrderId,
    items: &Items,
    now: DateTime<Utc>,
) -> Result<Draft, Fault> {
    let (row, order, actor) = seen(pool, who, id).await?;
    if actor.role != Role::Owner {
        return Err(not_the_owner());
    }
    if order.started_at.is_none() {
        return Err(furrow_domain::order::refusal::Refusal::IllegalTransition(order.status).into());
    }
    let measured = measure(pool, witness, &row, &order, now).await?;
    drafted(&row, &order, measured, items, now)
}

/// T19: the owner proposes a bill with what he puts beside what was measured, and knows (`ask`) that a claim
/// which is not as measured waits for the renter's yes.
///
/// # Errors
///
/// `not_found`, `invalid`, `consent_needed` with both areas, those of T19.
pub async fn propose(
    pool: &Pool,
    witness: &dyn Witness,
    who: &Who,
    (id, staff): (OrderId, bool),
    (items, ask): (&Items, bool),
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    if staff {
        return Err(not_the_owner());
    }
    let (row, order, actor) = seen(pool, who, id).await?;
    let shown = look(witness, &row, &order, now).await?;
    let measured = measure(pool, witness, &row, &order, now).await?;
    let cause = by(who, &actor);
    let mut tx = pool.begin().await?;
    let (row, order) = locked(&mut tx, id).await?.ok_or_else(Fault::not_found)?;
    let facts = facts(&mut tx, &row, &order, None, &shown, now).await?;
    let drafted = drafted(&row, &order, measured, items, now)?;
    if drafted.basis == Basis::Claimed && !ask {
        return Err(Fault::Refused {
            sort: Sort::Invalid,
            code: "consent_needed",
            detail: "the claim is not as measured: say that it waits for the renter's yes".into(),
            data: json!({ "field": "ask_consent", "check": drafted.check }),
        });
    }
    let outcome = proposed(&order, &drafted, &actor, &facts, now)?;
    let (done, steps) = carry(&mut tx, &row, order, outcome, &cause, now).await?;
    if !done.already {
        keep(&mut tx, &row, &steps, &drafted, &cause, now).await?;
    }
    tx.commit().await?;
    Ok(done)
}

fn not_the_owner() -> Fault {
    Fault::new(Sort::Forbidden, "forbidden", "only the owner makes a bill")
}

/// Writes an outcome down.
async fn carry(
    tx: &mut Connection,
    row: &OrderRow,
    order: Order,
    outcome: Outcome,
    cause: &Cause,
    now: DateTime<Utc>,
) -> Result<(Done, Vec<Decision>), Fault> {
    let steps = match outcome {
        Outcome::Applied(steps) => steps,
        Outcome::AlreadyApplied | Outcome::Skipped | Outcome::Postponed(_) => vec![],
    };
    apply(tx, row, &order, &steps, cause, now).await?;
    let done = Done {
        already: steps.is_empty(),
        order: steps.last().map_or(order, |step| step.order.clone()),
        order_no: row.order_no.clone(),
    };
    Ok((done, steps))
}

/// The proposed version of an order's bill as it was kept.
async fn current(pool: &Pool, order: &Order) -> Result<Option<BillRow>, Fault> {
    let mut connection = pool.acquire().await?;
    let version = i32::try_from(order.bill_versions).unwrap_or(i32::MAX);
    Ok(bills::version(&mut connection, order.id.0, version).await?)
}

/// T19b: the renter objects, to all of it or to some lines.
///
/// # Errors
///
/// `not_found`, `invalid` for a line that is not there, those of T19b.
pub async fn object(
    pool: &Pool,
    witness: &dyn Witness,
    who: &Who,
    (id, staff): (OrderId, bool),
    (text, lines): (&str, &[u32]),
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    let order = any(pool, who, id, staff).await?;
    let role = if staff {
        Role::Admin
    } else {
        party(who, &order)
    };
    let actor = who.acting(role, order.organisation)?;
    let row = orders_row(pool, id).await?;
    let shown = look(witness, &row, &order, now).await?;
    let mut tx = pool.begin().await?;
    let (row, order) = locked(&mut tx, id).await?.ok_or_else(Fault::not_found)?;
    let facts = facts(&mut tx, &row, &order, None, &shown, now).await?;
    let object = Command::ObjectBill {
        text: text.to_owned(),
    };
    let outcome = decide(&order, &object, &actor, &facts, now)?;
    let version = i32::try_from(order.bill_versions).unwrap_or(i32::MAX);
    let against = bills::version(&mut tx, id.0, version).await?;
    let (done, _) = carry(&mut tx, &row, order, outcome, &by(who, &actor), now).await?;
    if let Some(against) = against.filter(|_| !done.already) {
        let count = u32::try_from(draft_of(&against)?.lines.len()).unwrap_or(u32::MAX);
        if lines.iter().any(|number| !(1..=count).contains(number)) {
            return Err(Fault::invalid("lines", "names a line that is not there"));
        }
        let new = ObjectionRow {
            id: ids::new_id(now),
            version,
            account_id: who.account.0,
            at: now,
            text: text.trim().to_owned(),
            lines: lines
                .iter()
                .filter_map(|n| i32::try_from(*n).ok())
                .collect(),
        };
        bills::insert_objection(&mut tx, id.0, &new).await?;
    }
    tx.commit().await?;
    Ok(done)
}

async fn orders_row(pool: &Pool, id: OrderId) -> Result<OrderRow, Fault> {
    let mut connection = pool.acquire().await?;
    let row = orders::by_id(&mut connection, id.0, &Scope::All, false).await?;
    row.ok_or_else(Fault::not_found)
}

/// An order as its party, or staff, may see it.
async fn any(pool: &Pool, who: &Who, id: OrderId, staff: bool) -> Result<Order, Fault> {
    let role = if staff { Role::Admin } else { Role::Renter };
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, &scope(who, role), false).await?
    };
    of_row(&row.ok_or_else(Fault::not_found)?)
}

/// T20: the renter confirms the version that was shown, and says yes to each line that needs it.
///
/// # Errors
///
/// `not_found`; `consent_missing` with the lines; those of T20.
pub async fn confirm(
    pool: &Pool,
    witness: &dyn Witness,
    who: &Who,
    (id, staff): (OrderId, bool),
    (version, consents): (u32, &[u32]),
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    let order = any(pool, who, id, staff).await?;
    // A version never changes: what is read here is what is confirmed below, or that one says so.
    if order.bill_versions == version
        && let Some(row) = current(pool, &order).await?
    {
        let needed = draft_of(&row)?.consent_lines();
        let missing: Vec<u32> = needed
            .into_iter()
            .filter(|n| !consents.contains(n))
            .collect();
        if !missing.is_empty() {
            return Err(Fault::Refused {
                sort: Sort::Invalid,
                code: "consent_missing",
                detail: "some lines need your own yes".into(),
                data: json!({ "field": "consents", "lines": missing }),
            });
        }
    }
    let confirm = Command::ConfirmBill { version };
    command(pool, witness, who, id, staff, &confirm, now).await
}

/// All versions of an order's bill, the newest first, and what was said against them.
///
/// # Errors
///
/// `not_found`.
pub async fn versions(
    pool: &Pool,
    scope: &Scope,
    id: OrderId,
) -> Result<(Order, Vec<BillRow>, Vec<ObjectionRow>), Fault> {
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, scope, false).await?
    };
    let order = of_row(&row.ok_or_else(Fault::not_found)?)?;
    let versions = bills::versions(pool, id.0).await?;
    let objections = bills::objections(pool, id.0).await?;
    Ok((order, versions, objections))
}

/// Bills that wait for staff, the oldest first.
///
/// # Errors
///
/// `not_found` without the permission.
pub async fn reviews(pool: &Pool, who: &Who) -> Result<Vec<ReviewRow>, Fault> {
    who.need("bill.review")?;
    Ok(bills::open_reviews(pool, 200).await?)
}

/// Staff passes a bill, or sends it back to the owner.
///
/// # Errors
///
/// `not_found`, also where nothing waits; `conflict_of_interest`; `version_conflict`; those of T19.
pub async fn decide_review(
    pool: &Pool,
    who: &Who,
    (id, version): (OrderId, u32),
    (passed, note): (bool, &str),
    now: DateTime<Utc>,
) -> Result<Done, Fault> {
    who.need("bill.review")?;
    let note = note.trim();
    if !(1..=2000).contains(&note.chars().count()) {
        return Err(Fault::invalid("note", "must have 1 to 2,000 characters"));
    }
    let mut tx = pool.begin().await?;
    let (row, order) = locked(&mut tx, id).await?.ok_or_else(Fault::not_found)?;
    let actor = who.acting(Role::Admin, order.organisation)?;
    actor.check(&order)?;
    if order.bill_versions != version {
        return Err(Fault::conflict("version_conflict", "there is a newer bill"));
    }
    let facts = facts(&mut tx, &row, &order, None, &Shown::default(), now).await?;
    if !facts.bill_in_review {
        return Err(Fault::not_found());
    }
    let outcome = if passed {
        Outcome::Skipped
    } else {
        let back = Command::ReturnBill {
            reason: note.to_owned(),
        };
        decide(&order, &back, &actor, &facts, now)?
    };
    let (mut done, _) = carry(&mut tx, &row, order, outcome, &by(who, &actor), now).await?;
    done.already = false;
    let number = i32::try_from(version).unwrap_or(i32::MAX);
    bills::decide_review(&mut tx, id.0, number, passed, note, who.account.0, now).await?;
    let what = json!({ "version": version, "passed": passed, "note": note });
    audit(&mut tx, who, "bill.reviewed", &id.0.to_string(), what, now).await?;
    tx.commit().await?;
    Ok(done)
}

/// Whether the proposed bill of an order waits for staff.
pub(super) async fn in_review(tx: &mut Connection, id: Uuid, order: &Order) -> Result<bool, Fault> {
    let Some(bill) = order.bill else {
        return Ok(false);
    };
    let version = i32::try_from(bill.version).unwrap_or(i32::MAX);
    Ok(bills::in_review(tx, id, version).await?)
}
