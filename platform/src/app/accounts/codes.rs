//! One-time codes by short message: six digits, five minutes, five tries. Never says whether a phone has an account.

use chrono::TimeDelta;

use super::Door;
use crate::{
    app::{
        devices::hash,
        fault::{Fault, Sort},
    },
    db::credentials,
    ids,
};

/// A code lives so long.
const CODE_LIFE: TimeDelta = TimeDelta::minutes(5);
/// Wrong tries of a code.
const CODE_TRIES: i32 = 5;
/// A code is one of so many. The share of codes that come up once more often than others is 1 in 4,294.
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

/// Makes a code, which voids the one before it; gives the text that the phone must get.
///
/// # Errors
///
/// The database.
pub async fn make_code(door: Door<'_>, phone: &str, purpose: Purpose) -> Result<String, Fault> {
    let code = format!("{:06}", u32::from_be_bytes(ids::secret()) % CODES);
    let mut connection = door.pool.acquire().await?;
    credentials::insert_code(
        &mut connection,
        ids::new_id(door.now),
        phone,
        purpose.name(),
        &of(phone, &code),
        door.now,
        door.now + CODE_LIFE,
    )
    .await?;
    Ok(format!(
        "【犁迹】验证码 {code}，5 分钟内有效。Furrow code {code}, valid 5 minutes."
    ))
}

fn of(phone: &str, code: &str) -> Vec<u8> {
    hash(format!("{phone}:{}", code.trim()).as_bytes()).to_vec()
}

pub(super) fn wrong_code() -> Fault {
    Fault::new(
        Sort::Unauthorized,
        "wrong_code",
        "the code is wrong or too old",
    )
}

/// Uses all of these codes, or none. A wrong one is counted, in a transaction of its own, so that a
/// refused request counts too; the price is that a code is gone even if what it was for fails later.
pub(super) async fn use_codes(
    door: Door<'_>,
    purpose: Purpose,
    shown: &[(&str, &str)],
) -> Result<(), Fault> {
    let mut tx = door.pool.begin().await?;
    let mut right = Vec::new();
    let mut all = true;
    for (phone, code) in shown {
        let open =
            credentials::open_code(&mut tx, phone, purpose.name(), door.now, CODE_TRIES).await?;
        match open {
            Some(open) if open.code_hash == of(phone, code) => right.push(open.id),
            Some(open) => {
                credentials::note_code(&mut tx, open.id, None).await?;
                all = false;
            }
            None => all = false,
        }
    }
    if all {
        for id in right {
            credentials::note_code(&mut tx, id, Some(door.now)).await?;
        }
    }
    tx.commit().await?;
    if all { Ok(()) } else { Err(wrong_code()) }
}
