//! Owners' organisations and their people; what staff decides about accounts and organisations. Every decision is written to the audit log.

use chrono::{DateTime, TimeDelta, Utc};
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
        Connection, DbError, Pool, accounts,
        audits::{self, NewAudit},
        organisations::{self, InvitationRow, MemberRow, NewInvitation, OwnRow},
    },
    ids,
};

/// An invitation is open so long.
const INVITATION: TimeDelta = TimeDelta::days(14);

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
    let address = who.address.map(|a| a.to_string());
    let new = NewAudit {
        account: Some(who.account.0),
        action,
        object,
        detail,
        trace_id: &who.trace_id,
        address: address.as_deref(),
    };
    audits::insert(tx, &new, now).await
}

/// What an organisation is by law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody with machines of his own.
    Person,
    /// A company or a cooperative.
    Company,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Company => "company",
        }
    }
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
    kind: Kind,
    now: DateTime<Utc>,
) -> Result<OrganisationId, Fault> {
    let name = normal_name("name", name, 80)?;
    let id = ids::new_id(now);
    let mut tx = pool.begin().await?;
    organisations::insert(&mut tx, id, &name, kind.name(), who.account.0, now).await?;
    let object = id.to_string();
    audit(
        &mut tx,
        who,
        "organisation.created",
        &object,
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(OrganisationId(id))
}

/// The organisations of an account.
///
/// # Errors
///
/// The database.
pub async fn own(pool: &Pool, who: &Who) -> Result<Vec<OwnRow>, Fault> {
    Ok(organisations::own(pool, who.account.0).await?)
}

/// Locks an organisation and reads one's function there as it is now: two owners who take each other
/// out at once would leave none.
async fn locked(
    tx: &mut Connection,
    who: &Who,
    organisation: OrganisationId,
) -> Result<Function, Fault> {
    if !organisations::lock(tx, organisation.0).await? {
        return Err(Fault::not_found());
    }
    let own = function(tx, organisation, who.account.0).await?;
    own.ok_or_else(Fault::not_found)
}

async fn function(
    tx: &mut Connection,
    organisation: OrganisationId,
    account: Uuid,
) -> Result<Option<Function>, Fault> {
    let name = organisations::function(tx, organisation.0, account).await?;
    Ok(name.and_then(|name| Function::of_name(&name)))
}

/// Owners decide about everybody, managers about operators, operators about nobody.
fn may_decide(own: Function, about: Function) -> Result<(), Fault> {
    match own {
        Function::Owner => Ok(()),
        Function::Manager if about == Function::Operator => Ok(()),
        Function::Manager | Function::Operator => Err(Fault::not_found()),
    }
}

/// Asks a phone in. Nobody is told whether the phone has an account, and nobody comes in unasked.
///
/// # Errors
///
/// `not_found`, `invalid`.
pub async fn invite(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    phone: &str,
    as_what: Function,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let own = who.function(organisation).ok_or_else(Fault::not_found)?;
    may_decide(own, as_what)?;
    let phone = normal_phone(phone)?;
    let mut tx = pool.begin().await?;
    may_decide(locked(&mut tx, who, organisation).await?, as_what)?;
    let new = NewInvitation {
        id: ids::new_id(now),
        organisation: organisation.0,
        phone: &phone,
        function: as_what.name(),
        by: who.account.0,
    };
    organisations::invite(&mut tx, &new, now).await?;
    let detail = json!({ "function": as_what.name() });
    let object = organisation.to_string();
    audit(&mut tx, who, "organisation.invited", &object, detail, now).await?;
    tx.commit().await?;
    Ok(())
}

/// The open invitations of an organisation, for those who run it.
///
/// # Errors
///
/// `not_found`.
pub async fn invitations_by(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    now: DateTime<Utc>,
) -> Result<Vec<InvitationRow>, Fault> {
    who.need_run(organisation)?;
    Ok(organisations::invitations_by(pool, organisation.0, now - INVITATION).await?)
}

/// Withdraws an invitation.
///
/// # Errors
///
/// `not_found`.
pub async fn withdraw(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    invitation: Uuid,
) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    let own = locked(&mut tx, who, organisation).await?;
    let taken = organisations::withdraw_invitation(&mut tx, invitation, organisation.0).await?;
    let about = taken.and_then(|name| Function::of_name(&name));
    may_decide(own, about.ok_or_else(Fault::not_found)?)?;
    tx.commit().await?;
    Ok(())
}

/// Who asks oneself in.
///
/// # Errors
///
/// The database.
pub async fn invitations_to(
    pool: &Pool,
    who: &Who,
    now: DateTime<Utc>,
) -> Result<Vec<InvitationRow>, Fault> {
    Ok(organisations::invitations_to(pool, who.account.0, now - INVITATION).await?)
}

/// Says yes or no to an invitation. A yes changes nothing for who is in with a higher function already.
///
/// # Errors
///
/// `not_found`.
pub async fn answer(
    pool: &Pool,
    who: &Who,
    invitation: Uuid,
    yes: bool,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    let taken = organisations::take_invitation(&mut tx, invitation, who.account.0).await?;
    let taken = taken
        .filter(|t| t.invited_at >= now - INVITATION)
        .ok_or_else(Fault::not_found)?;
    let id = OrganisationId(taken.organisation_id);
    let asked = Function::of_name(&taken.function).ok_or_else(Fault::not_found)?;
    let before = function(&mut tx, id, who.account.0).await?;
    if yes && before.is_none_or(|before| before < asked) {
        organisations::set_member(&mut tx, id.0, who.account.0, asked.name(), now).await?;
    }
    let detail = json!({ "function": asked.name(), "yes": yes });
    audit(
        &mut tx,
        who,
        "organisation.answered",
        &id.to_string(),
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// Changes a member's function. The last owner stays one.
///
/// # Errors
///
/// `not_found`, `last_owner`.
pub async fn set_function(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    account: AccountId,
    as_what: Function,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    let own = locked(&mut tx, who, organisation).await?;
    let before = function(&mut tx, organisation, account.0).await?;
    let before = before.ok_or_else(Fault::not_found)?;
    may_decide(own, before)?;
    may_decide(own, as_what)?;
    if as_what != Function::Owner {
        keep_an_owner(&mut tx, organisation, before).await?;
    }
    organisations::set_member(&mut tx, organisation.0, account.0, as_what.name(), now).await?;
    let detail = json!({ "account": account, "function": as_what.name() });
    let object = organisation.to_string();
    audit(&mut tx, who, "organisation.member", &object, detail, now).await?;
    tx.commit().await?;
    Ok(())
}

async fn keep_an_owner(
    tx: &mut Connection,
    organisation: OrganisationId,
    before: Function,
) -> Result<(), Fault> {
    if before == Function::Owner && organisations::owners(tx, organisation.0).await? < 2 {
        return Err(Fault::conflict("last_owner", "the last owner stays"));
    }
    Ok(())
}

/// Takes somebody out, or leaves. The last owner stays.
///
/// # Errors
///
/// `not_found`, `last_owner`.
pub async fn remove_member(
    pool: &Pool,
    who: &Who,
    organisation: OrganisationId,
    account: AccountId,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    let own = locked(&mut tx, who, organisation).await?;
    let before = function(&mut tx, organisation, account.0).await?;
    let before = before.ok_or_else(Fault::not_found)?;
    if account != who.account {
        may_decide(own, before)?;
    }
    keep_an_owner(&mut tx, organisation, before).await?;
    organisations::remove_member(&mut tx, organisation.0, account.0).await?;
    let detail = json!({ "account": account });
    let object = organisation.to_string();
    audit(
        &mut tx,
        who,
        "organisation.member_removed",
        &object,
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// The people of an organisation, for those who run it.
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
    Ok(organisations::members(pool, organisation.0).await?)
}

/// Staff verifies or suspends an organisation that is not its own.
///
/// # Errors
///
/// `not_found`, `conflict_of_interest`.
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
    if who.function(OrganisationId(organisation)).is_some() {
        return Err(Fault::new(
            super::fault::Sort::Forbidden,
            "conflict_of_interest",
            "an admin does not decide on an organisation of his own",
        ));
    }
    let mut tx = pool.begin().await?;
    let (verified_at, suspended_at) = (verified.then_some(now), suspended.then_some(now));
    if !organisations::judge(&mut tx, organisation, verified_at, suspended_at).await? {
        return Err(Fault::not_found());
    }
    let detail = json!({ "verified": verified, "suspended": suspended, "reason": reason });
    let object = organisation.to_string();
    audit(&mut tx, who, "organisation.judged", &object, detail, now).await?;
    tx.commit().await?;
    Ok(())
}

/// Staff blocks an account from new orders, or lets it again.
///
/// # Errors
///
/// `not_found`, `conflict_of_interest`.
pub async fn block(
    pool: &Pool,
    who: &Who,
    account: Uuid,
    blocked: bool,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    who.need("account.block")?;
    who.need_other(account)?;
    let mut tx = pool.begin().await?;
    let at = blocked.then_some(now);
    if !accounts::set_blocked(&mut tx, account, at, Some(reason)).await? {
        return Err(Fault::not_found());
    }
    let detail = json!({ "blocked": blocked, "reason": reason });
    let object = account.to_string();
    audit(&mut tx, who, "account.blocked", &object, detail, now).await?;
    tx.commit().await?;
    Ok(())
}
