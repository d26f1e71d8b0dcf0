//! A batch as bytes, and back. Checks the shape alone; ranges are [`Batch::check`]'s.

use alloc::vec::Vec;

use super::{
    Batch, Ext, Gap, MAX_BATCH_BYTES, MAX_EXT_BYTES, MAX_EXTS, MAX_FIXES, MAX_GAPS,
    field::{OPTIONAL, REQUIRED},
};
use crate::{
    column::{self, Scratch, Values},
    error::DecodeError,
    fix::Fix,
    wire::{Reader, put},
};

/// Which parts follow, one bit each: the optional columns in their order, then these. The common
/// ones are the low bits, so that the mask fits a byte on most machines.
#[derive(Clone, Copy, Default)]
struct Present(u16);

const GAPS: usize = OPTIONAL.len();
const FORMER: usize = GAPS + 1;
const EXT: usize = GAPS + 2;

impl Present {
    fn of(batch: &Batch) -> Self {
        let mut present = Self::default();
        for (bit, field) in OPTIONAL.iter().enumerate() {
            present.set(bit, batch.fixes.iter().any(|f| (field.get)(f).is_some()));
        }
        present.set(GAPS, !batch.gaps.is_empty());
        present.set(FORMER, batch.former.is_some());
        present.set(EXT, !batch.ext.is_empty());
        present
    }

    fn set(&mut self, bit: usize, there: bool) {
        self.0 |= u16::from(there) << bit;
    }

    fn has(self, bit: usize) -> bool {
        self.0 >> bit & 1 == 1
    }
}

/// Writes a batch that has been checked.
pub(super) fn write(batch: &Batch) -> Vec<u8> {
    let present = Present::of(batch);
    let mut out = Vec::with_capacity(64 + 12 * batch.fixes.len());
    put(&mut out, &count(batch.fixes.len()));
    put(&mut out, &present.0);
    out.extend_from_slice(&batch.boot.to_be_bytes());
    put(&mut out, &batch.monotonic_ms);
    if batch.fixes.is_empty() {
        put(&mut out, &batch.at_ms);
    } else {
        let mut scratch = Scratch::default();
        let optional = OPTIONAL.iter().enumerate();
        let there = optional.filter_map(|(bit, field)| present.has(bit).then_some(field));
        for field in REQUIRED.iter().chain(there) {
            column::write(&mut out, &mut scratch, batch.fixes.iter().map(field.get));
        }
    }
    if present.has(GAPS) {
        put(&mut out, &count(batch.gaps.len()));
        batch.gaps.iter().for_each(|gap| put(&mut out, gap));
    }
    if let Some(former) = &batch.former {
        put(&mut out, former);
    }
    if present.has(EXT) {
        put(&mut out, &count(batch.ext.len()));
        for ext in &batch.ext {
            put(&mut out, &ext.tag);
            put(&mut out, &count(ext.bytes.len()));
            out.extend_from_slice(&ext.bytes);
        }
    }
    out
}

/// Reads a batch; the caller checks ranges and that these bytes are the ones that [`write()`] gives.
pub(super) fn read(bytes: &[u8]) -> Result<Batch, DecodeError> {
    if bytes.len() > MAX_BATCH_BYTES {
        return Err(DecodeError::TooLong {
            len: bytes.len(),
            max: MAX_BATCH_BYTES,
        });
    }
    let mut reader = Reader::new(bytes);
    let fixes = reader.take_count(MAX_FIXES, "number of fixes")?;
    let present = Present(reader.take("presence of parts")?);
    let boot = u32::from_be_bytes(reader.take_array("boot")?);
    let monotonic_ms = reader.take("monotonic time")?;
    let fixes = read_fixes(&mut reader, fixes, present)?;
    let at_ms = match fixes.first() {
        Some(first) => first.at_ms,
        None => reader.take("time")?,
    };
    let gaps = if present.has(GAPS) {
        read_gaps(&mut reader)?
    } else {
        Vec::new()
    };
    let former = if present.has(FORMER) {
        Some(reader.take("former epoch")?)
    } else {
        None
    };
    let ext = if present.has(EXT) {
        read_ext(&mut reader)?
    } else {
        Vec::new()
    };
    reader.end()?;
    Ok(Batch {
        at_ms,
        boot,
        monotonic_ms,
        fixes,
        gaps,
        former,
        ext,
    })
}

fn read_fixes(
    reader: &mut Reader<'_>,
    count: usize,
    present: Present,
) -> Result<Vec<Fix>, DecodeError> {
    // A count that the bytes cannot hold costs at most this one allocation of MAX_FIXES.
    let mut fixes = alloc::vec![Fix::default(); count];
    if count == 0 {
        return Ok(fixes);
    }
    let optional = OPTIONAL.iter().enumerate();
    let there = optional.filter_map(|(bit, field)| present.has(bit).then_some((false, field)));
    for (required, field) in REQUIRED.iter().map(|f| (true, f)).chain(there) {
        let mut values = Values::open(reader, count, field.name)?;
        for fix in &mut fixes {
            let fits = match values.next(reader)? {
                Some(value) => (field.set)(fix, value).is_some(),
                None => !required,
            };
            if !fits {
                return Err(DecodeError::OutOfRange(field.name));
            }
        }
    }
    Ok(fixes)
}

fn read_gaps(reader: &mut Reader<'_>) -> Result<Vec<Gap>, DecodeError> {
    let count = reader.take_count(MAX_GAPS, "number of gaps")?;
    let mut gaps = Vec::with_capacity(count);
    for _ in 0..count {
        gaps.push(reader.take("gaps")?);
    }
    Ok(gaps)
}

fn read_ext(reader: &mut Reader<'_>) -> Result<Vec<Ext>, DecodeError> {
    let count = reader.take_count(MAX_EXTS, "number of extensions")?;
    let mut ext = Vec::with_capacity(count);
    for _ in 0..count {
        let tag = reader.take("extension")?;
        let len = reader.take_count(MAX_EXT_BYTES, "extension")?;
        let bytes = reader.take_slice(len, "extension")?.to_vec();
        ext.push(Ext { tag, bytes });
    }
    Ok(ext)
}

/// Counts are bounded by [`Batch::check`], far below this type's range.
fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
