//! The development gateway of short messages: it keeps them where the demo and tests can read them. Never sends one.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::{
    clock::Clock,
    db::{Pool, credentials},
    ids,
    notify::sms::{NotTaken, SmsGateway},
};

/// Whichever gateway this platform has.
pub type Gateway = Arc<dyn SmsGateway>;

/// Keeps messages in `sms_outbox`.
pub struct Kept {
    /// The database.
    pub pool: Pool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl SmsGateway for Kept {
    fn send<'a>(
        &'a self,
        phone: &'a str,
        text: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotTaken>> + Send + 'a>> {
        Box::pin(async move {
            let now = self.clock.now();
            credentials::insert_sms(&self.pool, ids::new_id(now), phone, text, now)
                .await
                .map_err(|error| NotTaken(error.to_string()))
        })
    }
}
