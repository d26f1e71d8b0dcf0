//! What boxes say of themselves, kept for lists.

use std::sync::Arc;

use chrono::TimeDelta;
use furrow_platform::{
    clock::{Clock, ManualClock, SystemClock},
    db::{
        self,
        sessions::{self, NewSession},
        states,
    },
    ids,
    ingest::Committed,
    mqtt::{
        self,
        bus::{Bus, LIVE_FILTER},
        live::Told,
    },
};
use furrow_protocol::{
    batch::Batch,
    fix::{Fix, Quality, Work, WorkSource},
    frame::{Device, Frame},
    state::{Receiver, State},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::world::{PATIENCE, World, now};

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

#[tokio::test]
async fn who_is_there_follows_the_newest_session_and_silence() {
    let world = World::new().await;
    let (here, there) = (ids::new_id(now()), ids::new_id(now()));
    let change = |session, online| NewSession {
        device: 7,
        session,
        online,
        cloned: false,
    };
    let put = async |process, session, online| {
        sessions::put(&world.pool, process, &[change(session, online)], now())
            .await
            .unwrap();
        let seen = states::seen(&world.pool).await.unwrap();
        seen.get(&7).unwrap().clone()
    };
    assert!(put(here, 1, true).await.online(now()));
    assert!(put(there, 1, true).await.online(now()));
    // The first process notices only now that its session is over: the device is elsewhere.
    let seen = put(here, 1, false).await;
    assert!(seen.online(now()));
    assert!(
        !seen.online(now() + TimeDelta::seconds(200)),
        "silent for long"
    );
    assert!(!put(there, 1, false).await.online(now()));

    let cloned = NewSession {
        cloned: true,
        ..change(2, true)
    };
    sessions::put(&world.pool, there, &[cloned], now())
        .await
        .unwrap();
    assert!(put(there, 3, true).await.cloned_at.is_some(), "it is kept");
}

fn frame(device: Device) -> Frame {
    let at_ms = now().timestamp_millis();
    let batch = Batch {
        at_ms,
        boot: 1,
        monotonic_ms: 1,
        fixes: vec![Fix {
            at_ms,
            lat_e7: 321_234_567,
            lon_e7: 1_187_654_321,
            speed_cm_s: Some(250),
            course_ddeg: None,
            quality: Quality::RtkFixed,
            satellites: None,
            hdop_x10: None,
            work: Work::On,
            work_source: WorkSource::Pto,
            width_cm: None,
            sections: None,
        }],
        gaps: vec![],
        former: None,
        ext: vec![],
    };
    let key = furrow_protocol::SigningKey::from_bytes(&ids::secret());
    let genesis = furrow_protocol::frame::genesis(device, 1, &key.verifying_key());
    Frame::sign(&key, device, 1, 1, genesis, batch.encode().unwrap())
}

#[tokio::test]
async fn a_committed_frame_is_told_to_the_bus_under_its_machine() {
    let world = World::new().await;
    let bus = Arc::new(Bus::new().unwrap());
    let machine = ids::new_id(now());
    db::devices::insert_machine(&world.pool, machine, "Deutz", "tractor", 300, now())
        .await
        .unwrap();
    let bind = "insert into devices (public_key, token_hash, enrolled_at, changed_at, enrolment_request)
                values (decode(repeat('07', 32), 'hex'), decode(repeat('07', 32), 'hex'), now(), now(), '')
                returning number";
    let device: i32 = sqlx::query_scalar(bind)
        .fetch_one(&world.pool)
        .await
        .unwrap();
    sqlx::query("insert into device_bindings (id, device, machine_id, during) values ($1, $2, $1, tstzrange($3, null))")
        .bind(machine)
        .bind(device)
        .bind(now() - TimeDelta::days(1))
        .execute(&world.pool)
        .await
        .unwrap();
    let mut listener = bus.listen(&[LIVE_FILTER]).await.unwrap();
    let (live, committed) = tokio::sync::broadcast::channel(16);
    let shutdown = CancellationToken::new();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let telling = tokio::spawn(mqtt::live::positions(
        committed,
        Told::Bus(Arc::clone(&bus)),
        world.pool.clone(),
        clock,
        shutdown.clone(),
    ));
    let frame = frame(Device(device.cast_unsigned()));
    for bytes in [vec![1, 2, 3], frame.to_bytes()] {
        let sent = live.send(Committed {
            device: device.cast_unsigned(),
            frame: bytes.into(),
        });
        assert!(sent.is_ok());
    }
    let told = tokio::time::timeout(PATIENCE, listener.next())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(told.topic, format!("furrow/v1/live/{machine}"));
    let said: serde_json::Value = serde_json::from_slice(&told.payload).unwrap();
    assert_eq!(said["lat"], 32.123_456_7);
    assert_eq!(said["speed_mps"], 2.5);
    assert_eq!(said["quality"], 4);
    shutdown.cancel();
    telling.await.unwrap();
}
