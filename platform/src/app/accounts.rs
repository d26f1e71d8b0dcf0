//! Sign-up, sign-in, sessions, passwords, phones. The answer for a phone that nobody has is the same as for one that somebody has.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::id::AccountId;
use totp_rs::{Builder, Secret, Totp};
use uuid::Uuid;

use super::{
    devices::hash,
    fault::{Fault, Sort},
    passwords::{self, Kept},
    tokens::Tokens,
};
use crate::{
    db::{
        Connection, Pool,
        accounts::{self, AccountRow},
        credentials::{self, NewAudit},
    },
    ids,
};

/// A code lives so long.
const CODE_LIFE: TimeDelta = TimeDelta::minutes(5);
/// Wrong tries of a code.
const CODE_TRIES: i32 = 5;
/// A session lives so long without use.
const SESSION: TimeDelta = TimeDelta::days(30);
/// A code is one of so many.
const CODES: u32 = 1_000_000;

/// What a code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A new account.
    SignUp,
    /// In place of a password.
    SignIn,
    /// A new password.
    Reset,
    /// Another phone: one code for each of the two.
    ChangePhone,
}

impl Purpose {
    /// The name in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SignUp => "sign_up",
            Self::SignIn => "sign_in",
            Self::Reset => "reset",
            Self::ChangePhone => "change_phone",
        }
    }
}

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

/// What a use case of this file needs.
#[derive(Clone, Copy)]
pub struct Door<'a> {
    /// The database.
    pub pool: &'a Pool,
    /// Tokens.
    pub tokens: &'a Tokens,
    /// Now.
    pub now: DateTime<Utc>,
    /// By which the logs know the request.
    pub trace_id: &'a str,
}

/// A phone as it is kept: `+` and digits; Chinese numbers may leave out `+86`.
///
/// # Errors
///
/// `invalid`.
pub fn normal_phone(typed: &str) -> Result<String, Fault> {
    let digits: String = typed.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let phone = match digits.strip_prefix('+') {
        Some(_) => digits,
        None if digits.len() == 11 && digits.starts_with('1') => format!("+86{digits}"),
        None => {
            return Err(Fault::invalid(
                "phone",
                "must begin with + and the country code",
            ));
        }
    };
    let rest = phone.trim_start_matches('+');
    let lawful = (7..=15).contains(&rest.len())
        && rest.bytes().all(|b| b.is_ascii_digit())
        && !rest.starts_with('0');
    if lawful {
        Ok(phone)
    } else {
        Err(Fault::invalid("phone", "is not a phone number"))
    }
}

/// A name as people show it.
///
/// # Errors
///
/// `invalid`.
pub fn normal_name(field: &str, typed: &str, most: usize) -> Result<String, Fault> {
    let name = typed.trim();
    let count = name.chars().count();
    if count == 0 || count > most || name.chars().any(char::is_control) {
        return Err(Fault::invalid(
            field,
            format!("must have 1 to {most} characters"),
        ));
    }
    Ok(name.to_owned())
}

/// Makes a code; gives the text that the phone must get. Nobody learns whether the phone has an account.
///
/// # Errors
///
/// The database.
pub async fn make_code(door: Door<'_>, phone: &str, purpose: Purpose) -> Result<String, Fault> {
    let code = format!("{:06}", u32::from_be_bytes(ids::secret()) % CODES);
    let mut tx = door.pool.begin().await?;
    let id = ids::new_id(door.now);
    let salted = hash(format!("{phone}:{code}").as_bytes());
    credentials::insert_code(
        &mut tx,
        id,
        phone,
        purpose.name(),
        &salted,
        door.now,
        door.now + CODE_LIFE,
    )
    .await?;
    tx.commit().await?;
    Ok(format!(
        "【犁迹】验证码 {code}，5 分钟内有效。Furrow code {code}, valid 5 minutes."
    ))
}

fn wrong_code() -> Fault {
    Fault::new(
        Sort::Unauthorized,
        "wrong_code",
        "the code is wrong or too old",
    )
}

fn wrong_credentials() -> Fault {
    Fault::new(
        Sort::Unauthorized,
        "wrong_credentials",
        "phone or password is wrong",
    )
}

/// Uses a code. A wrong one is counted, in a transaction of its own, so that a refused request counts too.
async fn use_code(door: Door<'_>, phone: &str, purpose: Purpose, code: &str) -> Result<(), Fault> {
    let mut tx = door.pool.begin().await?;
    let open = credentials::open_code(&mut tx, phone, purpose.name(), door.now, CODE_TRIES).await?;
    let Some(open) = open else {
        return Err(wrong_code());
    };
    let shown = hash(format!("{phone}:{}", code.trim()).as_bytes());
    let right = open.code_hash == shown;
    credentials::note_code(&mut tx, open.id, right.then_some(door.now)).await?;
    tx.commit().await?;
    if right { Ok(()) } else { Err(wrong_code()) }
}

/// Opens an account by a code; with a password if one is given.
///
/// # Errors
///
/// `wrong_code`, `phone_taken`, `invalid`.
pub async fn sign_up(
    door: Door<'_>,
    phone: &str,
    code: &str,
    name: &str,
    password: Option<&str>,
    locale: &str,
) -> Result<Session, Fault> {
    let name = normal_name("name", name, 60)?;
    if !matches!(locale, "zh" | "en") {
        return Err(Fault::invalid("locale", "must be zh or en"));
    }
    let kept = match password {
        Some(password) => Some(passwords::keep(password).await?),
        None => None,
    };
    use_code(door, phone, Purpose::SignUp, code).await?;
    let id = ids::new_id(door.now);
    let mut tx = door.pool.begin().await?;
    if !accounts::insert(&mut tx, id, phone, &name, locale, door.now).await? {
        return Err(Fault::conflict(
            "phone_taken",
            "this phone has an account already",
        ));
    }
    if let Some(kept) = kept {
        accounts::set_password(&mut tx, id, &kept.salt, &kept.hash).await?;
    }
    let account = accounts::by_id(&mut tx, id).await?;
    let account = account.ok_or_else(|| Fault::Broken("the account is gone".into()))?;
    let session = open_session(&mut tx, door, &account).await?;
    tx.commit().await?;
    Ok(session)
}

/// How somebody shows who he is.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// By a password.
    Password(&'a str),
    /// By a code.
    Code(&'a str),
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
    totp: Option<&str>,
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
        Shown::Code(code) => use_code(door, phone, Purpose::SignIn, code).await?,
    }
    let account = account.ok_or_else(wrong_code)?;
    let mut tx = door.pool.begin().await?;
    second_factor(&mut tx, door, &account, totp).await?;
    let session = open_session(&mut tx, door, &account).await?;
    tx.commit().await?;
    Ok(session)
}

fn kept(account: &AccountRow) -> Option<Kept> {
    Some(Kept {
        salt: account.password_salt.clone()?,
        hash: account.password_hash.clone()?,
    })
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

async fn second_factor(
    tx: &mut Connection,
    door: Door<'_>,
    account: &AccountRow,
    shown: Option<&str>,
) -> Result<(), Fault> {
    let Some(grant) = accounts::grant(tx, account.id).await? else {
        return Ok(());
    };
    let needed = || {
        Fault::new(
            Sort::Unauthorized,
            "second_factor",
            "staff shows a second factor",
        )
    };
    let shown = shown.ok_or_else(needed)?;
    let seconds = u64::try_from(door.now.timestamp()).unwrap_or(0);
    let step = totp(&grant.totp_secret)?
        .check(shown.trim(), seconds)
        .ok_or_else(needed)?;
    // A code works once, also for who looked over a shoulder.
    let step = i64::try_from(step).unwrap_or(i64::MAX);
    if step <= grant.totp_step {
        return Err(needed());
    }
    accounts::use_totp_step(tx, account.id, step).await?;
    Ok(())
}

async fn open_session(
    tx: &mut Connection,
    door: Door<'_>,
    account: &AccountRow,
) -> Result<Session, Fault> {
    let family = ids::new_id(door.now);
    credentials::insert_family(tx, family, account.id, door.now).await?;
    next_tokens(tx, door, account.id, account.token_version, family).await
}

async fn next_tokens(
    tx: &mut Connection,
    door: Door<'_>,
    account: Uuid,
    version: i32,
    family: Uuid,
) -> Result<Session, Fault> {
    let refresh = super::devices::hex(&ids::secret::<32>());
    let kept = hash(refresh.as_bytes());
    credentials::insert_refresh(tx, &kept, family, door.now, door.now + SESSION).await?;
    let account = AccountId(account);
    let access = door.tokens.make(account, family, version, door.now);
    Ok(Session {
        account,
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
    if token.used_at.is_some() && token.revoked_at.is_none() {
        credentials::revoke(
            &mut tx,
            token.account_id,
            Some(token.family_id),
            "token used twice",
            door.now,
        )
        .await?;
        let audit = NewAudit {
            account: Some(token.account_id),
            action: "session.reused",
            object: &token.family_id.to_string(),
            detail: serde_json::Value::Null,
            trace_id: door.trace_id,
        };
        credentials::audit(&mut tx, &audit, door.now).await?;
        tx.commit().await?;
        tracing::warn!(account = %token.account_id, "app.accounts.token_reused");
        return Err(over());
    }
    if token.revoked_at.is_some() || token.expires_at <= door.now {
        return Err(over());
    }
    credentials::use_refresh(&mut tx, &kept, door.now).await?;
    let account = accounts::by_id(&mut tx, token.account_id)
        .await?
        .ok_or_else(over)?;
    let session = next_tokens(
        &mut tx,
        door,
        account.id,
        account.token_version,
        token.family_id,
    )
    .await?;
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

/// A new password by a code; every session ends.
///
/// # Errors
///
/// `wrong_code`, `invalid`.
pub async fn reset_password(
    door: Door<'_>,
    phone: &str,
    code: &str,
    password: &str,
) -> Result<(), Fault> {
    let kept = passwords::keep(password).await?;
    use_code(door, phone, Purpose::Reset, code).await?;
    let mut tx = door.pool.begin().await?;
    let account = accounts::by_phone(&mut tx, phone)
        .await?
        .ok_or_else(wrong_code)?;
    accounts::set_password(&mut tx, account.id, &kept.salt, &kept.hash).await?;
    credentials::revoke(&mut tx, account.id, None, "password reset", door.now).await?;
    tx.commit().await?;
    Ok(())
}

/// Another phone, by a code to each of the two.
///
/// # Errors
///
/// `wrong_code`, `phone_taken`.
pub async fn change_phone(
    door: Door<'_>,
    account: AccountId,
    code: &str,
    new_phone: &str,
    new_code: &str,
) -> Result<(), Fault> {
    let old = {
        let mut connection = door.pool.acquire().await?;
        accounts::by_id(&mut connection, account.0).await?
    };
    let old = old.ok_or_else(Fault::not_found)?;
    use_code(door, &old.phone, Purpose::ChangePhone, code).await?;
    use_code(door, new_phone, Purpose::ChangePhone, new_code).await?;
    let mut tx = door.pool.begin().await?;
    if !accounts::set_phone(&mut tx, account.0, new_phone).await? {
        return Err(Fault::conflict(
            "phone_taken",
            "this phone has an account already",
        ));
    }
    credentials::revoke(&mut tx, account.0, None, "phone changed", door.now).await?;
    let audit = NewAudit {
        account: Some(account.0),
        action: "account.phone",
        object: &account.to_string(),
        detail: serde_json::Value::Null,
        trace_id: door.trace_id,
    };
    credentials::audit(&mut tx, &audit, door.now).await?;
    tx.commit().await?;
    Ok(())
}

/// What a new member of staff sets up.
#[derive(Debug, Clone)]
pub struct NewStaff {
    /// The account.
    pub account: AccountId,
    /// For the authenticator, base 32.
    pub secret: String,
}

/// Makes staff of a phone's account, or a new account; the second factor is shown once.
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
    let kept = passwords::keep(password).await?;
    let secret = ids::secret::<20>();
    let mut tx = pool.begin().await?;
    let id = ids::new_id(now);
    accounts::insert(&mut tx, id, &phone, &name, "zh", now).await?;
    let account = accounts::by_phone(&mut tx, &phone).await?;
    let account = account.ok_or_else(|| Fault::Broken("the account is gone".into()))?;
    accounts::set_password(&mut tx, account.id, &kept.salt, &kept.hash).await?;
    accounts::set_grant(&mut tx, account.id, permissions, &secret, now).await?;
    tx.commit().await?;
    Ok(NewStaff {
        account: AccountId(account.id),
        secret: Secret::new(secret.as_slice().into()).to_base32(),
    })
}
