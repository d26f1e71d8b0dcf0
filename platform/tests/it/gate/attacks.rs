//! What devices and strangers do to a door, one by one; good devices go on working during each.

use std::{sync::Arc, time::Duration};

use rumqttc::mqttbytes::{
    QoS,
    v4::{
        ConnAck, ConnectReturnCode, LastWill, Packet, PubAck, PubComp, PubRec, PubRel, SubAck,
        Subscribe, SubscribeReasonCode, UnsubAck,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{
    bench::{
        Bench, Client, Opening, PATIENCE, Witness, bytes_of, connect_of, down, frame, publish_of,
        until, up,
    },
    tls::authority,
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

#[tokio::test]
async fn a_slow_reader_is_dropped() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let mut slow = Vec::new();
    for number in 1..=20 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        let mut client = Client::over(socket.connect(bench.plain).await.unwrap());
        client.enter(number, 1200).await;
        slow.push(client);
    }
    let pings = bytes_of(&Packet::PingReq).repeat(4096);
    let mut ended = tokio::task::JoinSet::new();
    for client in slow {
        let pings = pings.clone();
        ended.spawn(async move {
            let (_unread, mut write) = tokio::io::split(client.stream);
            while write.write_all(&pings).await.is_ok() {}
        });
    }
    witness.both_work().await;
    timeout(PATIENCE, async {
        while ended.join_next().await.is_some() {}
    })
    .await
    .expect("slow readers are dropped");
    witness.both_work().await;
}

#[tokio::test]
async fn a_take_over_does_not_wait_for_a_slow_reader() {
    let bench = Bench::open().await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    let mut client = Client::over(socket.connect(bench.plain).await.unwrap());
    client.enter(7, 1200).await;
    let (_unread, mut write) = tokio::io::split(client.stream);
    let pings = bytes_of(&Packet::PingReq).repeat(4096);
    // Until the gate can write no more and so reads no more.
    while let Ok(written) = timeout(Duration::from_millis(500), write.write_all(&pings)).await {
        written.unwrap();
    }
    let begin = Instant::now();
    let mut new = bench.device(7).await;
    new.publish(&up(7), 1, frame(1, 190)).await;
    new.answered(7, 1, 1).await.unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "it did not wait for the write to time out"
    );
}

#[tokio::test]
async fn half_open_connections_and_connects_byte_by_byte_end_in_time() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let mut half_open = Vec::new();
    for _ in 0..100 {
        let mut client = Client::dial(bench.plain).await;
        client.raw(&[0x10]).await;
        half_open.push(client);
    }
    let connect = bytes_of(&Packet::Connect(connect_of(7)));
    let mut dripping = Client::dial(bench.plain).await;
    let drip = tokio::spawn(async move {
        for byte in connect {
            if dripping.stream.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        dripping.closed().await;
    });
    witness.both_work().await;
    for client in &mut half_open {
        client.closed().await;
    }
    timeout(PATIENCE, drip).await.unwrap().unwrap();
    witness.both_work().await;
}

#[tokio::test]
async fn three_hundred_silent_sockets_hold_up_nobody_even_at_the_limits() {
    let files = authority();
    let opening = Opening {
        tls: Some(files.server()),
        max_connections: 64,
        max_per_address: 16,
        ..Opening::default()
    };
    let bench = opening.open().await;
    let witness = Witness::begin(&bench).await;
    let tls = bench.tls.unwrap();
    let mut silent = Vec::new();
    for n in 0..300 {
        let to = if n % 2 == 0 { tls } else { bench.plain };
        silent.push(TcpStream::connect(to).await.unwrap());
    }
    witness.both_work().await;
    let number = 7;
    let key = files.device_key(&bench, number);
    let mut client = files.client(tls, Some(&key)).await.unwrap();
    client.enter(number, 60).await;
    client.publish(&up(number), 1, frame(1, 190)).await;
    client.answered(number, 1, 1).await.unwrap();
    for mut socket in silent {
        let closed = timeout(PATIENCE, socket.read(&mut [0; 8])).await.unwrap();
        assert!(!matches!(closed, Ok(1..)));
    }
    witness.both_work().await;
}

#[tokio::test]
async fn more_silent_sockets_than_there_is_room_for_push_out_the_oldest() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let mut first = TcpStream::connect(bench.plain).await.unwrap();
    let begin = Instant::now();
    let mut rest = Vec::new();
    for _ in 0..1_100 {
        rest.push(TcpStream::connect(bench.plain).await.unwrap());
    }
    let closed = timeout(PATIENCE, first.read(&mut [0; 8])).await.unwrap();
    assert!(!matches!(closed, Ok(1..)));
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "it went to make room"
    );
    witness.both_work().await;
}

#[tokio::test]
async fn stalled_handshakes_hold_up_nobody() {
    let files = authority();
    let opening = Opening {
        tls: Some(files.server()),
        ..Opening::default()
    };
    let bench = opening.open().await;
    let witness = Witness::begin(&bench).await;
    let tls = bench.tls.unwrap();
    let mut stalled = Vec::new();
    for n in 0..400_u16 {
        let mut socket = TcpStream::connect(tls).await.unwrap();
        // A ClientHello that is announced and never comes, whole or in part.
        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        socket
            .write_all(&hello[..1 + usize::from(n) % hello.len()])
            .await
            .unwrap();
        stalled.push(socket);
    }
    let key = files.device_key(&bench, 7);
    let mut client = files.client(tls, Some(&key)).await.unwrap();
    client.enter(7, 60).await;
    client.publish(&up(7), 1, frame(1, 190)).await;
    client.answered(7, 1, 1).await.unwrap();
    witness.both_work().await;
    for mut socket in stalled {
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, socket.read_to_end(&mut rest))
            .await
            .unwrap();
    }
    witness.both_work().await;
}

#[tokio::test]
async fn a_copied_identity_raises_the_alarm_and_the_running_session_stays() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let mut running = bench.device(7).await;
    for _ in 0..5 {
        let mut next = bench.device(7).await;
        running.closed().await;
        std::mem::swap(&mut running, &mut next);
    }
    for _ in 0..20 {
        let refused = Client::dial(bench.plain)
            .await
            .knock(connect_of(7))
            .await
            .unwrap();
        assert_eq!(refused, ConnectReturnCode::ServiceUnavailable);
    }
    running.publish(&up(7), 1, frame(1, 190)).await;
    running.answered(7, 1, 1).await.unwrap();
    let seven = async {
        loop {
            let changes = bench.presence.changed().await;
            if let Some(change) = changes.into_iter().find(|c| c.device.0 == 7) {
                return change;
            }
        }
    };
    let change = timeout(PATIENCE, seven).await.unwrap();
    assert!(change.cloned && change.online);
    witness.both_work().await;
}

#[tokio::test]
async fn busy_take_overs_of_one_identity_leave_exactly_one_session() {
    let bench = Arc::new(Bench::open().await);
    let witness = Witness::begin(&bench).await;
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let to = bench.plain;
        all.spawn(async move {
            for _ in 0..25 {
                let mut client = Client::dial(to).await;
                match client.knock(connect_of(7)).await {
                    Ok(ConnectReturnCode::Success | ConnectReturnCode::ServiceUnavailable)
                    | Err(_) => {}
                    Ok(other) => panic!("{other:?}"),
                }
            }
        });
    }
    witness.both_work().await;
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    witness.both_work().await;
}

#[tokio::test]
async fn storms_of_pubrel_and_pings_and_frames_hold_up_nobody() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    bench.hold(3);
    let pubrel = bytes_of(&Packet::PubRel(PubRel::new(1))).repeat(10_000);
    let mut storms = tokio::task::JoinSet::new();
    for number in 1..=3_u32 {
        let client = bench.device(number).await;
        let bytes = match number {
            1 => pubrel.clone(),
            2 => bytes_of(&Packet::PingReq).repeat(20_000),
            _ => bytes_of(&Packet::Publish(publish_of(&up(3), 0, frame(1, 1000)))).repeat(500),
        };
        storms.spawn(async move {
            let (mut read, mut write) = tokio::io::split(client.stream);
            tokio::join!(
                async { while write.write_all(&bytes).await.is_ok() {} },
                async {
                    let mut thrown = vec![0; 65_536];
                    while matches!(read.read(&mut thrown).await, Ok(1..)) {}
                }
            );
        });
    }
    witness.both_work().await;
    assert!(bench.kept(3) <= 64);
    drop(storms);
    witness.both_work().await;
}

#[tokio::test]
async fn a_will_and_odd_keep_alives_change_nothing() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    let mut connect = connect_of(7);
    connect.last_will = Some(LastWill::new(down(8), "x", QoS::AtLeastOnce, true));
    let refused = Client::dial(bench.plain)
        .await
        .knock(connect)
        .await
        .unwrap();
    assert_eq!(refused, ConnectReturnCode::NotAuthorized);
    for keep_alive in [0, 1, 65_535] {
        let mut client = Client::dial(bench.plain).await;
        client.enter(7, keep_alive).await;
        assert!(client.pings().await);
        client.send(Packet::Disconnect).await;
        client.closed().await;
    }
    witness.both_work().await;
}
