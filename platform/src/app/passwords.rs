//! Passwords: argon2id, off the runtime's threads, a few at a time. Never keeps or logs one.

use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use super::fault::Fault;
use crate::ids;

/// OWASP's least: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Hashes at a time: 16 of them take 300 MB.
static ROOM: Semaphore = Semaphore::const_new(16);

/// A password as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Random, 16 bytes.
    pub salt: Vec<u8>,
    /// 32 bytes.
    pub hash: Vec<u8>,
}

async fn hash(password: String, salt: Vec<u8>) -> Result<Vec<u8>, Fault> {
    let broken = |what: &str| Fault::Broken(format!("argon2: {what}"));
    let _room = ROOM.acquire().await.map_err(|_| broken("no room"))?;
    let hashed = tokio::task::spawn_blocking(move || {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).ok()?;
        let mut out = vec![0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(password.as_bytes(), &salt, &mut out)
            .ok()?;
        Some(out)
    });
    hashed
        .await
        .map_err(|_| broken("ended"))?
        .ok_or_else(|| broken("no hash"))
}

/// Whether it may be a password.
///
/// # Errors
///
/// `invalid` for one that is shorter than 8 or longer than 128 characters.
pub fn lawful(password: &str) -> Result<(), Fault> {
    if (8..=128).contains(&password.chars().count()) {
        Ok(())
    } else {
        Err(Fault::invalid("password", "must have 8 to 128 characters"))
    }
}

/// A new password.
///
/// # Errors
///
/// `invalid` as [`lawful`] says.
pub async fn keep(password: &str) -> Result<Kept, Fault> {
    lawful(password)?;
    let salt = ids::secret::<16>().to_vec();
    let hash = hash(password.to_owned(), salt.clone()).await?;
    Ok(Kept { salt, hash })
}

/// Whether it is this one. Without one it takes as long and is not.
///
/// # Errors
///
/// Our own.
pub async fn is(password: &str, kept: Option<&Kept>) -> Result<bool, Fault> {
    let shown: String = password.chars().take(128).collect();
    let salt = kept.map_or_else(|| vec![0; 16], |k| k.salt.clone());
    let hash = hash(shown, salt).await?;
    Ok(kept.is_some_and(|k| {
        let same = k
            .hash
            .iter()
            .zip(&hash)
            .fold(0, |all, (a, b)| all | (a ^ b))
            == 0;
        same && k.hash.len() == hash.len()
    }))
}
