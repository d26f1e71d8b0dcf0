//! The batch: up to 600 fixes and what happened between them, the unit that is stored, signed, sent and acknowledged. Never signs.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{
    column,
    error::{DecodeError, EncodeError},
    fix::{Fix, Quality, Work, WorkSource},
    frame::Digest,
    wire::{Reader, put},
};

/// Most fixes in a batch.
pub const MAX_FIXES: usize = 600;
/// Most gaps in a batch.
pub const MAX_GAPS: usize = 128;
/// Most extensions in a batch.
pub const MAX_EXTS: usize = 16;
/// Most bytes of an extension.
pub const MAX_EXT_BYTES: usize = 64;

/// Why something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GapReason {
    /// The spool's quota or the disk's floor needed the space.
    QuotaDropped,
    /// The record was damaged on disk.
    Damaged,
    /// The disk refused the write or the sync.
    DiskFailed,
    /// The receiver had no fix.
    NoFix,
    /// The receiver was not there or silent.
    NoReceiver,
    /// The receiver's time jumped.
    ClockStep,
    /// Positions whose date never came.
    Undated,
    /// The agent's own queue overflowed.
    Overrun,
}

/// Something that is missing, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Gap {
    /// Frames `first..=last` of `epoch` will never come.
    Sequences {
        /// Epoch they belong to.
        epoch: u64,
        /// First sequence, from 1.
        first: u64,
        /// Last sequence, not below `first`.
        last: u64,
        /// Why.
        reason: GapReason,
    },
    /// No fix from `from_ms` to `to_ms` (ms since 1970 UTC, `from_ms < to_ms`).
    Silence {
        /// Time of the last fix before.
        from_ms: i64,
        /// Time of the first fix after.
        to_ms: i64,
        /// Why.
        reason: GapReason,
    },
}

impl Gap {
    fn in_range(&self) -> bool {
        match *self {
            Self::Sequences { first, last, .. } => 1 <= first && first <= last,
            Self::Silence { from_ms, to_ms, .. } => from_ms < to_ms,
        }
    }
}

/// The epoch before this one; told by the first batch of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FormerEpoch {
    /// Its number.
    pub epoch: u64,
    /// Its last sequence and that frame's digest, where known; an epoch without them is a gap.
    pub last: Option<(u64, Digest)>,
}

/// An extension: signed and kept, skipped by whoever does not know the tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ext {
    /// What it is.
    pub tag: u16,
    /// At most [`MAX_EXT_BYTES`].
    pub bytes: Vec<u8>,
}

/// A batch. Its fixes are strictly ascending in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Time of the first fix, or of a batch without one: last fix plus monotonic time. ms since 1970 UTC.
    pub at_ms: i64,
    /// Random number of this start of the agent.
    pub boot: u32,
    /// Monotonic milliseconds since that start, at the first fix.
    pub monotonic_ms: u64,
    /// At most [`MAX_FIXES`].
    pub fixes: Vec<Fix>,
    /// At most [`MAX_GAPS`].
    pub gaps: Vec<Gap>,
    /// Only in the first batch of an epoch that is not the first.
    pub former: Option<FormerEpoch>,
    /// At most [`MAX_EXTS`].
    pub ext: Vec<Ext>,
}

impl Batch {
    /// Time of the last fix, or the batch's own time where it has none. ms since 1970 UTC.
    #[must_use]
    pub fn last_at_ms(&self) -> i64 {
        self.fixes.last().map_or(self.at_ms, |f| f.at_ms)
    }

    /// The batch's bytes.
    ///
    /// Errors: a value out of range, fixes not strictly ascending, or too many entries.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.check()?;
        Ok(self.write())
    }

    /// The batch that these bytes hold.
    ///
    /// Errors: anything that [`Batch::encode`] would not have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let batch = Self::read(&mut reader)?;
        reader.end()?;
        batch.check().map_err(|error| match error {
            EncodeError::OutOfRange(field) | EncodeError::TooMany(field) => {
                DecodeError::OutOfRange(field)
            }
        })?;
        // Varints can be padded and a column tagged in more than one way; one content has one form.
        if batch.write() == bytes {
            Ok(batch)
        } else {
            Err(DecodeError::NotCanonical)
        }
    }

    fn check(&self) -> Result<(), EncodeError> {
        if self.fixes.len() > MAX_FIXES {
            return Err(EncodeError::TooMany("fixes"));
        }
        if self.gaps.len() > MAX_GAPS {
            return Err(EncodeError::TooMany("gaps"));
        }
        if self.ext.len() > MAX_EXTS {
            return Err(EncodeError::TooMany("ext"));
        }
        if self
            .fixes
            .first()
            .is_some_and(|first| first.at_ms != self.at_ms)
        {
            return Err(EncodeError::OutOfRange("time of the first fix"));
        }
        if self
            .fixes
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.at_ms >= b.at_ms))
        {
            return Err(EncodeError::OutOfRange("order of fixes"));
        }
        if let Some(field) = self.fixes.iter().find_map(Fix::out_of_range) {
            return Err(EncodeError::OutOfRange(field));
        }
        if !self.gaps.iter().all(Gap::in_range) {
            return Err(EncodeError::OutOfRange("gaps"));
        }
        if self
            .former
            .is_some_and(|f| f.last.is_some_and(|(seq, _)| seq == 0))
        {
            return Err(EncodeError::OutOfRange("former epoch"));
        }
        if self.ext.iter().any(|e| e.bytes.len() > MAX_EXT_BYTES) {
            return Err(EncodeError::OutOfRange("ext"));
        }
        Ok(())
    }

    fn write(&self) -> Vec<u8> {
        let columns: Vec<Vec<Option<i64>>> = OPTIONAL_COLUMNS
            .iter()
            .map(|(_, value)| self.fixes.iter().map(value).collect())
            .collect();
        let there = |column: &&Vec<Option<i64>>| column.iter().any(Option::is_some);
        let mut present = Presence::default();
        for (bit, column) in columns.iter().enumerate() {
            present.set(bit, there(&column));
        }
        present.set(GAPS, !self.gaps.is_empty());
        present.set(FORMER, self.former.is_some());
        present.set(EXT, !self.ext.is_empty());

        let mut out = Vec::with_capacity(48 + 6 * self.fixes.len());
        put(&mut out, &self.at_ms);
        put(&mut out, &self.boot);
        put(&mut out, &self.monotonic_ms);
        put(
            &mut out,
            &u16::try_from(self.fixes.len()).expect("checked against MAX_FIXES"),
        );
        put(&mut out, &present.0);
        if !self.fixes.is_empty() {
            let mut required = |value: &dyn Fn(&Fix) -> i64| {
                let values: Vec<_> = self.fixes.iter().map(|f| Some(value(f))).collect();
                column::write(&mut out, &values);
            };
            required(&|f| f.at_ms.wrapping_sub(self.at_ms));
            required(&|f| f.lat_e7.into());
            required(&|f| f.lon_e7.into());
            columns
                .iter()
                .filter(there)
                .for_each(|column| column::write(&mut out, column));
        }
        if !self.gaps.is_empty() {
            put(&mut out, &self.gaps);
        }
        if let Some(former) = &self.former {
            put(&mut out, former);
        }
        if !self.ext.is_empty() {
            put(&mut out, &self.ext);
        }
        out
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at_ms = reader.take("time")?;
        let boot = reader.take("boot")?;
        let monotonic_ms = reader.take("monotonic time")?;
        let count = usize::from(reader.take::<u16>("number of fixes")?);
        if count > MAX_FIXES {
            return Err(DecodeError::OutOfRange("number of fixes"));
        }
        let present = Presence(reader.take("presence")?);
        let fixes = if count == 0 {
            Vec::new()
        } else {
            read_fixes(reader, at_ms, count, present)?
        };
        Ok(Self {
            at_ms,
            boot,
            monotonic_ms,
            fixes,
            gaps: if present.has(GAPS) {
                reader.take("gaps")?
            } else {
                Vec::new()
            },
            former: if present.has(FORMER) {
                Some(reader.take("former epoch")?)
            } else {
                None
            },
            ext: if present.has(EXT) {
                reader.take("ext")?
            } else {
                Vec::new()
            },
        })
    }
}

/// Which optional parts follow, one bit each; the common ones are the low bits, so that they fit a byte.
#[derive(Clone, Copy, Default)]
struct Presence(u16);

impl Presence {
    fn set(&mut self, bit: usize, there: bool) {
        self.0 |= u16::from(there) << bit;
    }

    fn has(self, bit: usize) -> bool {
        self.0 >> bit & 1 == 1
    }
}

type Value = fn(&Fix) -> Option<i64>;

/// Columns that may be missing, in their order on the wire and in [`Presence`].
const OPTIONAL_COLUMNS: [(&str, Value); 9] = [
    ("speed", |f| f.speed_cm_s.map(i64::from)),
    ("work", |f| known(f.work as u8)),
    ("width", |f| f.width_cm.map(i64::from)),
    ("course", |f| f.course_ddeg.map(i64::from)),
    ("quality", |f| known(f.quality.gga())),
    ("satellites", |f| f.satellites.map(i64::from)),
    ("hdop", |f| f.hdop_x10.map(i64::from)),
    ("work source", |f| known(f.work_source as u8)),
    ("sections", |f| f.sections.map(i64::from)),
];
const GAPS: usize = 9;
const FORMER: usize = 10;
const EXT: usize = 11;

/// Codes whose 0 means "not known" are absent then.
fn known(code: u8) -> Option<i64> {
    (code != 0).then(|| code.into())
}

fn read_fixes(
    reader: &mut Reader<'_>,
    at_ms: i64,
    count: usize,
    present: Presence,
) -> Result<Vec<Fix>, DecodeError> {
    let at = column::read(reader, count, "time of fixes")?;
    let lat = column::read(reader, count, "latitude")?;
    let lon = column::read(reader, count, "longitude")?;
    let mut columns: [Vec<Option<i64>>; 9] = Default::default();
    for (bit, (column, (field, _))) in columns.iter_mut().zip(OPTIONAL_COLUMNS).enumerate() {
        if present.has(bit) {
            *column = column::read(reader, count, field)?;
        }
    }
    let [
        speed,
        work,
        width,
        course,
        quality,
        satellites,
        hdop,
        source,
        sections,
    ] = columns;
    (0..count)
        .map(|i| {
            Ok(Fix {
                at_ms: required::<i64>(&at, i, "time of fixes")?.wrapping_add(at_ms),
                lat_e7: required(&lat, i, "latitude")?,
                lon_e7: required(&lon, i, "longitude")?,
                speed_cm_s: optional(&speed, i, "speed")?,
                course_ddeg: optional(&course, i, "course")?,
                quality: code(&quality, i, Quality::from_gga, "quality")?,
                satellites: optional(&satellites, i, "satellites")?,
                hdop_x10: optional(&hdop, i, "hdop")?,
                work: code(&work, i, Work::from_number, "work")?,
                work_source: code(&source, i, WorkSource::from_number, "work source")?,
                width_cm: optional(&width, i, "width")?,
                sections: optional(&sections, i, "sections")?,
            })
        })
        .collect()
}

fn optional<T: TryFrom<i64>>(
    column: &[Option<i64>],
    i: usize,
    field: &'static str,
) -> Result<Option<T>, DecodeError> {
    column
        .get(i)
        .copied()
        .flatten()
        .map(|v| T::try_from(v).map_err(|_| DecodeError::OutOfRange(field)))
        .transpose()
}

fn required<T: TryFrom<i64>>(
    column: &[Option<i64>],
    i: usize,
    field: &'static str,
) -> Result<T, DecodeError> {
    optional(column, i, field)?.ok_or(DecodeError::OutOfRange(field))
}

fn code<T>(
    column: &[Option<i64>],
    i: usize,
    from: fn(u8) -> Option<T>,
    field: &'static str,
) -> Result<T, DecodeError> {
    let number = optional::<u8>(column, i, field)?.unwrap_or(0);
    from(number).ok_or(DecodeError::OutOfRange(field))
}
