//! Owners' organisations and their people; what staff decides about accounts and organisations. Every decision is written to the audit log.

use chrono::{DateTime, Utc};
use furrow_domain::id::{AccountId, OrganisationId};
use serde_json::json;
use uuid::Uuid;

use super::{
    accounts::{normal_name, normal_phone},
    fault::Fault,
    who::{Function, Who},
};
use crate::{
    db::{
        Connection, DbError, Pool,
        accounts::{self, MemberRow},
        credentials::{self, NewAudit},
    },
    ids,
};

/// Writes down what somebody did.
///
/// # Errors
///
/// The database.
pub async fn audit(
    tx: &mut Connection,
    who: &Who,
    action: &str,
    object: &str,
    detail: serde_json::Value,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let new = NewAudit {
        account: Some(who.account.0),
        action,
        object,
        detail,
        trace_id: &who.trace_id,
    };
    credentials::audit(tx, &new, now).await
}

/// A new organisation; who makes it owns it.
///
/// # Errors
///
/// `invalid`.
pub async fn create(
    pool: &Pool,
    who: &Who,
    name: &str,
    now: DateTime<Utc>,
) -> Result<OrganisationId, Fault> {
    let name = normal_name("name", name, 80)?;
    let id = ids::new_id(now);
    let mut tx = pool.begin().await?;
    accounts::insert_organisation(&mut tx, id, &name, who.account.0, now).await?;
    audit(
        &mut tx,
        who,
        "organisation.created",
        &id.to_string(),
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(OrganisationId(id))
}

/// Puts somebody in by phone. Only an owner makes owners and managers.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn set_member(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    phone: &str,
    function: Function,
    now: DateTime<Utc>,
) -> Result<AccountId, Fault> {
    let own = who.organisations.iter().find(|(id, _)| *id == organisation);
    let lawful = match own {
        Some((_, Function::Owner)) => true,
        Some((_, Function::Manager)) => function == Function::Operator,
        Some((_, Function::Operator)) | None => false,
    };
    if !lawful {
        return Err(Fault::not_found());
    }
    let phone = normal_phone(phone)?;
    let mut tx = pool.begin().await?;
    let account = accounts::by_phone(&mut tx, &phone).await?;
    let account = account.ok_or_else(|| Fault::invalid("phone", "has no account yet"))?;
    if account.id == who.account.0 {
        return Err(Fault::invalid(
            "phone",
            "one does not change one's own function",
        ));
    }
    accounts::set_member(&mut tx, organisation.0, account.id, function.name(), now).await?;
    let detail = json!({ "account": account.id, "function": function.name() });
    audit(
        &mut tx,
        who,
        "organisation.member",
        &organisation.to_string(),
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(AccountId(account.id))
}

/// Takes somebody out.
///
/// # Errors
///
/// `not_found`.
pub async fn remove_member(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    account: AccountId,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    who.need_run(organisation)?;
    let mut tx = pool.begin().await?;
    if !accounts::remove_member(&mut tx, organisation.0, account.0).await? {
        return Err(Fault::not_found());
    }
    let detail = json!({ "account": account });
    audit(
        &mut tx,
        who,
        "organisation.member_removed",
        &organisation.to_string(),
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// The people of an organisation, for its members.
///
/// # Errors
///
/// `not_found`.
pub async fn members(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
) -> Result<Vec<MemberRow>, Fault> {
    who.need_run(organisation)?;
    Ok(accounts::members(pool, organisation.0).await?)
}

/// Staff verifies or suspends an organisation.
///
/// # Errors
///
/// `not_found`.
pub async fn judge(
    pool: &Pool,
    who: &Who,
    organisation: Uuid,
    verified: bool,
    suspended: bool,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    who.need("audit.decide")?;
    let mut tx = pool.begin().await?;
    let (verified_at, suspended_at) = (verified.then_some(now), suspended.then_some(now));
    if !accounts::judge_organisation(&mut tx, organisation, verified_at, suspended_at).await? {
        return Err(Fault::not_found());
    }
    let detail = json!({ "verified": verified, "suspended": suspended, "reason": reason });
    audit(
        &mut tx,
        who,
        "organisation.judged",
        &organisation.to_string(),
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// Staff blocks an account from new orders, or lets it again.
///
/// # Errors
///
/// `not_found`.
pub async fn block(
    pool: &Pool,
    who: &Who,
    account: Uuid,
    blocked: bool,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    who.need("account.block")?;
    let mut tx = pool.begin().await?;
    let at = blocked.then_some(now);
    if !accounts::set_blocked(&mut tx, account, at, Some(reason)).await? {
        return Err(Fault::not_found());
    }
    let detail = json!({ "blocked": blocked, "reason": reason });
    audit(
        &mut tx,
        who,
        "account.blocked",
        &account.to_string(),
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}
