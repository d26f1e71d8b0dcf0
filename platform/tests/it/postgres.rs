//! The private database: made, left behind by a dead parent, taken over, stopped.

use std::{fs, path::Path, process::Command};

use furrow_platform::{config::Database, db, postgres::PrivatePostgres};

use crate::world::wait_until;

fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn count(server: &PrivatePostgres) -> i64 {
    let settings = Database {
        url: server.url("furrow"),
        ..Database::default()
    };
    let pool = db::pool(&settings).unwrap();
    let rows = sqlx::query_scalar("select count(*) from kept")
        .fetch_one(&pool)
        .await
        .unwrap();
    pool.close().await;
    rows
}

async fn setting(server: &PrivatePostgres, name: &str) -> String {
    let settings = Database {
        url: server.url("furrow"),
        ..Database::default()
    };
    let pool = db::pool(&settings).unwrap();
    let value = sqlx::query_scalar("select current_setting($1)")
        .bind(name)
        .fetch_one(&pool)
        .await
        .unwrap();
    pool.close().await;
    value
}

fn kill_at_once(pid: i32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

fn start(folder: &Path) -> PrivatePostgres {
    PrivatePostgres::start(folder).unwrap()
}

#[tokio::test]
async fn a_private_database_is_durable_and_survives_its_parent_its_own_death_and_a_stale_lock() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    for (name, value) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("listen_addresses", "127.0.0.1"),
    ] {
        assert_eq!(setting(&server, name).await, value, "{name}");
    }
    let settings = Database {
        url: server.url("furrow"),
        ..Database::default()
    };
    let pool = db::pool(&settings).unwrap();
    sqlx::raw_sql("create table kept (n int); insert into kept values (1), (2)")
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    let pid = server.pid().unwrap();

    // Its parent is killed: nobody stops the server, and the next start takes it over as it runs.
    std::mem::forget(server);
    let taken = start(folder.path());
    assert_eq!(taken.pid(), Some(pid));
    assert_eq!(count(&taken).await, 2);

    // The server itself is killed: its lock file stays and names a process that is none.
    std::mem::forget(taken);
    kill_at_once(pid);
    wait_until("the killed server is gone", || async { !alive(pid) }).await;
    let again = start(folder.path());
    assert_ne!(again.pid(), Some(pid));
    assert_eq!(count(&again).await, 2);

    // The lock names a process that lives but is no PostgreSQL of this folder.
    let pid = again.pid().unwrap();
    std::mem::forget(again);
    kill_at_once(pid);
    wait_until("the killed server is gone", || async { !alive(pid) }).await;
    let lock = folder.path().join("cluster/postmaster.pid");
    let text = fs::read_to_string(&lock).unwrap();
    let stranger = std::process::id().to_string();
    fs::write(&lock, text.replacen(&pid.to_string(), &stranger, 1)).unwrap();
    let last = start(folder.path());
    assert_eq!(count(&last).await, 2);

    // And it stops with its process.
    let pid = last.pid().unwrap();
    drop(last);
    wait_until("the server is stopped", || async { !alive(pid) }).await;
}

#[tokio::test]
async fn a_folder_behind_a_closed_one_keeps_its_data_elsewhere_and_opens_nothing() {
    use std::os::unix::fs::PermissionsExt as _;

    let closed = tempfile::tempdir().unwrap();
    let mode = || fs::metadata(closed.path()).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let folder = closed.path().join("data");
    let first = start(&folder);
    let pid = first.pid().unwrap();
    assert_eq!(mode(), 0o700, "the folder above is left as it is");
    std::mem::forget(first);
    let second = start(&folder);
    assert_eq!(second.pid(), Some(pid), "the same data are found again");
    drop(second);
    // Only root has to go elsewhere.
    if let Ok(elsewhere) = folder.join("elsewhere").canonicalize() {
        fs::remove_dir_all(elsewhere).unwrap();
    }
}
