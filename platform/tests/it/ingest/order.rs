//! Whatever the order, the groups and the processes: the same rows, the same links, no contradiction where there is none.

use std::sync::Arc;

use furrow_platform::ingest::Ingest;
use furrow_protocol::frame::{Digest, Frame};
use proptest::{
    prelude::*,
    sample::Index,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use tokio::sync::mpsc;

use super::rig::{Rig, Sent, Signer, answers, load};

fn sent(device: &Signer, frames: &[Frame]) -> Vec<Sent> {
    frames.iter().map(|f| device.sends(f)).collect()
}

/// Two epochs of one device with a break between them, and one of another.
fn story(rig: &Rig, one: &Signer, other: &Signer) -> Vec<Sent> {
    let begin = rig.now_ms() - 4 * 86_400_000;
    let mut all = sent(one, &one.chain(11, 12, begin));
    all.extend(sent(one, &one.chain(u64::MAX, 5, begin + 86_400_000)));
    all.extend(sent(other, &other.chain(11, 9, begin)));
    all
}

#[tokio::test]
async fn in_order_reversed_and_shuffled_give_the_same_rows_and_no_contradiction() {
    let (one, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&one, &other]).await;
    let all = story(&rig, &one, &other);
    rig.deliver(&all).await;
    let expected = rig.stored().await;
    assert_eq!(expected.len(), all.len());
    let orders = (
        Just(all.clone()).prop_shuffle(),
        prop::collection::vec(any::<Index>(), 0..8),
        prop::collection::vec(any::<Index>(), 0..6),
    );
    let mut runner = TestRunner::new(Config::default());
    let mut tried = vec![(all.iter().rev().cloned().collect::<Vec<_>>(), vec![5, 9])];
    for _ in 0..40 {
        let (mut order, doubled, cuts) = orders.new_tree(&mut runner).unwrap().current();
        for index in doubled {
            let again = index.get(&all).clone();
            order.insert(index.index(order.len()), again);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(order.len())).collect();
        cuts.sort_unstable();
        tried.push((order, cuts));
    }
    for (order, cuts) in tried {
        rig.wipe().await;
        let mut begin = 0;
        for cut in cuts.into_iter().chain([order.len()]) {
            let group = &order[begin.min(cut)..cut];
            assert_eq!(rig.deliver(group).await.settled.len(), group.len());
            begin = cut;
        }
        assert_eq!(rig.stored().await, expected);
        assert!(rig.contradictions().await.is_empty());
        assert!(rig.quarantined().await.is_empty());
    }
}

#[tokio::test]
async fn two_processes_at_once_store_each_frame_once() {
    let (one, other) = (Signer::new(1), Signer::new(2));
    let mut rig = Rig::new(&[&one, &other]).await;
    // Small groups: the two meet often.
    rig.settings.group_frames = 3;
    let mut all = Vec::new();
    for epoch in 1..=6 {
        all.extend(sent(&one, &one.chain(epoch, 25, rig.now_ms() - 400_000)));
        all.extend(sent(
            &other,
            &other.chain(epoch, 25, rig.now_ms() - 400_000),
        ));
    }
    let run = |ingest: Ingest, order: Vec<Sent>| async move {
        let (to, arrivals) = mpsc::channel(order.len());
        let heard = load(&to, &order).await;
        drop(to);
        ingest.run(arrivals).await;
        (Arc::clone(&heard), order.len())
    };
    let reversed: Vec<Sent> = all.iter().rev().cloned().collect();
    let (first, second) = tokio::join!(
        run(rig.ingest(rig.world.pool.clone()), all.clone()),
        run(rig.ingest(rig.world.pool.clone()), reversed),
    );
    for (heard, count) in [first, second] {
        assert_eq!(answers(&heard).settled.len(), count);
    }
    assert_eq!(rig.stored().await.len(), all.len());
    assert!(rig.contradictions().await.is_empty());
}

#[tokio::test]
async fn a_missing_neighbour_is_a_gap_and_a_wrong_one_is_found_once_in_any_order() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let begin = |rig: &Rig| rig.now_ms() - 600_000;
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        for together in [true, false] {
            rig.wipe().await;
            let mut frames = device.chain(5, 2, begin(&rig));
            // The third does not follow the second.
            frames.push(device.frame(5, 3, Digest([9; 16]), begin(&rig) + 30_000));
            let sent: Vec<Sent> = order.iter().map(|i| device.sends(&frames[*i])).collect();
            if together {
                rig.deliver(&sent).await;
            } else {
                for one in &sent {
                    rig.deliver(std::slice::from_ref(one)).await;
                }
            }
            assert_eq!(rig.stored().await.len(), 3, "{order:?}");
            let found = rig.contradictions().await;
            assert_eq!(
                found,
                [(1, 5, 3, "broken_link".to_owned())],
                "{order:?} {together}"
            );
        }
    }
    rig.wipe().await;
    let frames = device.chain(5, 9, begin(&rig));
    let kept: Vec<Sent> = [0, 2, 3, 7]
        .iter()
        .map(|i| device.sends(&frames[*i]))
        .collect();
    rig.deliver(&kept).await;
    assert!(
        rig.contradictions().await.is_empty(),
        "gaps contradict nothing"
    );
}

#[tokio::test]
async fn an_epoch_that_does_not_begin_with_its_genesis_is_found() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let frame = device.frame(5, 1, Digest([9; 16]), rig.now_ms() - 60_000);
    for _ in 0..2 {
        let answers = rig.deliver(&[device.sends(&frame)]).await;
        assert!(answers.acked.contains(&(5, 1)));
    }
    assert_eq!(rig.stored().await.len(), 1);
    let found = rig.contradictions().await;
    assert_eq!(found, [(1, 5, 1, "broken_genesis".to_owned())]);
}

#[tokio::test]
async fn a_quarantined_frame_of_a_good_hand_is_a_link_between_its_neighbours() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let first = device.chain(5, 1, rig.now_ms() - 60_000).remove(0);
    // The second is dated ahead: it is not stored, and the third follows it.
    let second = device.frame(5, 2, first.digest(device.number), rig.now_ms() + 86_400_000);
    let third = device.frame(5, 3, second.digest(device.number), rig.now_ms() - 30_000);
    rig.deliver(&sent(&device, &[first, second])).await;
    rig.deliver(&sent(&device, &[third])).await;
    assert!(rig.contradictions().await.is_empty());
    // One that claims to follow it and does not is found.
    let wrong = device.frame(6, 2, Digest([3; 16]), rig.now_ms() - 20_000);
    let ahead = device.frame(6, 1, device.genesis(6), rig.now_ms() + 86_400_000);
    rig.deliver(&sent(&device, &[ahead])).await;
    rig.deliver(&sent(&device, &[wrong])).await;
    let found = rig.contradictions().await;
    assert_eq!(found, [(1, 6, 2, "broken_link".to_owned())]);
}

#[tokio::test]
async fn it_does_not_matter_whether_the_quarantined_one_comes_first_or_last() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
        rig.wipe().await;
        let first = device.chain(5, 1, rig.now_ms() - 60_000).remove(0);
        // It is dated ahead and follows nothing; nothing follows it.
        let second = device.frame(5, 2, Digest([1; 16]), rig.now_ms() + 86_400_000);
        let third = device.frame(5, 3, Digest([2; 16]), rig.now_ms() - 30_000);
        let frames = [first, second, third];
        for at in order {
            rig.deliver(&[device.sends(&frames[at])]).await;
        }
        let found = rig.contradictions().await;
        let broken = |seq| (1, 5, seq, "broken_link".to_owned());
        assert_eq!(found, [broken(2), broken(3)], "{order:?}");
    }
}

#[tokio::test]
async fn sequences_beyond_what_the_database_counts_are_held_apart_all_the_same() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let (begin, day_ms) = (rig.now_ms() - 60_000, 86_400_000);
    for seq in [u64::MAX, 1 << 63, (1 << 63) - 1] {
        let one = device.frame(5, seq, Digest([1; 16]), begin);
        let other_day = device.frame(5, seq, Digest([1; 16]), begin - 2 * day_ms);
        for frame in [&one, &one, &other_day] {
            let answers = rig.deliver(&[device.sends(frame)]).await;
            assert!(answers.acked.contains(&(5, seq)));
        }
    }
    assert_eq!(rig.stored().await.len(), 3);
    let kinds: Vec<String> = rig
        .contradictions()
        .await
        .into_iter()
        .map(|c| c.3)
        .collect();
    assert_eq!(kinds.iter().filter(|k| *k == "other_bytes").count(), 3);
}
