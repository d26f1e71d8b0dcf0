//! The verdict on a chain: by examples, and that it depends on the set of links alone.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::collections::{BTreeMap, BTreeSet};

use furrow_domain::evidence::{
    Bond, Contradiction, Digest, Former, Gap, Link, Loss, LossReason, Place, Scope, Verdict, judge,
};
use proptest::prelude::*;

/// A digest that stands for a frame: its epoch, sequence and variant.
fn digest(epoch: u64, seq: u64, variant: u8) -> Digest {
    let mut bytes = [variant; 16];
    bytes[..4].copy_from_slice(&u32::try_from(epoch).unwrap().to_be_bytes());
    bytes[4..12].copy_from_slice(&seq.to_be_bytes());
    Digest(bytes)
}

/// A sound link; sequence 0 stands for the genesis.
fn link(epoch: u64, seq: u64) -> Link {
    let at = i64::try_from(epoch * 1_000_000 + seq * 10).unwrap();
    Link {
        epoch,
        seq,
        digest: digest(epoch, seq, 0),
        prev: digest(epoch, seq - 1, 0),
        signature_ok: true,
        first_ms: at,
        last_ms: at + 9,
        genesis: (seq == 1).then(|| digest(epoch, 0, 0)),
        former: None,
    }
}

fn chain(epoch: u64, seqs: impl IntoIterator<Item = u64>) -> Vec<Link> {
    seqs.into_iter().map(|seq| link(epoch, seq)).collect()
}

fn after(epoch: u64, last: Option<u64>, mut first: Link) -> Link {
    first.former = Some(Former {
        epoch,
        last: last.map(|seq| (seq, digest(epoch, seq, 0))),
    });
    first
}

fn whole(links: &[Link]) -> Verdict {
    judge(links, &[], Scope::Whole)
}

fn place(epoch: u64, seq: u64, variant: u8) -> Place {
    Place {
        epoch,
        seq,
        digest: digest(epoch, seq, variant),
    }
}

fn missing(epoch: u64, first: u64, last: u64) -> Gap {
    let kept = |seq: u64| (seq > 0).then(|| link(epoch, seq));
    Gap::Sequences {
        epoch,
        first,
        last,
        from_ms: kept(first - 1).map(|l| l.last_ms),
        to_ms: Some(link(epoch, last + 1).first_ms),
        reason: None,
    }
}

fn runs(verdict: &Verdict) -> Vec<(u64, u64, u64)> {
    verdict
        .runs
        .iter()
        .map(|r| (r.epoch, r.first, r.last))
        .collect()
}

#[test]
fn an_unbroken_chain_is_whole() {
    let verdict = whole(&chain(1, 1..=50));
    assert!(verdict.is_whole());
    assert_eq!(verdict.frames, 50);
    assert_eq!(runs(&verdict), [(1, 1, 50)]);
    let run = verdict.runs[0];
    assert_eq!((run.prev, run.head), (digest(1, 0, 0), digest(1, 50, 0)));
    assert_eq!((run.first_ms, run.last_ms), (1_000_010, 1_000_509));
    assert!(whole(&[]).is_whole());
}

#[test]
fn a_missing_neighbour_is_a_gap_and_never_a_contradiction() {
    let verdict = whole(&chain(1, [2, 3, 7, 9]));
    assert_eq!(
        verdict.gaps,
        [missing(1, 1, 1), missing(1, 4, 6), missing(1, 8, 8)]
    );
    assert_eq!(verdict.contradictions, []);
    assert_eq!(runs(&verdict), [(1, 2, 3), (1, 7, 7), (1, 9, 9)]);
    assert!(!verdict.is_whole());
}

#[test]
fn a_window_begins_anywhere_in_its_first_epoch_alone() {
    let links = [chain(1, 20..=30), chain(2, 3..=5)].concat();
    let verdict = judge(&links, &[], Scope::Window);
    let unknown_end = Gap::UnknownEnd {
        epoch: 1,
        after: 30,
        from_ms: Some(link(1, 30).last_ms),
    };
    assert_eq!(verdict.gaps, [unknown_end, missing(2, 1, 2)]);
}

#[test]
fn an_altered_frame_breaks_the_link_to_the_next() {
    let mut links = chain(1, 1..=5);
    links[2].digest = digest(1, 3, 9);
    let verdict = whole(&links);
    let broken = Contradiction::BrokenLink {
        frame: place(1, 4, 0),
        prev: digest(1, 3, 0),
        kept: digest(1, 3, 9),
    };
    assert_eq!(verdict.contradictions, [broken]);
    assert_eq!(verdict.gaps, []);
    assert_eq!(runs(&verdict), [(1, 1, 3), (1, 4, 5)]);
}

#[test]
fn two_frames_at_a_place_contradict_and_the_chain_still_links_through_the_right_one() {
    let mut links = chain(1, 1..=4);
    let mut other = link(1, 2);
    other.digest = digest(1, 2, 5);
    links.push(other);
    let verdict = whole(&links);
    let twice = Contradiction::OtherFrame {
        one: place(1, 2, 0),
        other: digest(1, 2, 5),
    };
    assert_eq!(verdict.contradictions, [twice]);
    assert_eq!(verdict.frames, 5);
    assert_eq!(runs(&verdict), [(1, 1, 4)]);
}

#[test]
fn the_first_frame_of_an_epoch_hangs_on_device_epoch_and_key() {
    let mut links = chain(1, 1..=2);
    links[0].genesis = Some(digest(1, 0, 3));
    let broken = Contradiction::BrokenGenesis {
        frame: place(1, 1, 0),
        prev: digest(1, 0, 0),
        genesis: digest(1, 0, 3),
    };
    assert_eq!(whole(&links).contradictions, [broken]);
}

#[test]
fn a_frame_without_a_good_signature_casts_doubt_on_nothing() {
    let mut links = chain(1, 1..=5);
    let mut forged = link(1, 3);
    forged.digest = digest(1, 3, 7);
    forged.prev = digest(1, 2, 7);
    forged.signature_ok = false;
    links.push(forged);
    let verdict = whole(&links);
    assert_eq!(verdict.unsigned, [place(1, 3, 7)]);
    assert_eq!((verdict.gaps.len(), verdict.contradictions.len()), (0, 0));
    assert!(!verdict.is_whole());
    // Alone it fills no gap either.
    links.retain(|l| l.seq != 3 || !l.signature_ok);
    assert_eq!(whole(&links).gaps, [missing(1, 3, 3)]);
}

#[test]
fn a_new_epoch_continues_where_the_former_ended() {
    let mut links = chain(1, 1..=4);
    links.extend(chain(2, 1..=3));
    links[4] = after(1, Some(4), links[4]);
    let verdict = whole(&links);
    assert!(verdict.is_whole());
    assert_eq!(runs(&verdict), [(1, 1, 4), (2, 1, 3)]);
}

#[test]
fn the_end_of_a_former_epoch_that_is_not_here_is_a_gap() {
    let links = [chain(1, 1..=4), vec![after(1, Some(9), link(2, 1))]].concat();
    let tail = Gap::Sequences {
        epoch: 1,
        first: 5,
        last: 9,
        from_ms: Some(link(1, 4).last_ms),
        to_ms: None,
        reason: None,
    };
    assert_eq!(whole(&links).gaps, [tail]);
    // Of an epoch of which nothing is here, all of it: unless the window may begin after it.
    let alone = [after(1, Some(9), link(2, 1))];
    let all = Gap::Sequences {
        epoch: 1,
        first: 1,
        last: 9,
        from_ms: None,
        to_ms: None,
        reason: None,
    };
    assert_eq!(whole(&alone).gaps, [all]);
    assert_eq!(judge(&alone, &[], Scope::Window).gaps, []);
}

#[test]
fn an_epoch_whose_end_nobody_knows_is_a_gap() {
    let unknown = Gap::UnknownEnd {
        epoch: 1,
        after: 4,
        from_ms: Some(link(1, 4).last_ms),
    };
    let told = [chain(1, 1..=4), vec![after(1, None, link(2, 1))]].concat();
    assert_eq!(whole(&told).gaps, [unknown]);
    let untold = [chain(1, 1..=4), vec![link(2, 1)]].concat();
    assert_eq!(whole(&untold).gaps, [unknown]);
}

#[test]
fn a_former_epoch_that_ended_otherwise_contradicts() {
    let mut first = after(1, Some(4), link(2, 1));
    first.former = Some(Former {
        epoch: 1,
        last: Some((4, digest(1, 4, 8))),
    });
    let links = [chain(1, 1..=6), vec![first]].concat();
    let other_end = Contradiction::BrokenFormer {
        frame: place(2, 1, 0),
        named: place(1, 4, 8),
        kept: digest(1, 4, 0),
    };
    let beyond = Contradiction::BeyondEnd {
        frame: place(2, 1, 0),
        epoch: 1,
        end: 4,
        kept: 6,
    };
    assert_eq!(whole(&links).contradictions, [other_end, beyond]);
}

#[test]
fn epochs_that_follow_each_other_in_a_circle_contradict() {
    let circle = |epoch| [Contradiction::FormerCircle { epoch }];
    let itself = [after(1, Some(1), link(1, 1))];
    assert_eq!(whole(&itself).contradictions, circle(1));
    let links = [
        after(3, Some(1), link(2, 1)),
        after(4, Some(1), link(3, 1)),
        after(2, Some(1), link(4, 1)),
        after(2, Some(1), link(9, 1)),
    ];
    assert_eq!(whole(&links).contradictions, circle(2));
}

#[test]
fn an_announced_loss_gives_its_part_of_a_gap_a_reason() {
    let loss = |first, last, reason| Loss {
        epoch: 1,
        first,
        last,
        reason,
    };
    let losses = [
        loss(4, 6, LossReason::Damaged),
        loss(5, 8, LossReason::QuotaDropped),
        Loss {
            epoch: 2,
            ..loss(1, u64::MAX, LossReason::Other)
        },
    ];
    let verdict = judge(&chain(1, [1, 2, 11]), &losses, Scope::Whole);
    let parts: Vec<_> = verdict
        .gaps
        .iter()
        .map(|gap| match *gap {
            Gap::Sequences {
                first,
                last,
                reason,
                ..
            } => (first, last, reason),
            Gap::UnknownEnd { .. } => (0, 0, None),
        })
        .collect();
    let expected = [
        (3, 3, None),
        (4, 6, Some(LossReason::Damaged)),
        (7, 8, Some(LossReason::QuotaDropped)),
        (9, 10, None),
    ];
    assert_eq!(parts, expected);
}

#[test]
fn the_largest_sequences_neither_wrap_nor_take_long() {
    let mut last = link(1, 2);
    last.seq = u64::MAX;
    let mut end = link(2, 1);
    end.former = Some(Former {
        epoch: 1,
        last: Some((u64::MAX, last.digest)),
    });
    let loss = Loss {
        epoch: 1,
        first: 2,
        last: u64::MAX,
        reason: LossReason::Other,
    };
    let verdict = judge(&[link(1, 1), last, end], &[loss], Scope::Whole);
    assert_eq!(verdict.gaps.len(), 1);
    let verdict = judge(&[link(1, 1), end], &[loss], Scope::Whole);
    assert_eq!(verdict.gaps.len(), 1);
}

#[test]
fn two_frames_are_judged_as_soon_as_both_are_here() {
    let mut other = link(1, 3);
    other.prev = digest(1, 2, 1);
    assert_eq!(link(1, 2).bond(&link(1, 3)), Bond::Linked);
    assert_eq!(link(1, 2).bond(&other), Bond::Contradiction);
    assert_eq!(link(1, 2).bond(&link(1, 4)), Bond::Apart);
    assert_eq!(link(1, 3).bond(&link(1, 2)), Bond::Apart);
    assert_eq!(link(1, 2).bond(&link(2, 3)), Bond::Apart);
}

/// Links by chance: up to three epochs with losses, second frames, broken links, forgeries, former epochs.
fn links() -> impl Strategy<Value = Vec<Link>> {
    let one = (1..4_u64, 1..12_u64, 0..20_u8, 0..4_u64, 1..12_u64);
    prop::collection::vec(one, 0..40).prop_map(|dice| {
        let make = |(epoch, seq, fault, other, end): (u64, u64, u8, u64, u64)| {
            let mut link = link(epoch, seq);
            match fault {
                0 => link.digest = digest(epoch, seq, 1),
                1 => link.prev = digest(epoch, seq - 1, 1),
                2 => link.signature_ok = false,
                3 => link.genesis = link.genesis.map(|_| digest(epoch, 0, 1)),
                4 => link.first_ms -= 2_000_000,
                _ => {}
            }
            if seq == 1 && other > 0 {
                link = after(other, (end > 1).then_some(end), link);
            }
            link
        };
        dice.into_iter().map(make).collect()
    })
}

/// Which sequences are missing between the first and last kept one of an epoch, found the slow way.
fn missing_slowly(links: &[Link]) -> BTreeSet<(u64, u64)> {
    let mut kept: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for link in links.iter().filter(|l| l.signature_ok) {
        kept.entry(link.epoch).or_default().insert(link.seq);
    }
    let mut missing = BTreeSet::new();
    for (epoch, seqs) in kept {
        let range = *seqs.first().unwrap()..=*seqs.last().unwrap();
        missing.extend(range.filter(|s| !seqs.contains(s)).map(|s| (epoch, s)));
    }
    missing
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn order_and_repetition_change_nothing(
        (links, shuffled) in links().prop_flat_map(|l| (Just(l.clone()), Just(l).prop_shuffle())),
        repeated in any::<prop::sample::Index>(),
        scope in prop::sample::select(vec![Scope::Whole, Scope::Window]),
    ) {
        let verdict = judge(&links, &[], scope);
        let reversed: Vec<Link> = links.iter().rev().copied().collect();
        prop_assert_eq!(&judge(&reversed, &[], scope), &verdict);
        prop_assert_eq!(&judge(&shuffled, &[], scope), &verdict);
        let mut twice = shuffled;
        if !twice.is_empty() {
            let again = twice[repeated.index(twice.len())];
            twice.insert(repeated.index(twice.len()), again);
        }
        twice.extend(links);
        prop_assert_eq!(&judge(&twice, &[], scope), &verdict);
    }

    #[test]
    fn gaps_are_exactly_the_missing_sequences(links in links()) {
        let verdict = judge(&links, &[], Scope::Whole);
        let mut told = BTreeSet::new();
        for gap in &verdict.gaps {
            if let Gap::Sequences { epoch, first, last, from_ms, to_ms, .. } = *gap {
                // Between two kept frames, not before the first or after the last.
                if from_ms.is_some() && to_ms.is_some() {
                    prop_assert!(first <= last);
                    for seq in first..=last {
                        prop_assert!(told.insert((epoch, seq)), "told twice");
                    }
                }
            }
        }
        prop_assert_eq!(told, missing_slowly(&links));
    }

    #[test]
    fn a_sound_chain_with_losses_never_contradicts(
        kept in prop::collection::btree_set((1..4_u64, 1..30_u64), 0..60),
    ) {
        let links: Vec<Link> = kept
            .iter()
            .map(|(epoch, seq)| match (epoch, seq) {
                (2 | 3, 1) => after(epoch - 1, Some(29), link(*epoch, 1)),
                _ => link(*epoch, *seq),
            })
            .collect();
        let verdict = judge(&links, &[], Scope::Whole);
        prop_assert_eq!(&verdict.contradictions, &[]);
        prop_assert_eq!(verdict.frames, kept.len());
        let told: u64 = verdict.runs.iter().map(|run| run.last - run.first + 1).sum();
        prop_assert_eq!(told, u64::try_from(kept.len()).unwrap());
    }

    #[test]
    fn an_altered_frame_with_both_neighbours_is_always_found(altered in 2..29_u64) {
        let mut links = chain(1, 1..30);
        let at = usize::try_from(altered - 1).unwrap();
        links[at].digest = digest(1, altered, 1);
        let verdict = judge(&links, &[], Scope::Whole);
        let broken = Contradiction::BrokenLink {
            frame: place(1, altered + 1, 0),
            prev: digest(1, altered, 0),
            kept: digest(1, altered, 1),
        };
        prop_assert_eq!(verdict.contradictions, vec![broken]);
        prop_assert_eq!(verdict.gaps, vec![]);
    }
}
