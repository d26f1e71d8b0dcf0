//! Sessions with mutated bytes against the door, without a network: no panic, no session left behind. Part of the tests only.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use furrow_protocol::{down::Down, frame::Device};
use futures_util::FutureExt as _;
use rumqttc::mqttbytes::{
    QoS,
    v4::{Connect, LastWill, Login, Packet, PubAck, PubRel, Publish, Subscribe, Unsubscribe},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
    time::timeout,
};

use super::{
    door::Door,
    limits::Limits,
    register::{Boxed, Refusal, Register},
};
use crate::ingest::arrival::Arrival;

/// How long the fuzzing goes on.
const LONG: Duration = Duration::from_secs(10);
/// A session is over in this time, or hangs.
const PATIENCE: Duration = Duration::from_secs(20);

struct Everybody;

impl Register for Everybody {
    fn by_key(&self, _: [u8; 32]) -> Boxed<'_, Result<Device, Refusal>> {
        Box::pin(async { Ok(Device(7)) })
    }

    fn by_token<'a>(&'a self, device: Device, _: &'a [u8]) -> Boxed<'a, Result<Device, Refusal>> {
        Box::pin(async move { Ok(device) })
    }

    fn revoked(&self, _: Device) -> bool {
        false
    }
}

/// SplitMix64: the same sequence at each run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }
}

/// A session with a bit of everything, good and bad, in a random order after CONNECT.
fn session(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let put = |packet: Packet, bytes: &mut BytesMut| {
        packet.write(bytes, 1 << 20).map(|_| ()).unwrap_or_default();
    };
    let mut connect = Connect::new("furrow-7");
    connect.login = Some(Login::new("7", "0".repeat(64)));
    connect.clean_session = dice.below(4) > 0;
    if dice.below(16) == 0 {
        connect.last_will = Some(LastWill::new("a", "b", QoS::AtLeastOnce, true));
    }
    put(Packet::Connect(connect), &mut bytes);
    for _ in 0..dice.below(12) {
        let pkid = u16::from(dice.byte()).max(1);
        let packet = match dice.below(12) {
            0..6 => {
                let size = dice.below(300);
                let mut publish = Publish::new("furrow/v1/7/up", QoS::AtLeastOnce, vec![1; size]);
                publish.pkid = pkid;
                publish.dup = dice.below(4) == 0;
                Packet::Publish(publish)
            }
            6 => Packet::Publish(Publish::new("furrow/v1/7/state", QoS::AtMostOnce, "s")),
            7 => {
                let mut subscribe = Subscribe::new("furrow/v1/7/down", QoS::AtLeastOnce);
                subscribe.add("#".into(), QoS::AtMostOnce);
                subscribe.pkid = pkid;
                Packet::Subscribe(subscribe)
            }
            8 => {
                let mut unsubscribe = Unsubscribe::new("furrow/v1/7/down");
                unsubscribe.pkid = pkid;
                Packet::Unsubscribe(unsubscribe)
            }
            9 => Packet::PubAck(PubAck::new(pkid)),
            10 => Packet::PubRel(PubRel::new(pkid)),
            _ => Packet::PingReq,
        };
        put(packet, &mut bytes);
    }
    bytes.to_vec()
}

/// A few changes to the bytes: bits, bytes, lengths, pieces cut, doubled or put in.
fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..dice.below(4) {
        let at = dice.below(bytes.len());
        let to = (at + 1 + dice.below(40)).min(bytes.len());
        match dice.below(7) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.byte(),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
            3 => drop(bytes.drain(at..to)),
            4 => {
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let piece: Vec<u8> = (0..dice.below(20)).map(|_| dice.byte()).collect();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at.max(1)),
        }
        if bytes.is_empty() {
            bytes.push(dice.byte());
        }
    }
}

/// Plays bytes to the door in pieces, as ingest settles; the door must end by itself after them.
async fn play(door: &Door, arrivals: &mut mpsc::Receiver<Arrival>, bytes: &[u8], dice: &mut Dice) {
    let (mut ours, theirs) = tokio::io::duplex(1 << 16);
    let key = (dice.below(2) == 0).then_some([0; 32]);
    let conversation = AssertUnwindSafe(door.converse(theirs, key)).catch_unwind();
    let whole = dice.below(2) == 0;
    let sender = async {
        for piece in bytes.chunks(if whole {
            bytes.len()
        } else {
            1 + dice.below(50)
        }) {
            if ours.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
            while let Ok(arrival) = arrivals.try_recv() {
                let ack = Down::Ack {
                    epoch: 1,
                    ranges: vec![(1, 1)],
                };
                // Once too often now and then, and with a ticket that never was.
                let tickets = [arrival.ticket, arrival.ticket, 1 << 40];
                let count = 1 + dice.below(3);
                arrival
                    .reply
                    .settle(arrival.device, &tickets[..count], vec![ack]);
            }
        }
        let _ = ours.shutdown().await;
        let mut said = Vec::new();
        let _ = ours.read_to_end(&mut said).await;
    };
    let (ended, ()) = timeout(PATIENCE, async { tokio::join!(conversation, sender) })
        .await
        .unwrap_or_else(|_| panic!("it hangs on {bytes:02x?}"));
    assert!(ended.is_ok(), "it panics on {bytes:02x?}");
}

#[tokio::test]
async fn no_mutated_session_makes_the_door_panic_or_hang() {
    let (sender, mut arrivals) = mpsc::channel(256);
    let (states, _said) = mpsc::channel(8);
    let door = Door::new(Arc::new(Everybody), sender, states, Limits::new(10, 10));
    let mut seen = 0_u64;
    let begin = Instant::now();
    let mut dice = Dice(20_261_201);
    while begin.elapsed() < LONG {
        let mut bytes = session(&mut dice);
        mutate(&mut bytes, &mut dice);
        play(&door, &mut arrivals, &bytes, &mut dice).await;
        while arrivals.try_recv().is_ok() {}
        seen += 1;
    }
    assert_eq!(door.running(), 0, "no session is left behind");
    assert!(seen > 1_000, "only {seen} sessions in {LONG:?}");
}
