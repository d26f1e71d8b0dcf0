//! Operators' integrations at the door: they read the bus, and nothing else.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use furrow_platform::mqtt::{
    bus::{Bus, LIVE_FILTER, live_topic},
    operator::Operator,
};
use rumqttc::mqttbytes::v4::{Connect, ConnectReturnCode, Login, Packet};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpStream, time::timeout};
use uuid::Uuid;

use super::bench::{Bench, Client, Opening, PATIENCE, Witness, up};

fn operator(name: &str, filters: &[&str]) -> Operator {
    Operator {
        name: name.into(),
        token_sha256: Sha256::digest(format!("secret of {name}")).into(),
        filters: filters.iter().map(|f| (*f).to_owned()).collect(),
    }
}

fn connect(name: &str) -> Connect {
    let mut connect = Connect::new(format!("operator-{name}"));
    connect.login = Some(Login::new(name, format!("secret of {name}")));
    connect.keep_alive = 60;
    connect
}

async fn open() -> (Bench, Arc<Bus>) {
    let bus = Arc::new(Bus::new().unwrap());
    let operators = vec![operator("erp", &[LIVE_FILTER]), operator("greedy", &["#"])];
    let told = Arc::clone(&bus);
    let bench = Opening::default()
        .open_with(|gate| gate.with_operators(operators, told))
        .await;
    (bench, bus)
}

async fn enter(bench: &Bench) -> Client<TcpStream> {
    let mut client = Client::dial(bench.plain).await;
    assert_eq!(
        client.knock(connect("erp")).await.unwrap(),
        ConnectReturnCode::Success
    );
    assert_eq!(client.subscribe(&[LIVE_FILTER]).await, [0]);
    client
}

async fn hears(client: &mut Client<TcpStream>, bus: &Bus, text: &'static str) {
    assert!(hears_or_ends(client, bus, text).await, "{text:?}: ended");
}

/// Tells it until it is heard: true. False when the session is ended before.
async fn hears_or_ends(client: &mut Client<TcpStream>, bus: &Bus, text: &'static str) -> bool {
    let begin = tokio::time::Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "{text:?} is not heard");
        bus.publish(live_topic(Uuid::nil()), Bytes::from_static(text.as_bytes()));
        match timeout(Duration::from_millis(50), client.try_next()).await {
            Ok(Ok(Packet::Publish(publish))) if publish.payload == text.as_bytes() => {
                assert_eq!(publish.topic, live_topic(Uuid::nil()));
                return true;
            }
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(_)) => return false,
        }
    }
}

#[tokio::test]
async fn an_operator_hears_positions_and_may_subscribe_nothing_else() {
    let (bench, bus) = open().await;
    let mut client = enter(&bench).await;
    for filter in [
        "#",
        "furrow/v1/+/up",
        "furrow/v1/7/down",
        "furrow/v1/event/+",
    ] {
        assert_eq!(client.subscribe(&[filter]).await, [0x80], "{filter}");
    }
    hears(&mut client, &bus, "a position").await;
    assert!(client.pings().await);
}

#[tokio::test]
async fn an_operator_that_publishes_is_ended() {
    let (bench, bus) = open().await;
    let witness = Witness::begin(&bench).await;
    let mut client = enter(&bench).await;
    client.publish(&up(7), 1, vec![1]).await;
    while client.try_next().await.is_ok() {}
    hears(&mut enter(&bench).await, &bus, "still there").await;
    witness.both_work().await;
}

#[tokio::test]
async fn wrong_credentials_unlawful_filters_and_too_many_sessions_are_refused() {
    let (bench, _bus) = open().await;
    let mut wrong = connect("erp");
    wrong.login = Some(Login::new("erp", "guess"));
    let knock = async |connect| {
        Client::dial(bench.plain)
            .await
            .knock(connect)
            .await
            .unwrap()
    };
    assert_eq!(knock(wrong).await, ConnectReturnCode::BadUserNamePassword);
    // One whose filters are unlawful is not let in at all.
    assert_eq!(
        knock(connect("greedy")).await,
        ConnectReturnCode::BadUserNamePassword
    );
    let mut inside = Vec::new();
    for _ in 0..4 {
        inside.push(enter(&bench).await);
    }
    assert_eq!(
        knock(connect("erp")).await,
        ConnectReturnCode::ServiceUnavailable
    );
}

#[tokio::test]
async fn operators_that_read_slowly_and_leave_do_not_harm_the_bus() {
    let (bench, bus) = open().await;
    let witness = Witness::begin(&bench).await;
    let mut steady = enter(&bench).await;
    let flood = Bytes::from(vec![b'x'; 2000]);
    for _ in 0..20 {
        let slow = enter(&bench).await;
        for _ in 0..500 {
            bus.publish(live_topic(Uuid::max()), flood.clone());
        }
        drop(slow);
    }
    // Whoever lags is ended, as it must be, and comes again: the steady one too, if it did.
    while !hears_or_ends(&mut steady, &bus, "after the storm").await {
        steady = enter(&bench).await;
    }
    assert_eq!(bus.restarts(), 0);
    witness.both_work().await;
}
