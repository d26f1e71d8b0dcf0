//! What frames that land say of those that are kept beside them. Never judges one that is missing: that is a gap.
//!
//! Every frame of a good signature that is kept is a link, wherever it is kept: stored, in quarantine,
//! or as a contradiction. Each is judged against each that is kept beside it, by whichever of the two
//! lands last, so that the order of arrival means nothing. A break is told at the later sequence. Of
//! places with more than 16 frames only so many are held against their neighbours.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use furrow_domain::evidence::{self, Bond};
use furrow_protocol::frame::{Device, Digest, Frame};

use super::{check::Link, marks::Marks, tails::Tails};
use crate::db::{
    self, DbError,
    frames::{self, NewContradiction, Place},
};

/// A contradiction of a frame that is kept whole elsewhere.
pub(super) fn contradiction(place: Place, kind: &'static str, digest: Digest) -> NewContradiction {
    NewContradiction {
        place,
        kind,
        digest: digest.0,
        frame: None,
    }
}

/// Judges frames that have just landed against their neighbours, in this group and in the database.
///
/// Errors: the database.
pub(super) async fn broken(
    tx: &mut db::Connection,
    landed: &[Link],
    marks: &Marks,
    tails: &Tails,
) -> Result<Vec<NewContradiction>, DbError> {
    let neighbours = Neighbours::of(tx, landed, marks, tails).await?;
    let mut found = Vec::new();
    for link in landed {
        if link.genesis.is_some_and(|genesis| genesis != link.prev) {
            found.push(contradiction(link.place, "broken_genesis", link.digest));
        }
        let before = before(&link.place);
        if before.is_some_and(|before| neighbours.any_denied(before, link)) {
            found.push(contradiction(link.place, "broken_link", link.digest));
        }
        let after = after(&link.place).and_then(|after| neighbours.kept.get(&after));
        for next in after.into_iter().flatten() {
            if denies(link.place, link.digest, next.place, next.prev) {
                found.push(contradiction(next.place, "broken_link", next.digest));
            }
        }
    }
    found.sort_by_key(|c| (c.place, c.kind, c.digest));
    found.dedup_by_key(|c| (c.place, c.kind, c.digest));
    Ok(found)
}

/// Whether the frame at `next` names another one as the one before it.
fn denies(before: Place, digest: Digest, next: Place, prev: Digest) -> bool {
    let before = evidence::Place {
        epoch: before.epoch,
        seq: before.seq,
        digest: evidence::Digest(digest.0),
    };
    before.bond(next.epoch, next.seq, evidence::Digest(prev.0)) == Bond::Contradiction
}

fn before(place: &Place) -> Option<Place> {
    let seq = place.seq.checked_sub(1).filter(|seq| *seq > 0)?;
    Some(Place { seq, ..*place })
}

fn after(place: &Place) -> Option<Place> {
    let seq = place.seq.checked_add(1)?;
    Some(Place { seq, ..*place })
}

/// A kept frame, as far as its neighbours are concerned.
struct Neighbour {
    place: Place,
    digest: Digest,
    prev: Digest,
}

/// What is known of the frames beside those that landed.
struct Neighbours<'a> {
    landed: HashMap<Place, Digest>,
    /// Those at whose place another one landed in the same group.
    twice: Vec<(Place, Digest)>,
    tails: &'a Tails,
    kept: HashMap<Place, Vec<Neighbour>>,
}

impl<'a> Neighbours<'a> {
    async fn of(
        tx: &mut db::Connection,
        landed: &[Link],
        marks: &Marks,
        tails: &'a Tails,
    ) -> Result<Self, DbError> {
        let mut all = Self {
            landed: HashMap::with_capacity(landed.len()),
            twice: Vec::new(),
            tails,
            kept: HashMap::new(),
        };
        let mut asked: HashSet<Place> = HashSet::new();
        for link in landed {
            if *all.landed.entry(link.place).or_insert(link.digest) != link.digest {
                all.twice.push((link.place, link.digest));
            }
            let before = before(&link.place)
                .filter(|before| marks.may_be_kept(before) && tails.digest(before).is_none());
            let after = after(&link.place).filter(|after| marks.may_be_kept(after));
            asked.extend(before.into_iter().chain(after));
        }
        let asked: Vec<Place> = asked.into_iter().collect();
        for (place, bytes) in frames::kept_at_places(tx, &asked).await? {
            if let Ok(frame) = Frame::from_bytes(&bytes) {
                all.kept.entry(place).or_default().push(Neighbour {
                    place,
                    digest: frame.digest(Device(place.device)),
                    prev: frame.prev,
                });
            }
        }
        Ok(all)
    }

    /// Whether the link denies any frame that is known to be kept at the place before it.
    fn any_denied(&self, before: Place, link: &Link) -> bool {
        let twice = self.twice.iter().filter(|(place, _)| *place == before);
        let kept = self.kept.get(&before).into_iter().flatten();
        let known = self.landed.get(&before).copied();
        known
            .into_iter()
            .chain(twice.map(|(_, digest)| *digest))
            .chain(self.tails.digest(&before))
            .chain(kept.map(|one| one.digest))
            .any(|digest| denies(before, digest, link.place, link.prev))
    }
}

/// Two frames of one hand for one place, one of them at least in quarantine: told at that one. Of
/// several in quarantine with none stored, at all but the one of the smallest digest.
///
/// Errors: the database.
pub(super) async fn rivals(
    tx: &mut db::Connection,
    places: Vec<Place>,
    stored: &HashMap<Place, Digest>,
) -> Result<Vec<NewContradiction>, DbError> {
    let mut there: BTreeMap<Place, BTreeSet<Digest>> = BTreeMap::new();
    for (place, bytes) in frames::quarantined_at_places(tx, &places).await? {
        if let Ok(frame) = Frame::from_bytes(&bytes) {
            let digest = frame.digest(Device(place.device));
            there.entry(place).or_default().insert(digest);
        }
    }
    let mut found = Vec::new();
    for (place, digests) in there {
        let speaks = stored.get(&place).or(digests.first()).copied();
        let others = digests.iter().filter(|digest| Some(**digest) != speaks);
        found.extend(others.map(|digest| contradiction(place, "other_bytes", *digest)));
    }
    Ok(found)
}
