//! What the spool has lost: counted, and told by the batches that come. Never forgets a loss because the batch that told it was lost too.

use furrow_protocol::{
    batch::{Batch, Gap, GapReason},
    frame::Frame,
};

use super::{
    Run, SEGMENT_BYTES, Segment, Spool,
    segment::{Found, Scan},
    segment_name,
};

/// Most gaps that are remembered; what is lost beyond them is still counted.
const MAX_GAPS: usize = 512;

impl Spool {
    /// What waits of a run is lost: counted, and told by the next batch.
    pub(super) fn lose(&mut self, run: Run, reason: GapReason) {
        let book = self.book_mut(run.epoch);
        let mut lost = 0_u64;
        let mut parts = Vec::new();
        for (first, last) in book.settled.missing(run.first, run.last) {
            for (first, last) in book.refused.missing(first, last) {
                lost = lost.saturating_add((last - first).saturating_add(1));
                parts.push((first, last));
            }
        }
        book.settled.insert(run.first, run.last);
        self.lost = self.lost.saturating_add(lost);
        self.dirty = true;
        for (first, last) in parts {
            self.add_gap(run.epoch, first, last, reason);
        }
    }

    /// Batches of a segment that goes may be the ones that told earlier losses. Those of which the
    /// platform has not committed the telling are told again; else, once a spool has turned over, all
    /// that went before would be missing without a word.
    pub(super) fn tell_again(&mut self, segment: &Segment) {
        let name = segment_name(segment.number);
        let Ok(bytes) = self.disk.read(&name, 0, SEGMENT_BYTES) else {
            return;
        };
        for found in Scan::from(&bytes, 0) {
            let Found::Record(record) = found else {
                continue;
            };
            let committed = self
                .book(record.epoch)
                .is_some_and(|book| book.settled.contains(record.seq));
            let batch = Some(record.payload)
                .filter(|_| !committed)
                .and_then(|payload| Frame::from_bytes(payload).ok())
                .and_then(|frame| Batch::decode(&frame.batch).ok());
            for gap in batch.map(|batch| batch.gaps).unwrap_or_default() {
                if let Gap::Sequences {
                    epoch,
                    first,
                    last,
                    reason,
                } = gap
                {
                    self.add_gap(epoch, first, last, reason);
                }
            }
        }
    }

    fn add_gap(&mut self, epoch: u64, first: u64, last: u64, reason: GapReason) {
        for gap in &mut self.gaps {
            if let Gap::Sequences {
                epoch: before,
                last: end,
                reason: why,
                ..
            } = gap
                && (*before, *why) == (epoch, reason)
                && end.checked_add(1) == Some(first)
            {
                *end = last;
                return;
            }
        }
        if self.gaps.len() < MAX_GAPS {
            self.gaps.push(Gap::Sequences {
                epoch,
                first,
                last,
                reason,
            });
        }
    }

    /// The oldest lost sequences that no stored batch has told yet, at most so many.
    #[must_use]
    pub fn untold(&self, most: usize) -> &[Gap] {
        self.gaps
            .get(..most.min(self.gaps.len()))
            .unwrap_or_default()
    }

    /// A batch that tells these, as [`Self::untold`] gave them, is stored. What they have grown by
    /// since is still to be told.
    pub fn told(&mut self, told: &[Gap]) {
        let count = told.len().min(self.gaps.len());
        let grown: Vec<Gap> = self
            .gaps
            .drain(..count)
            .zip(told)
            .filter_map(|(now, then)| growth(now, *then))
            .collect();
        self.gaps.splice(..0, grown);
        self.dirty = true;
    }
}

/// The part of a gap that came after it was told; gaps grow at their end only.
fn growth(now: Gap, then: Gap) -> Option<Gap> {
    let (
        Gap::Sequences {
            epoch,
            last,
            reason,
            ..
        },
        Gap::Sequences { last: told, .. },
    ) = (now, then)
    else {
        return None;
    };
    (told < last).then(|| Gap::Sequences {
        epoch,
        first: told.saturating_add(1),
        last,
        reason,
    })
}
