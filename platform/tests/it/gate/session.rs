//! What a device that behaves may count on.

use std::time::Duration;

use furrow_platform::mqtt::gate::{Gate, GateError, GateSettings};
use rumqttc::mqttbytes::{
    Protocol, QoS,
    v4::{Connect, ConnectReturnCode, LastWill, Login, Packet, Subscribe, Unsubscribe},
};
use tokio::{sync::mpsc, time::timeout};

use super::bench::{
    Bench, Book, Client, Opening, PATIENCE, Witness, bytes_of, connect_of, down, frame, publish_of,
    token, until, up,
};

#[tokio::test]
async fn a_frame_is_answered_after_its_commit_and_not_before() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut client = bench.device(7).await;
    client.publish(&up(7), 5, frame(1, 190)).await;
    until("the frame is with ingest", || bench.kept(7) == 1).await;
    assert!(client.is_quiet().await);
    bench.release(|_| {});
    client.answered(7, 5, 1).await.unwrap();
}

#[tokio::test]
async fn puback_and_ack_leave_in_one_write() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut client = bench.device(7).await;
    client.publish(&up(7), 5, frame(1, 190)).await;
    until("the frame is with ingest", || bench.kept(7) == 1).await;
    bench.release(|_| {});
    let bytes = client.one_read().await;
    assert_eq!(bytes[..4], [0x40, 2, 0, 5]);
    assert_eq!(bytes[4], 0x30, "the Ack follows in the same write");
}

#[tokio::test]
async fn exactly_the_settled_frames_are_answered_in_any_order() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut client = bench.device(7).await;
    for seq in 1..=20_u16 {
        client.publish(&up(7), seq, frame(seq.into(), 190)).await;
    }
    until("the frames are with ingest", || bench.kept(7) == 20).await;
    bench.release(|kept| {
        kept.reverse();
        kept.retain(|a| a.payload[7] % 2 == 0);
    });
    let mut pubacks = Vec::new();
    while pubacks.len() < 10 {
        if let Packet::PubAck(ack) = client.next().await {
            pubacks.push(ack.pkid);
        }
    }
    assert_eq!(pubacks, [20, 18, 16, 14, 12, 10, 8, 6, 4, 2]);
    assert!(client.pings().await);
    assert!(client.is_quiet().await, "the odd ones are not settled");
}

#[tokio::test]
async fn a_frame_at_qos_0_gets_its_ack_and_no_puback() {
    let bench = Bench::open().await;
    let mut client = bench.device(7).await;
    client.publish(&up(7), 0, frame(3, 190)).await;
    client.answered(7, 0, 3).await.unwrap();
    assert!(client.is_quiet().await);
}

#[tokio::test]
async fn a_frame_sent_again_while_it_waits_is_taken_once_and_answered_once() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut client = bench.device(7).await;
    client.publish(&up(7), 5, frame(1, 190)).await;
    let mut again = publish_of(&up(7), 5, frame(1, 190));
    again.dup = true;
    client.send(Packet::Publish(again.clone())).await;
    client.send(Packet::Publish(again)).await;
    assert!(client.pings().await);
    assert_eq!(bench.kept(7), 1);
    bench.release(|_| {});
    client.answered(7, 5, 1).await.unwrap();
    assert!(client.is_quiet().await);
    // The packet id is free again.
    client.publish(&up(7), 5, frame(2, 190)).await;
    until("the next frame is with ingest", || bench.kept(7) == 1).await;
    bench.release(|_| {});
    client.answered(7, 5, 2).await.unwrap();
}

#[tokio::test]
async fn another_frame_under_a_packet_id_in_use_is_stored_and_has_no_puback_of_its_own() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut client = bench.device(7).await;
    client.publish(&up(7), 5, frame(1, 190)).await;
    client.publish(&up(7), 5, frame(2, 190)).await;
    until("both are with ingest", || bench.kept(7) == 2).await;
    bench.release(|kept| kept.reverse());
    let (mut pubacks, mut acks) = (0, 0);
    for _ in 0..3 {
        match client.next().await {
            Packet::PubAck(ack) if ack.pkid == 5 => pubacks += 1,
            Packet::Publish(_) => acks += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((pubacks, acks), (1, 2));
}

#[tokio::test]
async fn pings_are_answered_however_full_the_session_is() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut client = bench.device(7).await;
    for n in 1..=100_u16 {
        client.publish(&up(7), n, frame(n.into(), 190)).await;
    }
    assert!(client.pings().await);
    assert_eq!(bench.kept(7), 64, "no more than 64 are with ingest");
    let mut released = 0;
    while released < 100 {
        released += bench.release(|_| {});
        tokio::task::yield_now().await;
    }
    let mut answered = 0;
    while answered < 100 {
        if let Packet::PubAck(_) = client.next().await {
            answered += 1;
        }
    }
}

#[tokio::test]
async fn a_flood_beyond_all_bounds_is_taken_at_the_pace_of_ingest_and_nothing_is_lost() {
    let bench = Bench::open().await;
    bench.hold(7);
    let client = bench.device(7).await;
    let (mut read, mut write) = tokio::io::split(client.stream);
    let flood = tokio::spawn(async move {
        for n in 1..=2000_u16 {
            let packet = publish_of(&up(7), n, frame(n.into(), 4000));
            let bytes = bytes_of(&Packet::Publish(packet));
            tokio::io::AsyncWriteExt::write_all(&mut write, &bytes)
                .await
                .unwrap();
        }
        write
    });
    until("ingest has its fill", || bench.kept(7) == 64).await;
    let mut bytes = bytes::BytesMut::new();
    let mut answered = std::collections::HashSet::new();
    timeout(PATIENCE, async {
        while answered.len() < 2000 {
            assert!(bench.kept(7) <= 64);
            bench.release(|_| {});
            let wait = tokio::io::AsyncReadExt::read_buf(&mut read, &mut bytes);
            let _ = timeout(Duration::from_millis(5), wait).await;
            while let Ok(packet) = Packet::read(&mut bytes, 1000) {
                if let Packet::PubAck(ack) = packet {
                    assert!(answered.insert(ack.pkid));
                }
            }
        }
    })
    .await
    .unwrap();
    flood.await.unwrap();
}

#[tokio::test]
async fn a_session_outlives_an_ingest_that_takes_nothing() {
    let opening = Opening {
        queue: 8,
        stuck: true,
        ..Opening::default()
    };
    let bench = opening.open().await;
    let mut client = Client::dial(bench.plain).await;
    client.enter(7, 1).await;
    for n in 1..=32_u16 {
        client.publish(&up(7), n, frame(n.into(), 190)).await;
    }
    let begin = tokio::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        assert!(client.pings().await);
        assert!(client.is_quiet().await);
    }
}

#[tokio::test]
async fn health_is_handed_on_and_more_than_its_share_is_dropped() {
    let mut bench = Bench::open().await;
    let mut client = bench.device(7).await;
    for n in 0..50_u8 {
        client.publish("furrow/v1/7/state", 0, vec![n]).await;
    }
    client.publish("furrow/v1/7/state", 9, vec![50]).await;
    assert!(matches!(client.next().await, Packet::PubAck(ack) if ack.pkid == 9));
    let mut said = Vec::new();
    while let Ok((device, bytes)) = bench.states.try_recv() {
        assert_eq!(device.0, 7);
        said.push(bytes[0]);
    }
    assert_eq!(said, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn presence_follows_the_sessions() {
    let bench = Bench::open().await;
    let client = bench.device(7).await;
    let changes = timeout(PATIENCE, bench.presence.changed()).await.unwrap();
    assert!(changes[0].online && changes[0].device.0 == 7);
    let first = changes[0].session;
    drop(client);
    let changes = timeout(PATIENCE, bench.presence.changed()).await.unwrap();
    assert!(!changes[0].online && changes[0].session == first);
}

#[tokio::test]
async fn a_new_connection_ends_the_old_one_first() {
    let bench = Bench::open().await;
    let mut old = bench.device(7).await;
    let mut new = bench.device(7).await;
    old.closed().await;
    new.publish(&up(7), 1, frame(1, 190)).await;
    new.answered(7, 1, 1).await.unwrap();
}

#[tokio::test]
async fn what_was_settled_for_an_ended_session_reaches_no_later_one() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut old = bench.device(7).await;
    old.publish(&up(7), 1, frame(1, 190)).await;
    until("the frame is with ingest", || bench.kept(7) == 1).await;
    let mut new = bench.device(7).await;
    bench.release(|_| {});
    assert!(new.is_quiet().await);
    assert!(new.pings().await);
}

#[tokio::test]
async fn after_unsubscribing_there_are_pubacks_and_no_acks() {
    let bench = Bench::open().await;
    let mut client = bench.device(7).await;
    let mut unsubscribe = Unsubscribe::new(down(7));
    unsubscribe.pkid = 3;
    client.send(Packet::Unsubscribe(unsubscribe)).await;
    assert!(matches!(client.next().await, Packet::UnsubAck(ack) if ack.pkid == 3));
    client.publish(&up(7), 1, frame(1, 190)).await;
    assert!(matches!(client.next().await, Packet::PubAck(ack) if ack.pkid == 1));
    assert!(client.is_quiet().await);
}

#[tokio::test]
async fn silence_beyond_one_and_a_half_keep_alives_ends_the_session_and_pings_prolong_it() {
    let bench = Bench::open().await;
    let mut talker = Client::dial(bench.plain).await;
    talker.enter(7, 1).await;
    let mut silent = Client::dial(bench.plain).await;
    silent.enter(8, 1).await;
    let begin = tokio::time::Instant::now();
    let ended = tokio::spawn(async move {
        silent.closed().await;
        begin.elapsed()
    });
    while !ended.is_finished() {
        assert!(talker.pings().await);
        assert!(talker.is_quiet().await);
    }
    assert!(ended.await.unwrap() >= Duration::from_millis(1400));
    assert!(talker.pings().await);
}

#[tokio::test]
async fn a_revoked_device_is_ended_and_refused_with_code_5() {
    let bench = Bench::open().await;
    let mut running = bench.device(7).await;
    bench.book.revoked.lock().unwrap().insert(7);
    running.closed().await;
    let mut again = Client::dial(bench.plain).await;
    assert_eq!(
        again.knock(connect_of(7)).await.unwrap(),
        ConnectReturnCode::NotAuthorized
    );
    again.closed().await;
}

/// The code that a CONNECT of device 7 gets after a change.
async fn code_of(bench: &Bench, change: impl FnOnce(&mut Connect)) -> ConnectReturnCode {
    let mut connect = connect_of(7);
    change(&mut connect);
    let mut client = Client::dial(bench.plain).await;
    client.knock(connect).await.unwrap()
}

#[tokio::test]
async fn client_ids_versions_and_wills_are_refused_by_their_codes() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    for id in ["", "furrow-07", "furrow-#", "furrow-0", "7"] {
        let code = code_of(&bench, |c| c.client_id = id.into()).await;
        assert_eq!(code, ConnectReturnCode::BadClientId, "{id:?}");
    }
    let will = LastWill::new("furrow/v1/7/state", "gone", QoS::AtMostOnce, false);
    let code = code_of(&bench, |c| c.last_will = Some(will)).await;
    assert_eq!(code, ConnectReturnCode::NotAuthorized);
    let code = code_of(&bench, |c| c.protocol = Protocol::V5).await;
    assert_eq!(code, ConnectReturnCode::RefusedProtocolVersion);
    witness.both_work().await;
}

#[tokio::test]
async fn credentials_are_refused_with_code_4_and_a_register_that_is_away_with_code_3() {
    let bench = Bench::open().await;
    let witness = Witness::begin(&bench).await;
    for login in [
        None,
        Some(Login::new("7", "0")),
        Some(Login::new("7", "")),
        Some(Login::new("8", token(8))),
        Some(Login::new("07", token(7))),
        Some(Login::new("7", token(8))),
    ] {
        let code = code_of(&bench, |c| c.login = login.clone()).await;
        assert_eq!(code, ConnectReturnCode::BadUserNamePassword, "{login:?}");
    }
    let unknown = |c: &mut Connect| {
        c.client_id = "furrow-200000".into();
        c.login = Some(Login::new("200000", token(200_000)));
    };
    let code = code_of(&bench, unknown).await;
    assert_eq!(code, ConnectReturnCode::BadUserNamePassword);
    *bench.book.away.lock().unwrap() = true;
    witness.no_more_fresh();
    let code = code_of(&bench, |_| {}).await;
    assert_eq!(code, ConnectReturnCode::ServiceUnavailable);
    witness.steady_works().await;
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_has_sent_more_already() {
    let bench = Bench::open().await;
    let mut connect = connect_of(7);
    connect.login = None;
    let mut bytes = bytes_of(&Packet::Connect(connect));
    for n in 1..=20_u16 {
        let packet = publish_of(&up(7), n, frame(n.into(), 500));
        bytes.extend(bytes_of(&Packet::Publish(packet)));
    }
    let mut client = Client::dial(bench.plain).await;
    client.raw(&bytes).await;
    assert!(matches!(
        client.next().await,
        Packet::ConnAck(ack) if ack.code == ConnectReturnCode::BadUserNamePassword
    ));
}

#[tokio::test]
async fn a_session_may_be_sent_in_one_piece_or_byte_by_byte() {
    let bench = Bench::open().await;
    let mut bytes = bytes_of(&Packet::Connect(connect_of(7)));
    let mut subscribe = Subscribe::new(down(7), QoS::AtLeastOnce);
    subscribe.pkid = 1;
    bytes.extend(bytes_of(&Packet::Subscribe(subscribe)));
    let packet = publish_of(&up(7), 2, frame(1, 190));
    bytes.extend(bytes_of(&Packet::Publish(packet)));
    for size in [usize::MAX, 1] {
        let mut client = Client::dial(bench.plain).await;
        for piece in bytes.chunks(size.min(bytes.len())) {
            client.raw(piece).await;
        }
        assert!(matches!(client.next().await, Packet::ConnAck(_)));
        assert!(matches!(client.next().await, Packet::SubAck(_)));
        client.answered(7, 2, 1).await.unwrap();
        client.send(Packet::Disconnect).await;
        client.closed().await;
    }
}

#[tokio::test]
async fn a_closing_gate_still_tells_what_is_committed_and_then_returns() {
    let bench = Bench::open().await;
    bench.hold(7);
    let mut waiting = bench.device(7).await;
    let mut idle = bench.device(8).await;
    let silent = Client::dial(bench.plain).await;
    waiting.publish(&up(7), 1, frame(1, 190)).await;
    until("the frame is with ingest", || bench.kept(7) == 1).await;
    bench.shutdown.cancel();
    idle.closed().await;
    bench.release(|_| {});
    waiting.answered(7, 1, 1).await.unwrap();
    waiting.closed().await;
    timeout(PATIENCE, bench.gate).await.unwrap().unwrap();
    drop(silent);
}

#[tokio::test]
async fn plain_mqtt_outside_loopback_is_refused() {
    let (arrivals, _received) = mpsc::channel(1);
    let (states, _said) = mpsc::channel(1);
    let settings = GateSettings {
        listen: Some(([0, 0, 0, 0], 0).into()),
        tls: None,
        max_connections: 1,
        max_per_address: 1,
    };
    let register = std::sync::Arc::new(Book::default());
    let gate = Gate::bind(settings, register, arrivals, states).await;
    assert!(matches!(gate, Err(GateError::Exposed(_))));
}
