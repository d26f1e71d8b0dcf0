//! What holds for every message: it comes back as it was, from one encoding only, and nothing else is taken for it.

use furrow_protocol::{
    batch::{Batch, MAX_BATCH_BYTES},
    down::{Down, MAX_DOWN_BYTES},
    frame::{Device, Frame, MAX_FRAME_BYTES},
    state::{MAX_STATE_BYTES, State},
};
use proptest::prelude::*;

use crate::strategies;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn a_batch_comes_back_as_it_was(batch in strategies::batch()) {
        let bytes = batch.encode().unwrap();
        prop_assert!(bytes.len() <= MAX_BATCH_BYTES);
        prop_assert_eq!(Batch::decode(&bytes), Ok(batch));
    }

    #[test]
    fn a_frame_comes_back_as_it_was_and_verifies_for_its_device_alone(frame in strategies::frame()) {
        let bytes = frame.to_bytes();
        prop_assert!(bytes.len() <= MAX_FRAME_BYTES);
        let again = Frame::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&again, &frame);
        let key = furrow_protocol::SigningKey::from_bytes(&[9; 32]).verifying_key();
        prop_assert!(again.verify(Device(7), &key).is_ok());
        prop_assert!(again.verify(Device(8), &key).is_err());
    }

    #[test]
    fn a_down_message_comes_back_as_it_was(down in strategies::down()) {
        let bytes = down.encode().unwrap();
        prop_assert!(bytes.len() <= MAX_DOWN_BYTES);
        prop_assert_eq!(Down::decode(&bytes), Ok(down));
    }

    #[test]
    fn a_state_message_comes_back_as_it_was(state in strategies::state()) {
        let bytes = state.encode().unwrap();
        prop_assert!(bytes.len() <= MAX_STATE_BYTES);
        prop_assert_eq!(State::decode(&bytes), Ok(state));
    }

    #[test]
    fn no_beginning_of_a_message_and_nothing_longer_is_a_message(
        batch in strategies::batch(), down in strategies::down(), state in strategies::state(), more in any::<u8>()
    ) {
        let (batch, down, state) = (batch.encode().unwrap(), down.encode().unwrap(), state.encode().unwrap());
        for end in 0..batch.len().min(400) {
            prop_assert!(Batch::decode(&batch[..end]).is_err());
        }
        for end in 0..down.len() {
            prop_assert!(Down::decode(&down[..end]).is_err());
        }
        for end in 0..state.len() {
            prop_assert!(State::decode(&state[..end]).is_err());
        }
        prop_assert!(Batch::decode(&[&batch[..], &[more]].concat()).is_err());
        prop_assert!(Down::decode(&[&down[..], &[more]].concat()).is_err());
        prop_assert!(State::decode(&[&state[..], &[more]].concat()).is_err());
    }

    #[test]
    fn any_bit_of_a_frame_that_changes_breaks_it(frame in strategies::frame(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = frame.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let key = furrow_protocol::SigningKey::from_bytes(&[9; 32]).verifying_key();
        let sound = Frame::from_bytes(&bytes).is_ok_and(|f| f.verify(Device(7), &key).is_ok());
        prop_assert!(!sound);
    }
}
