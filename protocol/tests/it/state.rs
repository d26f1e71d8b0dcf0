//! State messages: short, printable, of a known version.

use furrow_protocol::{
    error::{DecodeError, EncodeError},
    state::{MAX_STATE_BYTES, Receiver, State},
};

fn state(agent: &str, quality: u8) -> State {
    State {
        agent: agent.to_owned(),
        boot: u32::MAX,
        uptime_s: u64::MAX,
        epoch: u64::MAX,
        last_seq: u64::MAX,
        backlog_frames: u64::MAX,
        backlog_bytes: u64::MAX,
        last_fix_ms: Some(i64::MIN),
        quality,
        receiver: Receiver::Fix,
        lost_frames: u64::MAX,
        disk_free_bytes: u64::MAX,
        settings_version: u32::MAX,
    }
}

#[test]
fn an_agent_is_named_in_printable_ascii() {
    assert!(state("furrow-agent 0.1.0 (armv7)", 8).encode().is_ok());
    for agent in [
        "a\nb",
        "a\u{1b}[2J",
        "\u{e9}",
        "x\0",
        "123456789012345678901234567890123",
    ] {
        let error = state(agent, 0).encode();
        assert_eq!(error, Err(EncodeError::OutOfRange("agent")), "{agent:?}");
    }
    assert_eq!(
        state("a", 9).encode(),
        Err(EncodeError::OutOfRange("quality"))
    );
}

#[test]
fn the_longest_state_fits_the_largest_size() {
    let bytes = state(&"x".repeat(32), 8).encode().unwrap();
    assert!(bytes.len() <= MAX_STATE_BYTES);
}

#[test]
fn what_is_no_state_message_is_refused() {
    assert_eq!(State::decode(&[]), Err(DecodeError::Empty));
    assert_eq!(State::decode(&[0]), Err(DecodeError::UnknownVersion(0)));
    assert_eq!(
        State::decode(&[1]),
        Err(DecodeError::Malformed("state message"))
    );
    let long = vec![1; MAX_STATE_BYTES + 1];
    assert!(matches!(
        State::decode(&long),
        Err(DecodeError::TooLong { .. })
    ));
    let mut bytes = state("ab", 8).encode().unwrap();
    bytes[2] = 0x07;
    assert_eq!(State::decode(&bytes), Err(DecodeError::OutOfRange("agent")));
    bytes[2] = 0xff;
    assert_eq!(
        State::decode(&bytes),
        Err(DecodeError::Malformed("state message"))
    );
}
