//! Reading what waits, oldest first. Never holds more than one segment in memory.

use std::io;

use furrow_protocol::batch::GapReason;

use super::{
    Run, SEGMENT_BYTES, Segment, Spool,
    ranges::Ranges,
    segment::{Found, Scan},
    segment_name,
};

/// A place in the spool; the default is its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    segment: u64,
    offset: usize,
}

/// A stored frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its epoch.
    pub epoch: u64,
    /// Its sequence.
    pub seq: u64,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// The segment that was read last.
#[derive(Debug, Default)]
pub(super) struct Cache {
    number: u64,
    bytes: Vec<u8>,
}

impl Spool {
    /// The frames that wait from `from` on, at most `most`, and the place behind them. None are
    /// given twice to who goes on from there, however often the spool grows meanwhile.
    ///
    /// Errors: a segment cannot be read; the place given then lies behind it.
    pub fn read(&mut self, from: Place, most: usize) -> (Vec<Stored>, Place, io::Result<()>) {
        let mut place = from;
        let mut stored = Vec::new();
        while stored.len() < most {
            let Some(at) = self.segment_at(place) else {
                break;
            };
            if let Err(error) = self.load(at) {
                place = self.behind(at);
                return (stored, place, Err(error));
            }
            place = self.collect(at, place, most, &mut stored);
        }
        (stored, place, Ok(()))
    }

    /// The first segment at or behind a place in which something may wait behind it.
    fn segment_at(&self, place: Place) -> Option<usize> {
        self.segments.iter().position(|segment| {
            let behind = segment.number > place.segment
                || (segment.number == place.segment && place.offset < segment.end);
            behind && self.waits_in(segment)
        })
    }

    fn waits_in(&self, segment: &Segment) -> bool {
        segment.runs.iter().any(|run| {
            self.book(run.epoch).is_some_and(|book| {
                book.settled
                    .missing(run.first, run.last)
                    .iter()
                    .any(|(first, last)| !book.refused.covers(*first, *last))
            })
        })
    }

    fn behind(&self, at: usize) -> Place {
        self.segments
            .get(at)
            .map_or_else(Place::default, |segment| Place {
                segment: segment.number,
                offset: segment.end,
            })
    }

    fn load(&mut self, at: usize) -> io::Result<()> {
        let Some(segment) = self.segments.get(at) else {
            return Ok(());
        };
        let (number, end, records) = (segment.number, segment.end, segment.records);
        if self.cache.number == number && self.cache.bytes.len() >= end {
            return Ok(());
        }
        // The newest grows while it is read: only what is new is read again.
        let known = if self.cache.number == number {
            self.cache.bytes.len()
        } else {
            self.cache.bytes = Vec::new();
            0
        };
        let more = self.disk.read(
            &segment_name(number),
            known as u64,
            end.min(SEGMENT_BYTES) - known,
        )?;
        self.cache.number = number;
        self.cache.bytes.extend_from_slice(&more);
        let whole = Scan::from(&self.cache.bytes, 0)
            .filter(|found| matches!(found, Found::Record(_)))
            .count() as u64;
        if whole < records {
            self.count_damage(at);
        }
        Ok(())
    }

    /// Records that were whole and are not any more are lost.
    fn count_damage(&mut self, at: usize) {
        let Some(segment) = self.segments.get_mut(at) else {
            return;
        };
        let mut anew = Segment::empty(segment.number);
        for found in Scan::from(&self.cache.bytes, 0) {
            if let Found::Record(record) = found {
                anew.add(record.epoch, record.seq, record.end);
            }
        }
        let before = std::mem::take(&mut segment.runs);
        segment.records = anew.records;
        segment.runs.clone_from(&anew.runs);
        for run in before {
            let here: Ranges = anew
                .runs
                .iter()
                .filter(|r| r.epoch == run.epoch)
                .map(|r| (r.first, r.last))
                .collect();
            for (first, last) in here.missing(run.first, run.last) {
                let hole = Run {
                    epoch: run.epoch,
                    first,
                    last,
                };
                self.lose(hole, GapReason::Damaged);
            }
        }
    }

    fn collect(&self, at: usize, from: Place, most: usize, stored: &mut Vec<Stored>) -> Place {
        let Some(segment) = self.segments.get(at) else {
            return from;
        };
        let start = if from.segment == segment.number {
            from.offset
        } else {
            0
        };
        let end = segment.end.min(self.cache.bytes.len());
        let bytes = self.cache.bytes.get(..end).unwrap_or_default();
        for found in Scan::from(bytes, start) {
            let Found::Record(record) = found else {
                continue;
            };
            let waits = self.doubtful != Some((record.epoch, record.seq))
                && self
                    .book(record.epoch)
                    .is_some_and(|book| book.waits(record.seq));
            if waits {
                stored.push(Stored {
                    epoch: record.epoch,
                    seq: record.seq,
                    frame: record.payload.to_vec(),
                });
            }
            if stored.len() >= most {
                return Place {
                    segment: segment.number,
                    offset: record.end,
                };
            }
        }
        self.behind(at)
    }
}
