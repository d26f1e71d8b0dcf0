//! Chains with breaks, with two frames for one place, and with links in quarantine: what is found depends on what came, not on its order, its groups or the process.

use std::collections::{BTreeMap, BTreeSet};

use furrow_protocol::frame::{Digest, Frame};
use proptest::{
    prelude::*,
    sample::Index,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use tokio::sync::mpsc;

use super::rig::{Rig, Sent, Signer, answers, load};

const EPOCH: u64 = 5;

/// How one frame of a story is made from the one before it.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// It does not name the frame before it.
    breaks: bool,
    /// Another frame is made for its place.
    twin: bool,
    /// The twin is dated ahead, and so ends in quarantine.
    twin_ahead: bool,
    /// It is dated ahead itself.
    ahead: bool,
    /// The chain goes on from the twin.
    from_twin: bool,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let often = |share: u32| prop::bool::weighted(f64::from(share) / 100.0);
    let turn = (often(20), often(25), often(50), often(15), often(50)).prop_map(
        |(breaks, twin, twin_ahead, ahead, from_twin)| Turn {
            breaks,
            twin,
            twin_ahead,
            ahead,
            from_twin,
        },
    );
    prop::collection::vec(turn, 3..9)
}

/// The frames of a story, in order.
fn tell(device: &Signer, now_ms: i64, turns: &[Turn]) -> Vec<Frame> {
    let mut prev = device.genesis(EPOCH);
    let mut frames = Vec::new();
    for (seq, turn) in (1..).zip(turns) {
        let at = |ahead: bool, offset: i64| {
            let day = if ahead { 86_400_000 } else { -86_400_000 };
            now_ms + day + i64::try_from(seq).unwrap() * 10_000 + offset
        };
        let named = if turn.breaks { Digest([7; 16]) } else { prev };
        let frame = device.frame(EPOCH, seq, named, at(turn.ahead, 0));
        prev = frame.digest(device.number);
        frames.push(frame);
        if turn.twin {
            let twin = device.frame(EPOCH, seq, named, at(turn.twin_ahead, 1));
            if turn.from_twin {
                prev = twin.digest(device.number);
            }
            frames.push(twin);
        }
    }
    frames
}

/// What must be found: every frame that denies a kept one before it, every wrong begin, and how many
/// frames too many each place has.
fn expected(device: &Signer, frames: &[Frame]) -> (BTreeSet<(u64, Digest)>, BTreeMap<u64, usize>) {
    let digest = |f: &Frame| f.digest(device.number);
    let mut broken = BTreeSet::new();
    let mut places: BTreeMap<u64, BTreeSet<Digest>> = BTreeMap::new();
    for frame in frames {
        places.entry(frame.seq).or_default().insert(digest(frame));
        let denied = |b: &&Frame| b.seq + 1 == frame.seq && digest(b) != frame.prev;
        let begins_wrongly = frame.seq == 1 && frame.prev != device.genesis(EPOCH);
        if frames.iter().any(|b| denied(&b)) || begins_wrongly {
            broken.insert((frame.seq, digest(frame)));
        }
    }
    let too_many = places
        .into_iter()
        .map(|(seq, digests)| (seq, digests.len() - 1))
        .filter(|(_, more)| *more > 0)
        .collect();
    (broken, too_many)
}

async fn found(rig: &Rig) -> (BTreeSet<(u64, Digest)>, BTreeMap<u64, usize>) {
    let rows: Vec<(i64, String, Vec<u8>)> =
        sqlx::query_as("select seq, kind, digest from contradictions")
            .fetch_all(&rig.world.pool)
            .await
            .unwrap();
    let (mut broken, mut too_many) = (BTreeSet::new(), BTreeMap::new());
    for (seq, kind, digest) in rows {
        let seq = u64::try_from(seq).unwrap();
        if kind == "other_bytes" {
            *too_many.entry(seq).or_default() += 1;
        } else {
            let digest = Digest(digest.try_into().unwrap());
            assert!(broken.insert((seq, digest)), "{seq} is told twice");
        }
    }
    (broken, too_many)
}

#[tokio::test]
async fn what_contradicts_is_found_once_in_every_order_and_grouping() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..25 {
        rig.wipe().await;
        let turns = turns().new_tree(&mut runner).unwrap().current();
        let frames = tell(&device, rig.now_ms(), &turns);
        let wanted = expected(&device, &frames);
        let order = Just(frames).prop_shuffle();
        let cuts = prop::collection::vec(any::<Index>(), 0..5);
        let (order, cuts) = (order, cuts).new_tree(&mut runner).unwrap().current();
        let sent: Vec<Sent> = order.iter().map(|f| device.sends(f)).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(sent.len())).collect();
        cuts.sort_unstable();
        // One process from the first group to the last: what it remembers is put to the proof too.
        let (to, arrivals) = mpsc::channel(sent.len());
        let running = tokio::spawn(rig.ingest(rig.world.pool.clone()).run(arrivals));
        let mut begin = 0;
        for cut in cuts.iter().copied().chain([sent.len()]) {
            let group = &sent[begin..cut];
            let heard = load(&to, group).await;
            crate::world::wait_until("the group is answered", || async {
                answers(&heard).settled.len() == group.len()
            })
            .await;
            begin = cut;
        }
        drop(to);
        running.await.unwrap();
        let names = |f: &Frame| (f.seq, f.digest(device.number), f.prev);
        let told: Vec<_> = order.iter().map(names).collect();
        let story = || format!("{told:#?} cut at {cuts:?}");
        assert_eq!(found(&rig).await, wanted, "{}", story());
        // Everything once more changes nothing.
        rig.deliver(&sent).await;
        assert_eq!(found(&rig).await, wanted, "again: {}", story());
    }
}

#[tokio::test]
async fn two_processes_at_once_find_each_break_once() {
    let device = Signer::new(1);
    let mut rig = Rig::new(&[&device]).await;
    rig.settings.group_frames = 2;
    let mut frames = Vec::new();
    let mut prev = device.genesis(EPOCH);
    for seq in 1..=60 {
        // Every seventh breaks the chain, every tenth is dated ahead.
        let named = if seq % 7 == 0 { Digest([7; 16]) } else { prev };
        let day = if seq % 10 == 0 { 1 } else { -1 };
        let at_ms = rig.now_ms() + day * 86_400_000 + i64::try_from(seq).unwrap() * 10_000;
        let frame = device.frame(EPOCH, seq, named, at_ms);
        prev = frame.digest(device.number);
        frames.push(frame);
    }
    let wanted = expected(&device, &frames);
    assert!(!wanted.0.is_empty());
    let sent: Vec<Sent> = frames.iter().map(|f| device.sends(f)).collect();
    let (even, odd): (Vec<_>, Vec<_>) = (0..).zip(sent.clone()).partition(|(i, _)| i % 2 == 0);
    let halves = [even, odd].map(|half| half.into_iter().map(|(_, s)| s).rev().collect::<Vec<_>>());
    let (first, second) = tokio::join!(rig.deliver(&halves[0]), rig.deliver(&halves[1]));
    assert_eq!(first.settled.len() + second.settled.len(), sent.len());
    assert_eq!(found(&rig).await, wanted);
    let (first, second) = tokio::join!(rig.deliver(&sent), rig.deliver(&sent));
    assert_eq!(first.settled.len() + second.settled.len(), 2 * sent.len());
    assert_eq!(found(&rig).await, wanted);
}

#[tokio::test]
async fn who_signs_hundreds_of_frames_for_one_place_holds_up_nobody() {
    let (good, twins) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &twins]).await;
    let mut sent = Vec::new();
    for number in 0..400_i64 {
        // Sound and dated ahead, at two places side by side.
        let day = if number % 4 < 2 {
            86_400_000
        } else {
            -86_400_000
        };
        let seq = 2 + u64::try_from(number % 2).unwrap();
        let at_ms = rig.now_ms() + day + number;
        sent.push(twins.sends(&twins.frame(EPOCH, seq, Digest([7; 16]), at_ms)));
    }
    let chain = good.chain(EPOCH, 400, rig.now_ms() - 86_400_000);
    sent.extend(chain.iter().map(|frame| good.sends(frame)));
    for part in sent.chunks(80) {
        assert_eq!(rig.deliver(part).await.settled.len(), part.len());
    }
    let of = |device: i32| move |row: &&(i32, i64, i64, Vec<u8>)| row.0 == device;
    let stored = rig.stored().await;
    assert_eq!(stored.iter().filter(of(1)).count(), 400);
    assert_eq!(stored.iter().filter(of(2)).count(), 2);
    assert_eq!(rig.quarantined().await.len(), 200);
    // Every sound twin is kept whole; what it says of its neighbours is held against some of them.
    let whole =
        "select count(*) from contradictions where kind = 'other_bytes' and frame is not null";
    assert_eq!(rig.count(whole).await, 198);
    let breaks = "select count(*) from contradictions where kind = 'broken_link'";
    assert!(rig.count(breaks).await > 0);
}
