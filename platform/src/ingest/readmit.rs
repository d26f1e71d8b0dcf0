//! Frames in quarantine, judged again by today's rules and stored by the same code as others. Never judges by rules of its own.

use chrono::{DateTime, Utc};
use furrow_protocol::frame::Device;
use uuid::Uuid;

use super::{
    check::{self, Received, Verdict},
    keys::KeyRing,
    store,
    tails::Tails,
};
use crate::db::{
    DbError, Pool,
    quarantine::{self, QuarantineRow},
};

/// Frames looked at in one go.
const PAGE: i64 = 500;

/// Which frames.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// All.
    All,
    /// Those that are there for this reason.
    Reason(&'a str),
    /// This one.
    One(Uuid),
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readmitted {
    /// Its id in quarantine.
    pub id: Uuid,
    /// Whose.
    pub device: i32,
    /// None: it is stored now, and is gone from quarantine. Otherwise why it stays.
    pub stays: Option<&'static str>,
}

/// Judges frames again; tells each one's outcome to `told`. What is stored is committed before it leaves
/// the quarantine, so that a crash in between costs nothing: it is known then.
///
/// Errors: the database; what was told before stands.
pub async fn readmit(
    pool: &Pool,
    keys: &KeyRing,
    which: Which<'_>,
    now: DateTime<Utc>,
    mut told: impl FnMut(Readmitted),
) -> Result<(), DbError> {
    let tails = Tails::default();
    let mut after = Uuid::nil();
    loop {
        let page = match which {
            Which::All => quarantine::page(pool, None, after, PAGE).await?,
            Which::Reason(reason) => quarantine::page(pool, Some(reason), after, PAGE).await?,
            Which::One(id) if after.is_nil() => {
                quarantine::by_id(pool, id).await?.into_iter().collect()
            }
            Which::One(_) => return Ok(()),
        };
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.id;
        readmit_page(pool, keys, &tails, page, now, &mut told).await?;
    }
}

async fn readmit_page(
    pool: &Pool,
    keys: &KeyRing,
    tails: &Tails,
    page: Vec<QuarantineRow>,
    now: DateTime<Utc>,
    told: &mut impl FnMut(Readmitted),
) -> Result<(), DbError> {
    let payloads: Vec<(Device, bytes::Bytes)> = page
        .iter()
        .map(|row| {
            let payload = bytes::Bytes::copy_from_slice(&row.payload);
            (Device(row.device.cast_unsigned()), payload)
        })
        .collect();
    let received: Vec<Received<'_>> = payloads
        .iter()
        .map(|(device, payload)| Received {
            device: *device,
            payload,
        })
        .collect();
    let verdicts = check::check(&received, &keys.snapshot(), now);
    let mut group = Vec::new();
    for verdict in &verdicts {
        if let Verdict::Sound(sound) = verdict {
            group.push((**sound).clone());
        }
    }
    // Whatever became of them (stored, known, contradiction), they are kept as what they are.
    if !group.is_empty() {
        store::store(pool, &group, tails, now).await?;
    }
    for (row, verdict) in page.iter().zip(&verdicts) {
        let stays = match verdict {
            Verdict::Sound(_) => {
                quarantine::remove(pool, row.id).await?;
                None
            }
            Verdict::Faulty(fault, _) => Some(fault.name()),
        };
        told(Readmitted {
            id: row.id,
            device: row.device,
            stays,
        });
    }
    Ok(())
}
