//! Short messages. The development gateway keeps them in the database in place of sending; none is ever logged.

use std::{fmt, future::Future, pin::Pin};

/// Why a message was not taken.
#[derive(Debug)]
pub struct NotTaken(pub String);

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotTaken {}

/// A gateway.
pub trait SmsGateway: Send + Sync {
    /// Hands a message over.
    fn send<'a>(
        &'a self,
        phone: &'a str,
        text: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotTaken>> + Send + 'a>>;
}
