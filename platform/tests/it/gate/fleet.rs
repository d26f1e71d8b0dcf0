//! A whole platform behind an outside broker: from a box's frame there to a committed row and its Ack.

use std::fs;

use furrow_platform::{commands::serve, config::Probe, platform::Platform};
use furrow_protocol::{
    batch::Batch,
    down::Down,
    fix::{Fix, Quality, Work, WorkSource},
    frame::{Device, Frame, genesis},
};
use rumqttc::mqttbytes::v4::Packet;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use super::{
    bench::{PATIENCE, down, token, up},
    outside::{Broker, STRICT},
};
use crate::{
    devices::{body, code, enrol, key},
    world::{World, now},
};

/// A world whose platform is to use this broker.
async fn world(broker: &Broker) -> World {
    let mut world = World::new().await;
    let folder = world.settings.data_dir.clone();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let mqtt = &mut world.settings.mqtt;
    mqtt.url = Some(format!("mqtt://{}", broker.address));
    mqtt.username = Some("platform".into());
    mqtt.password_file = Some(file("password", "secret\n"));
    mqtt.probe = Some(Probe {
        device: 60,
        password_file: file("probe", &token(60)),
    });
    world
}

fn batch() -> Batch {
    Batch {
        at_ms: now().timestamp_millis(),
        boot: 1,
        monotonic_ms: 0,
        fixes: vec![Fix {
            at_ms: now().timestamp_millis(),
            lat_e7: 521_000_000,
            lon_e7: 101_000_000,
            speed_cm_s: Some(150),
            course_ddeg: None,
            quality: Quality::RtkFixed,
            satellites: None,
            hdop_x10: None,
            work: Work::Unknown,
            work_source: WorkSource::None,
            width_cm: None,
            sections: None,
        }],
        gaps: Vec::new(),
        former: None,
        ext: Vec::new(),
    }
}

#[tokio::test]
async fn a_frame_sent_to_the_broker_is_committed_and_acknowledged() {
    let Some(broker) = Broker::start(STRICT, "").await else {
        return;
    };
    let world = world(&broker).await;
    let platform = world.platform().await;
    let key = key();
    let answer = enrol(platform.http_addr, &body(&code(&world).await, &key)).await;
    let number = u32::try_from(answer.json()["device"].as_u64().unwrap()).unwrap();
    assert_eq!(
        answer.json()["mqtt_url"],
        format!("mqtt://{}", broker.address)
    );

    let device = Device(number);
    let prev = genesis(device, 9, &key.verifying_key());
    let frame = Frame::sign(&key, device, 9, 1, prev, batch().encode().unwrap());
    let mut client = broker.device(number).await;
    let begin = Instant::now();
    let told = loop {
        assert!(
            begin.elapsed() < PATIENCE,
            "the frame is never acknowledged"
        );
        client.publish(&up(number), 1, frame.to_bytes()).await;
        let next = async {
            loop {
                if let Packet::Publish(publish) = client.next().await {
                    assert_eq!(publish.topic, down(number));
                    return Down::decode(&publish.payload).unwrap();
                }
            }
        };
        if let Ok(told) = timeout(std::time::Duration::from_millis(500), next).await {
            break told;
        }
    };
    let expected = Down::Ack {
        epoch: 9,
        ranges: vec![(1, 1)],
    };
    assert_eq!(told, expected);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(platform.run_until(async {
        let _ = stopped.await;
    }));
    stop.send(()).unwrap();
    timeout(PATIENCE, running).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_platform_refuses_to_serve_behind_a_broker_that_lets_devices_write_down() {
    let loose = format!("{STRICT}pattern readwrite furrow/v1/%u/down\n");
    let Some(broker) = Broker::start(&loose, "").await else {
        return;
    };
    let world = world(&broker).await;
    let refused = Platform::start(&world.settings, None).await.map(|_| ());
    let why = format!("{:#}", refused.unwrap_err());
    assert!(why.contains("may write furrow/v1/60/down"), "{why}");
    let mut said = Vec::new();
    let checked = serve::check(&world.settings, &mut said).await;
    assert!(format!("{:#}", checked.unwrap_err()).contains("may write"));
}

#[tokio::test]
async fn check_says_that_a_strict_broker_is_well() {
    let Some(broker) = Broker::start(STRICT, "").await else {
        return;
    };
    let world = world(&broker).await;
    let mut said = Vec::new();
    serve::check(&world.settings, &mut said).await.unwrap();
    assert!(String::from_utf8_lossy(&said).contains("broker      ok"));
}
