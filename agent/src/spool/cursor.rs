//! What the spool knows beside its records: how far each epoch got and what of it is settled. Pure; a lost cursor costs resends and a new epoch, never a record.

use furrow_protocol::{
    batch::{FormerEpoch, Gap, GapReason},
    frame::Digest,
};

use super::ranges::Ranges;

/// Most ranges that are written in all. What is left out is sent again after a restart.
const MAX_RANGES: usize = 8192;
/// Most epochs that are written; the oldest are left out.
const MAX_EPOCHS: usize = 64;
/// Most gaps that are written.
const MAX_GAPS: usize = 512;
const MAGIC: &[u8; 8] = b"FwCursr1";

/// What is known of an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Book {
    /// Its number.
    pub epoch: u64,
    /// Highest sequence that was stored.
    pub highest: u64,
    /// Digest of the frame of that sequence.
    pub digest: Digest,
    /// Sequences that need not be sent: committed, or lost and told to the platform.
    pub settled: Ranges,
    /// Sequences that the platform refused: kept, not sent.
    pub refused: Ranges,
}

impl Book {
    /// Of an epoch of which nothing is known.
    #[must_use]
    pub fn new(epoch: u64) -> Self {
        Self {
            epoch,
            highest: 0,
            digest: Digest([0; 16]),
            settled: Ranges::default(),
            refused: Ranges::default(),
        }
    }

    /// Whether this sequence waits to be sent.
    #[must_use]
    pub fn waits(&self, seq: u64) -> bool {
        !self.settled.contains(seq) && !self.refused.contains(seq)
    }
}

/// The cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The epoch that is being written.
    pub epoch: u64,
    /// Number of the newest segment.
    pub segment: u64,
    /// Frames lost since the spool was made.
    pub lost: u64,
    /// What the first batch of the epoch says of the one before, as long as it is not stored.
    pub former: Option<FormerEpoch>,
    /// Lost sequences that no stored batch has told yet.
    pub gaps: Vec<Gap>,
    /// Every epoch with something in the spool, and the one that is being written.
    pub books: Vec<Book>,
    /// Whether nothing of the books had to be left out: only then is a sequence that is neither
    /// here nor in a segment a lost one.
    pub complete: bool,
}

impl Cursor {
    /// The cursor's file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let number = |out: &mut Vec<u8>, value: u64| out.extend_from_slice(&value.to_le_bytes());
        number(&mut out, self.epoch);
        number(&mut out, self.segment);
        number(&mut out, self.lost);
        encode_former(&mut out, self.former.as_ref());
        let gaps = sequences(&self.gaps);
        let gaps = gaps.get(..gaps.len().min(MAX_GAPS)).unwrap_or_default();
        number(&mut out, gaps.len() as u64);
        for (epoch, first, last, reason) in gaps {
            for value in [*epoch, *first, *last, u64::from(*reason)] {
                number(&mut out, value);
            }
        }
        let from = self.books.len().saturating_sub(MAX_EPOCHS);
        let books = self.books.get(from..).unwrap_or_default();
        number(&mut out, books.len() as u64);
        number(&mut out, u64::from(self.fits()));
        let mut room = MAX_RANGES;
        for book in books {
            number(&mut out, book.epoch);
            number(&mut out, book.highest);
            out.extend_from_slice(&book.digest.0);
            for ranges in [&book.settled, &book.refused] {
                let ranges = ranges.as_slice();
                let written = ranges.get(..ranges.len().min(room)).unwrap_or_default();
                room -= written.len();
                number(&mut out, written.len() as u64);
                for (first, last) in written {
                    number(&mut out, *first);
                    number(&mut out, *last);
                }
            }
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn fits(&self) -> bool {
        let ranges = |book: &Book| book.settled.as_slice().len() + book.refused.as_slice().len();
        self.books.len() <= MAX_EPOCHS && self.books.iter().map(ranges).sum::<usize>() <= MAX_RANGES
    }

    /// The cursor that these bytes hold; None where they are not exactly one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut input = Input(body.strip_prefix(MAGIC)?);
        let mut cursor = Self {
            epoch: input.number()?,
            segment: input.number()?,
            lost: input.number()?,
            former: input.former()?,
            ..Self::default()
        };
        for _ in 0..input.count(MAX_GAPS)? {
            cursor.gaps.push(Gap::Sequences {
                epoch: input.number()?,
                first: input.number()?,
                last: input.number()?,
                reason: reason_of(input.number()?)?,
            });
        }
        let books = input.count(MAX_EPOCHS)?;
        cursor.complete = input.number()? != 0;
        for _ in 0..books {
            cursor.books.push(Book {
                epoch: input.number()?,
                highest: input.number()?,
                digest: input.digest()?,
                settled: input.ranges()?,
                refused: input.ranges()?,
            });
        }
        input.0.is_empty().then_some(cursor)
    }
}

const REASONS: [GapReason; 3] = [
    GapReason::QuotaDropped,
    GapReason::Damaged,
    GapReason::DiskFailed,
];

fn reason_of(number: u64) -> Option<GapReason> {
    REASONS.get(usize::try_from(number).ok()?).copied()
}

/// Only lost sequences are kept; silences travel in the batch that ends them.
fn sequences(gaps: &[Gap]) -> Vec<(u64, u64, u64, u8)> {
    gaps.iter()
        .filter_map(|gap| match *gap {
            Gap::Sequences {
                epoch,
                first,
                last,
                reason,
            } => {
                let number = REASONS.iter().position(|r| *r == reason)?;
                Some((epoch, first, last, u8::try_from(number).ok()?))
            }
            Gap::Silence { .. } => None,
        })
        .collect()
}

fn encode_former(out: &mut Vec<u8>, former: Option<&FormerEpoch>) {
    let (kind, epoch, seq, digest) = match former {
        None => (0_u8, 0, 0, Digest([0; 16])),
        Some(FormerEpoch { epoch, last: None }) => (1, *epoch, 0, Digest([0; 16])),
        Some(FormerEpoch {
            epoch,
            last: Some((seq, digest)),
        }) => (2, *epoch, *seq, *digest),
    };
    out.push(kind);
    out.extend_from_slice(&epoch.to_le_bytes());
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&digest.0);
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn digest(&mut self) -> Option<Digest> {
        self.take().map(Digest)
    }

    fn count(&mut self, most: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= most).then_some(count)
    }

    fn ranges(&mut self) -> Option<Ranges> {
        let mut ranges = Ranges::default();
        for _ in 0..self.count(MAX_RANGES)? {
            ranges.insert(self.number()?, self.number()?);
        }
        Some(ranges)
    }

    fn former(&mut self) -> Option<Option<FormerEpoch>> {
        let [kind] = self.take()?;
        let (epoch, seq, digest) = (self.number()?, self.number()?, self.digest()?);
        Some(match kind {
            0 => None,
            1 => Some(FormerEpoch { epoch, last: None }),
            2 => Some(FormerEpoch {
                epoch,
                last: Some((seq, digest)),
            }),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Cursor {
        Cursor {
            epoch: 7,
            segment: 12,
            lost: 3,
            former: Some(FormerEpoch {
                epoch: 6,
                last: Some((90, Digest([4; 16]))),
            }),
            gaps: vec![Gap::Sequences {
                epoch: 6,
                first: 3,
                last: 5,
                reason: GapReason::Damaged,
            }],
            books: vec![Book {
                epoch: 7,
                highest: 44,
                digest: Digest([9; 16]),
                settled: [(1, 20), (22, 30)].into_iter().collect(),
                refused: [(21, 21)].into_iter().collect(),
            }],
            complete: true,
        }
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let empty = Cursor {
            complete: true,
            ..Cursor::default()
        };
        for cursor in [empty, full()] {
            assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        }
    }

    #[test]
    fn a_cursor_that_is_cut_or_flipped_at_any_byte_is_none() {
        let bytes = full().encode();
        for at in 0..bytes.len() {
            assert_eq!(Cursor::decode(&bytes[..at]), None);
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (at % 8);
            assert_eq!(Cursor::decode(&broken), None);
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_never_more_is_claimed() {
        let mut cursor = full();
        cursor.books[0].settled = (0..10_000).map(|n| (n * 2, n * 2)).collect();
        let read = Cursor::decode(&cursor.encode()).filter(|read| !read.complete);
        let settled = read.map(|read| read.books[0].settled.clone());
        let settled = settled.as_ref().map_or(&[][..], Ranges::as_slice);
        assert_eq!(settled.len(), MAX_RANGES);
        assert!(
            settled
                .iter()
                .all(|(a, b)| cursor.books[0].settled.covers(*a, *b))
        );
    }
}
