//! Frames through kills of the platform, by a device that the story plays itself: the moment of the kill can be chosen.

use e2e::{
    journal::{Difference, Frames, Place},
    mqtt::Session,
    wait::until,
};
use furrow_protocol::frame::Frame;

use crate::world::{PATIENCE, World, chain_until_now, deliver};

#[test]
fn a_platform_killed_between_commit_and_ack_stores_nothing_twice() {
    let mut world = World::new();
    let forged = world.forged();
    let (device, token) = (forged.device, forged.token.clone());
    let mut chain = chain_until_now(&forged, 7, 200);
    let frames: Vec<Frame> = (0..200).map(|_| chain.step()).collect();
    let expected: Frames = frames
        .iter()
        .map(|f| {
            let place = Place {
                device: device.0,
                epoch: f.epoch,
                seq: f.seq,
            };
            (place, f.digest(device).0)
        })
        .collect();
    for (round, part) in frames.chunks(40).enumerate() {
        // The device hears no answer: it does not read. Killed when the first row is seen, the
        // platform has committed frames whose acks nobody will ever hear.
        let before = world.database.frames_of(device.0).unwrap();
        let mut session = Session::open(world.platform.mqtt, device.0, &token).unwrap();
        for frame in part {
            session.publish(&frame.to_bytes()).unwrap();
        }
        until("a frame is committed", PATIENCE, || {
            (world.database.frames_of(device.0).unwrap() > before).then_some(())
        })
        .unwrap();
        world.platform.kill();
        drop(session);
        world.platform.serve().unwrap();
        deliver(&world, device.0, &token, part);
        let stored = world.database.frames_of(device.0).unwrap();
        assert_eq!(stored, 40 * (i64::try_from(round).unwrap() + 1));
    }
    let difference = Difference::between(&expected, &world.database.stored().unwrap());
    assert!(
        difference.is_none() && difference.unlisted.is_empty(),
        "{difference:?}"
    );
    let contradictions = "select count(*) from contradictions";
    assert_eq!(world.database.number(contradictions).unwrap(), 0);
}

#[test]
fn frames_sent_twice_are_acked_twice_and_stored_once() {
    let world = World::new();
    let forged = world.forged();
    let mut chain = chain_until_now(&forged, 7, 20);
    let frames: Vec<Frame> = (0..20).map(|_| chain.step()).collect();
    for _ in 0..3 {
        deliver(&world, forged.device.0, &forged.token, &frames);
    }
    assert_eq!(world.database.frames_of(forged.device.0).unwrap(), 20);
    assert_eq!(
        world
            .database
            .number("select count(*) from contradictions")
            .unwrap(),
        0
    );
}
