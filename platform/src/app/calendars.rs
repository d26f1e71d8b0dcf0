//! Machines' calendars as the core takes them, read with one instant for all. Search, quote, booking and calendar read them here and nowhere else.

use std::collections::HashMap;

use chrono::{DateTime, Days, TimeDelta, Utc, Weekday};
use chrono_tz::Tz;
use furrow_domain::{
    availability::{Busy, Calendar, Exception, Taken, Weekly},
    period::Period,
};
use uuid::Uuid;

use super::fault::Fault;
use crate::db::{
    Connection,
    machines::{self, MachineRow, SlotRow},
};

const WEEK: [Weekday; 7] = [
    Weekday::Mon,
    Weekday::Tue,
    Weekday::Wed,
    Weekday::Thu,
    Weekday::Fri,
    Weekday::Sat,
    Weekday::Sun,
];

/// A machine's zone.
///
/// # Errors
///
/// Our own: a zone that this build does not know.
pub fn zone(machine: &MachineRow) -> Result<Tz, Fault> {
    machine.zone.parse().map_err(|_| {
        Fault::Broken(format!(
            "machine {} has the zone {}",
            machine.id, machine.zone
        ))
    })
}

/// The calendars of machines around a time, as they are at `now`: an expired hold is no obstacle.
///
/// # Errors
///
/// The database.
pub async fn load(
    tx: &mut Connection,
    of: &[MachineRow],
    around: &Period,
    now: DateTime<Utc>,
) -> Result<HashMap<Uuid, Calendar>, Fault> {
    let ids: Vec<Uuid> = of.iter().map(|m| m.id).collect();
    // A local date lies within a day of UTC's; units reach to the ends of their dates.
    let (from, to) = (
        around.from() - TimeDelta::days(2),
        around.to() + TimeDelta::days(2),
    );
    let (weekly, exceptions) =
        machines::availability(tx, &ids, from.date_naive(), to.date_naive() + Days::new(1)).await?;
    let slots = machines::slots(tx, &ids, from, to, now).await?;
    let mut calendars = HashMap::with_capacity(of.len());
    for machine in of {
        let calendar = Calendar {
            zone: zone(machine)?,
            weekly: vec![],
            exceptions: vec![],
            busy: vec![],
        };
        calendars.insert(machine.id, calendar);
    }
    for (machine, weekday, start, end) in weekly {
        let day = usize::try_from(weekday).ok().and_then(|d| WEEK.get(d));
        if let (Some(calendar), Some(weekday)) = (calendars.get_mut(&machine), day) {
            calendar.weekly.push(Weekly {
                weekday: *weekday,
                start_min: start.unsigned_abs(),
                end_min: end.unsigned_abs(),
            });
        }
    }
    for (machine, day, start, end, open) in exceptions {
        if let Some(calendar) = calendars.get_mut(&machine) {
            calendar.exceptions.push(Exception {
                day,
                start_min: start.unsigned_abs(),
                end_min: end.unsigned_abs(),
                open,
            });
        }
    }
    for slot in &slots {
        if let Some(calendar) = calendars.get_mut(&slot.machine_id) {
            calendar.busy.extend(busy(slot));
        }
    }
    Ok(calendars)
}

fn busy(slot: &SlotRow) -> Option<Busy> {
    Some(Busy {
        period: Period::new(slot.starts_at, slot.ends_at).ok()?,
        taken: match slot.kind.as_str() {
            "hold" => Taken::Hold,
            "block" => Taken::Block,
            _ => Taken::Booking,
        },
    })
}

/// One machine's calendar, without an order's own slot where one asks to move it.
///
/// # Errors
///
/// The database.
pub async fn load_one(
    tx: &mut Connection,
    machine: &MachineRow,
    around: &Period,
    without: Option<Uuid>,
    now: DateTime<Utc>,
) -> Result<Calendar, Fault> {
    let of = std::slice::from_ref(machine);
    let mut calendar = load(tx, of, around, now)
        .await?
        .remove(&machine.id)
        .ok_or_else(|| Fault::Broken("a calendar is missing".into()))?;
    if let Some(order) = without {
        let (from, to) = (
            around.from() - TimeDelta::days(2),
            around.to() + TimeDelta::days(2),
        );
        let slots = machines::slots(tx, &[machine.id], from, to, now).await?;
        let others = slots.iter().filter(|s| s.order_id != Some(order));
        calendar.busy = others.filter_map(busy).collect();
    }
    Ok(calendar)
}
