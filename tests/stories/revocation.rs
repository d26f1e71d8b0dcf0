//! A revoked device: its session ends, it does not come in again, and what it sent meanwhile is no track.

use std::time::{Duration, Instant};

use e2e::{mqtt::Session, platform::Options};

use crate::world::{World, chain_until_now};

/// telemetry.md, section 4; and a little for a busy machine.
const BAR: Duration = Duration::from_secs(30 + 5);

#[test]
fn a_revoked_device_stops_within_30_s_and_its_later_frames_go_to_quarantine() {
    let world = World::with(&Options::default());
    let (bad, good) = (world.forged(), world.forged());
    let mut bad_chain = chain_until_now(&bad, 1, 2000);
    let mut good_chain = chain_until_now(&good, 1, 2000);
    let open = |d: &e2e::devices::Forged| Session::open(world.platform.mqtt, d.device.0, &d.token);
    let (mut sends, mut stays) = (open(&bad).unwrap(), open(&good).unwrap());
    sends.publish(&bad_chain.step().to_bytes()).unwrap();
    assert!(sends.next_down(Duration::from_secs(10)).unwrap().is_some());

    let number = bad.device.to_string();
    world
        .platform
        .command(&["device", "revoke", &number, "--reason", "stolen"])
        .unwrap();
    let revoked = Instant::now();
    // It goes on sending, twice a second, until it is thrown out.
    let ended = loop {
        assert!(
            revoked.elapsed() < BAR,
            "the session of a revoked device still stands"
        );
        let sent = sends.publish(&bad_chain.step().to_bytes());
        if sent.is_err() || sends.next_down(Duration::from_millis(500)).is_err() {
            break revoked.elapsed();
        }
    };
    assert!(ended < BAR);
    let refused = format!("{:#}", open(&bad).err().unwrap());
    assert!(refused.contains("ConnAck(5)"), "{refused}");

    let stored = world.database.frames_of(bad.device.0).unwrap();
    let quarantined = world.database.quarantined(bad.device.0).unwrap();
    assert!(stored >= 1);
    // Frames that came after the revocation was felt; none if the session ended at that moment.
    assert!(
        quarantined.keys().all(|reason| reason == "revoked"),
        "{quarantined:?}"
    );
    // The neighbour has noticed nothing.
    stays.publish(&good_chain.step().to_bytes()).unwrap();
    assert!(stays.next_down(Duration::from_secs(10)).unwrap().is_some());
    assert_eq!(world.database.frames_of(good.device.0).unwrap(), 1);
}
