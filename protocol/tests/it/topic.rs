//! Topics: exactly three forms, and nothing that looks like them.

use furrow_protocol::{
    error::TopicError,
    frame::Device,
    topic::{Lane, STATE_FILTER, Topic, UP_FILTER},
};

#[test]
fn a_topic_reads_as_it_was_written() {
    for device in [1, 9, 10, 4711, u32::MAX] {
        for (lane, name) in [
            (Lane::Up, "up"),
            (Lane::Down, "down"),
            (Lane::State, "state"),
        ] {
            let topic = Topic {
                device: Device(device),
                lane,
            };
            assert_eq!(topic.to_string(), format!("furrow/v1/{device}/{name}"));
            assert_eq!(Topic::parse(&topic.to_string()), Ok(topic));
        }
    }
    assert_eq!(UP_FILTER, "furrow/v1/+/up");
    assert_eq!(STATE_FILTER, "furrow/v1/+/state");
}

#[test]
fn whatever_differs_in_a_letter_is_no_topic() {
    for other in [
        "",
        "furrow",
        "furrow/v1",
        "furrow/v1/",
        "furrow/v1/1",
        "furrow/v1/1/",
        "furrow/v1//up",
        "furrow/v1/1/up/",
        "furrow/v1/1/up/x",
        "/furrow/v1/1/up",
        "Furrow/v1/1/up",
        "furrow/v2/1/up",
        "furrow/v1/1/Up",
        "furrow/v1/1/upp",
        "furrow/v1/1/up ",
        " furrow/v1/1/up",
        "furrow/v1/1/up\0",
        "furrow/v1/1/up\n",
        "furrow/v1/0/up",
        "furrow/v1/01/up",
        "furrow/v1/+1/up",
        "furrow/v1/-1/up",
        "furrow/v1/ 1/up",
        "furrow/v1/1 /up",
        "furrow/v1/1e3/up",
        "furrow/v1/0x1/up",
        "furrow/v1/1_000/up",
        "furrow/v1/4294967296/up",
        "furrow/v1/99999999999999999999/up",
        "furrow/v1/+/up",
        "furrow/v1/#",
        "furrow/v1/\u{661}/up",
        "furrow/v1/\u{ff11}/up",
        "furrow/v1/1/up\u{301}",
        "$share/furrow/furrow/v1/1/up",
    ] {
        assert_eq!(Topic::parse(other), Err(TopicError), "{other:?}");
    }
}
