//! The platform's commands and settings as an operator meets them.

use std::{fs, process::Command, time::Duration};

use e2e::{binaries, mqtt::Session, platform::Options, program};

use crate::world::{World, chain_until_now, folder};

fn furrow(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(binaries::furrow().unwrap());
    command.args(arguments);
    program::run(command)
}

#[test]
fn an_unknown_key_in_the_settings_is_refused_by_its_name() {
    let folder = folder();
    let file = folder.path().join("furrow.toml");
    fs::write(&file, "[mqtt]\nlisten_on = \"127.0.0.1:1883\"\n").unwrap();
    for command in ["serve", "check", "migrate"] {
        let refused = furrow(&["--config", file.to_str().unwrap(), command]).unwrap_err();
        let said = format!("{refused:#}");
        assert!(said.contains("listen_on"), "{command}: {said}");
    }
}

#[test]
fn an_unknown_variable_of_the_environment_is_refused_by_its_name() {
    let mut command = Command::new(binaries::furrow().unwrap());
    command.arg("check").env("FURROW__MQTT__LISTEN_ON", "x");
    let said = format!("{:#}", program::run(command).unwrap_err());
    assert!(said.to_lowercase().contains("listen_on"), "{said}");
}

#[test]
fn a_platform_does_not_serve_on_a_schema_that_is_behind() {
    let mut world = World::prepared(&Options::default());
    let refused = format!("{:#}", world.platform.serve().unwrap_err());
    assert!(refused.contains("furrow migrate"), "{refused}");
    assert!(world.platform.command(&["check"]).is_err());
    world.platform.migrate().unwrap();
    world.platform.command(&["check"]).unwrap();
}

#[test]
fn term_stores_what_was_received_and_ends_with_zero() {
    let mut world = World::new();
    let forged = world.forged();
    let mut chain = chain_until_now(&forged, 1, 40);
    let mut session = Session::open(world.platform.mqtt, forged.device.0, &forged.token).unwrap();
    for _ in 0..40 {
        session.publish(&chain.step().to_bytes()).unwrap();
    }
    // One is acked: the platform has begun to take them. The others may be anywhere.
    session.next_down(Duration::from_secs(10)).unwrap().unwrap();
    let status = world.platform.terminate(Duration::from_secs(25)).unwrap();
    assert_eq!(status.code(), Some(0), "{}", world.platform.last_words());
    let acked = session_acks(&mut session) + 1;
    let stored = world.database.frames_of(forged.device.0).unwrap();
    assert!(stored >= acked, "{acked} were acked, {stored} are stored");
    assert!(stored >= 1);
}

/// Ack messages until the server's end of the connection.
fn session_acks(session: &mut Session) -> i64 {
    let mut acks = 0;
    while let Ok(Some(_)) = session.next_down(Duration::from_secs(1)) {
        acks += 1;
    }
    acks
}
