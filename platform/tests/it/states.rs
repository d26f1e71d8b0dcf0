//! What boxes say of themselves, kept for lists.

use std::sync::Arc;

use chrono::TimeDelta;
use furrow_platform::{
    clock::{Clock, ManualClock},
    db::states,
    mqtt,
};
use furrow_protocol::{
    frame::Device,
    state::{Receiver, State},
};
use tokio::sync::mpsc;

use crate::world::{World, now};

fn state(backlog_frames: u64) -> State {
    State {
        agent: "0.1.0".into(),
        boot: u32::MAX,
        uptime_s: u64::MAX,
        epoch: u64::MAX,
        last_seq: u64::MAX,
        backlog_frames,
        backlog_bytes: 0,
        last_fix_ms: Some(i64::MAX),
        quality: 4,
        receiver: Receiver::Fix,
        lost_frames: 3,
        disk_free_bytes: u64::MAX,
        settings_version: u32::MAX,
    }
}

#[tokio::test]
async fn the_last_word_of_each_box_is_kept_and_garbage_is_not() {
    let world = World::new().await;
    let clock = Arc::new(ManualClock::new(now()));
    let (say, said) = mpsc::channel(64);
    let seven = Device(7);
    for (device, bytes) in [
        (seven, state(1).encode().unwrap()),
        (Device(8), state(9).encode().unwrap()),
        (Device(9), vec![1, 2, 3]),
        (seven, state(2).encode().unwrap()),
    ] {
        say.send((device, bytes.into())).await.unwrap();
    }
    drop(say);
    mqtt::health::keep(said, world.pool.clone(), clock.clone()).await;

    let seen = states::seen(&world.pool).await.unwrap();
    assert_eq!(seen.len(), 2);
    let last = seen.get(&7).unwrap();
    assert_eq!((last.backlog_frames, last.lost_frames), (Some(2), Some(3)));
    assert_eq!(last.receiver.as_deref(), Some("fix"));

    // A process that is behind does not put an old word over a newer one.
    clock.set(clock.now() - TimeDelta::minutes(1));
    let (say, said) = mpsc::channel(1);
    say.send((seven, state(5).encode().unwrap().into()))
        .await
        .unwrap();
    drop(say);
    mqtt::health::keep(said, world.pool.clone(), clock).await;
    let seen = states::seen(&world.pool).await.unwrap();
    assert_eq!(seen.get(&7).and_then(|s| s.backlog_frames), Some(2));
}
