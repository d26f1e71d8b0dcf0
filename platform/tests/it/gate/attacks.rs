//! What devices and strangers do to a door, one by one; good devices go on working during each.

use rumqttc::mqttbytes::{
    QoS,
    v4::{
        ConnAck, ConnectReturnCode, Packet, PubAck, PubComp, PubRec, PubRel, SubAck, Subscribe,
        SubscribeReasonCode, UnsubAck,
    },
};
use tokio::time::{Instant, timeout};

use super::bench::{
    Bench, Client, Opening, PATIENCE, Witness, bytes_of, connect_of, down, frame, publish_of,
    until, up,
};

/// Sends bytes after a session has begun, and waits for the gate to end it.
async fn ends_the_session(bench: &Bench, what: &str, bytes: &[u8]) {
    let mut client = bench.device(7).await;
    client.raw(bytes).await;
    let ended = timeout(PATIENCE, client.closed()).await;
    assert!(ended.is_ok(), "{what} is let pass");
}

fn publish_raw(first: u8, topic: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = 2 + topic.len() + rest.len();
    let mut bytes = vec![first];
    let mut left = length;
    while left >= 128 {
        bytes.push(u8::try_from(left % 128).unwrap() | 0x80);
        left /= 128;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes.extend(u16::try_from(topic.len()).unwrap().to_be_bytes());
    bytes.extend(topic);
    bytes.extend(rest);
    bytes
}

#[tokio::test]
async fn packets_that_a_device_does_not_send_end_its_session() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let connack = ConnAck::new(ConnectReturnCode::Success, false);
    let suback = SubAck::new(1, vec![SubscribeReasonCode::Success(QoS::AtMostOnce)]);
    for packet in [
        Packet::Connect(connect_of(7)),
        Packet::ConnAck(connack),
        Packet::PubAck(PubAck::new(1)),
        Packet::PubRec(PubRec::new(1)),
        Packet::PubRel(PubRel::new(1)),
        Packet::PubComp(PubComp::new(1)),
        Packet::SubAck(suback),
        Packet::UnsubAck(UnsubAck::new(1)),
        Packet::PingResp,
    ] {
        ends_the_session(&bench, &format!("{packet:?}"), &bytes_of(&packet)).await;
    }
    witness.both_work().await;
}

#[tokio::test]
async fn publishes_that_are_not_allowed_end_the_session_and_reach_nobody() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let mut other = bench.device(8).await;
    let long = "x".repeat(60_000);
    let body = [0, 1, b'x'];
    let down8 = down(8);
    let (up7, up8, down7) = (up(7), up(8), down(7));
    for (what, first, topic) in [
        ("another device's up", 0x32, up8.as_bytes()),
        ("another device's down", 0x32, down8.as_bytes()),
        ("its own down", 0x32, down7.as_bytes()),
        (
            "another device's state",
            0x30,
            b"furrow/v1/8/state".as_slice(),
        ),
        ("a topic of the bus", 0x30, b"furrow/v1/live/7"),
        ("an empty topic", 0x32, b""),
        ("a wildcard", 0x32, b"furrow/v1/+/up"),
        ("all", 0x32, b"#"),
        ("$SYS", 0x32, b"$SYS/broker"),
        ("$share", 0x32, b"$share/g/furrow/v1/7/up"),
        ("a leading slash", 0x32, b"/furrow/v1/7/up"),
        ("a leading zero", 0x32, b"furrow/v1/07/up"),
        ("NUL in the topic", 0x32, b"furrow/v1/7/up\0"),
        ("a non-ASCII topic", 0x32, "\u{e9}urrow/v1/7/up".as_bytes()),
        ("an emoji first", 0x30, "\u{1f69c}".as_bytes()),
        ("a topic that is not UTF-8", 0x32, b"\xff\xfe"),
        ("a long topic", 0x32, long.as_bytes()),
        ("retain", 0x33, up7.as_bytes()),
        ("retain on state", 0x31, b"furrow/v1/7/state"),
        ("QoS 2", 0x34, up7.as_bytes()),
        ("QoS 3", 0x36, up7.as_bytes()),
    ] {
        ends_the_session(&bench, what, &publish_raw(first, topic, &body)).await;
    }
    let packet_id_0 = publish_raw(0x32, up7.as_bytes(), &[0, 0, b'x']);
    ends_the_session(&bench, "packet id 0", &packet_id_0).await;
    let frame = frame(1, furrow_protocol::frame::MAX_FRAME_BYTES + 1);
    let oversize = bytes_of(&Packet::Publish(publish_of(&up(7), 1, frame)));
    ends_the_session(&bench, "a frame that is too large", &oversize).await;
    let state = bytes_of(&Packet::Publish(publish_of(
        "furrow/v1/7/state",
        0,
        vec![0; 600],
    )));
    ends_the_session(&bench, "a state that is too large", &state).await;
    assert!(other.is_quiet().await);
    witness.both_work().await;
}

#[tokio::test]
async fn malformed_packets_end_the_session() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    for (what, bytes) in [
        ("packet type 0", &[0x00, 0][..]),
        ("packet type 15", &[0xf0, 0]),
        ("PINGREQ with flags", &[0xc1, 0]),
        ("DISCONNECT with flags", &[0xe1, 0]),
        (
            "SUBSCRIBE without its flag",
            &[0x80, 6, 0, 1, 0, 1, b'a', 0],
        ),
        ("UNSUBSCRIBE without its flag", &[0xa0, 5, 0, 1, 0, 1, b'a']),
        ("SUBSCRIBE of nothing", &[0x82, 2, 0, 1]),
        (
            "SUBSCRIBE with packet id 0",
            &[0x82, 6, 0, 0, 0, 1, b'a', 0],
        ),
        ("SUBSCRIBE at QoS 3", &[0x82, 6, 0, 1, 0, 1, b'a', 3]),
        ("UNSUBSCRIBE of nothing", &[0xa2, 2, 0, 1]),
        (
            "a filter beyond its packet",
            &[0x82, 6, 0, 1, 0, 9, b'a', 0],
        ),
        ("a topic beyond its packet", &[0x32, 4, 0xff, 0xff, 0, 1]),
        ("PUBLISH of nothing", &[0x32, 0]),
        ("a length of five bytes", &[0x32, 0xff, 0xff, 0xff, 0xff, 1]),
        ("a length of 256 MiB", &[0x32, 0xff, 0xff, 0xff, 0x7f]),
        ("text", b"GET / HTTP/1.1\r\n\r\n"),
    ] {
        ends_the_session(&bench, what, bytes).await;
    }
    witness.both_work().await;
}

#[tokio::test]
async fn what_does_not_begin_with_connect_is_closed() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let publish = bytes_of(&Packet::Publish(publish_of(&up(7), 1, frame(1, 190))));
    for (what, bytes) in [
        ("a publish", publish.as_slice()),
        ("a ping", &[0xc0, 0]),
        ("text", b"GET / HTTP/1.1\r\n\r\n"),
        ("TLS", &[0x16, 3, 1, 2, 0, 1]),
        ("a CONNECT of 256 MiB", &[0x10, 0xff, 0xff, 0xff, 0x7f]),
        ("a CONNECT of nothing", &[0x10, 0]),
        (
            "another protocol",
            b"\x10\x0c\x00\x04HTTP\x04\x02\x00\x3c\x00\x00",
        ),
        (
            "flags of the reserved kind",
            b"\x10\x0c\x00\x04MQTT\x04\x03\x00\x3c\x00\x00",
        ),
        ("a CONNECT cut short", b"\x10\x04\x00\x04MQ"),
    ] {
        let mut client = Client::dial(bench.plain).await;
        client.raw(bytes).await;
        assert!(client.try_next().await.is_err(), "{what} is answered");
    }
    witness.both_work().await;
}

#[tokio::test]
async fn subscriptions_to_what_is_not_its_own_fail_one_by_one() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let mut spy = Client::dial(bench.plain).await;
    assert_eq!(
        spy.knock(connect_of(7)).await.unwrap(),
        ConnectReturnCode::Success
    );
    for filter in [
        "#",
        "+",
        "furrow/#",
        "furrow/v1/+/down",
        "furrow/v1/+/up",
        "furrow/v1/8/down",
        "furrow/v1/7/up",
        "furrow/v1/7/state",
        "furrow/v1/7/#",
        "furrow/v1/7/down/",
        "furrow/v1/live/+",
        "$SYS/#",
        "$share/g/furrow/v1/7/down",
        "$share/g/#",
        "furrow/v1/\u{e9}/down",
        "furrow/v1/7/down\0",
    ] {
        assert_eq!(spy.subscribe(&[filter]).await, [0x80], "{filter}");
    }
    let both = [down(8), down(7), "#".into()];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    assert_eq!(spy.subscribe(&both).await, [0x80, 0, 0x80]);
    let mut other = bench.device(8).await;
    other.publish(&up(8), 1, frame(1, 190)).await;
    other.answered(8, 1, 1).await.unwrap();
    assert!(spy.is_quiet().await);
    witness.both_work().await;
    // One that goes on trying is ended.
    let mut many = Subscribe::new("#", QoS::AtMostOnce);
    many.pkid = 1;
    for _ in 0..100 {
        spy.send(Packet::Subscribe(many.clone())).await;
    }
    while spy.try_next().await.is_ok() {}
    witness.both_work().await;
}

#[tokio::test]
async fn a_refused_client_that_tries_again_at_the_limit_harms_nobody() {
    let opening = Opening {
        max_connections: 8,
        ..Opening::default()
    };
    let bench = opening.open().await;
    let witness = Witness::begin(&bench).await;
    witness.no_more_fresh();
    let mut inside = Vec::new();
    until("there is room again", || true).await;
    for number in 1..=7 {
        inside.push(bench.device(number).await);
    }
    for _ in 0..300 {
        let mut client = Client::dial(bench.plain).await;
        let refused = client.knock(connect_of(50)).await.unwrap();
        assert_eq!(refused, ConnectReturnCode::ServiceUnavailable);
    }
    witness.steady_works().await;
    drop(inside);
    let begin = Instant::now();
    loop {
        let mut client = Client::dial(bench.plain).await;
        if client.knock(connect_of(50)).await.ok() == Some(ConnectReturnCode::Success) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "no room though all are gone");
    }
}

#[tokio::test]
async fn one_address_cannot_take_all_places() {
    let opening = Opening {
        max_per_address: 8,
        ..Opening::default()
    };
    let bench = opening.open().await;
    let witness = Witness::begin(&bench).await;
    // The attacker comes from another address of this host.
    let from = async || {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 9], 0).into()).unwrap();
        Client::over(socket.connect(bench.plain).await.unwrap())
    };
    let mut inside = Vec::new();
    for number in 1..=8 {
        let mut client = from().await;
        client.enter(number, 60).await;
        inside.push(client);
    }
    for _ in 0..50 {
        let refused = from().await.knock(connect_of(9)).await.unwrap();
        assert_eq!(refused, ConnectReturnCode::ServiceUnavailable);
    }
    witness.both_work().await;
}

#[tokio::test]
async fn client_ids_with_wildcards_sent_twice_are_refused_twice() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    for id in [
        "a+b",
        "a$b",
        "a#b",
        "a/b",
        "$",
        "#",
        "\u{e9}",
        "furrow-7\0",
        " ",
        "operator-x",
    ] {
        for _ in 0..2 {
            let mut connect = connect_of(7);
            id.clone_into(&mut connect.client_id);
            let refused = Client::dial(bench.plain)
                .await
                .knock(connect)
                .await
                .unwrap();
            assert_eq!(refused, ConnectReturnCode::BadClientId, "{id}");
        }
    }
    witness.both_work().await;
}

#[tokio::test]
async fn a_persistent_session_with_an_unacked_frame_leaves_nothing_behind() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    bench.hold(7);
    for _ in 0..3 {
        let mut client = Client::dial(bench.plain).await;
        let mut connect = connect_of(7);
        connect.clean_session = false;
        assert_eq!(
            client.knock(connect).await.unwrap(),
            ConnectReturnCode::Success
        );
        let share = format!("$share/g/{}", down(7));
        assert_eq!(client.subscribe(&[&share]).await, [0x80]);
        client.publish(&up(7), 1, frame(1, 190)).await;
        let kept = bench.kept(7);
        until("the frame is with ingest", || bench.kept(7) >= kept.max(1)).await;
        drop(client);
    }
    bench.release(|_| {});
    let mut client = bench.device(7).await;
    assert!(
        client.is_quiet().await,
        "nothing of a former session comes back"
    );
    witness.both_work().await;
}

#[tokio::test]
async fn mqtt_5_is_refused_with_code_1_and_its_properties_are_nothing_here() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let v5 = b"\x10\x14\x00\x04MQTT\x05\x02\x00\x3c\x05\x11\x00\x00\x00\x0a\x00\x02ab";
    for _ in 0..20 {
        let mut client = Client::dial(bench.plain).await;
        client.raw(v5).await;
        assert!(matches!(
            client.next().await,
            Packet::ConnAck(ack) if ack.code == ConnectReturnCode::RefusedProtocolVersion
        ));
        client.closed().await;
    }
    witness.both_work().await;
}
