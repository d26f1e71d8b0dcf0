//! Machines of owners: details, rules, weeks, blocks, listing, audit, removal.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    availability::check_minutes, id::OrganisationId, order::create::LONGEST, period::Period,
    rent::Rule,
};
use serde_json::json;
use uuid::Uuid;

use super::{accounts::normal_name, fault::Fault, organisations::audit, who::Who};
use crate::{
    db::{
        Connection, DbError, Pool,
        machines::{self, ExceptionRow, MachineDetails, MachineRow, NewSlot, Standing, WeeklyRow},
    },
    ids,
};

/// Most openings of a week, most exceptions, most crops.
const MOST: usize = 400;

fn check(details: &MachineDetails) -> Result<(), Fault> {
    normal_name("name", &details.name, 60)?;
    let lawful = |field: &str, text: &str, most: usize| {
        if text.chars().count() > most || text.chars().any(char::is_control) {
            return Err(Fault::invalid(
                field,
                format!("must have at most {most} characters"),
            ));
        }
        Ok(())
    };
    normal_name("machine_type", &details.machine_type, 40)?;
    for (field, text) in [
        ("brand", &details.brand),
        ("model", &details.model),
        ("region", &details.region),
    ] {
        lawful(field, text, 60)?;
    }
    if !(10..=10_000).contains(&details.working_width_cm) {
        return Err(Fault::invalid(
            "working_width_cm",
            "must lie between 10 and 10,000",
        ));
    }
    if !(0..=1_000_000).contains(&details.capacity_centi_mu_h) {
        return Err(Fault::invalid(
            "capacity_centi_mu_h",
            "must lie between 0 and 1,000,000",
        ));
    }
    if !(-850_000_000..=850_000_000).contains(&details.home_lat_e7)
        || !(-1_800_000_000..=1_800_000_000).contains(&details.home_lon_e7)
    {
        return Err(Fault::invalid("home", "is no place"));
    }
    if details.crops.len() > MOST {
        return Err(Fault::invalid("crops", "are too many"));
    }
    for crop in &details.crops {
        lawful("crops", crop, 40)?;
    }
    if details.zone.parse::<chrono_tz::Tz>().is_err() {
        return Err(Fault::invalid("zone", "is no time zone"));
    }
    Ok(())
}

/// A new machine of an organisation; not listed yet.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn create(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    details: &MachineDetails,
    now: DateTime<Utc>,
) -> Result<Uuid, Fault> {
    who.need_run(organisation)?;
    check(details)?;
    let id = ids::new_id(now);
    let mut tx = pool.begin().await?;
    machines::put(&mut tx, id, organisation.0, details, now).await?;
    audit(
        &mut tx,
        who,
        "machine.created",
        &id.to_string(),
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(id)
}

/// A machine of one's own, locked.
///
/// # Errors
///
/// `not_found`.
pub async fn own(tx: &mut Connection, who: &Who, id: Uuid) -> Result<MachineRow, Fault> {
    let machine = machines::lock(tx, id).await?;
    let machine = machine.filter(|m| m.deleted_at.is_none());
    let machine = machine.ok_or_else(Fault::not_found)?;
    let organisation = machine.organisation_id.ok_or_else(Fault::not_found)?;
    who.need_run(OrganisationId(organisation))?;
    Ok(machine)
}

/// Writes a machine's details anew.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn update(
    pool: &Pool,
    who: &Who,
    id: Uuid,
    details: &MachineDetails,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    check(details)?;
    let mut tx = pool.begin().await?;
    let machine = own(&mut tx, who, id).await?;
    let organisation = machine.organisation_id.ok_or_else(Fault::not_found)?;
    machines::put(&mut tx, id, organisation, details, now).await?;
    audit(
        &mut tx,
        who,
        "machine.changed",
        &id.to_string(),
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// The next version of a machine's rule. Orders of before keep theirs.
///
/// # Errors
///
/// `not_found`, `invalid` with the field's path.
pub async fn set_rule(
    pool: &Pool,
    who: &Who,
    id: Uuid,
    rule: &Rule,
    now: DateTime<Utc>,
) -> Result<i32, Fault> {
    rule.check()
        .map_err(|fault| Fault::invalid(&fault.field, fault.message))?;
    let doc = serde_json::to_value(rule).map_err(|e| Fault::Broken(e.to_string()))?;
    let mut tx = pool.begin().await?;
    own(&mut tx, who, id).await?;
    let version =
        machines::insert_rule(&mut tx, ids::new_id(now), id, &doc, who.account.0, now).await?;
    let detail = json!({ "version": version });
    audit(&mut tx, who, "machine.rule", &id.to_string(), detail, now).await?;
    tx.commit().await?;
    Ok(version)
}

/// Replaces a machine's week and exceptions. What is booked already stays booked.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn set_availability(
    pool: &Pool,
    who: &Who,
    id: Uuid,
    weekly: &[WeeklyRow],
    exceptions: &[ExceptionRow],
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    if weekly.len() > MOST || exceptions.len() > MOST {
        return Err(Fault::invalid("weekly", "has too many entries"));
    }
    for (i, (day, start, end)) in weekly.iter().enumerate() {
        let minutes = check_minutes(start.unsigned_abs(), end.unsigned_abs());
        if !(0..=6).contains(day) || *start < 0 || minutes.is_err() {
            return Err(Fault::invalid(
                &format!("weekly[{i}]"),
                "must have a weekday 0 to 6 and half hours with start before end",
            ));
        }
    }
    for (i, (_, start, end, _)) in exceptions.iter().enumerate() {
        if *start < 0 || check_minutes(start.unsigned_abs(), end.unsigned_abs()).is_err() {
            return Err(Fault::invalid(
                &format!("exceptions[{i}]"),
                "must have half hours with start before end",
            ));
        }
    }
    let mut tx = pool.begin().await?;
    own(&mut tx, who, id).await?;
    machines::set_availability(&mut tx, id, weekly, exceptions)
        .await
        .map_err(twice)?;
    audit(
        &mut tx,
        who,
        "machine.availability",
        &id.to_string(),
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

fn twice(error: DbError) -> Fault {
    if crate::db::unique_violation(&error) {
        return Fault::invalid("weekly", "two entries begin at the same time");
    }
    error.into()
}

/// Blocks a time, for maintenance say.
///
/// # Errors
///
/// `not_found`, `slot_taken`, `invalid`.
pub async fn block(
    pool: &Pool,
    who: &Who,
    id: Uuid,
    period: &Period,
    note: &str,
    now: DateTime<Utc>,
) -> Result<Uuid, Fault> {
    if period.length() < TimeDelta::minutes(30) || period.length() > LONGEST {
        return Err(Fault::invalid("period", "must last 30 minutes to 200 days"));
    }
    if note.chars().count() > 200 {
        return Err(Fault::invalid("note", "must have at most 200 characters"));
    }
    let mut tx = pool.begin().await?;
    own(&mut tx, who, id).await?;
    let slot = ids::new_id(now);
    super::orders::purge(&mut tx, id, period, &who.trace_id, now).await?;
    let new = NewSlot {
        id: slot,
        machine: id,
        kind: "block",
        order: None,
        during: (period.from(), period.to()),
        hold_expires_at: None,
        note,
    };
    machines::insert_slot(&mut tx, &new).await.map_err(taken)?;
    tx.commit().await?;
    Ok(slot)
}

/// The last guard said no.
pub(super) fn taken(error: DbError) -> Fault {
    if crate::db::violates(&error, "machine_slots_exclusive") {
        return Fault::conflict("slot_taken", "the time is taken");
    }
    error.into()
}

/// Gives a block back.
///
/// # Errors
///
/// `not_found`.
pub async fn unblock(
    pool: &Pool,
    who: &Who,
    id: Uuid,
    slot: Uuid,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    own(&mut tx, who, id).await?;
    if !machines::release_block(&mut tx, id, slot, now).await? {
        return Err(Fault::not_found());
    }
    tx.commit().await?;
    Ok(())
}

/// What an owner wants of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Ask for the audit.
    Submit,
    /// List it.
    List,
    /// Take it off the list.
    Unlist,
    /// It is in repair.
    Repair,
    /// It is repaired.
    Repaired,
    /// Remove it.
    Delete,
}

/// Carries out a wish. Taking a machine off with live orders is refused with their numbers.
///
/// # Errors
///
/// `not_found`, `not_audited`, `live_orders`, `no_rule`.
pub async fn wish(
    pool: &Pool,
    who: &Who,
    id: Uuid,
    wish: Wish,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    let machine = own(&mut tx, who, id).await?;
    if matches!(wish, Wish::Unlist | Wish::Delete) {
        let live = machines::live_orders(&mut tx, id).await?;
        if !live.is_empty() {
            return Err(Fault::Refused {
                sort: super::fault::Sort::Conflict,
                code: "live_orders",
                detail: "orders of this machine are not over".into(),
                data: json!({ "orders": live }),
            });
        }
    }
    if wish == Wish::List {
        if machine.audit != "passed" {
            return Err(Fault::conflict(
                "not_audited",
                "the machine's papers are not passed",
            ));
        }
        if machines::newest_rules(&mut tx, &[id]).await?.is_empty() {
            return Err(Fault::conflict("no_rule", "the machine has no rent rule"));
        }
    }
    if wish == Wish::Submit && machine.audit == "passed" {
        return Ok(());
    }
    let (name, new) = standing(wish, now);
    machines::stand(&mut tx, id, &new).await?;
    audit(
        &mut tx,
        who,
        &format!("machine.{name}"),
        &id.to_string(),
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// What a wish makes of a machine, by its name in the audit log.
fn standing(wish: Wish, now: DateTime<Utc>) -> (&'static str, Standing<'static>) {
    match wish {
        Wish::Submit => (
            "submitted",
            Standing {
                audit: Some("pending"),
                ..Standing::default()
            },
        ),
        Wish::List => (
            "listed",
            Standing {
                status: Some("listed"),
                ..Standing::default()
            },
        ),
        Wish::Unlist => (
            "unlisted",
            Standing {
                status: Some("unlisted"),
                ..Standing::default()
            },
        ),
        Wish::Repair => (
            "repair",
            Standing {
                in_repair: Some(true),
                ..Standing::default()
            },
        ),
        Wish::Repaired => (
            "repaired",
            Standing {
                in_repair: Some(false),
                ..Standing::default()
            },
        ),
        Wish::Delete => (
            "deleted",
            Standing {
                status: Some("unlisted"),
                deleted_at: Some(now),
                ..Standing::default()
            },
        ),
    }
}

/// Staff passes or refuses a machine's papers.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn judge(
    pool: &Pool,
    who: &Who,
    id: Uuid,
    passed: bool,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    who.need("audit.decide")?;
    if !passed && reason.trim().is_empty() {
        return Err(Fault::invalid("reason", "is missing"));
    }
    let mut tx = pool.begin().await?;
    let machine = machines::lock(&mut tx, id)
        .await?
        .ok_or_else(Fault::not_found)?;
    let own = machine.organisation_id.map(OrganisationId);
    if own.is_some_and(|o| who.all_organisations().contains(&o)) {
        return Err(Fault::new(
            super::fault::Sort::Forbidden,
            "conflict_of_interest",
            "an admin does not decide on a machine of his own",
        ));
    }
    let new = Standing {
        audit: Some(if passed { "passed" } else { "refused" }),
        audit_reason: Some(reason),
        status: (!passed && machine.status == "listed").then_some("unlisted"),
        ..Standing::default()
    };
    machines::stand(&mut tx, id, &new).await?;
    let detail = json!({ "passed": passed, "reason": reason });
    audit(&mut tx, who, "machine.judged", &id.to_string(), detail, now).await?;
    tx.commit().await?;
    Ok(())
}
