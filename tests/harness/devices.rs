//! Devices that a rig makes by the thousand, straight in the register. Never through enrolment: stories do that with the real agent.

use anyhow::Context as _;
use furrow_protocol::{SigningKey, frame::Device};
use sha2::{Digest as _, Sha256};
use sqlx::postgres::PgPool;

/// A device whose key the rig holds.
pub struct Forged {
    /// Its number.
    pub device: Device,
    /// Its key.
    pub key: SigningKey,
    /// Its token, 64 hex digits.
    pub token: String,
}

/// Adds `count` devices, each on a machine of its own.
///
/// Errors: the database.
pub async fn forge(pool: &PgPool, count: usize) -> anyhow::Result<Vec<Forged>> {
    let made: Vec<(SigningKey, String)> = (0..count)
        .map(|_| Ok((SigningKey::from_bytes(&random()?), hex(&random()?))))
        .collect::<anyhow::Result<_>>()?;
    let keys: Vec<Vec<u8>> = made
        .iter()
        .map(|(key, _)| key.verifying_key().to_bytes().to_vec())
        .collect();
    let hashes: Vec<Vec<u8>> = made
        .iter()
        .map(|(_, token)| Sha256::digest(unhex(token)).to_vec())
        .collect();
    let numbers: Vec<(i32, Vec<u8>)> = sqlx::query_as(
        "with new as (
             insert into devices (public_key, token_hash, enrolled_at, changed_at, enrolment_request)
             select k, h, now(), now(), ''::bytea from unnest($1::bytea[], $2::bytea[]) as t(k, h)
             returning number, public_key),
         seated as (
             insert into machines (id, name, machine_type, working_width_cm, created_at)
             select gen_random_uuid(), 'forged ' || number, 'tractor', 600, now() from new
             returning id, name),
         bound as (
             insert into device_bindings (id, device, machine_id, during)
             select gen_random_uuid(), new.number, seated.id, tstzrange(now() - interval '90 days', null)
             from new join seated on seated.name = 'forged ' || new.number)
         select number, public_key from new",
    )
    .bind(&keys)
    .bind(&hashes)
    .fetch_all(pool)
    .await
    .context("insert devices")?;
    made.into_iter()
        .map(|(key, token)| {
            let public = key.verifying_key().to_bytes();
            let (number, _) = numbers
                .iter()
                .find(|(_, k)| *k == public)
                .context("a device that was not inserted")?;
            Ok(Forged {
                device: Device(number.cast_unsigned()),
                key,
                token,
            })
        })
        .collect()
}

fn random() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| anyhow::anyhow!("random bytes: {e}"))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .filter_map(|i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok())
        .collect()
}
