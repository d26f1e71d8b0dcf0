//! One group of frames into the database, in one transaction, with every look at the chain. Never answers a device itself.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use furrow_protocol::frame::{Device, Digest, Frame};

use super::{check::Sound, tails::Tails};
use crate::db::{
    self, DbError, Pool,
    frames::{self, NewContradiction, NewFrame, Place},
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
    let mut highest: HashMap<(u32, u64), u64> = HashMap::new();
    for sound in group {
        let Place { device, epoch, seq } = sound.frame.place;
        let mark = highest.entry((device, epoch)).or_default();
        *mark = (*mark).max(seq);
    }
    let marks = frames::raise_marks(&mut tx, &highest, now).await?;
    let above = |place: &Place| {
        place.seq
            > marks
                .get(&(place.device, place.epoch))
                .copied()
                .unwrap_or(0)
    };

    let mut sorted = sort_out(group);
    let doubtful: Vec<Place> = sorted
        .first
        .keys()
        .filter(|p| careful || !above(p))
        .copied()
        .collect();
    let there = frames::at_places(&mut tx, &doubtful).await?;
    sorted.compare(group, &there);

    let fresh: Vec<NewFrame> = sorted.fresh(group).map(|s| s.frame.clone()).collect();
    frames::copy(&mut tx, &fresh, now).await?;
    let mut found = sorted.contradictions.clone();
    found.extend(broken_links(&mut tx, group, &sorted, &marks, tails).await?);
    let new = frames::insert_contradictions(&mut tx, &found, now).await?;
    tx.commit().await?;

    if new > 0 {
        metrics::counter!("furrow_ingest_contradictions_total").increment(new);
        tracing::error!(contradictions = new, "ingest.contradiction");
    }
    tails.note(sorted.fresh(group).map(|s| (s.frame.place, s.digest)));
    Ok(sorted.kept)
}

/// A group, sorted by what each frame is.
struct Sorted {
    kept: Vec<Kept>,
    /// The frame that speaks for a place: the first of the group.
    first: HashMap<Place, usize>,
    contradictions: Vec<NewContradiction>,
}

fn contradiction(sound: &Sound, kind: &'static str, whole: bool) -> NewContradiction {
    NewContradiction {
        place: sound.frame.place,
        kind,
        digest: sound.digest.0,
        frame: whole.then(|| sound.frame.frame.clone()),
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
            sorted
                .contradictions
                .push(contradiction(sound, "other_bytes", true));
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
                self.contradictions
                    .push(contradiction(sound, "other_bytes", true));
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

/// Judges `prev` between each stored frame and its kept neighbours. A missing neighbour is a gap,
/// never a contradiction.
async fn broken_links(
    tx: &mut db::Connection,
    group: &[Sound],
    sorted: &Sorted,
    marks: &HashMap<(u32, u64), u64>,
    tails: &Tails,
) -> Result<Vec<NewContradiction>, DbError> {
    let mine: HashMap<Place, &Sound> = sorted.fresh(group).map(|s| (s.frame.place, s)).collect();
    let mark = |p: &Place| marks.get(&(p.device, p.epoch)).copied().unwrap_or(0);
    // Neighbours that are neither in this group nor known from the last ones, but may be in the database.
    let mut asked: HashSet<Place> = HashSet::new();
    for place in mine.keys() {
        let before = Place {
            seq: place.seq - 1,
            ..*place
        };
        if before.seq > 0
            && before.seq <= mark(place)
            && !mine.contains_key(&before)
            && tails.digest(&before).is_none()
        {
            asked.insert(before);
        }
        let after = Place {
            seq: place.seq.saturating_add(1),
            ..*place
        };
        if after.seq <= mark(place) && !mine.contains_key(&after) {
            asked.insert(after);
        }
    }
    let asked: Vec<Place> = asked.into_iter().collect();
    let stored = frames::at_places(tx, &asked).await?;
    let quarantined = frames::quarantined_digests(tx, &asked).await?;
    let decoded: HashMap<Place, Frame> = stored
        .into_iter()
        .filter_map(|(place, bytes)| Some((place, Frame::from_bytes(&bytes).ok()?)))
        .collect();
    let digest_before = |place: &Place| -> Option<Digest> {
        let digest = |p: &Place| decoded.get(p).map(|f| f.digest(Device(p.device)));
        let kept = quarantined
            .get(place)
            .and_then(|d| Some(Digest(d.as_slice().try_into().ok()?)));
        mine.get(place)
            .map(|s| s.digest)
            .or_else(|| tails.digest(place))
            .or_else(|| digest(place))
            .or(kept)
    };
    let mut found = Vec::new();
    for (place, sound) in &mine {
        let before = Place {
            seq: place.seq - 1,
            ..*place
        };
        if sound.genesis.is_some_and(|genesis| genesis != sound.prev) {
            found.push(contradiction(sound, "broken_genesis", false));
        } else if before.seq > 0 && digest_before(&before).is_some_and(|d| d != sound.prev) {
            found.push(contradiction(sound, "broken_link", false));
        }
        let after = Place {
            seq: place.seq.saturating_add(1),
            ..*place
        };
        if let Some(next) = decoded.get(&after).filter(|next| next.prev != sound.digest) {
            // Told at the later frame of the two, whichever lands last: found once, in any order.
            let digest = next.digest(Device(after.device));
            found.push(NewContradiction {
                place: after,
                kind: "broken_link",
                digest: digest.0,
                frame: None,
            });
        }
    }
    found.sort_by_key(|c| (c.place, c.kind, c.digest));
    Ok(found)
}
