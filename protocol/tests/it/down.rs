//! Down messages: acks name exact sequences, settings stay in their ranges.

use furrow_protocol::{
    down::{Down, MAX_DOWN_BYTES, MAX_RANGES, RefusedReason, Settings, acks},
    error::{DecodeError, EncodeError},
    frame::Digest,
};

fn ack(ranges: &[(u64, u64)]) -> Down {
    Down::Ack {
        epoch: 1,
        ranges: ranges.to_vec(),
    }
}

#[test]
fn ranges_are_ascending_apart_and_from_1() {
    let out = Err(EncodeError::OutOfRange("ranges"));
    assert!(ack(&[(1, 1), (3, 9), (11, u64::MAX)]).encode().is_ok());
    for ranges in [
        &[][..],
        &[(0, 1)],
        &[(2, 1)],
        &[(1, 2), (2, 3)],
        &[(1, 2), (3, 4)],
        &[(3, 4), (1, 1)],
        &[(1, u64::MAX), (1, 1)],
    ] {
        assert_eq!(ack(ranges).encode(), out, "{ranges:?}");
    }
    let many: Vec<(u64, u64)> = (0..=128).map(|i| (2 * i + 1, 2 * i + 1)).collect();
    assert_eq!(ack(&many).encode(), Err(EncodeError::TooMany("ranges")));
    assert!(ack(&many[..MAX_RANGES]).encode().is_ok());
}

#[test]
fn the_longest_ack_fits_the_largest_size() {
    let from = u64::MAX - 1000;
    let ranges: Vec<(u64, u64)> = (0..128).map(|i| (from + 2 * i, from + 2 * i)).collect();
    let down = Down::Ack {
        epoch: u64::MAX,
        ranges,
    };
    let bytes = down.encode().unwrap();
    assert!(bytes.len() > 2500 && bytes.len() <= MAX_DOWN_BYTES);
    assert_eq!(Down::decode(&bytes), Ok(down));
}

#[test]
fn acks_name_each_sequence_once_in_any_order() {
    assert_eq!(acks(1, vec![]), vec![]);
    let seqs = vec![5, 3, 9, 4, 5, u64::MAX, 1];
    let expected = ack(&[(1, 1), (3, 5), (9, 9), (u64::MAX, u64::MAX)]);
    assert_eq!(acks(1, seqs), vec![expected]);
    let odd: Vec<u64> = (0..300).map(|i| 2 * i + 1).collect();
    let parts = acks(1, odd.clone());
    assert_eq!(parts.len(), 3);
    let mut named = vec![];
    for part in parts {
        assert!(part.encode().is_ok());
        let Down::Ack { ranges, .. } = part else {
            panic!("an ack")
        };
        named.extend(ranges.iter().map(|(first, _)| *first));
    }
    assert_eq!(named, odd);
}

#[test]
fn settings_stay_in_their_ranges() {
    let none = Settings {
        version: 1,
        rate_dhz: None,
        batch_s: None,
        window: None,
        log_level: None,
    };
    let refused = |settings, field| {
        let error = Down::Settings(settings).encode();
        assert_eq!(error, Err(EncodeError::OutOfRange(field)));
    };
    for rate_dhz in [Some(0), Some(101)] {
        refused(Settings { rate_dhz, ..none }, "rate");
    }
    for batch_s in [Some(0), Some(61)] {
        refused(Settings { batch_s, ..none }, "batch time");
    }
    for window in [Some(0), Some(33)] {
        refused(Settings { window, ..none }, "window");
    }
    // A rate of 0 on the wire.
    let bytes = [1, 2, 1, 1, 0, 0, 0, 0];
    assert_eq!(Down::decode(&bytes), Err(DecodeError::OutOfRange("rate")));
}

#[test]
fn what_is_no_down_message_is_refused() {
    assert_eq!(Down::decode(&[]), Err(DecodeError::Empty));
    assert_eq!(Down::decode(&[2]), Err(DecodeError::UnknownVersion(2)));
    assert_eq!(Down::decode(&[1, 3]), Err(DecodeError::OutOfRange("kind")));
    let long = vec![1; MAX_DOWN_BYTES + 1];
    assert!(matches!(
        Down::decode(&long),
        Err(DecodeError::TooLong { .. })
    ));
    // An ack that announces more ranges than it may, before any is read.
    let many = [1, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(Down::decode(&many), Err(DecodeError::OutOfRange("ranges")));
    // A padded epoch.
    let padded = [1, 0, 0x81, 0, 1, 1, 1];
    assert_eq!(Down::decode(&padded), Err(DecodeError::NotCanonical));
    let refused = Down::Refused {
        digest: Digest([7; 16]),
        reason: RefusedReason::Revoked,
    };
    let mut bytes = refused.encode().unwrap();
    assert_eq!(bytes.len(), 1 + 1 + 16 + 1);
    bytes[18] = 6;
    assert_eq!(Down::decode(&bytes), Err(DecodeError::Malformed("reason")));
}
