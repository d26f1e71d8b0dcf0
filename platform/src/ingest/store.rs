//! One group of frames into the database, in one transaction, with every look at the chain. Never answers a device itself.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};
use furrow_protocol::frame::{Device, Digest, Frame};
use tokio::time::timeout;

use super::{
    check::{Link, Sound},
    links,
    marks::Marks,
    tails::Tails,
};
use crate::db::{
    self, DbError, Pool,
    frames::{self, NewContradiction, NewFrame, Place},
    quarantine::{self, NewQuarantine},
};

/// What became of each frame of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Stored now.
    Stored,
    /// Was there already, byte for byte.
    Known,
    /// Another frame stands at its place; this one is kept as a contradiction.
    Contradiction,
}

/// How often a group is tried again after losing a deadlock, or for want of a partition.
const TRIES: u32 = 3;
/// Beyond the time that the server has for a statement it is not waited for an answer.
const MARGIN: Duration = Duration::from_secs(5);

/// Where groups go.
#[derive(Debug, Clone, Copy)]
pub struct Store<'a> {
    /// The telemetry database.
    pub pool: &'a Pool,
    /// What the last groups ended with.
    pub tails: &'a Tails,
    /// How long a statement may take; a little more, and the connection is given up.
    pub limit: Duration,
}

impl Store<'_> {
    /// Stores a group. All of it is committed when this returns.
    ///
    /// Errors: the database; then nothing of it is stored.
    pub async fn frames(self, group: &[Sound], now: DateTime<Utc>) -> Result<Vec<Kept>, DbError> {
        let mut careful = false;
        let mut tries = 0;
        loop {
            match self.try_frames(group, now, careful).await {
                // Something stands where the marks said nothing does: look every frame up.
                Err(error) if db::unique_violation(&error) && !careful => careful = true,
                Err(error) if db::retryable(&error) && tries < TRIES => tries += 1,
                // The job that makes them has not run for long, or somebody dropped one.
                Err(error) if db::partition_missing(&error) && tries < TRIES => {
                    tries += 1;
                    tracing::error!(error = %error, "ingest.partition_missing");
                    db::partitions::ensure(self.pool, now.date_naive()).await?;
                }
                result => return result,
            }
        }
    }

    async fn try_frames(
        self,
        group: &[Sound],
        now: DateTime<Utc>,
        careful: bool,
    ) -> Result<Vec<Kept>, DbError> {
        let mut connection = self.pool.acquire().await?;
        let work = frames_in(&mut connection, self, group, now, careful);
        match timeout(self.limit + MARGIN, work).await {
            Ok(result) => result,
            Err(_) => Err(db::give_up(connection)),
        }
    }

    /// Keeps payloads in quarantine, each within its device's share; tells for each whether it is kept.
    /// One of a good signature is a link between its neighbours, and is judged as such.
    ///
    /// Errors: the database; then none is kept.
    pub async fn quarantine(
        self,
        new: &[NewQuarantine],
        links: &[Option<Link>],
        now: DateTime<Utc>,
    ) -> Result<Vec<bool>, DbError> {
        let mut tries = 0;
        loop {
            match self.try_quarantine(new, links, now).await {
                Err(error) if db::retryable(&error) && tries < TRIES => tries += 1,
                result => return result,
            }
        }
    }

    async fn try_quarantine(
        self,
        new: &[NewQuarantine],
        links: &[Option<Link>],
        now: DateTime<Utc>,
    ) -> Result<Vec<bool>, DbError> {
        let mut connection = self.pool.acquire().await?;
        let work = quarantine_in(&mut connection, self, new, links, now);
        match timeout(self.limit + MARGIN, work).await {
            Ok(result) => result,
            Err(_) => Err(db::give_up(connection)),
        }
    }

    /// Writes down what a payload in quarantine was found to be when it was judged again.
    ///
    /// Errors: the database.
    pub async fn rejudge(
        self,
        id: uuid::Uuid,
        reason: &'static str,
        link: Option<Link>,
        now: DateTime<Utc>,
    ) -> Result<(), DbError> {
        let mut connection = self.pool.acquire().await?;
        let mut tx = db::begin_within(&mut connection, self.limit).await?;
        let landed: Vec<Link> = link.into_iter().collect();
        let marks = Marks::raise(&mut tx, landed.iter().map(|l| l.place), now).await?;
        let place = link.map(|link| (link.place, link.digest.0));
        quarantine::rejudge(&mut tx, id, reason, place).await?;
        let new = landed_in_quarantine(&mut tx, &landed, &marks, self.tails, now).await?;
        tx.commit().await?;
        raise_alarm(new);
        Ok(())
    }
}

async fn frames_in(
    connection: &mut db::Connection,
    store: Store<'_>,
    group: &[Sound],
    now: DateTime<Utc>,
    careful: bool,
) -> Result<Vec<Kept>, DbError> {
    let tails = store.tails;
    let mut tx = db::begin_within(connection, store.limit).await?;
    let marks = Marks::raise(&mut tx, group.iter().map(|s| s.frame.place), now).await?;
    let mut doubtful: Vec<Place> = group
        .iter()
        .map(|sound| sound.frame.place)
        .filter(|place| careful || marks.may_be_kept(place))
        .collect();
    doubtful.sort_unstable();
    doubtful.dedup();
    let there = frames::at_places(&mut tx, &doubtful).await?;
    let sorted = Sorted::of(group, &there);

    let fresh: Vec<NewFrame> = sorted.fresh().map(|s| s.frame.clone()).collect();
    frames::copy(&mut tx, &fresh, now).await?;
    let mut found = sorted.contradictions();
    let landed: Vec<Link> = sorted.landed().map(|s| s.link).collect();
    found.extend(links::broken(&mut tx, &landed, &marks, tails).await?);
    let stored = || sorted.fresh().map(|s| (s.link.place, s.link.digest));
    let late: HashMap<Place, Digest> = stored()
        .filter(|(place, _)| careful || marks.may_be_kept(place))
        .collect();
    found.extend(links::rivals(&mut tx, late.keys().copied().collect(), &late).await?);
    let new = frames::insert_contradictions(&mut tx, &found, now).await?;
    tx.commit().await?;

    raise_alarm(new);
    // Only what is alone at its place is remembered: of the others the database knows all.
    tails.note(stored().filter(|(place, _)| !late.contains_key(place)));
    let denied = found.iter().filter(|c| c.kind == "other_bytes");
    tails.forget(denied.map(|c| c.place));
    Ok(sorted.kept)
}

async fn quarantine_in(
    connection: &mut db::Connection,
    store: Store<'_>,
    new: &[NewQuarantine],
    links: &[Option<Link>],
    now: DateTime<Utc>,
) -> Result<Vec<bool>, DbError> {
    let mut tx = db::begin_within(connection, store.limit).await?;
    // Their neighbours will look for them from now on.
    let places = links.iter().flatten().map(|link| link.place);
    let marks = Marks::raise(&mut tx, places, now).await?;
    let kept = quarantine::insert(&mut tx, new, now).await?;
    let landed: Vec<Link> = links
        .iter()
        .zip(&kept)
        .filter_map(|(link, kept)| link.filter(|_| *kept))
        .collect();
    let contradictions = landed_in_quarantine(&mut tx, &landed, &marks, store.tails, now).await?;
    tx.commit().await?;
    raise_alarm(contradictions);
    Ok(kept)
}

/// Judges links that have just landed in quarantine; gives how many contradictions are new.
async fn landed_in_quarantine(
    tx: &mut db::Connection,
    landed: &[Link],
    marks: &Marks,
    tails: &Tails,
    now: DateTime<Utc>,
) -> Result<u64, DbError> {
    // From here on their places are asked for in the database.
    tails.forget(landed.iter().map(|link| link.place));
    let mut found = links::broken(tx, landed, marks, tails).await?;
    let places = || landed.iter().map(|link| link.place);
    let late: Vec<Place> = places().filter(|place| marks.may_be_kept(place)).collect();
    let mut stored: HashMap<Place, Digest> = HashMap::new();
    for (place, bytes) in frames::at_places(tx, &late).await? {
        if let Ok(frame) = Frame::from_bytes(&bytes) {
            stored.insert(place, frame.digest(Device(place.device)));
        }
    }
    found.extend(links::rivals(tx, places().collect(), &stored).await?);
    frames::insert_contradictions(tx, &found, now).await
}

fn raise_alarm(contradictions: u64) {
    if contradictions > 0 {
        metrics::counter!("furrow_ingest_contradictions_total").increment(contradictions);
        tracing::error!(contradictions, "ingest.contradiction");
    }
}

/// A group, sorted by what each frame is.
struct Sorted<'a> {
    group: &'a [Sound],
    kept: Vec<Kept>,
}

impl<'a> Sorted<'a> {
    /// What is stored at a place speaks for it, otherwise the first of the group: others are known or
    /// deny it.
    fn of(group: &'a [Sound], there: &HashMap<Place, Vec<u8>>) -> Self {
        let mut first: HashMap<Place, &[u8]> = HashMap::with_capacity(group.len());
        let sort = |sound: &'a Sound| {
            let (place, bytes) = (&sound.frame.place, &sound.frame.frame[..]);
            let stored = there.get(place).map(Vec::as_slice);
            match stored.or_else(|| first.get(place).copied()) {
                None => {
                    first.insert(*place, bytes);
                    Kept::Stored
                }
                Some(speaks) if speaks == bytes => Kept::Known,
                Some(_) => Kept::Contradiction,
            }
        };
        let kept = group.iter().map(sort).collect();
        Self { group, kept }
    }

    fn which(&self, which: impl Fn(Kept) -> bool) -> impl Iterator<Item = &'a Sound> {
        let pairs = self.group.iter().zip(&self.kept);
        pairs
            .filter(move |(_, kept)| which(**kept))
            .map(|(sound, _)| sound)
    }

    /// Those that are to be stored.
    fn fresh(&self) -> impl Iterator<Item = &'a Sound> {
        self.which(|kept| kept == Kept::Stored)
    }

    /// Those that are kept from now on, wherever.
    fn landed(&self) -> impl Iterator<Item = &'a Sound> {
        self.which(|kept| kept != Kept::Known)
    }

    /// Those that deny what stands at their place, whole.
    fn contradictions(&self) -> Vec<NewContradiction> {
        self.which(|kept| kept == Kept::Contradiction)
            .map(|sound| NewContradiction {
                frame: Some(sound.frame.frame.clone()),
                ..links::contradiction(sound.link.place, "other_bytes", sound.link.digest)
            })
            .collect()
    }
}
