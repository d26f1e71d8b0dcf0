//! Devices: how they come in by a one-time code, who is let in, and how they are turned away.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use chrono::{DateTime, TimeDelta, Utc};
use furrow_protocol::{VerifyingKey, frame::Device};
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;
use thiserror::Error;
use uuid::Uuid;

use super::authority::{Authority, AuthorityError};
use crate::{
    db::{self, DbError, devices::NewDevice},
    ingest::keys::{DeviceKey, KeyRing},
    mqtt::register::{Boxed, Refusal, Register},
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
    pub device: Device,
    /// 64 hex digits; only the box knows it.
    pub token: String,
    /// Its client certificate.
    pub certificate_pem: String,
}

/// A fresh code for a machine, as it is shown once: `XXXX-XXXX-XXXX-XXXX`.
///
/// Errors: the database.
pub async fn make_code(
    pool: &PgPool,
    machine: Uuid,
    now: DateTime<Utc>,
) -> Result<String, DbError> {
    let bits: [u8; CODE_LENGTH] = rand::random();
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

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Takes a box in: checks the code and the signature, gives it a number, a token and a certificate.
///
/// Errors: [`EnrolError`]; the code stays usable unless the whole succeeds.
pub async fn enrol(
    pool: &PgPool,
    authority: &Authority,
    request: &EnrolRequest,
    address: IpAddr,
    now: DateTime<Utc>,
) -> Result<Enrolled, EnrolError> {
    if db::devices::failures_since(pool, address, now - TimeDelta::hours(1)).await? >= WRONG_TRIES {
        return Err(EnrolError::TooManyTries);
    }
    let key = VerifyingKey::from_bytes(&request.public_key).map_err(|_| EnrolError::BadKey)?;
    if key.is_weak() {
        return Err(EnrolError::BadKey);
    }
    let Some(code) = normal_code(&request.code) else {
        db::devices::insert_failure(pool, address, now).await?;
        return Err(EnrolError::UnknownCode);
    };
    let signed = [ENROL_TAG, code.as_bytes(), &request.public_key].concat();
    let signature = ed25519_dalek::Signature::from_bytes(&request.signature);
    key.verify_strict(&signed, &signature)
        .map_err(|_| EnrolError::BadSignature)?;

    let mut tx = pool.begin().await?;
    let Some((code_id, machine)) =
        db::devices::lock_code(&mut tx, &hash(code.as_bytes()), now).await?
    else {
        drop(tx);
        db::devices::insert_failure(pool, address, now).await?;
        return Err(EnrolError::UnknownCode);
    };
    let token: [u8; 32] = rand::random();
    let evidence = [&signed[..], &request.signature].concat();
    let new = NewDevice {
        public_key: &request.public_key,
        token_hash: &hash(&token),
        request: &evidence,
        code: code_id,
        machine,
        now,
    };
    let number = db::devices::insert(&mut tx, &new).await.map_err(|error| {
        if db::unique_violation(&error) {
            EnrolError::KnownKey
        } else {
            error.into()
        }
    })?;
    let device = Device(number.cast_unsigned());
    let certificate_pem = authority.device_certificate(device, &request.public_key, now)?;
    tx.commit().await?;
    tracing::info!(device = number, machine = %machine, "app.devices.enrolled");
    Ok(Enrolled {
        device,
        token: hex(&token),
        certificate_pem,
    })
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

/// The register in memory: asked for every connection and every frame, refreshed from the database.
#[derive(Debug, Clone)]
pub struct CachedRegister {
    pool: PgPool,
    keys: KeyRing,
    entries: Arc<RwLock<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<[u8; 32], u32>,
    tokens: HashMap<u32, [u8; 32]>,
}

impl CachedRegister {
    /// An empty register; [`CachedRegister::refresh`] fills it.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            keys: KeyRing::default(),
            entries: Arc::default(),
        }
    }

    /// The keys, for ingest.
    #[must_use]
    pub fn keys(&self) -> KeyRing {
        self.keys.clone()
    }

    /// Reads the register anew. Called every few seconds, so that a revocation in any process is felt
    /// in every process well within 30 s.
    ///
    /// Errors: the database; what is known stays.
    pub async fn refresh(&self) -> Result<(), DbError> {
        let rows = db::devices::all(&self.pool).await?;
        let mut keys = HashMap::with_capacity(rows.len());
        let mut entries = Entries::default();
        for row in rows {
            let number = row.number.cast_unsigned();
            let Some(key) = DeviceKey::new(&row.public_key, row.revoked_at.is_some()) else {
                tracing::error!(device = row.number, "app.devices.bad_key");
                continue;
            };
            entries.by_key.insert(key.strict.to_bytes(), number);
            if let Ok(token) = row.token_hash.as_slice().try_into() {
                entries.tokens.insert(number, token);
            }
            keys.insert(number, key);
        }
        self.keys.replace(keys);
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        Ok(())
    }

    fn known(&self, device: Device) -> Result<Device, Refusal> {
        match self.keys.snapshot().get(&device.0) {
            None => Err(Refusal::Unknown),
            Some(key) if key.revoked => Err(Refusal::Revoked),
            Some(_) => Ok(device),
        }
    }

    fn find_key(&self, key: &[u8; 32]) -> Option<Device> {
        self.entries
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_key
            .get(key)
            .copied()
            .map(Device)
    }

    fn find_token(&self, device: Device) -> Option<[u8; 32]> {
        self.entries
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .tokens
            .get(&device.0)
            .copied()
    }

    /// A device that has just enrolled is not in memory yet: the register is read once more before
    /// it is turned away.
    async fn look_again<T>(&self, find: impl Fn() -> Option<T>) -> Result<T, Refusal> {
        if let Some(found) = find() {
            return Ok(found);
        }
        self.refresh().await.map_err(|error| {
            tracing::warn!(error = %error, "app.devices.refresh");
            Refusal::Unavailable
        })?;
        find().ok_or(Refusal::Unknown)
    }
}

impl Register for CachedRegister {
    fn by_key(&self, public_key: [u8; 32]) -> Boxed<'_, Result<Device, Refusal>> {
        Box::pin(async move {
            let device = self.look_again(|| self.find_key(&public_key)).await?;
            self.known(device)
        })
    }

    fn by_token<'a>(
        &'a self,
        device: Device,
        token: &'a [u8],
    ) -> Boxed<'a, Result<Device, Refusal>> {
        Box::pin(async move {
            let token = unhex::<32>(token).ok_or(Refusal::Unknown)?;
            let told = self.look_again(|| self.find_token(device)).await?;
            // Hashes of random tokens: comparing them byte by byte tells nothing of a token.
            if told == hash(&token) {
                self.known(device)
            } else {
                Err(Refusal::Unknown)
            }
        })
    }

    fn revoked(&self, device: Device) -> bool {
        self.keys.revoked(device)
    }
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
