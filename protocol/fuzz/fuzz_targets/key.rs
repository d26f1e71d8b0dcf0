//! Public keys from any 32 bytes: no panic, and a key that is admitted has these bytes.
#![no_main]

use furrow_protocol::key::admit;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: [u8; 32]| {
    if let Ok(key) = admit(&bytes) {
        assert_eq!(key.as_bytes(), &bytes);
    }
});
