//! The database goes away and comes back while devices send.

use std::time::Duration;

use e2e::{
    database::Database,
    devices,
    mqtt::Session,
    platform::{Options, Platform, get},
    postgres::Postgres,
    wait::until,
};
use furrow_protocol::{down::Down, frame::Frame};

use crate::world::{PATIENCE, chain_until_now, folder};

#[test]
fn a_database_that_is_killed_costs_no_frame_and_nothing_is_acked_while_it_is_away() {
    let folder = folder();
    let mut postgres = Postgres::start(&folder.path().join("postgres")).unwrap();
    let url = postgres.url("furrow");
    let mut platform = Platform::start(folder.path(), &url, &Options::default()).unwrap();
    let database = Database::at(&url).unwrap();
    let made = database.wait(devices::forge(database.pool(), 1));
    let forged = made.unwrap().remove(0);
    let mut chain = chain_until_now(&forged, 1, 40);
    let frames: Vec<Frame> = (0..40).map(|_| chain.step()).collect();
    let mut session = Session::open(platform.mqtt, forged.device.0, &forged.token).unwrap();

    let (before, rest) = frames.split_at(10);
    let (during, after) = rest.split_at(20);
    let send = |session: &mut Session, part: &[Frame]| {
        part.iter()
            .for_each(|f| drop(session.publish(&f.to_bytes())));
    };
    send(&mut session, before);
    hear(&mut session, 10);
    postgres.kill();
    send(&mut session, during);
    // What is acked now would be acked without a commit.
    assert_eq!(session.next_down(Duration::from_secs(2)).unwrap(), None);
    let unready = || {
        get(&format!("http://{}/readyz", platform.http))
            .ok()
            .filter(|answer| answer.0 == 503)
    };
    until("the platform says that it is not ready", PATIENCE, unready).unwrap();
    postgres.restart().unwrap();
    // The session has lived on: each frame is acked without being sent again.
    hear(&mut session, 20);
    send(&mut session, after);
    hear(&mut session, 10);
    platform.wait_ready().unwrap();
    assert_eq!(database.frames_of(forged.device.0).unwrap(), 40);
    assert!(platform.ended().is_none());
}

/// Waits for the acks of so many frames.
fn hear(session: &mut Session, frames: u64) {
    let mut acked = 0;
    while acked < frames {
        match session.next_down(PATIENCE).unwrap() {
            Some(Down::Ack { ranges, .. }) => {
                acked += ranges.iter().map(|(a, b)| b - a + 1).sum::<u64>();
            }
            other => panic!("{acked} of {frames} acked, then {other:?}"),
        }
    }
    assert_eq!(acked, frames);
}
