//! The whole way: a device's MQTT session, the gate, ingest, the database, and back. Never a part in place of the real one.

use std::{collections::BTreeSet, sync::Arc};

use chrono::TimeDelta;
use furrow_platform::{
    clock::{Clock as _, ManualClock},
    platform::Platform,
};
use furrow_protocol::{
    down::{Down, RefusedReason},
    frame::{Device, Digest, payload_digest},
};
use rumqttc::mqttbytes::v4::{Connect, ConnectReturnCode, Login, Packet};
use tokio::net::TcpStream;

use super::rig::Signer;
use crate::{
    devices::{body, code, enrol, key},
    gate::bench::{Client, down, up},
    world::{World, ask, now, wait_until},
};

/// A device that enrolled at this platform, and its session.
async fn enrolled(world: &World, platform: &Platform) -> (Signer, Client<TcpStream>) {
    let key = key();
    let told = enrol(platform.http_addr, &body(&code(world).await, &key)).await;
    assert_eq!(told.status, 201, "{told:?}");
    let told = told.json();
    let number = u32::try_from(told["device"].as_u64().unwrap()).unwrap();
    let mut connect = Connect::new(format!("furrow-{number}"));
    let token = told["token"].as_str().unwrap();
    connect.login = Some(Login::new(number.to_string(), token));
    connect.keep_alive = 60;
    let mut client = Client::dial(platform.mqtt_addr.unwrap()).await;
    let code = client.knock(connect).await.unwrap();
    assert_eq!(code, ConnectReturnCode::Success);
    assert_eq!(client.subscribe(&[&down(number)]).await, [0]);
    let number = Device(number);
    (Signer { number, key }, client)
}

/// What a session heard of its frames.
#[derive(Default)]
struct Heard {
    pubacks: BTreeSet<u16>,
    acked: BTreeSet<(u64, u64)>,
    refused: Vec<(Digest, RefusedReason)>,
}

impl Heard {
    /// Listens until so many frames are answered: each by its PUBACK.
    async fn listen(client: &mut Client<TcpStream>, frames: usize) -> Self {
        let mut heard = Self::default();
        while heard.pubacks.len() < frames {
            match client.next().await {
                Packet::PubAck(ack) => assert!(heard.pubacks.insert(ack.pkid)),
                Packet::Publish(publish) => heard.down(&publish.payload),
                other => panic!("{other:?}"),
            }
        }
        // What belongs to the last PUBACK left in the same write; a ping ends it.
        client.send(Packet::PingReq).await;
        loop {
            match client.next().await {
                Packet::PingResp => return heard,
                Packet::Publish(publish) => heard.down(&publish.payload),
                other => panic!("{other:?}"),
            }
        }
    }

    fn down(&mut self, payload: &[u8]) {
        match Down::decode(payload).unwrap() {
            Down::Ack { epoch, ranges } => {
                let seqs = ranges.iter().flat_map(|(first, last)| *first..=*last);
                self.acked.extend(seqs.map(|seq| (epoch, seq)));
            }
            Down::Refused { digest, reason } => self.refused.push((digest, reason)),
            Down::Settings { .. } => panic!("nobody has set anything"),
        }
    }
}

/// Odd payloads of one round, and what each is refused for.
fn odd_ones(own: &Signer, other: &Signer, round: u64) -> Vec<(Vec<u8>, RefusedReason)> {
    let now_ms = now().timestamp_millis();
    let seq = 1000 + round;
    let day_ms = TimeDelta::days(1).num_milliseconds();
    let at = |at_ms: i64| own.frame(9, seq, Digest([1; 16]), at_ms);
    let mut forged = at(now_ms - 60_000);
    forged.signature[63] ^= 1;
    let mut altered = at(now_ms - 60_000);
    *altered.batch.last_mut().unwrap() ^= 1;
    let mut newer = at(now_ms - 60_000).to_bytes();
    newer[0] = 2;
    let stolen = other.frame(9, seq, Digest([1; 16]), now_ms - 60_000);
    let mut garbage = round.to_be_bytes().to_vec();
    garbage[0] = 1;
    // An altered batch may still be one, or none.
    let altered_reason = match furrow_protocol::batch::Batch::decode(&altered.batch) {
        Ok(_) => RefusedReason::BadSignature,
        Err(_) => RefusedReason::Undecodable,
    };
    let step = i64::try_from(round).unwrap();
    vec![
        (forged.to_bytes(), RefusedReason::BadSignature),
        (altered.to_bytes(), altered_reason),
        (stolen.to_bytes(), RefusedReason::BadSignature),
        (newer, RefusedReason::UnknownVersion),
        (garbage, RefusedReason::Undecodable),
        (at(step).to_bytes(), RefusedReason::TooOld),
        (at(-1 - step).to_bytes(), RefusedReason::TooOld),
        (at(now_ms - 400 * day_ms).to_bytes(), RefusedReason::TooOld),
        (at(now_ms + 400 * day_ms).to_bytes(), RefusedReason::Ahead),
        (
            at(4_575_000_000_000_000_000 + step).to_bytes(),
            RefusedReason::Ahead,
        ),
    ]
}

#[tokio::test]
async fn through_the_gate_every_frame_is_answered_by_how_it_ended_and_the_window_never_blocks() {
    let world = World::new().await;
    let platform = world.platform().await;
    let (own, mut session) = enrolled(&world, &platform).await;
    let (other, _idle) = enrolled(&world, &platform).await;
    let chain = own.chain(5, 10, now().timestamp_millis() - 600_000);
    let (mut pkid, mut expected) = (0_u16, Vec::new());
    // More odd ones than the window has room for.
    for (round, good) in (0..).zip(&chain) {
        let twin = own.frame(5, good.seq, good.prev, now().timestamp_millis() - 3_600_000);
        let odd = odd_ones(&own, &other, round);
        let payloads = [good.to_bytes(), good.to_bytes(), twin.to_bytes()];
        let refused = odd
            .iter()
            .map(|(bytes, reason)| (payload_digest(bytes), *reason));
        expected.extend(refused);
        for payload in payloads.into_iter().chain(odd.into_iter().map(|(b, _)| b)) {
            pkid += 1;
            session.publish(&up(own.number.0), pkid, payload).await;
        }
    }
    let mut heard = Heard::listen(&mut session, pkid.into()).await;
    assert_eq!(heard.acked, (1..=10).map(|seq| (5, seq)).collect());
    let key = |r: &(Digest, RefusedReason)| (r.0, r.1 as u8);
    heard.refused.sort_by_key(key);
    expected.sort_by_key(key);
    assert_eq!(heard.refused, expected);

    let count = |sql| sqlx::query_scalar::<_, i64>(sql).fetch_one(&world.pool);
    assert_eq!(
        count("select count(*) from track_frames").await.unwrap(),
        10
    );
    let twins = "select count(*) from contradictions where kind = 'other_bytes' and epoch = 5";
    assert_eq!(count(twins).await.unwrap(), 10);
    let refused = i64::try_from(expected.len()).unwrap();
    assert_eq!(
        count("select count(*) from quarantine").await.unwrap(),
        refused
    );
}

#[tokio::test]
async fn readiness_says_no_while_what_came_cannot_be_stored_and_yes_again_afterwards() {
    let world = World::new().await;
    let clock = Arc::new(ManualClock::new(now()));
    let platform = world.platform_at(clock.clone()).await;
    let (own, mut session) = enrolled(&world, &platform).await;
    let rename = |sql: &'static str| sqlx::query(sql).execute(&world.pool);
    rename("alter table track_epochs rename to elsewhere")
        .await
        .unwrap();
    let frame = own.chain(5, 1, now().timestamp_millis() - 60_000).remove(0);
    session
        .publish(&up(own.number.0), 1, frame.to_bytes())
        .await;
    let ingest = || async {
        let answer = ask(platform.http_addr, "GET", "/readyz", &[], "").await;
        (answer.status, answer.json()["ingest"].as_bool().unwrap())
    };
    // The database answers and its schema is counted as ours: only ingest knows better, after a while.
    wait_until("ingest is not ready", || async {
        clock.set(clock.now() + TimeDelta::seconds(31));
        ingest().await == (503, false)
    })
    .await;
    rename("alter table elsewhere rename to track_epochs")
        .await
        .unwrap();
    let heard = Heard::listen(&mut session, 1).await;
    assert_eq!(heard.acked, [(5, 1)].into());
    wait_until("ingest is ready", || async { ingest().await.1 }).await;
}
