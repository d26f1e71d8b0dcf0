//! What is due: a leased timer, its order locked and looked at again, one step, one commit. A stale one ends as skipped.

use chrono::{DateTime, Utc};
use furrow_domain::{
    id::OrderId,
    order::{
        Order,
        actor::Actor,
        command::{BillSum, Command},
        decide,
        decision::Outcome,
        effect::TimerKind,
        fire,
        status::{Phase, Status},
    },
    rent::Bill,
};
use uuid::Uuid;

use super::{
    apply::{Cause, apply, of_row},
    command::{facts, locked, look},
};
use crate::{
    app::{fault::Fault, witness::Witness},
    db::{
        Pool,
        orders::{self, OrderRow, Scope},
        timers::{self, TimerRow},
    },
};

/// A timer that failed so often waits for a person.
pub const MOST_TRIES: i32 = 8;

/// Carries out a leased timer. Whoever lost the lease meanwhile writes nothing.
///
/// # Errors
///
/// The database, or what the core refuses: the timer is tried again.
pub async fn due(
    pool: &Pool,
    witness: &dyn Witness,
    timer: &TimerRow,
    token: Uuid,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let id = OrderId(timer.order_id);
    let row = {
        let mut connection = pool.acquire().await?;
        orders::by_id(&mut connection, id.0, &Scope::All, false).await?
    };
    let row = row.ok_or_else(|| Fault::Broken(format!("timer {} has no order", timer.id)))?;
    let shown = look(witness, &row, &of_row(&row)?, now).await?;
    let mut tx = pool.begin().await?;
    let Some((row, order)) = locked(&mut tx, id).await? else {
        return Ok(());
    };
    let (outcome, again) = match TimerKind::of_name(&timer.kind) {
        Some(kind) if i64::from(timer.epoch) == i64::from(order.epoch) || !of_epoch(kind) => {
            let facts = facts(&mut tx, &row, &order, None, &shown, now).await?;
            let outcome = match kind {
                TimerKind::J10 => draft_bill(&row, &order, &facts, now)?,
                _ => fire(&order, kind, &facts, now)?,
            };
            let cause = Cause::system(&timer.trace_id);
            match outcome {
                Outcome::Applied(steps) => {
                    apply(&mut tx, &row, &order, &steps, &cause, now).await?;
                    ("done", None)
                }
                Outcome::Postponed(again) => ("postponed", Some(again)),
                Outcome::AlreadyApplied | Outcome::Skipped => ("skipped", None),
            }
        }
        Some(_) => ("skipped", None),
        None => ("unknown", None),
    };
    // A step may have planned this very timer anew; then the lease is gone and its new time stands.
    timers::end(&mut tx, timer.id, token, outcome, again, now).await?;
    tx.commit().await?;
    metrics::counter!("furrow_timers_total", "kind" => timer.kind.clone(), "outcome" => outcome)
        .increment(1);
    Ok(())
}

/// Reminders belong to one epoch of the order's time; ends belong to the order.
const fn of_epoch(kind: TimerKind) -> bool {
    matches!(
        kind,
        TimerKind::J2
            | TimerKind::J3
            | TimerKind::J4
            | TimerKind::J5Day
            | TimerKind::J5Hours
            | TimerKind::J5b
            | TimerKind::J6
            | TimerKind::J7Flag
            | TimerKind::J7Close
            | TimerKind::J8
            | TimerKind::J8b
            | TimerKind::J9
    )
}

/// J10: the bill that the system proposes: what was booked, as long as nothing better is measured.
fn draft_bill(
    row: &OrderRow,
    order: &Order,
    facts: &furrow_domain::order::facts::Facts,
    now: DateTime<Utc>,
) -> Result<Outcome, Fault> {
    let waits =
        order.status == Status::PendingSettlement && order.phase == Some(Phase::AwaitingBill);
    if !waits {
        return Ok(Outcome::Skipped);
    }
    let estimate: Bill = serde_json::from_value(row.estimate.clone())
        .map_err(|e| Fault::Broken(format!("order {}: {e}", row.id)))?;
    let bill = BillSum {
        total_fen: estimate.total_fen,
        commission_fen: estimate.commission_fen,
        damage_fen: furrow_domain::money::Fen::ZERO,
        needs_consent: false,
        silent: None,
    };
    let propose = Command::ProposeBill { bill };
    Ok(decide(order, &propose, &Actor::system(), facts, now)?)
}
