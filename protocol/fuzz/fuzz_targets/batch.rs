//! Batches from any bytes: no panic, and only what the encoder writes is accepted.
#![no_main]

use furrow_protocol::batch::Batch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(batch) = Batch::decode(bytes) {
        assert_eq!(batch.encode().as_deref(), Ok(bytes));
    }
});
