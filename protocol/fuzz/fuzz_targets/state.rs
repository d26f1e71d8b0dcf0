//! State messages from any bytes: no panic, and only what the encoder writes is accepted.
#![no_main]

use furrow_protocol::state::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(state) = State::decode(bytes) {
        assert_eq!(state.encode().as_deref(), Ok(bytes));
    }
});
