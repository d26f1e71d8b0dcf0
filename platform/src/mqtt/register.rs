//! Whom the gate lets in. Never looks at what they send.

use std::{future::Future, pin::Pin};

use furrow_protocol::frame::Device;

/// A future of a trait object.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a device is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No such key, device or token.
    Unknown,
    /// Turned away for good.
    Revoked,
    /// The register cannot be asked now.
    Unavailable,
}

/// The register of devices.
pub trait Register: Send + Sync {
    /// The device of a client certificate's Ed25519 key.
    fn by_key(&self, public_key: [u8; 32]) -> Boxed<'_, Result<Device, Refusal>>;
    /// Whether this is the device's token (32 bytes as 64 hex digits).
    fn by_token<'a>(
        &'a self,
        device: Device,
        token: &'a [u8],
    ) -> Boxed<'a, Result<Device, Refusal>>;
    /// Whether the device has been turned away since; asked for each session every 5 s, so it must not block.
    fn revoked(&self, device: Device) -> bool;
}
