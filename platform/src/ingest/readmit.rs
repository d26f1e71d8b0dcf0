//! Frames in quarantine, judged again by today's rules and stored by the same code as others. Never judges by rules of its own.

use std::time::Duration;

use chrono::{DateTime, Utc};
use furrow_protocol::frame::Device;
use uuid::Uuid;

use super::{
    check::{self, Link, Received, Sound, Verdict},
    fault::Fault,
    keys::KeyRing,
    store::{Kept, Store},
    tails::Tails,
};
use crate::db::{
    self, DbError, Pool,
    quarantine::{self, QuarantineRow},
};

/// Frames looked at in one go.
const PAGE: i64 = 500;
/// How long a statement may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Which frames.
#[derive(Debug, Clone, Copy)]
pub enum Which {
    /// All.
    All,
    /// Those that are there for this reason.
    Reason(Fault),
    /// This one.
    One(Uuid),
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is kept elsewhere now (as what, the store says), and gone from quarantine.
    Left(Kept),
    /// It stays, and why.
    Stays(Fault),
    /// It stays: today's rules take it, but the database will not have it.
    NotStored,
}

impl Outcome {
    /// On the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left(Kept::Stored) => "stored",
            Self::Left(Kept::Known) => "known",
            Self::Left(Kept::Contradiction) => "contradiction",
            Self::Stays(fault) => fault.name(),
            Self::NotStored => "not_stored",
        }
    }
}

/// A frame that was judged again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readmitted {
    /// Its id in quarantine.
    pub id: Uuid,
    /// Whose.
    pub device: u32,
    /// What became of it.
    pub outcome: Outcome,
}

/// Judges frames again, oldest first; tells each one's outcome to `told`. What is stored is committed
/// before it leaves the quarantine, so that a crash in between costs nothing: it is known then.
///
/// Errors: the database; what was told before stands.
pub async fn readmit(
    pool: &Pool,
    keys: &KeyRing,
    which: Which,
    now: DateTime<Utc>,
    mut told: impl FnMut(Readmitted),
) -> Result<(), DbError> {
    let tails = Tails::default();
    let store = Store {
        pool,
        tails: &tails,
        limit: LIMIT,
    };
    let mut after = Uuid::nil();
    loop {
        let page = match which {
            Which::All => quarantine::page(pool, None, after, PAGE).await?,
            Which::Reason(fault) => quarantine::page(pool, Some(fault.name()), after, PAGE).await?,
            Which::One(id) if after.is_nil() => {
                quarantine::by_id(pool, id).await?.into_iter().collect()
            }
            Which::One(_) => return Ok(()),
        };
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.id;
        readmit_page(store, keys, &page, now, &mut told).await?;
    }
}

async fn readmit_page(
    store: Store<'_>,
    keys: &KeyRing,
    page: &[QuarantineRow],
    now: DateTime<Utc>,
    told: &mut impl FnMut(Readmitted),
) -> Result<(), DbError> {
    let received: Vec<Received<'_>> = page
        .iter()
        .map(|row| Received {
            device: Device(row.device),
            payload: &row.payload,
        })
        .collect();
    let verdicts = check::check(&received, &keys.snapshot(), now);
    let sound = |verdict: &Verdict| match verdict {
        Verdict::Sound(sound) => Some((**sound).clone()),
        Verdict::Faulty(..) => None,
    };
    let group: Vec<Sound> = verdicts.iter().filter_map(sound).collect();
    let mut kept = store_what_can_be(store, &group, now).await?.into_iter();
    for (row, verdict) in page.iter().zip(&verdicts) {
        let outcome = match verdict {
            Verdict::Sound(_) => kept
                .next()
                .flatten()
                .map_or(Outcome::NotStored, Outcome::Left),
            Verdict::Faulty(fault, link) => {
                stays(store, row, *fault, link.as_deref().copied(), now).await?;
                Outcome::Stays(*fault)
            }
        };
        if matches!(outcome, Outcome::Left(_)) {
            quarantine::remove(store.pool, row.id).await?;
        }
        told(Readmitted {
            id: row.id,
            device: row.device,
            outcome,
        });
    }
    Ok(())
}

/// Stores a group, or each frame of it alone if the database will not have one of them: that one is None.
async fn store_what_can_be(
    store: Store<'_>,
    group: &[Sound],
    now: DateTime<Utc>,
) -> Result<Vec<Option<Kept>>, DbError> {
    if group.is_empty() {
        return Ok(vec![]);
    }
    match store.frames(group, now).await {
        Ok(kept) => return Ok(kept.into_iter().map(Some).collect()),
        Err(error) if db::blames_content(&error) => {}
        Err(error) => return Err(error),
    }
    let mut all = Vec::with_capacity(group.len());
    for one in group {
        match store.frames(std::slice::from_ref(one), now).await {
            Ok(kept) => all.push(kept.first().copied()),
            Err(error) if db::blames_content(&error) => {
                tracing::error!(error = %error, place = ?one.frame.place, "ingest.not_stored");
                all.push(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// What is known of a frame now may be more than when it came: a version that could not be read then
/// may have a place in its chain.
async fn stays(
    store: Store<'_>,
    row: &QuarantineRow,
    fault: Fault,
    link: Option<Link>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    if row.reason == fault.name() && row.linked == link.is_some() {
        return Ok(());
    }
    store.rejudge(row.id, fault.name(), link, now).await
}
