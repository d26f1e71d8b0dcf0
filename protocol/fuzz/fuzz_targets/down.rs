//! Down messages from any bytes: no panic, and only what the encoder writes is accepted.
#![no_main]

use furrow_protocol::down::Down;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(down) = Down::decode(bytes) {
        assert_eq!(down.encode().as_deref(), Ok(bytes));
    }
});
