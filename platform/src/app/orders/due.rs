//! What is due: a leased timer, its order locked and looked at again, one step, one commit. A stale one ends as skipped.

use chrono::{DateTime, Utc};
use furrow_domain::{
    id::OrderId,
    order::{decision::Outcome, effect::TimerKind, fire},
};
use uuid::Uuid;

use super::{
    apply::{Cause, apply, of_row},
    bills,
    command::{facts, locked, look},
};
use crate::{
    app::{fault::Fault, witness::Witness},
    db::{
        Pool,
        orders::{self, Scope},
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
    let order = of_row(&row)?;
    let shown = look(witness, &row, &order, now).await?;
    let measured = match TimerKind::of_name(&timer.kind) {
        Some(TimerKind::J10) => bills::measure(pool, witness, &row, &order, now).await?,
        _ => None,
    };
    let mut tx = pool.begin().await?;
    let Some((row, order)) = locked(&mut tx, id).await? else {
        return Ok(());
    };
    let (outcome, again) = match TimerKind::of_name(&timer.kind) {
        Some(kind) if i64::from(timer.epoch) == i64::from(order.epoch) || !of_epoch(kind) => {
            let facts = facts(&mut tx, &row, &order, None, &shown, now).await?;
            let cause = Cause::system(&timer.trace_id);
            let outcome = match kind {
                TimerKind::J10 => {
                    let measured = measured.clone();
                    bills::propose_by_clock(&mut tx, &row, &order, measured, &facts, &cause, now)
                        .await?
                }
                _ => {
                    let outcome = fire(&order, kind, &facts, now)?;
                    if let Outcome::Applied(steps) = &outcome {
                        apply(&mut tx, &row, &order, steps, &cause, now).await?;
                    }
                    outcome
                }
            };
            match outcome {
                Outcome::Applied(_) => ("done", None),
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
