//! Topics from any text: no panic, and only what is written so is accepted.
#![no_main]

use furrow_protocol::topic::Topic;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(topic) = Topic::parse(text) {
        assert_eq!(topic.to_string(), text);
    }
});
