//! A database that is away in every way there is: not there, silent, slow, without its tables. Nothing is answered before it is back, and nothing is asked of anybody to get going again.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use furrow_platform::db::Pool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

use super::rig::{Heard, Rig, Sent, Signer, answers, load};
use crate::world::{PATIENCE, loopback, wait_until};

/// A device, a rig, and four frames on their way to an ingest over this pool.
struct Waiting {
    rig: Rig,
    heard: Arc<Heard>,
    to: mpsc::Sender<furrow_platform::ingest::arrival::Arrival>,
    running: JoinHandle<()>,
}

impl Waiting {
    async fn begin(rig: Rig, device: &Signer, pool: Pool) -> Self {
        let chain = device.chain(5, 4, rig.now_ms() - 60_000);
        let sent: Vec<Sent> = chain.iter().map(|f| device.sends(f)).collect();
        let (to, arrivals) = mpsc::channel(64);
        let heard = load(&to, &sent).await;
        let running = tokio::spawn(rig.ingest(pool).run(arrivals));
        Self {
            rig,
            heard,
            to,
            running,
        }
    }

    fn fails(&self) -> bool {
        self.rig.failing_since.load(Ordering::Relaxed) != 0
    }

    async fn until_it_fails(&self) {
        wait_until("ingest says that it fails", || async { self.fails() }).await;
        assert!(answers(&self.heard).settled.is_empty());
    }

    async fn until_it_is_well(self) {
        wait_until("all are acked", || async {
            answers(&self.heard).settled.len() == 4
        })
        .await;
        assert_eq!(self.rig.stored().await.len(), 4);
        wait_until("it fails no more", || async { !self.fails() }).await;
        drop(self.to);
        timeout(PATIENCE, self.running).await.unwrap().unwrap();
    }
}

async fn run(rig: &Rig, sql: &'static str) {
    sqlx::query(sql).execute(&rig.world.pool).await.unwrap();
}

/// Statements that wait for a lock.
const WAITING: &str = "select count(*) from pg_stat_activity
                       where datname = current_database() and wait_event_type = 'Lock'";

/// Locks away what every group begins with.
async fn lock_up(pool: &Pool) -> sqlx::Transaction<'static, sqlx::Postgres> {
    let mut lock = pool.begin().await.unwrap();
    sqlx::query("lock table track_epochs in access exclusive mode")
        .execute(&mut *lock)
        .await
        .unwrap();
    lock
}

/// The world's database by way of another address, asked for no longer than a moment.
fn pool_by(rig: &Rig, address: SocketAddr) -> Pool {
    let options: PgConnectOptions = rig.world.settings.database.url.parse().unwrap();
    PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(300))
        .connect_lazy_with(options.host("127.0.0.1").port(address.port()))
}

/// A way to the world's database that can fall silent without an end.
struct Way {
    silent: Arc<AtomicBool>,
    open: JoinHandle<()>,
}

impl Way {
    async fn open(rig: &Rig, listener: TcpListener) -> Self {
        let options: PgConnectOptions = rig.world.settings.database.url.parse().unwrap();
        let server = SocketAddr::from(([127, 0, 0, 1], options.get_port()));
        let silent = Arc::new(AtomicBool::new(false));
        let falls = Arc::clone(&silent);
        let open = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(server).await.unwrap();
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                // Only what is open when it falls silent stays so.
                let silent = Arc::new(AtomicBool::new(false));
                tokio::spawn(carry(
                    near_in,
                    far_out,
                    Arc::clone(&falls),
                    Arc::clone(&silent),
                ));
                tokio::spawn(carry(far_in, near_out, Arc::clone(&falls), silent));
            }
        });
        Self { silent, open }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.open.abort();
    }
}

async fn carry(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    falls: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if falls.load(Ordering::Relaxed) || silent.load(Ordering::Relaxed) {
            silent.store(true, Ordering::Relaxed);
            continue;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    if silent.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_waited_for() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let pool = pool_by(&rig, address);
    let waiting = Waiting::begin(rig, &device, pool).await;
    waiting.until_it_fails().await;
    let listener = TcpListener::bind(address).await.unwrap();
    let _way = Way::open(&waiting.rig, listener).await;
    waiting.until_it_is_well().await;
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_given_up_and_what_it_held_is_let_go() {
    let device = Signer::new(1);
    let mut rig = Rig::new(&[&device]).await;
    rig.settings.statement_s = 2;
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let pool = pool_by(&rig, listener.local_addr().unwrap());
    let way = Way::open(&rig, listener).await;
    let lock = lock_up(&rig.world.pool).await;
    let waiting = Waiting::begin(rig, &device, pool).await;
    wait_until("it waits for the lock", || async {
        waiting.rig.count(WAITING).await == 1
    })
    .await;
    // The answer is on its way when the way falls silent: it arrives nowhere, and nobody says so.
    way.silent.store(true, Ordering::Relaxed);
    lock.rollback().await.unwrap();
    waiting.until_it_fails().await;
    way.silent.store(false, Ordering::Relaxed);
    waiting.until_it_is_well().await;
}

#[tokio::test]
async fn a_statement_that_waits_for_ever_is_ended_by_the_server_and_tried_again() {
    let device = Signer::new(1);
    let mut rig = Rig::new(&[&device]).await;
    rig.settings.statement_s = 1;
    let pool = rig.world.pool.clone();
    let lock = lock_up(&pool).await;
    let waiting = Waiting::begin(rig, &device, pool.clone()).await;
    waiting.until_it_fails().await;
    assert!(waiting.rig.count(WAITING).await <= 1, "none is left behind");
    lock.rollback().await.unwrap();
    waiting.until_it_is_well().await;
}

#[tokio::test]
async fn a_schema_that_is_broken_is_no_fault_of_the_frames() {
    let device = Signer::new(1);
    let rig = Rig::new(&[&device]).await;
    run(&rig, "alter table track_epochs rename to elsewhere").await;
    let pool = rig.world.pool.clone();
    let waiting = Waiting::begin(rig, &device, pool).await;
    waiting.until_it_fails().await;
    run(&waiting.rig, "alter table elsewhere rename to track_epochs").await;
    waiting.until_it_is_well().await;
}

#[tokio::test]
async fn a_quarantine_that_cannot_be_written_does_not_hold_up_the_acks_of_its_neighbours() {
    let (good, odd) = (Signer::new(1), Signer::new(2));
    let rig = Rig::new(&[&good, &odd]).await;
    run(&rig, "alter table quarantine rename to elsewhere").await;
    // Neighbours of late frames are looked for in quarantine too: these are the first of their epoch.
    let chain = good.chain(5, 3, rig.now_ms() - 60_000);
    let mut sent: Vec<Sent> = chain.iter().map(|f| good.sends(f)).collect();
    let payload: Sent = Sent {
        device: odd.number,
        payload: vec![1, 2, 3].into(),
    };
    sent.insert(1, payload.clone());
    let (to, arrivals) = mpsc::channel(64);
    let heard = load(&to, &sent).await;
    let running = tokio::spawn(rig.ingest(rig.world.pool.clone()).run(arrivals));
    wait_until("the good ones are acked", || async {
        answers(&heard).acked.len() == 3
    })
    .await;
    assert_eq!(answers(&heard).settled, [0, 2, 3].into());
    run(&rig, "alter table elsewhere rename to quarantine").await;
    wait_until("the odd one is refused", || async {
        answers(&heard).refused.contains_key(&payload.digest())
    })
    .await;
    drop(to);
    timeout(PATIENCE, running).await.unwrap().unwrap();
}
