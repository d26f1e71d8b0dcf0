//! Devices: how they come in by a one-time code, and how they are turned away. Never keeps a code or a token, only their hashes.

use std::net::{IpAddr, Ipv6Addr};

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::Uuid;

use super::authority::{Authority, AuthorityError};
use crate::{
    db::{
        self, DbError, Pool,
        devices::{CodeRow, NewDevice},
    },
    ids,
};

/// A code can be used for so long.
const CODE_LIFE: TimeDelta = TimeDelta::hours(48);
/// Wrong tries of one address in an hour.
const WRONG_TRIES: i64 = 5;
/// Crockford's base 32: no I, L, O, U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 16 characters of 5 bits: 80 random bits.
const CODE_LENGTH: usize = 16;
/// What the new key signs: this, the code's 16 characters, the key.
const ENROL_TAG: &[u8] = b"furrow enrol v1";

/// Why an enrolment is refused.
#[derive(Debug, Error)]
pub enum EnrolError {
    /// Too many wrong tries.
    #[error("too many wrong codes from this address; try again in an hour")]
    TooManyTries,
    /// No such code, or used, or too old.
    #[error("no such enrolment code, or it was used or has expired")]
    UnknownCode,
    /// The key cannot be one.
    #[error("not a usable Ed25519 public key")]
    BadKey,
    /// The request is not signed by the key.
    #[error("the request is not signed by its key")]
    BadSignature,
    /// The key belongs to a device already.
    #[error("this key is enrolled already")]
    KnownKey,
    /// The database.
    #[error("database")]
    Database(#[from] DbError),
    /// The certificate.
    #[error("certificate")]
    Authority(#[from] AuthorityError),
}

/// What a box asks for.
#[derive(Debug, Clone)]
pub struct EnrolRequest {
    /// As typed.
    pub code: String,
    /// Ed25519.
    pub public_key: [u8; 32],
    /// By that key.
    pub signature: [u8; 64],
}

/// What it gets.
#[derive(Debug, Clone)]
pub struct Enrolled {
    /// Its number.
    pub device: u32,
    /// 64 hex digits; only the box knows it.
    pub token: String,
    /// Its client certificate.
    pub certificate_pem: String,
}

/// A fresh code for a machine, as it is shown once: `XXXX-XXXX-XXXX-XXXX`.
///
/// Errors: the database.
pub async fn make_code(pool: &Pool, machine: Uuid, now: DateTime<Utc>) -> Result<String, DbError> {
    let bits: [u8; CODE_LENGTH] = ids::secret();
    let code: String = bits
        .iter()
        .map(|b| char::from(ALPHABET[usize::from(b & 31)]))
        .collect();
    db::devices::insert_code(pool, &hash(code.as_bytes()), machine, now, now + CODE_LIFE).await?;
    let groups: Vec<&str> = [0, 4, 8, 12]
        .iter()
        .filter_map(|i| code.get(*i..i + 4))
        .collect();
    Ok(groups.join("-"))
}

/// The 16 characters of a typed code; None for what is none.
#[must_use]
pub fn normal_code(typed: &str) -> Option<String> {
    let code: String = typed
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| match c.to_ascii_uppercase() {
            'I' | 'L' => '1',
            'O' => '0',
            c => c,
        })
        .collect();
    let good = code.len() == CODE_LENGTH && code.bytes().all(|b| ALPHABET.contains(&b));
    good.then_some(code)
}

/// SHA-256 of a secret, which is all that is kept of it.
#[must_use]
pub fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Whose wrong tries are counted together: an IPv4 address, or the /64 that one IPv6 host has to itself.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// Takes a box in: checks the code and the signature, gives it a number, a token and a certificate.
///
/// Errors: [`EnrolError`]; the code stays usable unless the whole succeeds.
pub async fn enrol(
    pool: &Pool,
    authority: &Authority,
    request: &EnrolRequest,
    address: IpAddr,
    now: DateTime<Utc>,
) -> Result<Enrolled, EnrolError> {
    let address = source(address);
    let hour_ago = now - TimeDelta::hours(1);
    // Asked before anything costs something; asked again under the lock.
    if db::devices::failures_since(pool, address, hour_ago).await? >= WRONG_TRIES {
        return Err(EnrolError::TooManyTries);
    }
    let code = normal_code(&request.code);
    if let Some(code) = &code {
        verify(code, request)?;
    }
    let mut tx = pool.begin().await?;
    // Tries of one address follow each other, or a burst would have more than its five.
    db::devices::lock_address(&mut tx, address).await?;
    if db::devices::failures_since(&mut *tx, address, hour_ago).await? >= WRONG_TRIES {
        return Err(EnrolError::TooManyTries);
    }
    let known = match &code {
        Some(code) => db::devices::lock_code(&mut tx, &hash(code.as_bytes()), now).await?,
        None => None,
    };
    let (Some(code), Some(CodeRow { id, machine_id })) = (code, known) else {
        db::devices::insert_failure(&mut tx, address, now).await?;
        tx.commit().await?;
        metrics::counter!("furrow_enrolments_total", "outcome" => "unknown_code").increment(1);
        return Err(EnrolError::UnknownCode);
    };
    let token: [u8; 32] = ids::secret();
    let evidence = [&signed_bytes(&code, request)[..], &request.signature].concat();
    let new = NewDevice {
        public_key: &request.public_key,
        token_hash: &hash(&token),
        request: &evidence,
        code: id,
        machine: machine_id,
        now,
    };
    let number = db::devices::insert(&mut tx, &new).await.map_err(|error| {
        if db::unique_violation(&error) {
            EnrolError::KnownKey
        } else {
            error.into()
        }
    })?;
    let device = number.cast_unsigned();
    let certificate_pem = authority.device_certificate(device, &request.public_key, now)?;
    tx.commit().await?;
    metrics::counter!("furrow_enrolments_total", "outcome" => "enrolled").increment(1);
    tracing::info!(device, machine = %machine_id, "app.devices.enrolled");
    Ok(Enrolled {
        device,
        token: hex(&token),
        certificate_pem,
    })
}

fn signed_bytes(code: &str, request: &EnrolRequest) -> Vec<u8> {
    [ENROL_TAG, code.as_bytes(), &request.public_key].concat()
}

/// The key is one that can sign for one device only, and it signed this request.
fn verify(code: &str, request: &EnrolRequest) -> Result<(), EnrolError> {
    // A key with a part of small order accepts signatures that nobody made.
    let key = furrow_protocol::key::admit(&request.public_key).map_err(|_| EnrolError::BadKey)?;
    let signature = ed25519_dalek::Signature::from_bytes(&request.signature);
    key.verify_strict(&signed_bytes(code, request), &signature)
        .map_err(|_| EnrolError::BadSignature)
}

/// Turns a device away for good; false if there is none or it is already.
///
/// Errors: the database.
pub async fn revoke(
    pool: &Pool,
    device: i32,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<bool, DbError> {
    let done = db::devices::revoke(pool, device, reason, now).await?;
    if done {
        tracing::warn!(device, reason, "app.devices.revoked");
    }
    Ok(done)
}

/// Bytes as hex digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Hex digits as bytes; None for what is none.
#[must_use]
pub fn unhex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (to, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *to = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_people_type_them() {
        assert_eq!(
            normal_code("abcd-efgh-jkmn-pqrs").as_deref(),
            Some("ABCDEFGHJKMNPQRS")
        );
        assert_eq!(
            normal_code("OIL0 1111 2222 3333").as_deref(),
            Some("0110111122223333")
        );
        assert_eq!(normal_code("ABCD-EFGH-JKMN-PQR"), None);
        assert_eq!(normal_code("ABCD-EFGH-JKMN-PQRU"), None);
    }

    #[test]
    fn wrong_tries_are_counted_by_the_host_and_not_by_each_of_its_addresses() {
        let source = |text: &str| source(text.parse().unwrap_or(IpAddr::from([0, 0, 0, 0])));
        assert_eq!(source("2001:db8:1:2::7"), source("2001:db8:1:2:ffff::1"));
        assert_ne!(source("2001:db8:1:2::7"), source("2001:db8:1:3::7"));
        assert_eq!(source("::ffff:192.0.2.7"), source("192.0.2.7"));
        assert_ne!(source("192.0.2.8"), source("192.0.2.7"));
    }

    #[test]
    fn hex_goes_there_and_back_and_refuses_the_rest() {
        assert_eq!(
            unhex::<3>(hex(&[0, 171, 255]).as_bytes()),
            Some([0, 171, 255])
        );
        assert_eq!(unhex::<2>(b"0g00"), None);
        assert_eq!(unhex::<2>(b"+100"), None);
        assert_eq!(unhex::<2>(b"000"), None);
    }
}
