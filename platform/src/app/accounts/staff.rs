//! The operator's staff: permissions, the second factor, codes for who has lost it. Never lets anybody give more than he has.

use chrono::{DateTime, Utc};
use furrow_domain::id::AccountId;
use serde_json::json;
use totp_rs::{Builder, Secret, Totp};
use uuid::Uuid;

use super::{Door, normal_name, normal_phone};
use crate::{
    app::{
        devices::{hash, hex},
        fault::{Fault, Sort},
        organisations::audit,
        passwords,
        who::{Origin, Who},
    },
    db::{
        Connection, Pool,
        accounts::{self, AccountRow},
        credentials,
        staff::{self, StaffRow},
    },
    ids,
};

/// Codes for who has lost the authenticator.
const RECOVERY_CODES: usize = 8;

/// What staff may. `*` is all of them.
pub const PERMISSIONS: &[&str] = &[
    "*",
    "account.block",
    "account.phone",
    "account.read",
    "audit.decide",
    "audit.read",
    "bill.review",
    "dispute.rule",
    "job.retry",
    "order.act",
    "order.act_for",
    "order.force_cancel",
    "order.override_start",
    "order.read",
    "order.waive_fee",
    "policy.write",
    "staff.write",
    "test.pay",
];

/// What a new member of staff sets up. It is shown once.
#[derive(Debug, Clone)]
pub struct NewStaff {
    /// The account.
    pub account: AccountId,
    /// For the authenticator, base 32.
    pub secret: String,
    /// In place of the authenticator, each once.
    pub recovery: Vec<String>,
}

/// The second factor of a secret.
///
/// # Errors
///
/// Our own: a secret that is none.
pub fn totp(secret: &[u8]) -> Result<Totp, Fault> {
    Builder::new()
        .with_secret(Secret::new(secret.into()))
        .build()
        .map_err(|error| Fault::Broken(format!("totp: {error}")))
}

/// Judges the second factor; gives when it was shown, or none for who is no staff.
///
/// # Errors
///
/// `second_factor`.
pub(super) async fn second_factor(
    tx: &mut Connection,
    door: Door<'_>,
    account: &AccountRow,
    shown: Option<&str>,
) -> Result<Option<DateTime<Utc>>, Fault> {
    let Some(grant) = staff::grant(tx, account.id).await? else {
        return Ok(None);
    };
    let needed = || {
        Fault::new(
            Sort::Unauthorized,
            "second_factor",
            "staff shows a second factor",
        )
    };
    let shown = shown.ok_or_else(needed)?.trim();
    let recovery = recovery_hash(account.id, shown);
    if staff::use_recovery(tx, account.id, &recovery, door.now).await? {
        let who = Who::plain(AccountId(account.id), door.origin);
        let object = account.id.to_string();
        audit(
            tx,
            &who,
            "staff.recovery_used",
            &object,
            json!({}),
            door.now,
        )
        .await?;
        return Ok(Some(door.now));
    }
    let seconds = u64::try_from(door.now.timestamp()).unwrap_or(0);
    let step = totp(&grant.totp_secret)?
        .check(shown, seconds)
        .ok_or_else(needed)?;
    // A code works once, also for who looked over a shoulder.
    let step = i64::try_from(step).unwrap_or(i64::MAX);
    if step <= grant.totp_step {
        return Err(needed());
    }
    staff::use_totp_step(tx, account.id, step).await?;
    Ok(Some(door.now))
}

fn recovery_hash(account: Uuid, code: &str) -> Vec<u8> {
    let code: String = code.chars().filter(|c| *c != '-').collect();
    hash(format!("{account}:{code}").as_bytes()).to_vec()
}

fn lawful_permissions(permissions: &[String]) -> Result<(), Fault> {
    if permissions.is_empty() {
        return Err(Fault::invalid("permissions", "must name at least one"));
    }
    for permission in permissions {
        if !PERMISSIONS.contains(&permission.as_str()) {
            return Err(Fault::invalid(
                "permissions",
                format!(
                    "{permission:?} is none; there are {}",
                    PERMISSIONS.join(", ")
                ),
            ));
        }
    }
    Ok(())
}

/// Gives rights with fresh second factors. Every open session ends: it was opened without them.
async fn grant(
    tx: &mut Connection,
    account: Uuid,
    permissions: &[String],
    now: DateTime<Utc>,
) -> Result<NewStaff, Fault> {
    let secret = ids::secret::<20>();
    let recovery: Vec<String> = (0..RECOVERY_CODES)
        .map(|_| {
            let code = hex(&ids::secret::<8>());
            format!("{}-{}", &code[..8], &code[8..])
        })
        .collect();
    let hashes: Vec<Vec<u8>> = recovery.iter().map(|c| recovery_hash(account, c)).collect();
    staff::set_grant(tx, account, permissions, &secret, &hashes, now).await?;
    credentials::revoke(tx, account, None, "became staff", now).await?;
    Ok(NewStaff {
        account: AccountId(account),
        secret: Secret::new(secret.as_slice().into()).to_base32(),
        recovery,
    })
}

/// Makes staff of a phone's account, or a new account, from the command line; the second factor is shown once.
///
/// # Errors
///
/// `invalid`, the database.
pub async fn make_staff(
    pool: &Pool,
    phone: &str,
    name: &str,
    password: &str,
    permissions: &[String],
    now: DateTime<Utc>,
) -> Result<NewStaff, Fault> {
    let phone = normal_phone(phone)?;
    let name = normal_name("name", name, 60)?;
    lawful_permissions(permissions)?;
    let kept = passwords::keep(password).await?;
    let mut tx = pool.begin().await?;
    accounts::insert(&mut tx, ids::new_id(now), &phone, &name, "zh", now).await?;
    let account = accounts::by_phone(&mut tx, &phone).await?;
    let account = account.ok_or_else(|| Fault::Broken("the account is gone".into()))?;
    accounts::set_password(&mut tx, account.id, &kept.salt, &kept.hash).await?;
    let made = grant(&mut tx, account.id, permissions, now).await?;
    let who = Who::plain(made.account, &Origin::default());
    let detail = json!({ "permissions": permissions, "from": "command line" });
    audit(
        &mut tx,
        &who,
        "staff.made",
        &account.id.to_string(),
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(made)
}

/// Makes staff of an account, with no more rights than one's own.
///
/// # Errors
///
/// `not_found`, `invalid`, `forbidden`, `conflict_of_interest`.
pub async fn appoint(
    pool: &Pool,
    who: &Who,
    account: Uuid,
    permissions: &[String],
    now: DateTime<Utc>,
) -> Result<NewStaff, Fault> {
    who.need("staff.write")?;
    who.need_other(account)?;
    lawful_permissions(permissions)?;
    let mut tx = pool.begin().await?;
    let found = accounts::by_id(&mut tx, account).await?;
    found.ok_or_else(Fault::not_found)?;
    covers(&mut tx, who, account, permissions).await?;
    let made = grant(&mut tx, account, permissions, now).await?;
    let detail = json!({ "permissions": permissions });
    audit(
        &mut tx,
        who,
        "staff.made",
        &account.to_string(),
        detail,
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(made)
}

/// Takes all rights of staff from an account that has no more of them than oneself.
///
/// # Errors
///
/// `not_found`, `forbidden`, `conflict_of_interest`.
pub async fn dismiss(
    pool: &Pool,
    who: &Who,
    account: Uuid,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    who.need("staff.write")?;
    who.need_other(account)?;
    let mut tx = pool.begin().await?;
    covers(&mut tx, who, account, &[]).await?;
    if !staff::remove_grant(&mut tx, account).await? {
        return Err(Fault::not_found());
    }
    credentials::revoke(&mut tx, account, None, "no longer staff", now).await?;
    audit(
        &mut tx,
        who,
        "staff.dismissed",
        &account.to_string(),
        json!({}),
        now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// Whether one has all these rights, and all that the account has now.
async fn covers(
    tx: &mut Connection,
    who: &Who,
    account: Uuid,
    permissions: &[String],
) -> Result<(), Fault> {
    let now = staff::grant(tx, account).await?;
    let now = now.map(|g| g.permissions).unwrap_or_default();
    if now.iter().chain(permissions).all(|p| who.may(p)) {
        return Ok(());
    }
    Err(Fault::new(
        Sort::Forbidden,
        "forbidden",
        "nobody gives or takes rights that he does not have",
    ))
}

/// All staff.
///
/// # Errors
///
/// `not_found`.
pub async fn all(pool: &Pool, who: &Who) -> Result<Vec<StaffRow>, Fault> {
    who.need("staff.write")?;
    Ok(staff::all(pool).await?)
}
