//! A column of numbers, one a fix, packed by whichever of a few forms is shortest. Never reads more values than it is told.
//!
//! A column is a tag and then zig-zag varints. The writer takes the shortest form, the first of
//! equals, so that the same numbers always give the same bytes.

use alloc::vec::Vec;

use crate::{
    error::DecodeError,
    wire::{Reader, put},
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

/// Writes `values` (one a fix, at least one of them there).
pub(crate) fn write(out: &mut Vec<u8>, values: &[Option<i64>]) {
    let optional = values.iter().any(Option::is_none);
    let numbers: Vec<i64> = values
        .iter()
        .map(|v| {
            if optional {
                v.map_or(0, |v| v.wrapping_add(1))
            } else {
                v.unwrap_or(0)
            }
        })
        .collect();
    let flag = if optional { OPTIONAL } else { 0 };
    write_numbers(out, &numbers, flag);
}

fn write_numbers(out: &mut Vec<u8>, numbers: &[i64], flag: u8) {
    let Some((first, rest)) = numbers.split_first() else {
        return;
    };
    if rest.iter().all(|v| v == first) {
        out.push(CONSTANT | flag);
        return put(out, first);
    }
    let (scale_flag, scale) = scale_of(numbers);
    let steps: Vec<i64> = numbers.windows(2).map(|w| step(w, scale)).collect();
    let Some((first_step, later)) = steps.split_first() else {
        return;
    };
    if later.iter().all(|s| s == first_step) {
        out.push(STEADY | flag | scale_flag);
        put(out, first);
        return put(out, first_step);
    }
    let first_len: usize = later.iter().map(|s| zigzag_len(*s)).sum();
    let second_len: usize = steps.windows(2).map(|w| zigzag_len(step(w, 1))).sum();
    let tag = |form| form | flag | scale_flag;
    if runs_len(&steps) < zigzag_len(*first_step) + first_len.min(second_len) {
        out.push(tag(RUNS));
        put(out, first);
        write_runs(out, &steps);
    } else if first_len <= second_len {
        out.push(tag(FIRST));
        put(out, first);
        steps.iter().for_each(|s| put(out, s));
    } else {
        out.push(tag(SECOND));
        put(out, first);
        put(out, first_step);
        steps.windows(2).for_each(|w| put(out, &step(w, 1)));
    }
}

fn write_runs(out: &mut Vec<u8>, steps: &[i64]) {
    for part in steps.split_inclusive(|s| *s != 0) {
        let zeros = part.iter().filter(|s| **s == 0).count();
        put(out, &u16::try_from(zeros).expect("at most MAX_FIXES"));
        if let Some(step) = part.last().filter(|s| **s != 0) {
            put(out, step);
        }
    }
}

/// Bytes that [`write_runs`] takes while each run is shorter than 128.
fn runs_len(steps: &[i64]) -> usize {
    steps
        .split_inclusive(|s| *s != 0)
        .map(|part| {
            1 + part
                .last()
                .filter(|s| **s != 0)
                .map_or(0, |s| zigzag_len(*s))
        })
        .sum()
}

/// Bytes of a zig-zag varint.
fn zigzag_len(value: i64) -> usize {
    let zigzag = (value << 1) ^ (value >> 63);
    let bits = usize::try_from(i64::BITS - zigzag.leading_zeros()).unwrap_or(64);
    bits.div_ceil(7).max(1)
}

/// The coarsest unit that all differences are whole multiples of.
fn scale_of(numbers: &[i64]) -> (u8, i64) {
    let fits = |unit: i64| numbers.windows(2).all(|w| step(w, 1) % unit == 0);
    SCALES
        .into_iter()
        .find(|(_, unit)| fits(*unit))
        .unwrap_or((0, 1))
}

fn step(pair: &[i64], scale: i64) -> i64 {
    match pair {
        [a, b] => b.wrapping_sub(*a) / scale,
        _ => 0,
    }
}

/// Reads a column of `count` values (at least one). The caller has bounded `count` and checks ranges.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    count: usize,
    field: &'static str,
) -> Result<Vec<Option<i64>>, DecodeError> {
    let tag: u8 = reader.take(field)?;
    let scale = SCALES
        .into_iter()
        .find(|(flag, _)| *flag == tag & SCALE_BITS)
        .map(|(_, scale)| scale)
        .ok_or(DecodeError::Malformed(field))?;
    if tag & !(FORM_BITS | OPTIONAL | SCALE_BITS) != 0 {
        return Err(DecodeError::Malformed(field));
    }
    let first: i64 = reader.take(field)?;
    let steps = read_steps(reader, tag & FORM_BITS, count - 1, field)?;
    let mut value = first;
    let mut numbers = Vec::with_capacity(count);
    numbers.push(first);
    for step in steps {
        value = value.wrapping_add(step.wrapping_mul(scale));
        numbers.push(value);
    }
    let optional = tag & OPTIONAL != 0;
    Ok(numbers
        .into_iter()
        .map(|n| {
            if optional {
                (n != 0).then(|| n.wrapping_sub(1))
            } else {
                Some(n)
            }
        })
        .collect())
}

fn read_steps(
    reader: &mut Reader<'_>,
    form: u8,
    count: usize,
    field: &'static str,
) -> Result<Vec<i64>, DecodeError> {
    let mut steps = Vec::with_capacity(count);
    match form {
        CONSTANT => steps.resize(count, 0),
        STEADY => steps.resize(count, reader.take(field)?),
        RUNS => {
            while steps.len() < count {
                let zeros = usize::from(reader.take::<u16>(field)?);
                if zeros > count - steps.len() {
                    return Err(DecodeError::OutOfRange(field));
                }
                steps.resize(steps.len() + zeros, 0);
                if steps.len() < count {
                    steps.push(reader.take(field)?);
                }
            }
        }
        FIRST => {
            for _ in 0..count {
                steps.push(reader.take(field)?);
            }
        }
        SECOND => {
            let mut step = 0_i64;
            for _ in 0..count {
                step = step.wrapping_add(reader.take(field)?);
                steps.push(step);
            }
        }
        _ => return Err(DecodeError::Malformed(field)),
    }
    Ok(steps)
}
