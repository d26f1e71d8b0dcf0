//! One group of frames into the database, in one transaction, with every look at the chain. Never answers a device itself.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use furrow_protocol::frame::{Device, Digest, Frame};

use super::{
    check::{Link, Sound},
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

/// How often a group is tried again after losing a deadlock.
const TRIES: u32 = 3;
/// Marks are signed in the database: what lies beyond is always looked up.
const LAST_MARKED: u64 = i64::MAX.unsigned_abs();

/// Stores a group. All of it is committed when this returns.
///
/// Errors: the database; then nothing of it is stored.
pub async fn store(
    pool: &Pool,
    group: &[Sound],
    tails: &Tails,
    now: DateTime<Utc>,
) -> Result<Vec<Kept>, DbError> {
    let mut careful = false;
    let mut tries = 0;
    loop {
        match try_store(pool, group, tails, now, careful).await {
            // Something stands where the marks said nothing does: look every frame up.
            Err(error) if db::unique_violation(&error) && !careful => careful = true,
            Err(error) if db::retryable(&error) && tries < TRIES => tries += 1,
            // The job that makes them has not run for long, or somebody dropped one.
            Err(error) if db::partition_missing(&error) && tries < TRIES => {
                tries += 1;
                tracing::error!(error = %error, "ingest.partition_missing");
                db::partitions::ensure(pool, now.date_naive()).await?;
            }
            result => return result,
        }
    }
}

async fn try_store(
    pool: &Pool,
    group: &[Sound],
    tails: &Tails,
    now: DateTime<Utc>,
    careful: bool,
) -> Result<Vec<Kept>, DbError> {
    let mut tx = pool.begin().await?;
    let marks = Marks::raise(&mut tx, group.iter().map(|s| s.frame.place), now).await?;

    let mut sorted = sort_out(group);
    let doubtful: Vec<Place> = sorted
        .first
        .keys()
        .filter(|p| careful || marks.may_be_kept(p))
        .copied()
        .collect();
    let there = frames::at_places(&mut tx, &doubtful).await?;
    sorted.compare(group, &there);

    let fresh: Vec<NewFrame> = sorted.fresh(group).map(|s| s.frame.clone()).collect();
    frames::copy(&mut tx, &fresh, now).await?;
    let mut found = sorted.contradictions.clone();
    let landed: Vec<Link> = sorted.fresh(group).map(|s| s.link).collect();
    found.extend(broken_links(&mut tx, &landed, &marks, Some(tails)).await?);
    let new = frames::insert_contradictions(&mut tx, &found, now).await?;
    tx.commit().await?;

    raise_contradictions(new);
    tails.note(landed.iter().map(|link| (link.place, link.digest)));
    Ok(sorted.kept)
}

fn raise_contradictions(new: u64) {
    if new > 0 {
        metrics::counter!("furrow_ingest_contradictions_total").increment(new);
        tracing::error!(contradictions = new, "ingest.contradiction");
    }
}

/// Keeps payloads in quarantine, each within its device's share; tells for each whether it is kept.
/// One of a good signature is a link between its neighbours, and is judged as such.
///
/// Errors: the database; then none is kept.
pub async fn quarantine(
    pool: &Pool,
    new: &[NewQuarantine],
    links: &[Option<Link>],
    now: DateTime<Utc>,
) -> Result<Vec<bool>, DbError> {
    let mut tries = 0;
    loop {
        match try_quarantine(pool, new, links, now).await {
            Err(error) if db::retryable(&error) && tries < TRIES => tries += 1,
            result => return result,
        }
    }
}

async fn try_quarantine(
    pool: &Pool,
    new: &[NewQuarantine],
    links: &[Option<Link>],
    now: DateTime<Utc>,
) -> Result<Vec<bool>, DbError> {
    let mut tx = pool.begin().await?;
    // Their neighbours will look for them from now on.
    let places = links.iter().flatten().map(|link| link.place);
    let marks = Marks::raise(&mut tx, places, now).await?;
    let kept = quarantine::insert(&mut tx, new, now).await?;
    let landed: Vec<Link> = links
        .iter()
        .zip(&kept)
        .filter_map(|(link, kept)| link.filter(|_| *kept))
        .collect();
    let found = broken_links(&mut tx, &landed, &marks, None).await?;
    let contradictions = frames::insert_contradictions(&mut tx, &found, now).await?;
    tx.commit().await?;
    raise_contradictions(contradictions);
    Ok(kept)
}

/// What the high-water marks of a group's epochs were before it.
struct Marks(HashMap<(u32, u64), u64>);

impl Marks {
    /// Locks the epochs of these places and raises their marks.
    async fn raise(
        tx: &mut db::Connection,
        places: impl Iterator<Item = Place>,
        now: DateTime<Utc>,
    ) -> Result<Self, DbError> {
        let mut highest: HashMap<(u32, u64), u64> = HashMap::new();
        for Place { device, epoch, seq } in places {
            let mark = highest.entry((device, epoch)).or_default();
            if seq <= LAST_MARKED {
                *mark = (*mark).max(seq);
            }
        }
        if highest.is_empty() {
            return Ok(Self(highest));
        }
        frames::raise_marks(tx, &highest, now).await.map(Self)
    }

    /// Whether something may have been kept at this place before the group.
    fn may_be_kept(&self, place: &Place) -> bool {
        let mark = self.0.get(&(place.device, place.epoch)).copied();
        place.seq > LAST_MARKED || place.seq <= mark.unwrap_or(0)
    }
}

/// A group, sorted by what each frame is.
struct Sorted {
    kept: Vec<Kept>,
    /// The frame that speaks for a place: the first of the group.
    first: HashMap<Place, usize>,
    contradictions: Vec<NewContradiction>,
}

fn other_bytes(sound: &Sound) -> NewContradiction {
    NewContradiction {
        place: sound.frame.place,
        kind: "other_bytes",
        digest: sound.link.digest.0,
        frame: Some(sound.frame.frame.clone()),
    }
}

fn broken(place: Place, kind: &'static str, digest: Digest) -> NewContradiction {
    NewContradiction {
        place,
        kind,
        digest: digest.0,
        frame: None,
    }
}

/// Finds what a group says twice.
fn sort_out(group: &[Sound]) -> Sorted {
    let mut sorted = Sorted {
        kept: vec![Kept::Stored; group.len()],
        first: HashMap::with_capacity(group.len()),
        contradictions: Vec::new(),
    };
    for (i, sound) in group.iter().enumerate() {
        let first = *sorted.first.entry(sound.frame.place).or_insert(i);
        if first == i {
            continue;
        }
        let same = group
            .get(first)
            .is_some_and(|f| f.frame.frame == sound.frame.frame);
        if !same {
            sorted.contradictions.push(other_bytes(sound));
        }
        if let Some(kept) = sorted.kept.get_mut(i) {
            *kept = if same {
                Kept::Known
            } else {
                Kept::Contradiction
            };
        }
    }
    sorted
}

impl Sorted {
    /// Frames whose place is taken are known or deny what is there.
    fn compare(&mut self, group: &[Sound], there: &HashMap<Place, Vec<u8>>) {
        for (i, sound) in group.iter().enumerate() {
            let Some(bytes) = there.get(&sound.frame.place) else {
                continue;
            };
            let same = sound.frame.frame == *bytes;
            // Of a place said twice in the group, the later ones were judged by the first; what is stored outranks it.
            if !same && self.kept.get(i) != Some(&Kept::Contradiction) {
                self.contradictions.push(other_bytes(sound));
            }
            if let Some(kept) = self.kept.get_mut(i) {
                *kept = if same {
                    Kept::Known
                } else {
                    Kept::Contradiction
                };
            }
        }
    }

    fn fresh<'a>(&'a self, group: &'a [Sound]) -> impl Iterator<Item = &'a Sound> {
        group
            .iter()
            .zip(&self.kept)
            .filter(|(_, kept)| **kept == Kept::Stored)
            .map(|(sound, _)| sound)
    }
}

/// Judges `prev` between each frame that landed and its kept neighbours. A missing neighbour is a gap,
/// never a contradiction.
async fn broken_links(
    tx: &mut db::Connection,
    landed: &[Link],
    marks: &Marks,
    tails: Option<&Tails>,
) -> Result<Vec<NewContradiction>, DbError> {
    let neighbours = Neighbours::of(tx, landed, marks, tails).await?;
    let mut found = Vec::new();
    for link in landed {
        if link.genesis.is_some_and(|genesis| genesis != link.prev) {
            found.push(broken(link.place, "broken_genesis", link.digest));
        } else if let Some(digest) = before(&link.place).and_then(|p| neighbours.digest(&p))
            && digest != link.prev
        {
            found.push(broken(link.place, "broken_link", link.digest));
        }
        // Told at the later frame of the two, whichever lands last: found once, in any order.
        let after = after(&link.place);
        if let Some(next) = neighbours.kept.get(&after)
            && next.prev != link.digest
        {
            let digest = next.digest(Device(after.device));
            found.push(broken(after, "broken_link", digest));
        }
    }
    found.sort_by_key(|c| (c.place, c.kind, c.digest));
    Ok(found)
}

fn before(place: &Place) -> Option<Place> {
    let seq = place.seq.checked_sub(1).filter(|seq| *seq > 0)?;
    Some(Place { seq, ..*place })
}

fn after(place: &Place) -> Place {
    Place {
        seq: place.seq.saturating_add(1),
        ..*place
    }
}

/// What is known of the frames beside those that landed.
struct Neighbours<'a> {
    landed: HashMap<Place, Digest>,
    tails: Option<&'a Tails>,
    kept: HashMap<Place, Frame>,
}

impl<'a> Neighbours<'a> {
    async fn of(
        tx: &mut db::Connection,
        landed: &[Link],
        marks: &Marks,
        tails: Option<&'a Tails>,
    ) -> Result<Self, DbError> {
        let landed: HashMap<Place, Digest> = landed.iter().map(|l| (l.place, l.digest)).collect();
        // Those that are neither in this group nor known from the last ones, but may be in the database.
        let mut asked: HashSet<Place> = HashSet::new();
        for place in landed.keys() {
            let known =
                |p: &Place| landed.contains_key(p) || tails.is_some_and(|t| t.digest(p).is_some());
            if let Some(before) = before(place).filter(|p| marks.may_be_kept(p) && !known(p)) {
                asked.insert(before);
            }
            let after = after(place);
            if marks.may_be_kept(&after) && !landed.contains_key(&after) {
                asked.insert(after);
            }
        }
        let asked: Vec<Place> = asked.into_iter().collect();
        // What is stored outranks what is in quarantine.
        let mut bytes = frames::quarantined_at_places(tx, &asked).await?;
        bytes.extend(frames::at_places(tx, &asked).await?);
        Ok(Self {
            landed,
            tails,
            kept: bytes
                .into_iter()
                .filter_map(|(place, bytes)| Some((place, Frame::from_bytes(&bytes).ok()?)))
                .collect(),
        })
    }

    /// The digest of what is kept at a place.
    fn digest(&self, place: &Place) -> Option<Digest> {
        let kept = |p: &Place| self.kept.get(p).map(|f| f.digest(Device(p.device)));
        self.landed
            .get(place)
            .copied()
            .or_else(|| self.tails.and_then(|tails| tails.digest(place)))
            .or_else(|| kept(place))
    }
}
