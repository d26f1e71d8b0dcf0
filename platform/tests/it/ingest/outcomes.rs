//! One sentence for each way that a frame can end. In every one a good neighbour of the same group is stored.

use chrono::TimeDelta;
use furrow_platform::{
    clock::Clock as _,
    ids,
    ingest::{
        fault::Fault,
        readmit::{Outcome, Which, readmit},
        store::Kept,
    },
    telemetry,
};
use furrow_protocol::{
    batch::{Ext, MAX_EXT_BYTES, MAX_EXTS, MAX_FIXES},
    down::RefusedReason,
    frame::{Device, Digest, Frame},
};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};

use super::rig::{Answers, Rig, Sent, Signer, batch};

const EPOCH: u64 = 0x8000_0000_0000_0001;

/// Delivers one odd payload between two good ones, as one group: they are stored and acked.
async fn beside(rig: &Rig, good: &Signer, odd: Sent) -> Answers {
    let chain = good.chain(EPOCH, 2, rig.now_ms() - 60_000);
    let sent: Vec<Sent> = vec![good.sends(&chain[0]), odd, good.sends(&chain[1])];
    let answers = rig.deliver(&sent).await;
    assert!(answers.acked.contains(&(EPOCH, 1)) && answers.acked.contains(&(EPOCH, 2)));
    assert!(answers.settled.contains(&0) && answers.settled.contains(&2));
    let places: Vec<_> = rig.stored().await.into_iter().map(|s| (s.0, s.2)).collect();
    let number = good.number.0.cast_signed();
    assert!(places.contains(&(number, 1)) && places.contains(&(number, 2)));
    answers
}

/// What must come of an odd payload: quarantine with this reason, and this answer.
async fn ends_in_quarantine(
    rig: &Rig,
    good: &Signer,
    odd: Sent,
    reason: &str,
    refused: RefusedReason,
    link: bool,
) {
    let answers = beside(rig, good, odd.clone()).await;
    assert!(answers.settled.contains(&1), "{reason}: the window moves");
    assert_eq!(
        answers.refused.get(&odd.digest()),
        Some(&refused),
        "{reason}"
    );
    let kept = rig.quarantined().await;
    assert_eq!(kept, [(reason.to_owned(), odd.payload.to_vec(), link)]);
    assert_eq!(rig.stored().await.len(), 2, "{reason}: only the good ones");
    assert!(rig.contradictions().await.is_empty());
}

#[tokio::test]
async fn a_forged_signature_ends_in_quarantine() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    let mut frame = other.chain(5, 1, rig.now_ms() - 60_000).remove(0);
    frame.signature[7] ^= 1;
    let odd = other.sends(&frame);
    ends_in_quarantine(
        &rig,
        &good,
        odd,
        "bad_signature",
        RefusedReason::BadSignature,
        false,
    )
    .await;
}

#[tokio::test]
async fn an_altered_fix_ends_in_quarantine() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    let honest = other.chain(5, 1, rig.now_ms() - 60_000).remove(0);
    let mut moved = batch(rig.now_ms() - 50_000, 10);
    moved.fixes[3].lat_e7 += 1;
    let mut altered = honest.clone();
    altered.batch = moved.encode().unwrap();
    let odd = other.sends(&altered);
    ends_in_quarantine(
        &rig,
        &good,
        odd,
        "bad_signature",
        RefusedReason::BadSignature,
        false,
    )
    .await;
}

#[tokio::test]
async fn a_frame_of_another_device_ends_in_quarantine_of_who_sent_it() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    // Signed well, but as device 1 and sent by device 2.
    let stolen = good.chain(77, 1, rig.now_ms() - 60_000).remove(0);
    let odd = Sent {
        device: other.number,
        payload: stolen.to_bytes().into(),
    };
    ends_in_quarantine(
        &rig,
        &good,
        odd,
        "bad_signature",
        RefusedReason::BadSignature,
        false,
    )
    .await;
}

#[tokio::test]
async fn a_device_that_nobody_knows_ends_in_quarantine() {
    let (good, stranger) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good]).await;
    let odd = stranger.sends(&stranger.chain(5, 1, rig.now_ms() - 60_000)[0]);
    ends_in_quarantine(
        &rig,
        &good,
        odd,
        "unknown_device",
        RefusedReason::Revoked,
        false,
    )
    .await;
}

#[tokio::test]
async fn a_revoked_device_ends_in_quarantine_and_its_own_hand_stays_a_link() {
    let (good, gone) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &gone]).await;
    rig.revoke(&gone);
    let odd = gone.sends(&gone.chain(5, 1, rig.now_ms() - 60_000)[0]);
    ends_in_quarantine(&rig, &good, odd, "revoked", RefusedReason::Revoked, true).await;
}

#[tokio::test]
async fn an_unknown_version_ends_in_quarantine_and_is_never_misread() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    let mut bytes = other.chain(5, 1, rig.now_ms() - 60_000)[0].to_bytes();
    bytes[0] = 200;
    let odd = Sent {
        device: other.number,
        payload: bytes.into(),
    };
    ends_in_quarantine(
        &rig,
        &good,
        odd,
        "unknown_version",
        RefusedReason::UnknownVersion,
        false,
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_decoded_ends_in_quarantine_whole() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let sound = other.chain(5, 1, 1_000_000)[0].to_bytes();
    let mut cut = sound.clone();
    cut.truncate(90);
    let garbage = vec![0xff; 5000];
    let no_batch = Frame::sign(
        &other.key,
        other.number,
        5,
        1,
        other.genesis(5),
        vec![0xfe; 30],
    );
    let rig = Rig::new(&[&good, &other]).await;
    for bytes in [vec![], vec![1], cut, garbage, no_batch.to_bytes()] {
        rig.wipe().await;
        let odd = Sent {
            device: other.number,
            payload: bytes.into(),
        };
        let version = odd.payload.first().copied().unwrap_or(1);
        let (reason, refused) = if version == 1 {
            ("undecodable", RefusedReason::Undecodable)
        } else {
            ("unknown_version", RefusedReason::UnknownVersion)
        };
        ends_in_quarantine(&rig, &good, odd, reason, refused, false).await;
    }
}

#[tokio::test]
async fn absurd_times_end_in_quarantine_with_their_link() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    let year_145_million = 4_575_000_000_000_000_000;
    // The last second of the last year that calendars have.
    let end_of_9999 = 253_402_300_799_000;
    for (from_now, absolute) in [
        (None, Some(0)),
        (None, Some(-1)),
        (None, Some(year_145_million)),
        (None, Some(-year_145_million)),
        (None, Some(i64::MAX - 9000)),
        (None, Some(end_of_9999)),
        (None, Some(-62_135_596_801_000)),
        (None, Some(i64::MIN)),
        (Some(TimeDelta::days(400)), None),
        (Some(TimeDelta::days(-400)), None),
    ] {
        rig.wipe().await;
        let at_ms = absolute
            .unwrap_or_else(|| rig.now_ms() + from_now.unwrap_or_default().num_milliseconds());
        let odd = other.sends(&other.frame(5, 1, other.genesis(5), at_ms));
        let (reason, refused) = if at_ms > rig.now_ms() {
            ("ahead", RefusedReason::Ahead)
        } else {
            ("too_old", RefusedReason::TooOld)
        };
        ends_in_quarantine(&rig, &good, odd, reason, refused, true).await;
    }
}

#[tokio::test]
async fn the_bounds_of_time_are_exact_to_the_millisecond() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let (ahead, back) = (TimeDelta::minutes(5), TimeDelta::days(97));
    for (first_ms, fixes, kept) in [
        (-back.num_milliseconds() - 1, 1, false),
        (-back.num_milliseconds(), 1, true),
        (ahead.num_milliseconds(), 1, true),
        (ahead.num_milliseconds() + 1, 1, false),
        // Ten fixes of a second each: the last one decides.
        (ahead.num_milliseconds() - 9000, 10, true),
        (ahead.num_milliseconds() - 8999, 10, false),
    ] {
        rig.wipe().await;
        let content = batch(rig.now_ms() + first_ms, fixes);
        let frame = device.sign(5, 1, device.genesis(5), &content);
        rig.deliver(&[device.sends(&frame)]).await;
        assert_eq!(rig.stored().await.len() == 1, kept, "{first_ms}");
        assert_eq!(rig.quarantined().await.is_empty(), kept, "{first_ms}");
    }
}

#[tokio::test]
async fn a_batch_without_a_fix_and_the_largest_one_are_stored() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    let mut largest = batch(rig.now_ms() - 3_600_000, i64::try_from(MAX_FIXES).unwrap());
    largest.ext = (0..MAX_EXTS)
        .map(|tag| Ext {
            tag: u16::try_from(tag).unwrap(),
            bytes: vec![7; MAX_EXT_BYTES],
        })
        .collect();
    let first = other.sign(5, 1, other.genesis(5), &batch(rig.now_ms() - 7_200_000, 0));
    let second = other.sign(5, 2, first.digest(other.number), &largest);
    beside(&rig, &good, other.sends(&first)).await;
    let answers = rig.deliver(&[other.sends(&second)]).await;
    assert!(answers.acked.contains(&(5, 2)));
    assert_eq!(rig.stored().await.len(), 4);
    assert!(rig.contradictions().await.is_empty());
    let fixes = "select sum(fixes)::bigint from track_frames where device = 2";
    assert_eq!(rig.count(fixes).await, 600);
}

#[tokio::test]
async fn a_replayed_frame_is_acked_again_and_stored_once() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    let frame = other.chain(5, 1, rig.now_ms() - 60_000).remove(0);
    // Twice in one group, and again in another.
    let answers = rig
        .deliver(&[other.sends(&frame), other.sends(&frame)])
        .await;
    assert_eq!(answers.settled.len(), 2);
    let answers = beside(&rig, &good, other.sends(&frame)).await;
    assert!(answers.acked.contains(&(5, 1)));
    assert_eq!(rig.stored().await.len(), 3);
    assert!(rig.contradictions().await.is_empty());
    assert!(rig.quarantined().await.is_empty());
}

#[tokio::test]
async fn other_bytes_for_a_place_are_kept_whole_as_a_contradiction_and_acked() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    for same_group in [false, true] {
        rig.wipe().await;
        let begin = rig.now_ms() - 60_000;
        let first = other.frame(5, 1, other.genesis(5), begin);
        let second = other.frame(5, 1, other.genesis(5), begin + 1);
        let sent = [other.sends(&first), other.sends(&second)];
        if same_group {
            let answers = rig.deliver(&sent).await;
            assert_eq!(answers.settled.len(), 2);
        } else {
            rig.deliver(&sent[..1]).await;
            let answers = beside(&rig, &good, sent[1].clone()).await;
            assert!(answers.acked.contains(&(5, 1)), "the device may go on");
        }
        let rows = rig.stored().await;
        let kept = rows.iter().find(|r| r.0 == 2).unwrap();
        assert_eq!(kept.3, first.to_bytes(), "the first one stands");
        let found = rig.contradictions().await;
        assert_eq!(found, [(2, 5, 1, "other_bytes".to_owned())]);
        let whole: Vec<u8> = sqlx::query_scalar("select frame from contradictions")
            .fetch_one(&rig.world.pool)
            .await
            .unwrap();
        assert_eq!(whole, second.to_bytes());
        // Sent once more it is the same contradiction.
        rig.deliver(&sent[1..]).await;
        assert_eq!(rig.contradictions().await.len(), 1);
    }
}

#[tokio::test]
async fn the_same_place_on_another_day_is_a_contradiction_too() {
    let other = Signer::new(2);
    let rig = Rig::new(&[&other]).await;
    let begin = rig.now_ms() - 60_000;
    let day_ms = 86_400_000;
    let first = other.frame(5, 1, other.genesis(5), begin);
    let second = other.frame(5, 1, other.genesis(5), begin - 3 * day_ms);
    rig.deliver(&[other.sends(&first)]).await;
    let answers = rig.deliver(&[other.sends(&second)]).await;
    assert!(answers.acked.contains(&(5, 1)));
    assert_eq!(rig.stored().await.len(), 1);
    let found = rig.contradictions().await;
    assert_eq!(found, [(2, 5, 1, "other_bytes".to_owned())]);
}

#[tokio::test]
async fn a_quarantine_keeps_its_share_and_beyond_it_nothing_is_answered() {
    let (good, flood) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &flood]).await;
    sqlx::query("insert into quarantine_shares (device, frames, bytes) values (2, 9999, 0), (3, 0, 9999990)")
        .execute(&rig.world.pool)
        .await
        .unwrap();
    let payload = |device: u32, byte: u8| Sent {
        device: Device(device),
        payload: vec![byte; 11].into(),
    };
    // The last free place of device 2, then none; device 3 has frames left, but no bytes.
    let sent = [payload(2, 9), payload(2, 8), payload(3, 9), payload(2, 9)];
    let answers = rig.deliver(&sent).await;
    let (one, other) = (answers.settled.contains(&0), answers.settled.contains(&1));
    assert!(one != other, "one of the two fits: {answers:?}");
    assert!(!answers.settled.contains(&2));
    assert_eq!(rig.quarantined().await.len(), 1);
    let chain = good.chain(EPOCH, 1, rig.now_ms() - 60_000);
    assert_eq!(rig.deliver(&[good.sends(&chain[0])]).await.settled.len(), 1);
}

#[tokio::test]
async fn outcomes_are_counted_by_their_names() {
    let metrics = telemetry::metrics().unwrap();
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let begin = rig.now_ms() - 60_000;
    let chain = device.chain(5, 2, begin);
    let other = device.frame(5, 1, device.genesis(5), begin);
    let ahead = device.frame(5, 9, Digest([0; 16]), begin + 86_400_000);
    let mut forged = chain[0].clone();
    forged.signature[0] ^= 1;
    let all = [&chain[0], &chain[0], &other, &ahead, &forged];
    let sent: Vec<Sent> = all.into_iter().map(|f| device.sends(f)).collect();
    rig.deliver(&sent).await;
    let text = metrics.render();
    for outcome in ["stored", "known", "contradiction", "ahead", "bad_signature"] {
        let line = format!("furrow_ingest_frames_total{{outcome=\"{outcome}\"}} 1");
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn no_bytes_whatever_make_ingest_lose_their_neighbours() {
    let (good, other) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &other]).await;
    let sound = other.chain(5, 1, rig.now_ms() - 60_000)[0].to_bytes();
    let mutated = prop::collection::vec(
        (
            prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            0..400_usize,
        )
            .prop_map(move |(flips, cut)| {
                let mut bytes = sound.clone();
                for (at, byte) in flips {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                bytes.truncate(cut);
                bytes
            }),
        40,
    );
    let mut runner = TestRunner::new(Config::default());
    for seq in 1..=20_u64 {
        let payloads = mutated.new_tree(&mut runner).unwrap().current();
        let mut sent: Vec<Sent> = payloads
            .into_iter()
            .map(|bytes| Sent {
                device: other.number,
                payload: bytes.into(),
            })
            .collect();
        let frame = good.frame(EPOCH, seq * 2, Digest([0; 16]), rig.now_ms() - 60_000);
        sent.insert(sent.len() / 2, good.sends(&frame));
        let answers = rig.deliver(&sent).await;
        assert!(answers.acked.contains(&(EPOCH, seq * 2)));
        assert_eq!(answers.settled.len(), sent.len(), "every one is answered");
    }
}

#[tokio::test]
async fn frames_in_quarantine_are_stored_when_todays_rules_take_them() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let chain = device.chain(5, 3, rig.now_ms() + 3_600_000);
    let mut forged = chain[0].clone();
    forged.signature[0] ^= 1;
    let sent: Vec<Sent> = chain
        .iter()
        .chain([&forged])
        .map(|f| device.sends(f))
        .collect();
    rig.deliver(&sent).await;
    assert_eq!(rig.quarantined().await.len(), 4);
    let mut told = Vec::new();
    let later = rig.clock.now() + TimeDelta::hours(2);
    readmit(&rig.world.pool, &rig.keys, Which::All, later, |one| {
        told.push(one.outcome)
    })
    .await
    .unwrap();
    let stored = Outcome::Left(Kept::Stored);
    let stays = Outcome::Stays(Fault::BadSignature);
    told.sort_by_key(|outcome| outcome.name());
    assert_eq!(told, [stays, stored, stored, stored]);
    assert_eq!(rig.stored().await.len(), 3);
    assert!(rig.contradictions().await.is_empty());
    assert_eq!(rig.quarantined().await.len(), 1);
    let shares = "select frames from quarantine_shares where device = 1";
    assert_eq!(rig.count(shares).await, 1, "its share is given back");
    let mut none = 0;
    let unknown = Which::One(ids::new_id(later));
    readmit(&rig.world.pool, &rig.keys, unknown, later, |_| none += 1)
        .await
        .unwrap();
    assert_eq!(none, 0);
}
