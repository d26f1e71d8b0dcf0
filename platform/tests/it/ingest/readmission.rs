//! Frames in quarantine that are judged again: at the command, and by a newer platform at its start.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use furrow_platform::{
    clock::{Clock as _, ManualClock, SystemClock},
    db::{frames::Place, quarantine},
    ids,
    ingest::{
        fault::Fault,
        readmit::{Outcome, Readmitted, Which, readmit},
        store::Kept,
    },
};
use furrow_protocol::frame::{Digest, Frame};

use super::rig::{Rig, Sent, Signer};
use crate::world::{World, wait_until};

/// Puts a payload into quarantine as an older platform would have.
async fn put(world: &World, sent: &Sent, reason: &'static str) {
    let new = quarantine::NewQuarantine {
        device: sent.device.0,
        reason,
        payload: sent.payload.clone(),
        payload_digest: sent.digest().0,
        link: None,
    };
    let mut tx = world.pool.begin().await.unwrap();
    let kept = quarantine::insert(&mut tx, &[new], SystemClock.now()).await;
    assert_eq!(kept.unwrap(), [true]);
    tx.commit().await.unwrap();
}

async fn again(rig: &Rig, which: Which, now: DateTime<Utc>) -> Vec<Readmitted> {
    let mut told = Vec::new();
    readmit(&rig.world.pool, &rig.keys, which, now, |one| told.push(one))
        .await
        .unwrap();
    told
}

async fn outcomes(rig: &Rig, which: Which) -> Vec<&'static str> {
    let told = again(rig, which, rig.clock.now()).await;
    told.iter().map(|one| one.outcome.name()).collect()
}

#[tokio::test]
async fn a_newer_platform_reads_frames_of_unknown_versions_again_at_its_start() {
    let world = World::new().await;
    let device = Signer::new(1);
    sqlx::query(
        "insert into devices (public_key, token_hash, enrolled_at, changed_at, enrolment_request)
         values ($1, $1, now(), now(), '')",
    )
    .bind(&device.key.verifying_key().to_bytes()[..])
    .execute(&world.pool)
    .await
    .unwrap();
    let now_ms = SystemClock.now().timestamp_millis();
    let chain = device.chain(5, 3, now_ms - 60_000);
    // Of version 1 all three; the platform that kept the first and the last did not know it.
    put(&world, &device.sends(&chain[0]), "unknown_version").await;
    put(&world, &device.sends(&chain[1]), "too_old").await;
    put(&world, &device.sends(&chain[2]), "unknown_version").await;
    let mut newer = chain[0].to_bytes();
    newer[0] = 9;
    let newer = Sent {
        device: device.number,
        payload: newer.into(),
    };
    put(&world, &newer, "unknown_version").await;
    let _platform = world.platform().await;
    let seqs = || async {
        sqlx::query_scalar::<_, i64>("select seq from track_frames order by seq")
            .fetch_all(&world.pool)
            .await
            .unwrap()
    };
    wait_until("both are stored", || async { seqs().await == [1, 3] }).await;
    let left = || async {
        let rows = quarantine::list(&world.pool, None, 10).await.unwrap();
        rows.into_iter().map(|row| row.reason).collect::<Vec<_>>()
    };
    wait_until("both have left", || async {
        left().await == ["too_old", "unknown_version"]
    })
    .await;
}

#[tokio::test]
async fn what_leaves_is_told_as_what_it_is_kept_from_then_on() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let chain = device.chain(5, 2, rig.now_ms() - 60_000);
    let twin = device.frame(5, 1, chain[0].prev, rig.now_ms() - 49_000);
    rig.deliver(&[device.sends(&chain[0])]).await;
    for frame in [&chain[0], &twin, &chain[1]] {
        put(&rig.world, &device.sends(frame), "undecodable").await;
    }
    let told = outcomes(&rig, Which::Reason(Fault::Undecodable)).await;
    assert_eq!(told, ["known", "contradiction", "stored"]);
    assert!(rig.quarantined().await.is_empty());
    assert_eq!(rig.stored().await.len(), 2);
    // The second denies the twin of the first.
    let found: Vec<_> = rig
        .contradictions()
        .await
        .into_iter()
        .map(|c| (c.2, c.3))
        .collect();
    assert_eq!(
        found,
        [(1, "other_bytes".into()), (2, "broken_link".into())]
    );
}

#[tokio::test]
async fn what_stays_gets_the_reason_and_the_link_of_today() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let first = device.chain(5, 1, rig.now_ms() - 60_000).remove(0);
    let late = device.frame(5, 2, Digest([7; 16]), rig.now_ms() - 98 * 86_400_000);
    rig.deliver(&[device.sends(&first)]).await;
    put(&rig.world, &device.sends(&late), "unknown_version").await;
    assert_eq!(outcomes(&rig, Which::All).await, ["too_old"]);
    let row = quarantine::list(&rig.world.pool, None, 10)
        .await
        .unwrap()
        .remove(0);
    let place = Place {
        device: 1,
        epoch: 5,
        seq: 2,
    };
    assert_eq!((row.reason.as_str(), row.place), ("too_old", Some(place)));
    // Only now that it can be read it is known not to follow the first.
    let found = rig.contradictions().await;
    assert_eq!(found, [(1, 5, 2, "broken_link".to_owned())]);
    assert_eq!(outcomes(&rig, Which::All).await, ["too_old"]);
    assert_eq!(rig.contradictions().await.len(), 1);
}

#[tokio::test]
async fn one_that_the_database_will_not_have_stays_and_its_neighbours_leave() {
    let (good, odd) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &odd]).await;
    sqlx::query("alter table track_frames add constraint nobody check (device <> 2)")
        .execute(&rig.world.pool)
        .await
        .unwrap();
    let frames: Vec<Frame> = good.chain(5, 2, rig.now_ms() - 60_000);
    let other = odd.chain(5, 1, rig.now_ms() - 60_000).remove(0);
    put(&rig.world, &good.sends(&frames[0]), "ahead").await;
    put(&rig.world, &odd.sends(&other), "ahead").await;
    put(&rig.world, &good.sends(&frames[1]), "ahead").await;
    assert_eq!(
        outcomes(&rig, Which::All).await,
        ["stored", "not_stored", "stored"]
    );
    assert_eq!(rig.quarantined().await.len(), 1);
}

#[tokio::test]
async fn one_alone_is_chosen_by_its_id_and_reasons_by_their_name() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let chain = device.chain(5, 3, rig.now_ms() - 60_000);
    for (frame, reason) in chain.iter().zip(["ahead", "too_old", "ahead"]) {
        put(&rig.world, &device.sends(frame), reason).await;
    }
    let rows = quarantine::list(&rig.world.pool, Some("ahead"), 10)
        .await
        .unwrap();
    let id = rows[1].id;
    let told = again(&rig, Which::One(id), rig.clock.now()).await;
    let expected = Readmitted {
        id,
        device: 1,
        outcome: Outcome::Left(Kept::Stored),
    };
    assert_eq!(told, [expected]);
    assert_eq!(
        outcomes(&rig, Which::Reason(Fault::TooOld)).await,
        ["stored"]
    );
    assert_eq!(outcomes(&rig, Which::Reason(Fault::TooOld)).await, [""; 0]);
    let unknown = Which::One(ids::new_id(rig.clock.now()));
    assert!(again(&rig, unknown, rig.clock.now()).await.is_empty());
    let places: Vec<i64> = rig.stored().await.into_iter().map(|row| row.2).collect();
    assert_eq!(places, [2, 3]);
}

#[tokio::test]
async fn what_was_ahead_is_taken_when_its_time_has_come() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let clock: &Arc<ManualClock> = &rig.clock;
    let frame = device.frame(5, 1, device.genesis(5), rig.now_ms() + 3_600_000);
    rig.deliver(&[device.sends(&frame)]).await;
    assert_eq!(outcomes(&rig, Which::All).await, ["ahead"]);
    clock.set(clock.now() + TimeDelta::hours(1));
    assert_eq!(outcomes(&rig, Which::All).await, ["stored"]);
    let shares = "select frames + bytes from quarantine_shares where device = 1";
    assert_eq!(rig.count(shares).await, 0, "its share is given back");
}
