//! A column of numbers, one a fix, packed by whichever of a few forms is shortest. Never reads more values than it is told.
//!
//! A column is a tag and then zig-zag varints. The writer takes the shortest form, the first of
//! equals, so that the same numbers always give the same bytes.

use alloc::vec::Vec;

use crate::{
    error::DecodeError,
    wire::{Reader, put, varint_len},
};

/// One value for all.
const CONSTANT: u8 = 1;
/// The first value and one difference for all.
const STEADY: u8 = 2;
/// The first value, then (how many differences are 0, the difference after them) until all are told;
/// zeros that reach the end have no difference after them.
const RUNS: u8 = 3;
/// The first value, then first differences.
const FIRST: u8 = 4;
/// The first value, the first difference, then second differences.
const SECOND: u8 = 5;

/// The low bits of the tag hold the form.
const FORM_BITS: u8 = 0b0000_0111;
/// Numbers are 0 for "absent" and value + 1 otherwise; set only where both occur.
const OPTIONAL: u8 = 0b0000_1000;
/// Differences are in units of 100 or 1000 (times at whole tenths or seconds).
const SCALES: [(u8, i64); 3] = [(0b0010_0000, 1000), (0b0001_0000, 100), (0, 1)];
const SCALE_BITS: u8 = 0b0011_0000;

/// The writer's working space, kept from column to column.
#[derive(Default)]
pub(crate) struct Scratch {
    numbers: Vec<i64>,
    steps: Vec<i64>,
}

/// Writes `values` (one a fix, at least one of them there).
pub(crate) fn write(
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
    values: impl Iterator<Item = Option<i64>> + Clone,
) {
    let optional = values.clone().any(|v| v.is_none());
    scratch.numbers.clear();
    scratch.numbers.extend(values.map(|v| match v {
        Some(v) if optional => v.wrapping_add(1),
        Some(v) => v,
        None => 0,
    }));
    let flag = if optional { OPTIONAL } else { 0 };
    write_numbers(out, scratch, flag);
}

fn write_numbers(out: &mut Vec<u8>, scratch: &mut Scratch, flag: u8) {
    let Scratch { numbers, steps } = scratch;
    let Some((first, rest)) = numbers.split_first() else {
        return;
    };
    if rest.iter().all(|v| v == first) {
        out.push(CONSTANT | flag);
        return put(out, first);
    }
    let (scale_flag, scale) = scale_of(numbers);
    steps.clear();
    steps.extend(numbers.windows(2).map(|w| difference(w) / scale));
    let Some((first_step, later)) = steps.split_first() else {
        return;
    };
    let tag = |form| form | flag | scale_flag;
    if later.iter().all(|s| s == first_step) {
        out.push(tag(STEADY));
        put(out, first);
        return put(out, first_step);
    }
    let seconds = || steps.windows(2).map(difference);
    let first_len: usize = steps.iter().map(|s| zigzag_len(*s)).sum();
    let second_len = zigzag_len(*first_step) + seconds().map(zigzag_len).sum::<usize>();
    if runs_len(steps) < first_len.min(second_len) {
        out.push(tag(RUNS));
        put(out, first);
        write_runs(out, steps);
    } else if first_len <= second_len {
        out.push(tag(FIRST));
        put(out, first);
        steps.iter().for_each(|s| put(out, s));
    } else {
        out.push(tag(SECOND));
        put(out, first);
        put(out, first_step);
        seconds().for_each(|s| put(out, &s));
    }
}

/// The parts that runs are written in: how many zeros, and the difference after them.
fn runs(steps: &[i64]) -> impl Iterator<Item = (u64, Option<i64>)> {
    steps.split_inclusive(|s| *s != 0).map(|part| {
        let step = part.last().copied().filter(|s| *s != 0);
        let zeros = part.len() - usize::from(step.is_some());
        (u64::try_from(zeros).unwrap_or(u64::MAX), step)
    })
}

fn write_runs(out: &mut Vec<u8>, steps: &[i64]) {
    for (zeros, step) in runs(steps) {
        put(out, &zeros);
        if let Some(step) = step {
            put(out, &step);
        }
    }
}

/// Bytes that [`write_runs`] takes.
fn runs_len(steps: &[i64]) -> usize {
    runs(steps)
        .map(|(zeros, step)| varint_len(zeros) + step.map_or(0, zigzag_len))
        .sum()
}

/// Bytes of a zig-zag varint.
fn zigzag_len(value: i64) -> usize {
    varint_len(((value << 1) ^ (value >> 63)).cast_unsigned())
}

/// The coarsest unit that all differences are whole multiples of.
fn scale_of(numbers: &[i64]) -> (u8, i64) {
    let fits = |unit: i64| numbers.windows(2).all(|w| difference(w) % unit == 0);
    SCALES
        .into_iter()
        .find(|(_, unit)| fits(*unit))
        .unwrap_or((0, 1))
}

fn difference(pair: &[i64]) -> i64 {
    match pair {
        [a, b] => b.wrapping_sub(*a),
        _ => 0,
    }
}

/// A column that is being read, value by value.
pub(crate) struct Values {
    form: u8,
    optional: bool,
    scale: i64,
    value: i64,
    /// The difference to the next value, in units of `scale`.
    step: i64,
    /// With [`RUNS`]: how many differences are 0 before the next one that is told.
    zeros: usize,
    /// Values not yet given.
    left: usize,
    field: &'static str,
}

impl Values {
    /// Begins a column of `count` values (at least one). The caller has bounded `count`.
    pub(crate) fn open(
        reader: &mut Reader<'_>,
        count: usize,
        field: &'static str,
    ) -> Result<Self, DecodeError> {
        let tag = reader.take_byte(field)?;
        let (_, scale) = SCALES
            .into_iter()
            .find(|(flag, _)| *flag == tag & SCALE_BITS)
            .ok_or(DecodeError::Malformed(field))?;
        let form = tag & FORM_BITS;
        let known_bits = tag & !(FORM_BITS | OPTIONAL | SCALE_BITS) == 0;
        if !known_bits || !(CONSTANT..=SECOND).contains(&form) {
            return Err(DecodeError::Malformed(field));
        }
        let mut values = Self {
            form,
            optional: tag & OPTIONAL != 0,
            scale,
            value: reader.take(field)?,
            step: 0,
            zeros: 0,
            left: count,
            field,
        };
        match form {
            STEADY => values.step = reader.take(field)?,
            RUNS => values.open_run(reader, count.saturating_sub(1))?,
            _ => {}
        }
        Ok(values)
    }

    /// The next value; the caller asks `count` times and checks ranges.
    pub(crate) fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<i64>, DecodeError> {
        let number = self.value;
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            self.advance(reader)?;
        }
        Ok(match (self.optional, number) {
            (false, _) => Some(number),
            (true, 0) => None,
            (true, _) => Some(number.wrapping_sub(1)),
        })
    }

    fn advance(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        match self.form {
            FIRST => self.step = reader.take(self.field)?,
            SECOND => self.step = self.step.wrapping_add(reader.take(self.field)?),
            RUNS if self.zeros > 0 => {
                self.zeros -= 1;
                self.step = 0;
            }
            RUNS => {
                self.step = reader.take(self.field)?;
                if self.left > 1 {
                    self.open_run(reader, self.left - 1)?;
                }
            }
            _ => {}
        }
        self.value = self.value.wrapping_add(self.step.wrapping_mul(self.scale));
        Ok(())
    }

    fn open_run(&mut self, reader: &mut Reader<'_>, most: usize) -> Result<(), DecodeError> {
        let zeros: u64 = reader.take(self.field)?;
        self.zeros = usize::try_from(zeros)
            .ok()
            .filter(|zeros| *zeros <= most)
            .ok_or(DecodeError::OutOfRange(self.field))?;
        Ok(())
    }
}
