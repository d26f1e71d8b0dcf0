//! One epoch's kept frames by sequence: runs, gaps and contradictions within it. Knows nothing of other epochs.

use std::collections::BTreeMap;

use super::{Bond, Contradiction, Digest, Former, Gap, Link, Loss, LossReason, Place, Run};

/// The frames of an epoch; more than one at a sequence only where they contradict.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    pub number: u64,
    frames: BTreeMap<u64, Vec<Link>>,
}

pub(super) fn place(link: &Link) -> Place {
    Place {
        epoch: link.epoch,
        seq: link.seq,
        digest: link.digest,
    }
}

impl Epoch {
    pub fn new(number: u64) -> Self {
        Self {
            number,
            frames: BTreeMap::new(),
        }
    }

    /// Adds a link; links come sorted, so that the smallest digest of a place is its first.
    pub fn add(&mut self, link: Link) {
        let there = self.frames.entry(link.seq).or_default();
        if there.iter().all(|other| other.digest != link.digest) {
            there.push(link);
        }
    }

    pub fn frames(&self) -> usize {
        self.frames.values().map(Vec::len).sum()
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.frames.values().flatten()
    }

    /// Earliest fix, ms.
    pub fn first_ms(&self) -> Option<i64> {
        self.links().map(|link| link.first_ms).min()
    }

    /// Highest kept sequence, 0 for none.
    pub fn last_seq(&self) -> u64 {
        self.frames.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    fn last_ms_at(&self, seq: u64) -> Option<i64> {
        let there = self.frames.get(&seq)?;
        there.iter().map(|link| link.last_ms).max()
    }

    /// Last fix at the highest kept sequence, ms.
    pub fn last_ms(&self) -> Option<i64> {
        self.last_ms_at(self.last_seq())
    }

    /// Digests of the frames kept at a sequence, ascending.
    pub fn digests(&self, seq: u64) -> impl Iterator<Item = Digest> {
        let there = self.frames.get(&seq).map_or(&[][..], Vec::as_slice);
        there.iter().map(|link| link.digest)
    }

    /// What the first frame says of the epoch before, and that frame's place.
    pub fn formers(&self) -> impl Iterator<Item = (Place, Former)> {
        let first = self.frames.get(&1).map_or(&[][..], Vec::as_slice);
        first
            .iter()
            .filter_map(|link| link.former.map(|former| (place(link), former)))
    }

    /// Contradictions between its own frames.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        for (seq, there) in &self.frames {
            let before = seq.checked_sub(1).and_then(|seq| self.frames.get(&seq));
            if let Some((one, others)) = there.split_first() {
                let one = place(one);
                let other = |link: &Link| Contradiction::OtherFrame {
                    one,
                    other: link.digest,
                };
                found.extend(others.iter().map(other));
            }
            for link in there {
                found.extend(broken_genesis(link));
                found.extend(before.and_then(|before| broken_link(before, link)));
            }
        }
        found
    }

    /// Linked runs. Where frames contradict at a place, the smallest digest that links speaks for it.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for there in self.frames.values() {
            let follows = |run: &Run| {
                let next = |link: &&Link| {
                    run.last.checked_add(1) == Some(link.seq) && run.head == link.prev
                };
                there.iter().find(next)
            };
            match runs
                .last_mut()
                .and_then(|run| follows(run).map(|l| (run, l)))
            {
                Some((run, link)) => {
                    run.last = link.seq;
                    run.head = link.digest;
                    run.first_ms = run.first_ms.min(link.first_ms);
                    run.last_ms = run.last_ms.max(link.last_ms);
                }
                None => runs.extend(there.first().map(begin)),
            }
        }
        runs
    }

    /// Missing sequences from 1 (if the start is asked for) to `end` (or the highest kept one).
    pub fn gaps(&self, from_start: bool, end: Option<u64>, losses: &[Loss]) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut before: Option<u64> = from_start.then_some(0);
        for (seq, there) in &self.frames {
            if let Some(before) = before {
                let to_ms = there.iter().map(|link| link.first_ms).min();
                self.gap(before, seq.saturating_sub(1), to_ms, losses, &mut gaps);
            }
            before = Some(*seq);
        }
        if let Some(end) = end {
            self.gap(before.unwrap_or(0), end, None, losses, &mut gaps);
        }
        gaps
    }

    /// The gap after `before` up to `last`, in parts by what the device announced of it.
    fn gap(
        &self,
        before: u64,
        last: u64,
        to_ms: Option<i64>,
        losses: &[Loss],
        gaps: &mut Vec<Gap>,
    ) {
        let from_ms = self.last_ms_at(before);
        let mut start = before.checked_add(1);
        while let Some(next) = start.filter(|next| *next <= last) {
            let (part_end, reason) = announced(self.number, next, last, losses);
            gaps.push(Gap::Sequences {
                epoch: self.number,
                first: next,
                last: part_end,
                from_ms,
                to_ms,
                reason,
            });
            start = part_end.checked_add(1);
        }
    }
}

/// How far from `next` on (up to `last`) the device announced one reason, or none.
fn announced(epoch: u64, next: u64, last: u64, losses: &[Loss]) -> (u64, Option<LossReason>) {
    let mine = || losses.iter().filter(|loss| loss.epoch == epoch);
    // Of several that cover it, the one that reaches furthest; of equals, the first reason.
    let covering = mine()
        .filter(|loss| loss.first <= next && next <= loss.last)
        .max_by_key(|loss| (loss.last, std::cmp::Reverse(loss.reason)));
    if let Some(loss) = covering {
        return (loss.last.min(last), Some(loss.reason));
    }
    let next_loss = mine().map(|loss| loss.first).filter(|f| *f > next).min();
    let end = next_loss.map_or(last, |first| last.min(first - 1));
    (end, None)
}

fn begin(link: &Link) -> Run {
    Run {
        epoch: link.epoch,
        first: link.seq,
        last: link.seq,
        prev: link.prev,
        head: link.digest,
        first_ms: link.first_ms,
        last_ms: link.last_ms,
    }
}

fn broken_genesis(link: &Link) -> Option<Contradiction> {
    let genesis = link.genesis.filter(|_| link.seq == 1)?;
    (genesis != link.prev).then(|| Contradiction::BrokenGenesis {
        frame: place(link),
        prev: link.prev,
        genesis,
    })
}

/// A link is broken if it fits none of the frames that are kept before it.
fn broken_link(before: &[Link], link: &Link) -> Option<Contradiction> {
    let fits = before.iter().any(|b| b.bond(link) == Bond::Linked);
    let kept = before.first()?.digest;
    (!fits).then(|| Contradiction::BrokenLink {
        frame: place(link),
        prev: link.prev,
        kept,
    })
}
