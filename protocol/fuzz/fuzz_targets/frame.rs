//! Frames from any bytes, and the batches in them: no panic, and only what the encoder writes is accepted.
#![no_main]

use furrow_protocol::{
    SigningKey,
    batch::Batch,
    frame::{Device, Frame},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(frame) = Frame::from_bytes(bytes) else {
        return;
    };
    assert_eq!(frame.to_bytes(), bytes);
    if let Ok(batch) = Batch::decode(&frame.batch) {
        assert_eq!(batch.encode().as_ref(), Ok(&frame.batch));
        let key = SigningKey::from_bytes(&[1; 32]).verifying_key();
        assert!(frame.verify(Device(1), &key).is_err());
    }
});
