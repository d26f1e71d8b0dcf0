//! What the doors hand to ingest, and how ingest answers. Never blocks either side.

use std::sync::Arc;

use bytes::Bytes;
use furrow_protocol::{down::Down, frame::Device};

/// Who brought a frame and how it is answered. One per session; must not block.
pub trait Reply: Send + Sync {
    /// The frames of these tickets are safe: their PUBACKs and these messages leave in one write.
    fn settle(&self, device: Device, tickets: &[u64], down: Vec<Down>);
}

/// A payload on its way in. A ticket that is never settled is simply not answered; the device sends again.
#[derive(Clone)]
pub struct Arrival {
    /// Whose, by its credentials.
    pub device: Device,
    /// What came.
    pub payload: Bytes,
    /// The session's own number for it.
    pub ticket: u64,
    /// The session.
    pub reply: Arc<dyn Reply>,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Arrival {{ device: {}, {} bytes, ticket: {} }}",
            self.device,
            self.payload.len(),
            self.ticket
        )
    }
}

/// Into ingest. Bounded: while it is full, the gate reads no more from the session.
pub type Arrivals = tokio::sync::mpsc::Sender<Arrival>;
