//! A world per test: a database of its own, settings, a clock set by hand, a platform on free ports. Never shares anything with another test.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use furrow_platform::{
    clock::{Clock, SystemClock},
    config::Settings,
    db, ids,
    platform::Platform,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// How long anything may take before a test says that it does not happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A database of its own and a folder of its own; both go with the test, or with a later test's start.
pub struct World {
    /// What a platform of this world is started with: free ports, this database, this folder.
    pub settings: Settings,
    /// The database.
    pub pool: db::Pool,
    _folder: tempfile::TempDir,
}

impl World {
    /// A world whose schema is up to date and whose partitions are there.
    pub async fn new() -> Self {
        let name = format!(
            "it_{}_{:x}",
            std::process::id(),
            u32::from_be_bytes(ids::secret())
        );
        let template = template().await;
        let mut admin = admin().await;
        execute(
            &mut admin,
            format!("create database {name} template {template}"),
        )
        .await;
        Self::on(&name)
    }

    /// A world whose database has nothing in it.
    pub async fn bare() -> Self {
        let name = format!(
            "it_{}_{:x}",
            std::process::id(),
            u32::from_be_bytes(ids::secret())
        );
        let mut admin = admin().await;
        execute(&mut admin, format!("create database {name}")).await;
        Self::on(&name)
    }

    fn on(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            data_dir: folder.path().to_owned(),
            ..Settings::default()
        };
        settings.database.url = url_of(name);
        settings.database.max_connections = 8;
        settings.http.listen = loopback();
        settings.mqtt.listen = Some(loopback());
        let pool = db::pool(&settings.database).unwrap();
        Self {
            settings,
            pool,
            _folder: folder,
        }
    }

    /// A platform on this world by the host's clock.
    pub async fn platform(&self) -> Platform {
        self.platform_at(Arc::new(SystemClock)).await
    }

    /// A platform on this world by another clock.
    pub async fn platform_at(&self, clock: Arc<dyn Clock>) -> Platform {
        Platform::start_at(&self.settings, None, clock)
            .await
            .unwrap()
    }
}

/// A free port on loopback.
pub fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The host's time, for tests of what a platform does by the host's clock.
pub fn now() -> DateTime<Utc> {
    SystemClock.now()
}

/// Asks again until it holds.
pub async fn wait_until<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let begin = Instant::now();
    while !holds().await {
        assert!(
            begin.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An answer of the human door.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, as they came.
    pub head: String,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// A header's value; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.head
            .lines()
            .find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then_some(value.trim())
            })
            .unwrap_or_default()
    }
}

/// A request with a JSON body, or none if it is empty; `headers` are whole lines.
pub async fn ask(to: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: furrow\r\nconnection: close\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if !body.is_empty() {
        text.push_str(&format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        ));
    }
    text.push_str("\r\n");
    text.push_str(body);
    exchange(to, text.as_bytes()).await.unwrap()
}

/// Sends bytes and reads one answer, until the other side closes.
pub async fn exchange(to: SocketAddr, bytes: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(to).await?;
    // The other side may answer and close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut said = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    if said.is_empty() {
        read.map_err(io::Error::other)??;
    }
    parse(&said).ok_or_else(|| io::Error::other(format!("no answer in {said:?}")))
}

fn parse(said: &[u8]) -> Option<Answer> {
    let said = String::from_utf8_lossy(said);
    let (head, body) = said.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

#[expect(clippy::disallowed_methods, reason = "tests have no settings")]
fn server() -> String {
    std::env::var("DATABASE_URL").unwrap_or_else(|_| {
        panic!("DATABASE_URL is not set: run `make test`, or `.ci/with-postgres cargo nextest run`")
    })
}

fn url_of(database: &str) -> String {
    let server = server();
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{database}")
}

async fn admin() -> PgConnection {
    PgConnection::connect(&server()).await.unwrap()
}

async fn execute(connection: &mut PgConnection, sql: String) {
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
}

/// A migrated database to copy; made by the first test of a run. It also removes what ended tests left.
async fn template() -> String {
    let day = now().date_naive();
    let name = format!(
        "it_template_{:x}_{}",
        db::schema_version(),
        day.format("%Y%m%d")
    );
    let mut admin = admin().await;
    // Held by the connection: whoever dies while it makes the template lets the next one try.
    execute(&mut admin, "select pg_advisory_lock(7331)".into()).await;
    sweep(&mut admin).await;
    let known: bool =
        sqlx::query_scalar("select exists (select 1 from pg_database where datname = $1)")
            .bind(&name)
            .fetch_one(&mut admin)
            .await
            .unwrap();
    if !known {
        let making = format!("{name}_making");
        execute(
            &mut admin,
            format!("drop database if exists {making} with (force)"),
        )
        .await;
        execute(&mut admin, format!("create database {making}")).await;
        let mut settings = Settings::default();
        settings.database.url = url_of(&making);
        let pool = db::pool(&settings.database).unwrap();
        db::migrate(&pool).await.unwrap();
        db::partitions::ensure(&pool, day).await.unwrap();
        pool.close().await;
        execute(
            &mut admin,
            format!("alter database {making} rename to {name}"),
        )
        .await;
    }
    admin.close().await.unwrap();
    name
}

/// Drops the databases of tests whose process is gone.
async fn sweep(admin: &mut PgConnection) {
    let names: Vec<String> = sqlx::query_scalar(
        "select datname::text from pg_database where datname ~ '^it_[0-9]+_[0-9a-f]+$'",
    )
    .fetch_all(&mut *admin)
    .await
    .unwrap();
    for name in names {
        let alive = name
            .split('_')
            .nth(1)
            .is_some_and(|pid| std::path::Path::new("/proc").join(pid).exists());
        if !alive {
            execute(
                admin,
                format!("drop database if exists {name} with (force)"),
            )
            .await;
        }
    }
}
