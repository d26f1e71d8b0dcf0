//! Records in the bytes of a segment: written, found again, and found behind damage. Pure; never touches a disk.
//!
//! A segment is [`SEGMENT_BYTES`] long from its first moment on and zero where nothing is written
//! yet, so that a file that was cut is told from one that was not, wherever the cut lies.

use furrow_protocol::frame::MAX_FRAME_BYTES;

/// Length of a segment's file.
pub const SEGMENT_BYTES: usize = 256 * 1024;
/// Bytes before a record's payload.
pub const HEADER_BYTES: usize = 21;

/// Not in any text, and with its high bit set rare in a signature's neighbourhood.
const MAGIC: [u8; 4] = [0xf5, b'F', b'w', 0xb7];
/// Layout of a record whose payload is a frame of wire version 1.
const VERSION: u8 = 1;

/// A record that is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it begins in its segment.
    pub offset: usize,
    /// Where the next one may begin.
    pub end: usize,
    /// Its frame's epoch.
    pub epoch: u64,
    /// Its frame's sequence.
    pub seq: u64,
    /// The frame, signed.
    pub payload: &'a [u8],
}

/// What a scan comes across.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// A record that is whole.
    Record(Record<'a>),
    /// A whole record of a layout that this build does not know: kept, not touched, not sent.
    Foreign {
        /// Where it ends.
        end: usize,
    },
    /// Bytes that are no record.
    Damage {
        /// Where they end.
        end: usize,
        /// How many they are.
        bytes: usize,
    },
}

/// The bytes of a record: magic 4, version 1, length u32, seq u64, CRC32C u32 (all little endian),
/// then the payload. The CRC is over all but the magic and itself.
#[must_use]
pub fn encode(seq: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut record = Vec::with_capacity(HEADER_BYTES + payload.len());
    record.extend_from_slice(&MAGIC);
    record.push(VERSION);
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&seq.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&record[MAGIC.len()..]), payload);
    record.extend_from_slice(&crc.to_le_bytes());
    record.extend_from_slice(payload);
    record
}

/// Goes through a segment's bytes from `at` on; ends where only zeros follow.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// A scan of `bytes`, the segment's first byte being its first, that begins at `at`.
    #[must_use]
    pub const fn from(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Where it stands: after its end, where the next record would be written.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        if let Some(found) = whole(self.bytes, self.at) {
            self.at = match found {
                Found::Record(record) => record.end,
                Found::Foreign { end } | Found::Damage { end, .. } => end,
            };
            return Some(found);
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let written = written(rest)?;
        let start = self.at;
        // The next good record ends the damage; without one the damage ends with what is written.
        self.at = (start + 1..start + written)
            .find(|at| whole(self.bytes, *at).is_some())
            .unwrap_or(start + written);
        Some(Found::Damage {
            end: self.at,
            bytes: self.at - start,
        })
    }
}

/// Length without the zeros at the end; None if there is nothing else. Compares in blocks: most of
/// a fresh segment is zeros.
fn written(bytes: &[u8]) -> Option<usize> {
    static ZEROS: [u8; 4096] = [0; 4096];
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_last_chunk::<4096>() {
        if *tail != ZEROS {
            break;
        }
        rest = head;
    }
    rest.iter().rposition(|b| *b != 0).map(|at| at + 1)
}

/// The record that begins at `at`, if a whole one does.
fn whole(bytes: &[u8], at: usize) -> Option<Found<'_>> {
    let rest = bytes.get(at..)?.strip_prefix(&MAGIC)?;
    let (version, fields) = rest.split_first()?;
    let (length, fields) = fields.split_first_chunk::<4>()?;
    let (seq, fields) = fields.split_first_chunk::<8>()?;
    let (crc, body) = fields.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    if length > MAX_FRAME_BYTES {
        return None;
    }
    let payload = body.get(..length)?;
    let covered = rest.get(..HEADER_BYTES - MAGIC.len() - 4)?;
    if crc32c::crc32c_append(crc32c::crc32c(covered), payload) != u32::from_le_bytes(*crc) {
        return None;
    }
    let end = at + HEADER_BYTES + length;
    if *version != VERSION {
        return Some(Found::Foreign { end });
    }
    let seq = u64::from_le_bytes(*seq);
    let (epoch, framed) = place_of(payload)?;
    (framed == seq).then_some(Found::Record(Record {
        offset: at,
        end,
        epoch,
        seq,
        payload,
    }))
}

/// Epoch and sequence of a frame of wire version 1, without a copy of its batch. What gives None is
/// not found again by a [`Scan`], whatever its record says.
#[must_use]
pub fn place_of(frame: &[u8]) -> Option<(u64, u64)> {
    let rest = frame.strip_prefix(&[furrow_protocol::frame::VERSION])?;
    let (epoch, rest) = rest.split_first_chunk::<8>()?;
    let mut seq = 0_u64;
    for (place, byte) in rest.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        seq |= bits.checked_shl(u32::try_from(place * 7).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((u64::from_be_bytes(*epoch), seq));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use furrow_protocol::{
        SigningKey,
        frame::{Device, Digest, Frame},
    };
    use proptest::prelude::*;

    use super::*;

    fn frame(seq: u64) -> Vec<u8> {
        let key = SigningKey::from_bytes(&[1; 32]);
        let batch = vec![u8::try_from(seq % 251).unwrap_or(0); 40];
        Frame::sign(&key, Device(7), 99, seq, Digest([3; 16]), batch).to_bytes()
    }

    fn seqs(bytes: &[u8]) -> Vec<u64> {
        Scan::from(bytes, 0)
            .filter_map(|found| match found {
                Found::Record(record) => Some(record.seq),
                Found::Foreign { .. } | Found::Damage { .. } => None,
            })
            .collect()
    }

    #[test]
    fn records_are_found_as_they_were_written_and_zeros_end_them() {
        let mut bytes = Vec::new();
        for seq in [1, 127, 128, 1 << 40, u64::MAX] {
            bytes.extend(encode(seq, &frame(seq)));
        }
        let written = bytes.len();
        bytes.resize(SEGMENT_BYTES, 0);
        assert_eq!(seqs(&bytes), [1, 127, 128, 1 << 40, u64::MAX]);
        let mut scan = Scan::from(&bytes, 0);
        assert_eq!(scan.by_ref().count(), 5);
        assert_eq!(scan.at(), written);
    }

    #[test]
    fn a_record_of_a_later_layout_is_stepped_over_and_is_no_damage() {
        let mut later = encode(2, &frame(2));
        later[4] = 2;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&later[4..17]), &later[HEADER_BYTES..]);
        later[17..21].copy_from_slice(&crc.to_le_bytes());
        let bytes = [encode(1, &frame(1)), later, encode(3, &frame(3))].concat();
        let found: Vec<_> = Scan::from(&bytes, 0).collect();
        assert!(matches!(
            found[..],
            [Found::Record(_), Found::Foreign { .. }, Found::Record(_)]
        ));
    }

    #[test]
    fn every_flipped_bit_costs_the_one_record_it_hits() {
        let records: Vec<_> = (1..=4).map(|seq| encode(seq, &frame(seq))).collect();
        let bytes = records.concat();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[at] ^= 1 << bit;
                let hit = 1 + at / records[0].len();
                let rest: Vec<u64> = (1..=4).filter(|seq| *seq != hit as u64).collect();
                assert_eq!(seqs(&broken), rest, "byte {at} bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_scanned_to_their_end_without_a_loop(
            noise in prop::collection::vec(any::<u8>(), 0..600),
            seq in 1_u64..9,
            more in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes = [noise, encode(seq, &frame(seq)), more].concat();
            let mut last = 0;
            let mut scan = Scan::from(&bytes, 0);
            while scan.next().is_some() {
                prop_assert!(scan.at() > last);
                last = scan.at();
            }
            prop_assert!(seqs(&bytes).contains(&seq));
        }
    }
}
