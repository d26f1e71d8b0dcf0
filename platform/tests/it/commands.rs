//! The program itself: what it prints, how it ends.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
};

use furrow_platform::db;

use crate::world::{PATIENCE, World};

/// Not left behind if a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn furrow(world: &World) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_furrow"));
    command
        .env("FURROW__DATABASE__URL", &world.settings.database.url)
        .env("FURROW__DATA_DIR", &world.settings.data_dir)
        .env("FURROW__HTTP__LISTEN", "127.0.0.1:0")
        .env("FURROW__MQTT__LISTEN", "127.0.0.1:0");
    command
}

fn run(world: &World, args: &[&str]) -> Output {
    furrow(world).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(all).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_new_database_is_refused_until_it_is_migrated() {
    let world = World::bare().await;
    for command in ["check", "serve"] {
        let refused = run(&world, &[command]);
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(
            said(&refused).contains("furrow migrate"),
            "{}",
            said(&refused)
        );
    }
    let first = run(&world, &["migrate"]);
    assert!(first.status.success(), "{}", said(&first));
    assert!(!said(&first).starts_with("0 "), "{}", said(&first));
    assert!(said(&run(&world, &["migrate"])).starts_with("0 "));
    let checked = run(&world, &["check"]);
    assert!(checked.status.success(), "{}", said(&checked));
}

#[tokio::test]
async fn a_code_is_printed_with_the_authority_that_it_pins_and_devices_are_listed_and_revoked() {
    let world = World::new().await;
    let args = [
        "device",
        "enroll-code",
        "--new-machine",
        "Deutz 7250",
        "--width",
        "3.5",
        "--type",
        "tractor",
        "--json",
    ];
    let made = json(&run(&world, &args));
    let code = made["code"].as_str().unwrap();
    let (code, pin) = code.split_once('#').unwrap();
    assert_eq!((code.len(), pin.len()), (19, 64));
    let again = json(&run(&world, &args));
    assert!(
        again["code"].as_str().unwrap().ends_with(pin),
        "the authority is made once"
    );
    let machine = made["machine"].as_str().unwrap();
    let known = run(&world, &["device", "enroll-code", "--machine", machine]);
    assert!(known.status.success(), "{}", said(&known));
    let unknown = uuid::Uuid::nil().to_string();
    let refused = run(&world, &["device", "enroll-code", "--machine", &unknown]);
    assert_eq!(refused.status.code(), Some(1));

    assert_eq!(
        json(&run(&world, &["device", "list", "--json"])),
        serde_json::json!([])
    );
    let none = run(&world, &["device", "revoke", "1", "--reason", "stolen"]);
    assert_eq!(none.status.code(), Some(1), "{}", said(&none));
    let codes: i64 = sqlx::query_scalar("select count(*) from enrolment_codes")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert_eq!(codes, 3);
}

#[tokio::test]
async fn secrets_on_disk_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new().await;
    let _platform = world.platform().await;
    let folder = world.settings.data_dir.join("authority");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&folder) & 0o777, 0o700);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o777, 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn wrong_settings_end_the_program_with_their_name() {
    let world = World::bare().await;
    let file = world.settings.data_dir.join("furrow.toml");
    std::fs::write(&file, "[http]\nlissten = 1\n").unwrap();
    let refused = run(&world, &["check", "--config", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let text = said(&refused);
    assert!(
        text.contains("furrow.toml") && text.contains("lissten"),
        "{text}"
    );

    let refused = furrow(&world)
        .env("FURROW__INGEST__WRITERZ", "2")
        .arg("check")
        .output()
        .unwrap();
    assert!(
        said(&refused).contains("FURROW__INGEST__WRITERZ"),
        "{}",
        said(&refused)
    );

    let away = furrow(&world)
        .env(
            "FURROW__DATABASE__URL",
            "postgres://furrow@127.0.0.1:1/none",
        )
        .arg("check")
        .output()
        .unwrap();
    assert_eq!(away.status.code(), Some(1));
    assert!(said(&away).contains("database.url"), "{}", said(&away));
}

#[tokio::test]
async fn a_serving_program_says_where_it_is_and_ends_with_success_when_told_to_stop() {
    let world = World::bare().await;
    db::migrate(&world.pool).await.unwrap();
    let mut child = furrow(&world)
        .env("FURROW__LOG__FORMAT", "json")
        .arg("serve")
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .unwrap();
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let ready = lines
        .by_ref()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
        .find(|line| line["message"] == "serve.ready")
        .expect("it says that it is ready, or ends");
    let http: std::net::SocketAddr = ready["http"].as_str().unwrap().parse().unwrap();
    let answer = crate::world::ask(http, "GET", "/metrics", &[], "").await;
    assert!(answer.body.contains("furrow_clock_skew_ms"), "{answer:?}");
    let proxied = ["x-forwarded-for: 203.0.113.7"];
    let refused = crate::world::ask(http, "GET", "/metrics", &proxied, "").await;
    assert_eq!(refused.status, 404);

    let told = Command::new("kill").arg(child.0.id().to_string()).status();
    assert!(told.unwrap().success());
    let rest = tokio::task::spawn_blocking(move || {
        let last = lines.map_while(Result::ok).last();
        (last, child.0.wait())
    });
    let (last, status) = tokio::time::timeout(PATIENCE, rest).await.unwrap().unwrap();
    assert!(status.unwrap().success(), "{last:?}");
}

#[tokio::test]
async fn processes_that_begin_at_once_share_one_authority() {
    let world = World::new().await;
    let args = ["device", "enroll-code", "--new-machine", "Deutz", "--json"];
    let all: Vec<Child> = (0..6)
        .map(|_| {
            let mut command = furrow(&world);
            command.args(args).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut pins: Vec<String> = all
        .into_iter()
        .map(|child| {
            let made = json(&child.wait_with_output().unwrap());
            let code = made["code"].as_str().unwrap();
            code.split_once('#').unwrap().1.to_owned()
        })
        .collect();
    pins.dedup();
    assert_eq!(pins.len(), 1, "{pins:?}");
}

#[tokio::test]
async fn frames_in_quarantine_are_listed_and_what_todays_rules_refuse_stays() {
    let world = World::new().await;
    let put = "insert into quarantine (id, device, reason, payload, payload_digest, received_at)
               values (gen_random_uuid(), 7, 'undecodable', '\\x0102', decode(repeat('05', 16), 'hex'), now())";
    sqlx::query(put).execute(&world.pool).await.unwrap();
    let listed = json(&run(&world, &["quarantine", "list", "--json"]));
    assert_eq!(listed[0]["reason"], "undecodable");
    assert_eq!(
        (&listed[0]["device"], &listed[0]["bytes"]),
        (&7.into(), &2.into())
    );
    let none = json(&run(
        &world,
        &["quarantine", "list", "--reason", "ahead", "--json"],
    ));
    assert_eq!(none.as_array().unwrap().len(), 0);
    let again = run(&world, &["quarantine", "readmit"]);
    assert!(again.status.success(), "{}", said(&again));
    // Nobody knows device 7: of it nothing counts, and that is written down.
    assert_eq!(said(&again), "0 stored\n1 stay: unknown_device\n");
    let args = ["quarantine", "list", "--reason", "unknown_device", "--json"];
    assert_eq!(json(&run(&world, &args))[0]["device"], 7);
    let wrong = run(&world, &["quarantine", "list", "--reason", "no_such"]);
    assert!(!wrong.status.success() && said(&wrong).contains("bad_signature"));
    let unknown = "00000000-0000-7000-8000-000000000000";
    let refused = run(&world, &["quarantine", "readmit", "--id", unknown]);
    assert!(!refused.status.success() && said(&refused).contains(unknown));
}
