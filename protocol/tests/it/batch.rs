//! Batches: the limits, what they cost, and bytes that look right and are not.

use furrow_protocol::{
    batch::{
        Batch, Ext, FormerEpoch, Gap, GapReason, MAX_BATCH_BYTES, MAX_EXT_BYTES, MAX_EXTS,
        MAX_FIXES, MAX_GAPS, MAX_SPAN_MS,
    },
    error::{DecodeError, EncodeError},
    fix::{Fix, MAX_LAT_E7, MAX_LON_E7, Quality, Work, WorkSource},
    frame::{Device, Digest, Frame, MAX_FRAME_BYTES},
};

fn fix(at_ms: i64) -> Fix {
    Fix {
        at_ms,
        ..Fix::default()
    }
}

fn batch(fixes: Vec<Fix>) -> Batch {
    Batch {
        at_ms: fixes.first().map_or(0, |f| f.at_ms),
        boot: 1,
        monotonic_ms: 0,
        fixes,
        gaps: vec![],
        former: None,
        ext: vec![],
    }
}

fn seconds(n: i64) -> Vec<Fix> {
    (0..n).map(|i| fix(i * 1000)).collect()
}

#[track_caller]
fn refused(batch: &Batch, field: &'static str) {
    assert_eq!(batch.encode(), Err(EncodeError::OutOfRange(field)));
}

#[test]
fn fixes_ascend_strictly_within_a_day() {
    refused(&batch(vec![fix(5), fix(5)]), "order of fixes");
    refused(&batch(vec![fix(5), fix(4)]), "order of fixes");
    assert!(batch(vec![fix(0), fix(MAX_SPAN_MS)]).encode().is_ok());
    refused(&batch(vec![fix(0), fix(MAX_SPAN_MS + 1)]), "span of fixes");
    refused(&batch(vec![fix(i64::MIN), fix(i64::MAX)]), "span of fixes");
    let mut other = batch(vec![fix(5)]);
    other.at_ms = 4;
    refused(&other, "time of the first fix");
}

#[test]
fn takes_says_beforehand_what_encode_would_refuse() {
    let one = batch(vec![fix(0)]);
    assert!(batch(vec![]).takes(i64::MIN));
    assert!(one.takes(1) && one.takes(MAX_SPAN_MS));
    assert!(!one.takes(0) && !one.takes(-1) && !one.takes(MAX_SPAN_MS + 1));
    assert!(!batch(vec![fix(i64::MIN)]).takes(i64::MAX));
    assert!(batch(seconds(599)).takes(599_000));
    assert!(!batch(seconds(600)).takes(600_000));
}

#[test]
fn values_out_of_range_are_not_written() {
    let place = |lat_e7, lon_e7| Fix {
        lat_e7,
        lon_e7,
        ..fix(0)
    };
    assert!(batch(vec![place(MAX_LAT_E7, -MAX_LON_E7)]).encode().is_ok());
    refused(&batch(vec![place(MAX_LAT_E7 + 1, 0)]), "latitude");
    refused(&batch(vec![place(i32::MIN, 0)]), "latitude");
    refused(&batch(vec![place(0, MAX_LON_E7 + 1)]), "longitude");
    refused(&batch(vec![place(0, i32::MIN)]), "longitude");
    let course = |course_ddeg| Fix {
        course_ddeg,
        ..fix(0)
    };
    assert!(batch(vec![course(Some(3599))]).encode().is_ok());
    refused(&batch(vec![course(Some(3600))]), "course");
}

#[test]
fn gaps_are_ordered_and_their_length_is_a_number() {
    let with = |gap| Batch {
        gaps: vec![gap],
        ..batch(vec![])
    };
    let sequences = |first, last| {
        with(Gap::Sequences {
            epoch: 1,
            first,
            last,
            reason: GapReason::Damaged,
        })
    };
    assert!(sequences(1, 1).encode().is_ok());
    assert!(sequences(1, u64::MAX).encode().is_ok());
    refused(&sequences(0, 1), "gaps");
    refused(&sequences(3, 2), "gaps");
    let silence = |from_ms, to_ms| {
        with(Gap::Silence {
            from_ms,
            to_ms,
            reason: GapReason::NoFix,
        })
    };
    assert!(silence(-1, 0).encode().is_ok());
    refused(&silence(0, 0), "gaps");
    refused(&silence(1, 0), "gaps");
    refused(&silence(i64::MIN, i64::MAX), "gaps");
}

#[test]
fn a_former_epoch_ends_at_a_sequence_from_1() {
    let former = |seq| Batch {
        former: Some(FormerEpoch {
            epoch: 0,
            last: Some((seq, Digest([0; 16]))),
        }),
        ..batch(vec![])
    };
    assert!(former(1).encode().is_ok());
    refused(&former(0), "former epoch");
}

#[test]
fn counts_are_bounded() {
    let too_many = |b: &Batch, field| assert_eq!(b.encode(), Err(EncodeError::TooMany(field)));
    assert!(batch(seconds(600)).encode().is_ok());
    too_many(&batch(seconds(601)), "fixes");
    let gap = Gap::Silence {
        from_ms: 0,
        to_ms: 1,
        reason: GapReason::NoFix,
    };
    let gaps = |n| Batch {
        gaps: vec![gap; n],
        ..batch(vec![])
    };
    assert!(gaps(MAX_GAPS).encode().is_ok());
    too_many(&gaps(MAX_GAPS + 1), "gaps");
    let ext = |n, len| Batch {
        ext: vec![
            Ext {
                tag: 1,
                bytes: vec![0; len],
            };
            n
        ],
        ..batch(vec![])
    };
    assert!(ext(MAX_EXTS, MAX_EXT_BYTES).encode().is_ok());
    too_many(&ext(MAX_EXTS + 1, 0), "extensions");
    refused(&ext(1, MAX_EXT_BYTES + 1), "extension");
}

#[test]
fn the_largest_content_fits_the_largest_size() {
    let at = |i: i64| i * 144_000 + i % 7;
    let swing = |i: i64| i % 2 == 0;
    let fix = |i: i64| Fix {
        at_ms: i64::MIN + at(i),
        lat_e7: if swing(i) { MAX_LAT_E7 } else { -MAX_LAT_E7 },
        lon_e7: if swing(i) { MAX_LON_E7 } else { -MAX_LON_E7 },
        speed_cm_s: swing(i).then_some(u16::MAX),
        course_ddeg: swing(i).then_some(3599),
        quality: if swing(i) {
            Quality::Simulated
        } else {
            Quality::Unknown
        },
        satellites: swing(i).then_some(u8::MAX),
        hdop_x10: swing(i).then_some(u16::MAX),
        work: if swing(i) { Work::On } else { Work::Unknown },
        work_source: if swing(i) {
            WorkSource::Switch
        } else {
            WorkSource::None
        },
        width_cm: swing(i).then_some(u16::MAX),
        sections: swing(i).then_some(u32::MAX),
    };
    let gap = Gap::Sequences {
        epoch: u64::MAX,
        first: u64::MAX,
        last: u64::MAX,
        reason: GapReason::Overrun,
    };
    let ext = Ext {
        tag: u16::MAX,
        bytes: vec![0xff; MAX_EXT_BYTES],
    };
    let batch = Batch {
        at_ms: i64::MIN,
        boot: u32::MAX,
        monotonic_ms: u64::MAX,
        fixes: (0..600).map(fix).collect(),
        gaps: vec![gap; MAX_GAPS],
        former: Some(FormerEpoch {
            epoch: u64::MAX,
            last: Some((u64::MAX, Digest([0xff; 16]))),
        }),
        ext: vec![ext; MAX_EXTS],
    };
    let bytes = batch.encode().unwrap();
    assert!(
        bytes.len() > 20_000,
        "{} bytes are no large batch",
        bytes.len()
    );
    assert!(bytes.len() <= MAX_BATCH_BYTES, "{} bytes", bytes.len());
    assert_eq!(Batch::decode(&bytes).as_ref(), Ok(&batch));
    let key = furrow_protocol::SigningKey::from_bytes(&[1; 32]);
    let prev = Digest([0; 16]);
    let frame = Frame::sign(
        &key,
        Device(1),
        u64::MAX,
        u64::MAX,
        prev,
        vec![0; MAX_BATCH_BYTES],
    );
    assert!(frame.to_bytes().len() <= MAX_FRAME_BYTES);
    assert!(Frame::from_bytes(&frame.to_bytes()).is_ok());
}

#[test]
fn a_column_costs_nothing_when_absent_and_little_when_constant() {
    let size = |width_cm, sections| {
        let fixes = seconds(60).into_iter().map(|f| Fix {
            width_cm,
            sections,
            ..f
        });
        batch(fixes.collect()).encode().unwrap().len()
    };
    let bare = size(None, None);
    assert_eq!(size(Some(900), None), bare + 3);
    assert_eq!(size(Some(0), None), bare + 2);
    assert_eq!(bare, 1 + 1 + 4 + 1 + (1 + 1 + 1) + (1 + 1) + (1 + 1));
}

/// One fix, nothing else: count, presence, boot (4), monotonic time, then a tag and a value for time, latitude, longitude.
const ONE_FIX: [u8; 13] = [1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0];

#[track_caller]
fn decode_fails(bytes: &[u8], error: DecodeError) {
    assert_eq!(Batch::decode(bytes), Err(error));
}

fn with(at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = ONE_FIX.to_vec();
    bytes[at] = byte;
    bytes
}

#[test]
fn the_same_content_in_another_form_is_refused() {
    assert_eq!(batch(vec![fix(0)]).encode().unwrap(), ONE_FIX);
    let padded = [&[0x81, 0][..], &ONE_FIX[1..]].concat();
    decode_fails(&padded, DecodeError::NotCanonical);
    let padded_value = [&ONE_FIX[..12], &[0x80, 0]].concat();
    decode_fails(&padded_value, DecodeError::NotCanonical);
    for form in [4, 5, 1 | 0x10, 1 | 0x20] {
        decode_fails(&with(7, form), DecodeError::NotCanonical);
    }
    // A column that is there and tells nothing: speed, "absent" for the one fix.
    let mut empty_column = with(1, 1);
    empty_column.extend([1 | 8, 0]);
    decode_fails(&empty_column, DecodeError::NotCanonical);
    // The code that means the same as no column.
    let mut unknown_work = with(1, 2);
    unknown_work.extend([1, 0]);
    decode_fails(&unknown_work, DecodeError::NotCanonical);
    // Lists that are there and empty, and presence bits that mean nothing.
    for (presence, rest) in [
        ([0x80, 0x04], &[0][..]),
        ([0x80, 0x10], &[0]),
        ([0x80, 0x20], &[]),
    ] {
        let bytes = [&[1][..], &presence, &ONE_FIX[2..], rest].concat();
        decode_fails(&bytes, DecodeError::NotCanonical);
    }
}

#[test]
fn tags_that_mean_nothing_are_refused() {
    for tag in [0, 6, 7, 0x31, 0x41, 0x81] {
        decode_fails(&with(7, tag), DecodeError::Malformed("time of fixes"));
    }
}

#[test]
fn a_required_column_has_all_its_values() {
    decode_fails(&with(9, 1 | 8), DecodeError::OutOfRange("latitude"));
}

#[test]
fn counts_beyond_the_limit_are_refused_before_anything_is_read() {
    let count = |bytes: &[u8]| [bytes, &ONE_FIX[1..]].concat();
    let error = DecodeError::OutOfRange("number of fixes");
    // 601 as a varint.
    assert_eq!(MAX_FIXES, 600);
    decode_fails(&count(&[0xd9, 0x04]), error);
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    decode_fails(&count(&huge), error);
    decode_fails(
        &vec![0; MAX_BATCH_BYTES + 1],
        DecodeError::TooLong {
            len: MAX_BATCH_BYTES + 1,
            max: MAX_BATCH_BYTES,
        },
    );
    // More gaps, and a longer extension, than there may be.
    let gaps = [&[1, 0x80, 0x04][..], &ONE_FIX[2..], &[0x81, 0x01]].concat();
    decode_fails(&gaps, DecodeError::OutOfRange("number of gaps"));
    let ext = [&[1, 0x80, 0x10][..], &ONE_FIX[2..], &[1, 0, 65], &[0; 65]].concat();
    decode_fails(&ext, DecodeError::OutOfRange("extension"));
}

#[test]
fn a_run_longer_than_the_column_is_refused() {
    // Three fixes, time as runs: first 0, then 3 zeros where only 2 differences are left.
    let bytes = [3, 0, 0, 0, 0, 1, 0, 3, 0, 3, 2];
    decode_fails(&bytes, DecodeError::OutOfRange("time of fixes"));
}

#[test]
fn differences_that_wrap_neither_panic_nor_pass() {
    let least = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    // Steady steps of i64::MIN x 1000, first and second differences of i64::MIN.
    for (tag, values) in [(2 | 0x20, 1), (4, 2), (5, 2)] {
        let column = [&[tag, 0][..], &least.repeat(values)].concat();
        let bytes = [&[3, 0, 0, 0, 0, 1, 0][..], &column, &[1, 0, 1, 0]].concat();
        assert!(Batch::decode(&bytes).is_err());
    }
    let latitude = [&[2, 0, 0, 0, 0, 1, 0, 2, 0, 2, 2, 0][..], &least, &[1, 0]].concat();
    decode_fails(&latitude, DecodeError::OutOfRange("latitude"));
}

#[test]
fn errors_say_what_is_wrong_in_words() {
    let long = DecodeError::TooLong { len: 9, max: 8 };
    assert_eq!(long.to_string(), "9 bytes, at most 8 are allowed");
    let version = DecodeError::UnknownVersion(7);
    assert_eq!(version.to_string(), "unknown version 7");
    let range = EncodeError::OutOfRange("course");
    assert_eq!(range.to_string(), "value out of range in course");
}
