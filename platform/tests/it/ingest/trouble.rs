//! A database that is away, a partition that is missing, a clock that is wrong: nothing is answered that is not committed.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use furrow_platform::{
    clock::Clock as _,
    db,
    ingest::arrival::{Arrival, Reply},
    telemetry,
};
use furrow_protocol::{down::Down, frame::Device};
use tokio::{sync::mpsc, time::timeout};

use super::rig::{Rig, Sent, Signer, alive, answers, load};
use crate::world::{PATIENCE, wait_until};

#[tokio::test]
async fn while_the_database_is_away_nothing_is_acked_and_it_recovers_by_itself() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let chain = device.chain(5, 4, rig.now_ms() - 60_000);
    let sent: Vec<Sent> = chain.iter().map(|f| device.sends(f)).collect();
    // A table that is locked away, as by a server that does not answer.
    let mut lock = rig.world.pool.begin().await.unwrap();
    sqlx::query("lock table track_epochs in access exclusive mode")
        .execute(&mut *lock)
        .await
        .unwrap();
    let (to, arrivals) = mpsc::channel(64);
    let heard = load(&to, &sent).await;
    let ingest = rig.ingest(rig.world.pool.clone());
    let running = tokio::spawn(ingest.run(arrivals));
    let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    wait_until("ingest waits for the database", || async {
        rig.count(waiting).await > 0
    })
    .await;
    assert!(answers(&heard).settled.is_empty());
    // Its connections are cut: what it was at is not committed.
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and wait_event_type = 'Lock'";
    rig.count(cut).await;
    assert!(answers(&heard).settled.is_empty());
    lock.rollback().await.unwrap();
    wait_until("all are acked", || async {
        answers(&heard).settled.len() == 4
    })
    .await;
    assert_eq!(rig.stored().await.len(), 4);
    drop(to);
    timeout(PATIENCE, running).await.unwrap().unwrap();
}

#[tokio::test]
async fn with_the_database_away_a_bounded_number_of_frames_is_taken() {
    let device = Signer::new(1);
    let mut rig = Rig::new(&[&device]).await;
    rig.settings.group_frames = 2;
    rig.settings.writers = 1;
    rig.settings.verifiers = 1;
    let mut nowhere = rig.world.settings.database.clone();
    nowhere.url = "postgres://furrow@127.0.0.1:1/none".into();
    let pool = db::pool(&nowhere).unwrap();
    let (to, arrivals) = mpsc::channel(4);
    let ingest = rig.ingest(pool);
    assert!(alive(&ingest));
    let running = tokio::spawn(ingest.run(arrivals));
    let chain = device.chain(5, 200, rig.now_ms() - 3_600_000);
    let mut taken = 0;
    for frame in &chain {
        let one = [device.sends(frame)];
        let sent = timeout(Duration::from_millis(300), load(&to, &one)).await;
        if sent.is_err() {
            break;
        }
        taken += 1;
    }
    // The queue, one group at the verifier, the writer's and what waits for it.
    assert!(taken < 20, "{taken} were taken and none stored");
    running.abort();
}

#[tokio::test]
async fn a_partition_that_is_missing_is_made_and_the_frame_stored() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let day = rig.clock.now().date_naive().format("%Y%m%d").to_string();
    let drop_it = format!("drop table track_frames_{day}");
    sqlx::query(sqlx::AssertSqlSafe(drop_it))
        .execute(&rig.world.pool)
        .await
        .unwrap();
    let chain = device.chain(5, 3, rig.now_ms() - 60_000);
    let sent: Vec<Sent> = chain.iter().map(|f| device.sends(f)).collect();
    assert_eq!(rig.deliver(&sent).await.settled.len(), 3);
    assert_eq!(rig.stored().await.len(), 3);
}

#[tokio::test]
async fn a_frame_that_the_database_will_not_have_does_not_hold_up_the_others() {
    let (good, odd) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &odd]).await;
    sqlx::query("alter table track_frames add constraint nobody check (device <> 2)")
        .execute(&rig.world.pool)
        .await
        .unwrap();
    let begin = rig.now_ms() - 600_000;
    let mut sent: Vec<Sent> = good
        .chain(5, 9, begin)
        .iter()
        .map(|f| good.sends(f))
        .collect();
    sent.insert(4, odd.sends(&odd.chain(5, 1, begin)[0]));
    let answers = timeout(PATIENCE, rig.deliver(&sent)).await.unwrap();
    assert_eq!(answers.settled.len(), 9);
    assert!(!answers.settled.contains(&4), "it is not answered");
    assert_eq!(rig.stored().await.len(), 9);
    assert!(rig.contradictions().await.is_empty());
}

#[tokio::test]
async fn if_many_devices_are_ahead_the_platform_distrusts_its_own_clock_and_refuses_none() {
    let devices: Vec<Signer> = (1..=40).map(Signer::new).collect();
    let all: Vec<&Signer> = devices.iter().collect();
    let rig = Rig::new(&all).await;
    let frame = |device: &Signer, ahead: TimeDelta| {
        let at_ms = rig.now_ms() + ahead.num_milliseconds() - 60_000;
        device.sends(&device.frame(5, 1, device.genesis(5), at_ms))
    };
    // One of forty: that one's clock is wrong.
    let mut sent: Vec<Sent> = devices[1..]
        .iter()
        .map(|d| frame(d, TimeDelta::zero()))
        .collect();
    sent.push(frame(&devices[0], TimeDelta::hours(1)));
    let answers = rig.deliver(&sent).await;
    assert_eq!((answers.settled.len(), answers.refused.len()), (40, 1));
    // Three of forty, over 5 %: ours is.
    let mut sent: Vec<Sent> = devices[3..]
        .iter()
        .map(|d| frame(d, TimeDelta::zero()))
        .collect();
    for device in &devices[..3] {
        sent.push(frame(device, TimeDelta::hours(2)));
    }
    let answers = rig.deliver(&sent).await;
    assert_eq!((answers.settled.len(), answers.refused.len()), (37, 0));
    assert_eq!(rig.quarantined().await.len(), 1, "only the one of before");
}

#[tokio::test]
async fn the_alarm_of_the_own_clock_is_raised_and_ends_when_the_clock_is_right() {
    let metrics = telemetry::metrics().unwrap();
    let devices: Vec<Signer> = (1..=5).map(Signer::new).collect();
    let rig = Rig::new(&devices.iter().collect::<Vec<_>>()).await;
    let (to, arrivals) = mpsc::channel(64);
    let running = tokio::spawn(rig.ingest(rig.world.pool.clone()).run(arrivals));
    let at_ms = rig.now_ms() + 3_600_000;
    let of = |device: &Signer| device.sends(&device.frame(5, 1, device.genesis(5), at_ms));
    let sent: Vec<Sent> = devices.iter().map(of).collect();
    let alarm = |value: u8| {
        let line = format!("furrow_ingest_distrusts_own_clock {value}");
        let text = metrics.render();
        async move { text.lines().any(|l| l == line) }
    };
    load(&to, &sent).await;
    wait_until("the alarm is raised", || alarm(1)).await;
    // Somebody sets our clock; the devices send again what was not answered.
    rig.clock.set(rig.clock.now() + TimeDelta::hours(1));
    let heard = load(&to, &sent).await;
    wait_until("all are acked", || async {
        answers(&heard).acked.len() == 1 && answers(&heard).settled.len() == 5
    })
    .await;
    wait_until("the alarm has ended", || alarm(0)).await;
    drop(to);
    timeout(PATIENCE, running).await.unwrap().unwrap();
}

/// A session whose end is a fault of ours.
struct Dies;

impl Reply for Dies {
    fn settle(&self, _: Device, _: &[u64], _: Vec<Down>) {
        panic!("a test lets a writer die");
    }
}

#[tokio::test]
async fn ingest_ends_when_a_writer_dies_so_that_the_process_can_be_started_anew() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let frame = device.chain(5, 1, rig.now_ms() - 60_000).remove(0);
    let (to, arrivals) = mpsc::channel(64);
    let arrival = Arrival {
        device: device.number,
        payload: frame.to_bytes().into(),
        ticket: 1,
        reply: Arc::new(Dies),
    };
    to.send(arrival).await.unwrap();
    // The door stays open: it is not the end of arrivals that ends it.
    let run = rig.ingest(rig.world.pool.clone()).run(arrivals);
    timeout(PATIENCE, run).await.unwrap();
    assert_eq!(rig.stored().await.len(), 1, "what was committed stays so");
    assert!(to.is_closed());
}

#[tokio::test]
async fn the_same_bad_payloads_at_two_processes_at_once_are_kept_once_and_refused_by_both() {
    let device = Signer::new(1);
    let mut rig = Rig::new(&[&device]).await;
    rig.settings.group_frames = 5;
    let sent: Vec<Sent> = (0..40_u8)
        .map(|byte| Sent {
            device: device.number,
            payload: vec![1, byte].into(),
        })
        .collect();
    let (first, second) = tokio::join!(rig.deliver(&sent), rig.deliver(&sent));
    assert_eq!((first.refused.len(), second.refused.len()), (40, 40));
    assert_eq!(rig.quarantined().await.len(), 40);
    let share = "select frames from quarantine_shares where device = 1 and bytes = 80";
    assert_eq!(rig.count(share).await, 40);
}
