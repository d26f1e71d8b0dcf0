//! Peers that take more than their part: slow readers, silent and stalled sockets, copied identities, storms; good devices go on working during each.

use std::{sync::Arc, time::Duration};

use rumqttc::mqttbytes::{
    QoS,
    v4::{ConnectReturnCode, LastWill, Packet, PubRel},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{
    bench::{
        Bench, Client, Opening, PATIENCE, Witness, bytes_of, connect_of, down, frame, publish_of,
        up,
    },
    tls::authority,
};

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
    let mut rest = Vec::new();
    for _ in 0..1_100 {
        rest.push(TcpStream::connect(bench.plain).await.unwrap());
    }
    let closed = timeout(PATIENCE, first.read(&mut [0; 8])).await.unwrap();
    assert!(!matches!(closed, Ok(1..)));
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
