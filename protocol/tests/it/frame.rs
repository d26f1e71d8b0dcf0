//! Frames: what a signature binds, how they chain, and how a wrong one is refused.

use furrow_protocol::{
    SigningKey,
    error::{BadSignature, DecodeError},
    frame::{Device, Digest, Frame, MAX_FRAME_BYTES, genesis, payload_digest},
};

const DEVICE: Device = Device(12);
const EPOCH: u64 = 0x0102_0304_0506_0708;

fn key() -> SigningKey {
    SigningKey::from_bytes(&[3; 32])
}

fn frame() -> Frame {
    let prev = genesis(DEVICE, EPOCH, &key().verifying_key());
    Frame::sign(&key(), DEVICE, EPOCH, 1, prev, vec![5, 6, 7])
}

#[test]
fn a_signature_binds_device_epoch_seq_prev_and_batch() {
    let (frame, key) = (frame(), key().verifying_key());
    assert_eq!(frame.verify(DEVICE, &key), Ok(()));
    assert_eq!(frame.verify(Device(13), &key), Err(BadSignature));
    let other_key = SigningKey::from_bytes(&[4; 32]).verifying_key();
    assert_eq!(frame.verify(DEVICE, &other_key), Err(BadSignature));
    let changes: [fn(&mut Frame); 6] = [
        |f| f.epoch += 1,
        |f| f.seq += 1,
        |f| f.prev.0[15] ^= 1,
        |f| f.batch[2] ^= 1,
        |f| f.batch.push(0),
        |f| f.signature[0] ^= 1,
    ];
    for change in changes {
        let mut changed = frame.clone();
        change(&mut changed);
        assert_eq!(changed.verify(DEVICE, &key), Err(BadSignature));
    }
}

#[test]
fn a_signature_with_the_group_order_added_is_refused() {
    // L, little endian: s + L fits the same equation, so that a lax check would know two signatures.
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut frame = frame();
    let mut carry = 0;
    for (byte, add) in frame.signature[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
    assert_eq!(
        frame.verify(DEVICE, &key().verifying_key()),
        Err(BadSignature)
    );
}

#[test]
fn signed_bytes_are_as_the_readme_says() {
    let frame = frame();
    let expected = [
        b"furrow frame v1\0".as_slice(),
        &[0, 0, 0, 12],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        &[0, 0, 0, 0, 0, 0, 0, 1],
        &frame.prev.0,
        &[5, 6, 7],
    ]
    .concat();
    assert_eq!(frame.signed_bytes(DEVICE), expected);
    assert_eq!(frame.digest(DEVICE), Digest::of_signed(&expected));
    assert_eq!(frame.digest(DEVICE), payload_digest(&expected));
}

#[test]
fn the_chain_begins_at_its_device_epoch_and_key() {
    let key = key().verifying_key();
    let expected = [
        b"furrow epoch v1\0".as_slice(),
        &[0, 0, 0, 12],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        key.as_bytes(),
    ]
    .concat();
    assert_eq!(genesis(DEVICE, EPOCH, &key), payload_digest(&expected));
    let other = SigningKey::from_bytes(&[4; 32]).verifying_key();
    assert_ne!(genesis(DEVICE, EPOCH, &key), genesis(DEVICE, EPOCH, &other));
    assert_ne!(
        genesis(DEVICE, EPOCH, &key),
        genesis(DEVICE, EPOCH + 1, &key)
    );
    assert_ne!(
        genesis(DEVICE, EPOCH, &key),
        genesis(Device(13), EPOCH, &key)
    );
}

#[test]
fn a_digest_is_of_all_but_the_signature() {
    let frame = frame();
    let mut resigned = frame.clone();
    resigned.signature = [0; 64];
    assert_eq!(resigned.digest(DEVICE), frame.digest(DEVICE));
    assert_ne!(frame.digest(Device(13)), frame.digest(DEVICE));
}

#[test]
fn an_unknown_version_is_refused_by_name_whatever_follows() {
    let mut bytes = frame().to_bytes();
    for version in (0..=u8::MAX).filter(|v| *v != 1) {
        bytes[0] = version;
        let error = Frame::from_bytes(&bytes);
        assert_eq!(error, Err(DecodeError::UnknownVersion(version)));
        assert_eq!(
            Frame::from_bytes(&[version]),
            Err(DecodeError::UnknownVersion(version))
        );
    }
    assert_eq!(Frame::from_bytes(&[]), Err(DecodeError::Empty));
}

#[test]
fn a_frame_that_is_cut_off_says_where() {
    let bytes = frame().to_bytes();
    assert_eq!(bytes.len(), 1 + 8 + 1 + 16 + 3 + 64);
    let field = |len: usize| Frame::from_bytes(&bytes[..len]).unwrap_err();
    assert_eq!(field(8), DecodeError::Malformed("epoch"));
    assert_eq!(field(9), DecodeError::Malformed("seq"));
    assert_eq!(field(25), DecodeError::Malformed("prev"));
    assert_eq!(field(26 + 63), DecodeError::Malformed("signature"));
}

#[test]
fn a_sequence_is_from_1_and_in_its_shortest_form() {
    let mut bytes = frame().to_bytes();
    bytes[9] = 0;
    assert_eq!(
        Frame::from_bytes(&bytes),
        Err(DecodeError::OutOfRange("seq"))
    );
    let padded = [&bytes[..9], &[0x81, 0], &bytes[10..]].concat();
    assert_eq!(Frame::from_bytes(&padded), Err(DecodeError::NotCanonical));
}

#[test]
fn a_frame_over_the_limit_is_refused_unread() {
    let bytes = vec![1; MAX_FRAME_BYTES + 1];
    let error = DecodeError::TooLong {
        len: MAX_FRAME_BYTES + 1,
        max: MAX_FRAME_BYTES,
    };
    assert_eq!(Frame::from_bytes(&bytes), Err(error));
    assert!(Frame::from_bytes(&bytes[1..]).is_ok());
}
