//! Looking into the database from outside, to compare what is there with what must be. Blocking; never called from async code.

use std::{collections::BTreeMap, env};

use anyhow::Context as _;
use furrow_protocol::frame::{Device, Frame};
use sqlx::{
    Connection as _, PgConnection, Row as _,
    postgres::{PgConnectOptions, PgPool, PgPoolOptions},
};
use tokio::runtime::Runtime;

use crate::journal::Place;

/// A database.
pub struct Database {
    url: String,
    pool: PgPool,
    runtime: Runtime,
    /// The server's own database and this one's name, where it is ours to drop.
    drop: Option<(String, String)>,
}

impl Database {
    /// A database that is there.
    ///
    /// Errors: the address.
    pub fn at(url: &str) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let options: PgConnectOptions = url.parse().context("the database's address")?;
        let pool = runtime.block_on(async {
            PgPoolOptions::new()
                .max_connections(4)
                .connect_lazy_with(options)
        });
        Ok(Self {
            url: url.to_owned(),
            pool,
            runtime,
            drop: None,
        })
    }

    /// A new database on the server of `DATABASE_URL`; None where there is no such server. Dropped at the end.
    ///
    /// Errors: the server does not answer.
    pub fn fresh() -> anyhow::Result<Option<Self>> {
        let Ok(server) = env::var("DATABASE_URL") else {
            return Ok(None);
        };
        let name = format!("story_{:016x}", rand::random::<u64>());
        let (base, _) = server.rsplit_once('/').context("DATABASE_URL")?;
        let mut database = Self::at(&format!("{base}/{name}"))?;
        on_server(
            &database.runtime,
            &server,
            format!("create database {name}"),
        )?;
        database.drop = Some((server, name));
        Ok(Some(database))
    }

    /// Where to connect.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its connections, for async code.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Waits for something async.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// One number.
    ///
    /// Errors: the database.
    pub fn number(&self, query: &'static str) -> anyhow::Result<i64> {
        self.wait(async { Ok(sqlx::query_scalar(query).fetch_one(&self.pool).await?) })
    }

    /// Runs statements.
    ///
    /// Errors: the database.
    pub fn run(&self, statements: &'static str) -> anyhow::Result<()> {
        self.wait(async {
            sqlx::raw_sql(statements).execute(&self.pool).await?;
            Ok(())
        })
    }

    /// Every stored frame by its place: how many rows it has, and the digest of its bytes.
    ///
    /// Errors: the database, or a stored frame that is none.
    pub fn stored(&self) -> anyhow::Result<BTreeMap<Place, Vec<[u8; 16]>>> {
        let rows = self.wait(async {
            sqlx::query("select device, epoch, seq, frame from track_frames")
                .fetch_all(&self.pool)
                .await
        })?;
        let mut stored: BTreeMap<Place, Vec<[u8; 16]>> = BTreeMap::new();
        for row in rows {
            let device = Device(row.try_get::<i32, _>(0)?.cast_unsigned());
            let place = Place {
                device: device.0,
                epoch: row.try_get::<i64, _>(1)?.cast_unsigned(),
                seq: row.try_get::<i64, _>(2)?.cast_unsigned(),
            };
            let frame = Frame::from_bytes(row.try_get(3)?).context("a stored frame")?;
            anyhow::ensure!(
                (frame.epoch, frame.seq) == (place.epoch, place.seq),
                "a stored frame lies at another place than its own: {place:?}"
            );
            stored
                .entry(place)
                .or_default()
                .push(frame.digest(device).0);
        }
        Ok(stored)
    }

    /// Frames of a device in quarantine, by reason.
    ///
    /// Errors: the database.
    pub fn quarantined(&self, device: u32) -> anyhow::Result<BTreeMap<String, i64>> {
        let rows: Vec<(String, i64)> = self.wait(async {
            sqlx::query_as("select reason, count(*) from quarantine where device = $1 group by 1")
                .bind(device.cast_signed())
                .fetch_all(&self.pool)
                .await
        })?;
        Ok(rows.into_iter().collect())
    }

    /// Frames of a device that are stored.
    ///
    /// Errors: the database.
    pub fn frames_of(&self, device: u32) -> anyhow::Result<i64> {
        self.wait(async {
            Ok(
                sqlx::query_scalar("select count(*) from track_frames where device = $1")
                    .bind(device.cast_signed())
                    .fetch_one(&self.pool)
                    .await?,
            )
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some((server, name)) = self.drop.take() {
            let pool = self.pool.clone();
            self.runtime.block_on(async { pool.close().await });
            let _ = on_server(
                &self.runtime,
                &server,
                format!("drop database if exists {name} with (force)"),
            );
        }
    }
}

fn on_server(runtime: &Runtime, server: &str, statement: String) -> anyhow::Result<()> {
    runtime.block_on(async {
        let mut connection = PgConnection::connect(server)
            .await
            .context("the server of DATABASE_URL")?;
        // The name is made of our own hex digits.
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut connection)
            .await?;
        Ok(())
    })
}
