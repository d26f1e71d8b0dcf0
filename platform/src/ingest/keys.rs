//! The keys of the register, at hand for every frame; refreshed from the database. Never decides who may connect.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use ed25519_dalek::VerifyingKey;
use furrow_protocol::frame::Device;

/// A device's key.
#[derive(Debug, Clone)]
pub struct DeviceKey {
    /// For evidence and single checks.
    pub strict: VerifyingKey,
    /// For batches.
    pub batch: ed25519_zebra::VerificationKeyBytes,
    /// Whether its frames still count.
    pub revoked: bool,
}

impl DeviceKey {
    /// From the register's bytes; None for what is no key.
    #[must_use]
    pub fn new(public_key: &[u8], revoked: bool) -> Option<Self> {
        let bytes: [u8; 32] = public_key.try_into().ok()?;
        let strict = VerifyingKey::from_bytes(&bytes).ok()?;
        Some(Self {
            strict,
            batch: ed25519_zebra::VerificationKeyBytes::from(bytes),
            revoked,
        })
    }
}

/// Keys by the number of their device.
pub type Keys = HashMap<u32, DeviceKey>;

/// All keys. Cloned handles share one ring.
#[derive(Debug, Clone, Default)]
pub struct KeyRing(Arc<RwLock<Arc<Keys>>>);

impl KeyRing {
    /// The keys as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Keys> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces all keys.
    pub fn replace(&self, keys: Keys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Whether a device is turned away; unknown ones are.
    #[must_use]
    pub fn revoked(&self, device: Device) -> bool {
        self.snapshot().get(&device.0).is_none_or(|key| key.revoked)
    }
}
