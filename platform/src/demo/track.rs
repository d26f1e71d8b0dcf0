//! A device's stored frames as the core takes them: the same way for the lines while it works and for the table at the end. Never judges.

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use furrow_domain::track::Fix;
use furrow_protocol::{
    batch::Batch,
    frame::{Device, Frame},
};

use super::outcome::Place;
use crate::{
    db::{self, Pool},
    ingest::fixes,
};

/// A frame that is stored.
pub struct Stored {
    /// Its place.
    pub place: Place,
    /// Digest of its signed bytes.
    pub digest: [u8; 16],
    /// Its fixes.
    pub fixes: Vec<Fix>,
}

/// Reads a frame's bytes.
///
/// Errors: they are no frame.
pub fn read(device: u32, bytes: &[u8]) -> anyhow::Result<Stored> {
    let frame = Frame::from_bytes(bytes).context("a stored frame")?;
    let batch = Batch::decode(&frame.batch).context("a stored batch")?;
    Ok(Stored {
        place: (frame.epoch, frame.seq),
        digest: frame.digest(Device(device)).0,
        fixes: batch.fixes.iter().map(fixes::of_fix).collect(),
    })
}

/// All rows of a device in a window.
///
/// Errors: the database, or a row that is no frame.
pub async fn stored(
    pool: &Pool,
    device: u32,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> anyhow::Result<Vec<Stored>> {
    db::frames::read_window(pool, device, from, to)
        .await?
        .iter()
        .map(|bytes| read(device, bytes))
        .collect()
}
