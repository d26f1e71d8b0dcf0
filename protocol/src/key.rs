//! Which public keys may become a device's. Never makes, holds or stores a key.

use ed25519_dalek::VerifyingKey;

use crate::error::KeyError;

/// The key of these 32 bytes, if a device may have it.
///
/// Errors: [`KeyError::NotAKey`] or [`KeyError::Weak`]. Beside the keys of small order it refuses
/// those with a part of small order, for which batch verification (cofactored) and strict
/// verification could differ, and every encoding but the canonical one, so that a key has one name.
pub fn admit(bytes: &[u8; 32]) -> Result<VerifyingKey, KeyError> {
    let key = VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::NotAKey)?;
    if key.to_edwards().compress().as_bytes() != bytes {
        return Err(KeyError::NotAKey);
    }
    if is_weak(&key) {
        return Err(KeyError::Weak);
    }
    Ok(key)
}

/// Whether the key is, or holds, a point of small order. Keys made by [`crate::SigningKey`] never are.
#[must_use]
pub fn is_weak(key: &VerifyingKey) -> bool {
    key.is_weak() || !key.to_edwards().is_torsion_free()
}
