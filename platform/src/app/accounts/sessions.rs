//! Sessions: sign-in, the next tokens, sign-out. A refresh token works once; shown again, it ends its session.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::id::AccountId;
use serde_json::json;
use uuid::Uuid;

use super::{
    Door,
    codes::{Purpose, use_codes, wrong_code},
    staff, there,
};
use crate::{
    app::{
        devices::{hash, hex},
        fault::{Fault, Sort},
        organisations::audit,
        passwords::{self, Kept},
        who::Who,
    },
    db::{
        Connection, Pool,
        accounts::{self, AccountRow},
        credentials::{self, NewFamily, SessionRow},
    },
    ids,
};

/// A session lives so long without use.
pub const SESSION: TimeDelta = TimeDelta::days(30);

/// A session as it is told to who opened it.
#[derive(Debug, Clone)]
pub struct Session {
    /// Whose.
    pub account: AccountId,
    /// For each request; a quarter of an hour.
    pub access: String,
    /// For the next session token; once.
    pub refresh: String,
}

/// How somebody shows who he is.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// By a password.
    Password(&'a str),
    /// By a code.
    Code(&'a str),
}

fn wrong_credentials() -> Fault {
    Fault::new(
        Sort::Unauthorized,
        "wrong_credentials",
        "phone or password is wrong",
    )
}

/// Opens a session. Staff shows a second factor too.
///
/// # Errors
///
/// `wrong_credentials`, `wrong_code`, `second_factor`.
pub async fn sign_in(
    door: Door<'_>,
    phone: &str,
    shown: Shown<'_>,
    second: Option<&str>,
) -> Result<Session, Fault> {
    let account = {
        let mut connection = door.pool.acquire().await?;
        accounts::by_phone(&mut connection, phone).await?
    };
    match shown {
        Shown::Password(password) => {
            let kept = account.as_ref().and_then(kept);
            if !passwords::is(password, kept.as_ref()).await? {
                return Err(wrong_credentials());
            }
        }
        Shown::Code(code) => use_codes(door, Purpose::SignIn, &[(phone, code)]).await?,
    }
    let account = account.ok_or_else(wrong_code)?;
    let mut tx = door.pool.begin().await?;
    let second_at = staff::second_factor(&mut tx, door, &account, second).await?;
    let session = open(&mut tx, door, &account, second_at).await?;
    tx.commit().await?;
    Ok(session)
}

fn kept(account: &AccountRow) -> Option<Kept> {
    Some(Kept {
        salt: account.password_salt.clone()?,
        hash: account.password_hash.clone()?,
    })
}

pub(super) async fn open(
    tx: &mut Connection,
    door: Door<'_>,
    account: &AccountRow,
    second_factor_at: Option<DateTime<Utc>>,
) -> Result<Session, Fault> {
    let address = door.origin.address.map(|a| a.to_string());
    let family = NewFamily {
        id: ids::new_id(door.now),
        account: account.id,
        second_factor_at,
        address: address.as_deref(),
    };
    credentials::insert_family(tx, &family, door.now).await?;
    next_tokens(tx, door, account, family.id).await
}

async fn next_tokens(
    tx: &mut Connection,
    door: Door<'_>,
    account: &AccountRow,
    family: Uuid,
) -> Result<Session, Fault> {
    let refresh = hex(&ids::secret::<32>());
    let kept = hash(refresh.as_bytes());
    credentials::insert_refresh(tx, &kept, family, door.now, door.now + SESSION).await?;
    let id = AccountId(account.id);
    let access = door
        .tokens
        .make(id, family, account.token_version, door.now);
    Ok(Session {
        account: id,
        access: access.ok_or_else(|| Fault::Broken("a token could not be signed".into()))?,
        refresh,
    })
}

/// Gives the next tokens of a session. A token that was used before ends the session: somebody has a copy.
///
/// # Errors
///
/// `session_over`.
pub async fn refresh(door: Door<'_>, shown: &str) -> Result<Session, Fault> {
    let over = || Fault::new(Sort::Unauthorized, "session_over", "sign in again");
    let kept = hash(shown.as_bytes());
    let mut tx = door.pool.begin().await?;
    let token = credentials::refresh(&mut tx, &kept)
        .await?
        .ok_or_else(over)?;
    let (account, family) = (token.account_id, token.family_id);
    if token.revoked_at.is_some() {
        return Err(over());
    }
    if token.used_at.is_some() {
        let why = "token used twice";
        credentials::revoke(&mut tx, account, Some(family), why, door.now).await?;
        let who = Who::plain(AccountId(account), door.origin);
        let object = family.to_string();
        audit(
            &mut tx,
            &who,
            "session.reused",
            &object,
            json!({}),
            door.now,
        )
        .await?;
        tx.commit().await?;
        tracing::warn!(account = %account, "app.accounts.token_reused");
        return Err(over());
    }
    if token.expires_at <= door.now {
        return Err(over());
    }
    credentials::use_refresh(&mut tx, &kept, door.now).await?;
    let account = there(&mut tx, account).await?;
    let session = next_tokens(&mut tx, door, &account, family).await?;
    tx.commit().await?;
    Ok(session)
}

/// Ends the session of a refresh token; one that is over already is no error.
///
/// # Errors
///
/// The database.
pub async fn sign_out(door: Door<'_>, shown: &str) -> Result<(), Fault> {
    let mut tx = door.pool.begin().await?;
    if let Some(token) = credentials::refresh(&mut tx, &hash(shown.as_bytes())).await? {
        let family = Some(token.family_id);
        credentials::revoke(&mut tx, token.account_id, family, "signed out", door.now).await?;
        tx.commit().await?;
    }
    Ok(())
}

/// The open sessions of an account.
///
/// # Errors
///
/// The database.
pub async fn own(pool: &Pool, who: &Who, now: DateTime<Utc>) -> Result<Vec<SessionRow>, Fault> {
    Ok(credentials::open_sessions(pool, who.account.0, now).await?)
}

/// Ends a session of one's own, for a phone that was lost.
///
/// # Errors
///
/// `not_found`.
pub async fn end(pool: &Pool, who: &Who, session: Uuid, now: DateTime<Utc>) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    let ended = credentials::revoke(&mut tx, who.account.0, Some(session), "ended", now).await?;
    if ended == 0 {
        return Err(Fault::not_found());
    }
    tx.commit().await?;
    Ok(())
}
