//! Keys that may not be enrolled.

use furrow_protocol::{
    SigningKey, VerifyingKey,
    error::KeyError,
    key::{admit, is_weak},
};

fn bytes(hex: &str) -> [u8; 32] {
    let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
    std::array::from_fn(byte)
}

/// All eight points whose order divides 8, as RFC 8032 encodes them.
const SMALL_ORDER: [&str; 8] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
];

#[test]
fn a_key_made_by_an_agent_is_admitted() {
    for seed in 0..32 {
        let key = SigningKey::from_bytes(&[seed; 32]).verifying_key();
        assert_eq!(admit(key.as_bytes()), Ok(key));
        assert!(!is_weak(&key));
    }
}

#[test]
fn keys_of_small_order_are_refused() {
    for hex in SMALL_ORDER {
        assert_eq!(admit(&bytes(hex)), Err(KeyError::Weak), "{hex}");
        assert!(is_weak(&VerifyingKey::from_bytes(&bytes(hex)).unwrap()));
    }
}

#[test]
fn a_key_with_a_part_of_small_order_is_refused() {
    let good = SigningKey::from_bytes(&[5; 32]).verifying_key();
    for hex in &SMALL_ORDER[1..] {
        let small = VerifyingKey::from_bytes(&bytes(hex)).unwrap();
        let mixed = (good.to_edwards() + small.to_edwards()).compress();
        assert_eq!(admit(mixed.as_bytes()), Err(KeyError::Weak), "{hex}");
    }
}

#[test]
fn other_encodings_of_a_point_are_no_key() {
    for hex in [
        // The identity with the sign bit set, and y = p + 1, p, 2^255 - 1.
        "0100000000000000000000000000000000000000000000000000000000000080",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ] {
        assert_eq!(admit(&bytes(hex)), Err(KeyError::NotAKey), "{hex}");
    }
}

#[test]
fn bytes_that_are_no_point_are_no_key() {
    let points = (0..=u8::MAX).filter(|y| {
        let mut bytes = [0; 32];
        bytes[0] = *y;
        admit(&bytes) != Err(KeyError::NotAKey)
    });
    let points = points.count();
    assert!(
        (64..192).contains(&points),
        "about half of all y are points, not {points} of 256"
    );
}
