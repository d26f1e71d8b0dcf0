//! The verdict over all epochs of a device. Gives the same for the same set of links, in whatever order they come.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Contradiction, Former, Gap, Link, Loss, Place, Scope, Verdict,
    epoch::{Epoch, place},
};

/// Judges the links of one device.
#[must_use]
pub fn judge(links: &[Link], losses: &[Loss], scope: Scope) -> Verdict {
    let mut sorted = links.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut epochs: BTreeMap<u64, Epoch> = BTreeMap::new();
    let mut unsigned = BTreeSet::new();
    for link in sorted {
        if link.signature_ok {
            let epoch = epochs.entry(link.epoch);
            epoch.or_insert_with(|| Epoch::new(link.epoch)).add(link);
        } else {
            unsigned.insert(place(&link));
        }
    }
    let history = History::new(epochs);
    Verdict {
        frames: history.in_time().map(Epoch::frames).sum(),
        unsigned: unsigned.into_iter().collect(),
        runs: history.in_time().flat_map(Epoch::runs).collect(),
        gaps: history.gaps(losses, scope),
        contradictions: history.contradictions(),
    }
}

struct History {
    epochs: BTreeMap<u64, Epoch>,
    /// Epochs by their earliest fix, equals by number.
    order: Vec<u64>,
    /// What first frames say of epochs before theirs: named epoch, and by which frame.
    named: BTreeMap<u64, Vec<(Place, Former)>>,
}

impl History {
    fn new(epochs: BTreeMap<u64, Epoch>) -> Self {
        let mut order: Vec<u64> = epochs.keys().copied().collect();
        order.sort_by_key(|number| (epochs.get(number).and_then(Epoch::first_ms), *number));
        let mut named: BTreeMap<u64, Vec<(Place, Former)>> = BTreeMap::new();
        for (place, former) in epochs.values().flat_map(Epoch::formers) {
            named.entry(former.epoch).or_default().push((place, former));
        }
        Self {
            epochs,
            order,
            named,
        }
    }

    fn in_time(&self) -> impl Iterator<Item = &Epoch> {
        self.order
            .iter()
            .filter_map(|number| self.epochs.get(number))
    }

    /// The end of an epoch as the frames that name it tell it: the furthest.
    fn end(&self, epoch: u64) -> Option<u64> {
        let named = self.named.get(&epoch)?;
        named
            .iter()
            .filter_map(|(_, former)| former.last.map(|(seq, _)| seq))
            .max()
    }

    fn gaps(&self, losses: &[Loss], scope: Scope) -> Vec<Gap> {
        let (first, last) = (self.order.first().copied(), self.order.last().copied());
        let mut gaps = Vec::new();
        for former in self.absent_formers(first, scope) {
            self.push_gaps(&Epoch::new(former), true, true, losses, &mut gaps);
        }
        for epoch in self.in_time() {
            let from_start = scope == Scope::Whole || Some(epoch.number) != first;
            // The last epoch still runs, unless a frame names its end.
            let ended = Some(epoch.number) != last || self.named.contains_key(&epoch.number);
            self.push_gaps(epoch, from_start, ended, losses, &mut gaps);
        }
        gaps
    }

    fn push_gaps(
        &self,
        epoch: &Epoch,
        from_start: bool,
        ended: bool,
        losses: &[Loss],
        gaps: &mut Vec<Gap>,
    ) {
        let end = self.end(epoch.number);
        gaps.extend(epoch.gaps(from_start, end, losses));
        if ended && end.is_none() {
            gaps.push(Gap::UnknownEnd {
                epoch: epoch.number,
                after: epoch.last_seq(),
                from_ms: epoch.last_ms(),
            });
        }
    }

    /// Epochs that are named and of which nothing is kept. In a window, what the first epoch names
    /// may lie before the window.
    fn absent_formers(&self, first: Option<u64>, scope: Scope) -> Vec<u64> {
        let inside =
            |(place, _): &(Place, Former)| scope == Scope::Whole || Some(place.epoch) != first;
        self.named
            .iter()
            .filter(|(epoch, by)| !self.epochs.contains_key(epoch) && by.iter().any(inside))
            .map(|(epoch, _)| *epoch)
            .collect()
    }

    fn contradictions(&self) -> Vec<Contradiction> {
        let mut found: Vec<Contradiction> = self
            .epochs
            .values()
            .flat_map(Epoch::contradictions)
            .collect();
        for (frame, former) in self.named.values().flatten() {
            if let (Some(kept), Some(end)) = (self.epochs.get(&former.epoch), former.last) {
                found.extend(broken_former(*frame, former.epoch, end, kept));
            }
        }
        found.extend(self.circles());
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Following "the epoch before" from each epoch must end somewhere.
    fn circles(&self) -> BTreeSet<Contradiction> {
        let before = |number: u64| {
            let epoch = self.epochs.get(&number)?;
            epoch.formers().map(|(_, former)| former.epoch).min()
        };
        let mut circles = BTreeSet::new();
        let mut settled = BTreeSet::new();
        for start in self.epochs.keys() {
            let mut path = Vec::new();
            let mut at = Some(*start);
            while let Some(number) = at.filter(|n| settled.insert(*n)) {
                path.push(number);
                at = before(number);
            }
            // The walk ended on something settled: a circle only if it was settled by this walk.
            let closing = at.and_then(|number| path.iter().position(|p| *p == number));
            let circle = closing
                .and_then(|from| path.get(from..))
                .unwrap_or_default();
            let smallest = circle.iter().min();
            circles.extend(smallest.map(|epoch| Contradiction::FormerCircle { epoch: *epoch }));
        }
        circles
    }
}

/// What a first frame says of the end of the epoch before, against what is kept of that.
fn broken_former(
    frame: Place,
    epoch: u64,
    (end, digest): (u64, super::Digest),
    kept: &Epoch,
) -> impl Iterator<Item = Contradiction> {
    let smallest = kept.digests(end).next();
    let fits = kept.digests(end).any(|d| d == digest);
    let other = smallest.filter(|_| !fits);
    let broken = other.map(|kept| Contradiction::BrokenFormer {
        frame,
        named: Place {
            epoch,
            seq: end,
            digest,
        },
        kept,
    });
    let beyond = (kept.last_seq() > end).then(|| Contradiction::BeyondEnd {
        frame,
        epoch,
        end,
        kept: kept.last_seq(),
    });
    broken.into_iter().chain(beyond)
}
