//! The operator's windows and share: the newest version is in force, and each order keeps the one that it was made with.

use chrono::{DateTime, Utc};
use furrow_domain::{
    money::{Bps, Fen},
    order::terms::Policy,
};
use serde_json::json;

use super::{fault::Fault, organisations::audit, who::Who};
use crate::db::{
    Connection, Pool,
    policies::{self, WordRow},
};

/// The operator's share where nothing else was set: 8 %.
const COMMISSION: Bps = Bps(800);

/// The policy in force and the operator's share.
///
/// # Errors
///
/// The database.
pub async fn current(tx: &mut Connection) -> Result<(Policy, Bps), Fault> {
    match policies::newest(tx).await? {
        None => Ok((Policy::default(), COMMISSION)),
        Some(row) => {
            let policy = serde_json::from_value(row.policy);
            let policy =
                policy.map_err(|e| Fault::Broken(format!("policy {}: {e}", row.version)))?;
            Ok((policy, Bps(row.commission_bps.unsigned_abs())))
        }
    }
}

/// Whether windows, fees and bounds can be.
fn lawful(policy: &Policy, commission: Bps) -> Result<(), Fault> {
    if commission > Bps::WHOLE {
        return Err(Fault::invalid(
            "commission_bps",
            "must lie between 0 and 10,000",
        ));
    }
    let week = 7 * 24 * 60;
    let windows = [
        policy.cutoff_min,
        policy.pay_min,
        policy.pay_on_behalf_min,
        policy.accept_min,
        policy.auto_confirm_min,
        policy.balance_due_min,
        policy.bill_due_min,
    ];
    if windows
        .iter()
        .any(|minutes| !(1..=4 * week).contains(minutes))
    {
        return Err(Fault::invalid(
            "policy",
            "windows must lie between a minute and four weeks",
        ));
    }
    let fees = &policy.fees;
    let shares = [
        fees.middle_bps,
        fees.late_bps,
        fees.lapse_bps,
        fees.renter_no_show_bps,
        fees.owner_late_bps,
        fees.owner_no_show_bps,
    ];
    if shares.iter().any(|bps| *bps > Bps::WHOLE) || fees.late_lead_min > fees.free_lead_min {
        return Err(Fault::invalid(
            "policy.fees",
            "must be shares, with the late lead below the free one",
        ));
    }
    let bounds = Bps::WHOLE..=Bps(100_000);
    if !bounds.contains(&policy.review_over_bps)
        || !(Fen(1)..=Fen::MAX).contains(&policy.review_total_fen)
    {
        return Err(Fault::invalid(
            "policy.review_over_bps",
            "must lie between once and ten times the estimate, and review_total_fen above 0",
        ));
    }
    Ok(())
}

/// Writes the next version.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn write(
    pool: &Pool,
    who: &Who,
    mut policy: Policy,
    commission: Bps,
    now: DateTime<Utc>,
) -> Result<u32, Fault> {
    who.need("policy.write")?;
    lawful(&policy, commission)?;
    let mut tx = pool.begin().await?;
    let former = policies::newest(&mut tx)
        .await?
        .map_or(0, |row| row.version);
    let version = former + 1;
    policy.version = version.unsigned_abs();
    let doc = serde_json::to_value(&policy).map_err(|e| Fault::Broken(e.to_string()))?;
    let share = i32::try_from(commission.0).unwrap_or(i32::MAX);
    policies::insert(&mut tx, version, &doc, share, Some(who.account.0), now)
        .await
        .map_err(|error| {
            if crate::db::unique_violation(&error) {
                return Fault::conflict("version_conflict", "another version was just written");
            }
            error.into()
        })?;
    audit(
        &mut tx,
        who,
        "policy.written",
        &version.to_string(),
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(policy.version)
}

/// Writes a word of a dictionary.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn set_word(
    pool: &Pool,
    who: &Who,
    kind: &str,
    word: &WordRow,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    who.need("policy.write")?;
    if !matches!(kind, "machine_type" | "crop" | "region") {
        return Err(Fault::not_found());
    }
    for (field, text) in [
        ("code", &word.code),
        ("name_zh", &word.name_zh),
        ("name_en", &word.name_en),
    ] {
        super::accounts::normal_name(field, text, 60)?;
    }
    let mut tx = pool.begin().await?;
    policies::set_word(&mut tx, kind, word).await?;
    audit(
        &mut tx,
        who,
        "dictionary.word",
        &word.code,
        json!({ "kind": kind }),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}
