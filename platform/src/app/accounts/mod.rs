//! Accounts: sign-up, passwords, phones, profiles. The answer for a phone that nobody has is the same as for one that somebody has.

pub mod codes;
pub mod sessions;
pub mod staff;

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::id::AccountId;
use serde_json::json;
use uuid::Uuid;

use super::{
    fault::Fault,
    organisations::audit,
    passwords,
    tokens::Tokens,
    who::{Origin, Who},
};
use crate::{
    db::{
        Connection, Pool,
        accounts::{self, AccountRow},
        credentials,
    },
    ids,
};

pub use codes::{Purpose, make_code};
pub use sessions::{Session, Shown, refresh, sign_in, sign_out};
pub use staff::{NewStaff, make_staff, totp};

use codes::{use_codes, wrong_code};

/// After staff has changed a phone nothing is paid out for so long.
const PHONE_HOLD: TimeDelta = TimeDelta::hours(72);

/// What a use case of this room needs.
#[derive(Clone, Copy)]
pub struct Door<'a> {
    /// The database.
    pub pool: &'a Pool,
    /// Tokens.
    pub tokens: &'a Tokens,
    /// Now.
    pub now: DateTime<Utc>,
    /// Where the request came from.
    pub origin: &'a Origin,
}

/// A phone as it is kept: `+` and digits; Chinese numbers may leave out `+86`.
///
/// # Errors
///
/// `invalid`.
pub fn normal_phone(typed: &str) -> Result<String, Fault> {
    let digits: String = typed.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let rest = match digits.strip_prefix('+') {
        Some(rest) => rest.to_owned(),
        None if digits.len() == 11 && digits.starts_with('1') => format!("86{digits}"),
        None => {
            return Err(Fault::invalid(
                "phone",
                "must begin with + and the country code",
            ));
        }
    };
    let lawful = (7..=15).contains(&rest.len())
        && rest.bytes().all(|b| b.is_ascii_digit())
        && !rest.starts_with('0');
    if lawful {
        Ok(format!("+{rest}"))
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

fn lawful_locale(locale: &str) -> Result<(), Fault> {
    if matches!(locale, "zh" | "en") {
        Ok(())
    } else {
        Err(Fault::invalid("locale", "must be zh or en"))
    }
}

fn phone_taken() -> Fault {
    Fault::conflict("phone_taken", "this phone has an account already")
}

/// The account that must be there, because its id comes from a session or from this transaction.
async fn there(tx: &mut Connection, id: Uuid) -> Result<AccountRow, Fault> {
    let account = accounts::by_id(tx, id).await?;
    account.ok_or_else(|| Fault::Broken("the account is gone".into()))
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
    lawful_locale(locale)?;
    if let Some(password) = password {
        passwords::lawful(password)?;
    }
    // The code comes before the hash: whoever has none costs us nothing.
    use_codes(door, Purpose::SignUp, &[(phone, code)]).await?;
    let kept = match password {
        Some(password) => Some(passwords::keep(password).await?),
        None => None,
    };
    let id = ids::new_id(door.now);
    let mut tx = door.pool.begin().await?;
    if !accounts::insert(&mut tx, id, phone, &name, locale, door.now).await? {
        return Err(phone_taken());
    }
    if let Some(kept) = kept {
        accounts::set_password(&mut tx, id, &kept.salt, &kept.hash).await?;
    }
    let account = there(&mut tx, id).await?;
    let session = sessions::open(&mut tx, door, &account, None).await?;
    tx.commit().await?;
    Ok(session)
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
    passwords::lawful(password)?;
    use_codes(door, Purpose::Reset, &[(phone, code)]).await?;
    let kept = passwords::keep(password).await?;
    let mut tx = door.pool.begin().await?;
    let account = accounts::by_phone(&mut tx, phone)
        .await?
        .ok_or_else(wrong_code)?;
    accounts::set_password(&mut tx, account.id, &kept.salt, &kept.hash).await?;
    credentials::revoke(&mut tx, account.id, None, "password reset", door.now).await?;
    let who = Who::plain(AccountId(account.id), door.origin);
    let object = account.id.to_string();
    audit(
        &mut tx,
        &who,
        "account.password",
        &object,
        json!({}),
        door.now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// Another phone, by a code to each of the two; every session ends.
///
/// # Errors
///
/// `wrong_code`, `phone_taken`.
pub async fn change_phone(
    door: Door<'_>,
    who: &Who,
    code: &str,
    new_phone: &str,
    new_code: &str,
) -> Result<(), Fault> {
    let old = {
        let mut connection = door.pool.acquire().await?;
        there(&mut connection, who.account.0).await?
    };
    let codes = [(old.phone.as_str(), code), (new_phone, new_code)];
    use_codes(door, Purpose::ChangePhone, &codes).await?;
    let mut tx = door.pool.begin().await?;
    set_phone(&mut tx, door.now, old.id, new_phone).await?;
    let object = old.id.to_string();
    audit(&mut tx, who, "account.phone", &object, json!({}), door.now).await?;
    tx.commit().await?;
    Ok(())
}

/// Staff gives an account another phone after a look at who asks; nothing is paid out for three days.
///
/// # Errors
///
/// `not_found`, `wrong_code`, `phone_taken`, `conflict_of_interest`.
pub async fn change_phone_by_staff(
    door: Door<'_>,
    who: &Who,
    account: Uuid,
    new_phone: &str,
    new_code: &str,
    identity_check: &str,
) -> Result<(), Fault> {
    who.need("account.phone")?;
    who.need_other(account)?;
    let identity_check = normal_name("identity_check", identity_check, 500)?;
    {
        let mut connection = door.pool.acquire().await?;
        let found = accounts::by_id(&mut connection, account).await?;
        found.ok_or_else(Fault::not_found)?;
    }
    use_codes(door, Purpose::ChangePhone, &[(new_phone, new_code)]).await?;
    let mut tx = door.pool.begin().await?;
    set_phone(&mut tx, door.now, account, new_phone).await?;
    accounts::hold_payouts(&mut tx, account, door.now + PHONE_HOLD).await?;
    let detail = json!({ "identity_check": identity_check });
    let object = account.to_string();
    audit(
        &mut tx,
        who,
        "account.phone_by_staff",
        &object,
        detail,
        door.now,
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

async fn set_phone(
    tx: &mut Connection,
    now: DateTime<Utc>,
    account: Uuid,
    phone: &str,
) -> Result<(), Fault> {
    if !accounts::set_phone(tx, account, phone).await? {
        return Err(phone_taken());
    }
    credentials::revoke(tx, account, None, "phone changed", now).await?;
    Ok(())
}

/// Changes what others see of oneself; what is not given stays.
///
/// # Errors
///
/// `invalid`.
pub async fn set_profile(
    pool: &Pool,
    who: &Who,
    name: Option<&str>,
    locale: Option<&str>,
) -> Result<(), Fault> {
    let name = name.map(|n| normal_name("name", n, 60)).transpose()?;
    locale.map(lawful_locale).transpose()?;
    let mut connection = pool.acquire().await?;
    accounts::set_profile(&mut connection, who.account.0, name.as_deref(), locale).await?;
    Ok(())
}

/// What an account is, for its owner.
///
/// # Errors
///
/// The database.
pub async fn own(pool: &Pool, who: &Who) -> Result<AccountRow, Fault> {
    let mut connection = pool.acquire().await?;
    there(&mut connection, who.account.0).await
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn phones_have_one_form() {
        for typed in ["13800001111", "+86 138-0000-1111", "138 0000 1111"] {
            assert_eq!(normal_phone(typed).unwrap(), "+8613800001111");
        }
        for wrong in [
            "",
            "+",
            "++8613800001111",
            "+0123456789",
            "23800001111",
            "+861380000111x",
            "+1234567890123456",
            "+86１３８00001111",
        ] {
            assert_eq!(
                normal_phone(wrong).unwrap_err().code(),
                Some("invalid"),
                "{wrong}"
            );
        }
    }
}
