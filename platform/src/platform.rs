//! A running platform: every part started in its order and stopped in the reverse. Knows the parts, not what they do.

mod machines;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    net::TcpListener,
    sync::{broadcast, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    app::{authority::Authority, sms::Kept, tokens::Tokens},
    clock::{Clock, MAX_SKEW_MS, SystemClock},
    config::Settings,
    db::{self, Pool, Schema},
    http::{self, Doors},
    ingest::{Committed, Ingest, arrival::Arrival, keys::KeyRing, witness::Tracks},
    jobs::{self, Jobs},
    mqtt::{self, cached::CachedRegister},
};

pub use machines::prove_outside;
use machines::{Machines, tls_files};

/// Commits that a slow live view may lag behind.
const LIVE: usize = 1024;
/// Parts may take so long to end.
const FAREWELL: Duration = Duration::from_secs(20);
/// Health messages that wait to be looked at.
const STATES: usize = 1024;

/// A platform that serves.
pub struct Platform {
    /// Where plain HTTP listens.
    pub http_addr: SocketAddr,
    /// Where HTTPS listens.
    pub https_addr: Option<SocketAddr>,
    /// Where plain MQTT listens.
    pub mqtt_addr: Option<SocketAddr>,
    /// Where MQTT over TLS listens.
    pub mqtts_addr: Option<SocketAddr>,
    /// The database.
    pub pool: Pool,
    /// Certificates.
    pub authority: Arc<Authority>,
    /// Commits as they happen.
    pub live: broadcast::Sender<Committed>,
    parts: Parts,
}

/// What runs, and how it is told to stop. Each part gives its name when it ends.
#[derive(Default)]
struct Parts {
    running: JoinSet<&'static str>,
    doors_shut: CancellationToken,
    jobs_shut: CancellationToken,
}

impl Platform {
    /// Starts everything on a database whose schema is up to date.
    ///
    /// Errors: a setting, a listener, the database or its schema.
    pub async fn start(
        settings: &Settings,
        metrics: Option<PrometheusHandle>,
    ) -> anyhow::Result<Self> {
        Self::start_at(settings, metrics, Arc::new(SystemClock)).await
    }

    /// The same by another clock.
    ///
    /// Errors: a setting, a listener, the database or its schema.
    pub async fn start_at(
        settings: &Settings,
        metrics: Option<PrometheusHandle>,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let Databases {
            pool,
            tracks,
            skew_ms,
        } = databases(settings, &*clock).await?;
        let authority = Arc::new(Authority::open(&settings.data_dir, clock.now())?);
        authority
            .renew_server(&settings.http.names, clock.now())
            .context("http.names")?;
        let register = CachedRegister::new(pool.clone());
        register.refresh(clock.now()).await.context("register")?;

        let (arrivals, received) = mpsc::channel(settings.ingest.queue);
        let (states, health) = mpsc::channel(STATES);
        let (live, _) = broadcast::channel(LIVE);
        let alive = Arc::new(AtomicI64::new(clock.now().timestamp()));
        let failing_since = Arc::new(AtomicI64::new(0));
        let skew = Arc::new(AtomicI64::new(skew_ms));
        let machines =
            Machines::open(settings, &authority, register.clone(), arrivals, states).await?;
        let (mqtt_addr, mqtts_addr) = (machines.plain, machines.tls);

        let mut parts = Parts::default();
        let ingest = Ingest {
            pool: tracks.clone(),
            keys: register.keys(),
            clock: Arc::clone(&clock),
            settings: settings.ingest.clone(),
            live: live.clone(),
            alive: Arc::clone(&alive),
            failing_since: Arc::clone(&failing_since),
        };
        parts.spawn_ingest(ingest, received, Arc::clone(&alive));
        parts.spawn(
            "health",
            mqtt::health::keep(health, tracks.clone(), Arc::clone(&clock)),
        );
        parts.spawn_live(&machines, &live, (&pool, &tracks), &clock);
        let core = Core {
            pool: pool.clone(),
            tracks,
            keys: register.keys(),
            clock,
            skew,
            told: broadcast::channel(LIVE).0,
            alive,
            failing_since,
        };
        parts.spawn_jobs(core.jobs(settings), register);
        let mqtt = mqtt_url(settings, mqtt_addr, mqtts_addr);
        let doors = core.doors(settings, &authority, mqtt, metrics)?;
        let (http_addr, https_addr) = parts.serve_people(settings, doors, &authority).await?;
        parts.spawn("gate", machines.run(parts.doors_shut.clone()));
        Ok(Self {
            http_addr,
            https_addr,
            mqtt_addr,
            mqtts_addr,
            pool,
            authority,
            live,
            parts,
        })
    }

    /// Waits until `stop`, then shuts the doors, stores what was received, and ends.
    ///
    /// Errors: a part that ended by itself; the process must end then, for a supervisor to start anew.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let early = tokio::select! {
            () = stop => None,
            ended = self.parts.running.join_next() => Some(ended),
        };
        // First the doors: what was received before is stored and answered, then ingest ends by itself.
        self.parts.doors_shut.cancel();
        self.parts.jobs_shut.cancel();
        let all = async { while self.parts.running.join_next().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, all).await.is_err() {
            tracing::warn!("serve.not_all_ended");
        }
        match early {
            None => Ok(()),
            Some(Some(Ok(part))) => bail!("{part} ended by itself"),
            Some(Some(Err(error))) => Err(error).context("a part of the platform failed"),
            Some(None) => bail!("nothing is running"),
        }
    }
}

/// What jobs and the human door share.
struct Core {
    pool: Pool,
    tracks: Pool,
    keys: KeyRing,
    clock: Arc<dyn Clock>,
    skew: Arc<AtomicI64>,
    told: broadcast::Sender<Uuid>,
    alive: Arc<AtomicI64>,
    failing_since: Arc<AtomicI64>,
}

impl Core {
    fn witness(&self) -> Arc<Tracks> {
        Arc::new(Tracks {
            pool: self.pool.clone(),
            tracks: self.tracks.clone(),
        })
    }

    fn jobs(&self, settings: &Settings) -> Jobs {
        Jobs {
            pool: self.pool.clone(),
            tracks: self.tracks.clone(),
            keys: self.keys.clone(),
            clock: Arc::clone(&self.clock),
            witness: self.witness(),
            told: self.told.clone(),
            webhooks_inside: settings.http.webhooks_inside,
            clock_skew_ms: Arc::clone(&self.skew),
        }
    }

    fn doors(
        self,
        settings: &Settings,
        authority: &Arc<Authority>,
        mqtt_url: String,
        metrics: Option<PrometheusHandle>,
    ) -> anyhow::Result<Doors> {
        let sms = Arc::new(Kept {
            pool: self.pool.clone(),
            clock: Arc::clone(&self.clock),
        });
        Ok(Doors {
            witness: self.witness(),
            pool: self.pool,
            clock: self.clock,
            authority: Arc::clone(authority),
            tokens: Tokens::open(&settings.data_dir).context("data_dir")?,
            sms,
            proxies: settings.http.proxies.clone().into(),
            limit_factor: settings.http.limit_factor,
            limits: settings.http.limits.clone(),
            paces: Arc::default(),
            told: self.told,
            mqtt_url,
            metrics,
            ingest_alive: self.alive,
            ingest_failing_since: self.failing_since,
            clock_skew_ms: self.skew,
        })
    }
}

/// Whether this build can serve on a schema.
///
/// Errors: it cannot, and what to do.
pub fn usable(schema: Schema) -> anyhow::Result<()> {
    match schema {
        Schema::Current => Ok(()),
        // The rule of the migrations: each lets the version before it go on working.
        Schema::Ahead(n) => {
            tracing::warn!(unknown_migrations = n, "serve.schema_is_newer");
            Ok(())
        }
        Schema::Behind(n) => {
            bail!("the database's schema is {n} migrations behind: run `furrow migrate`")
        }
        Schema::Differs(version) => {
            bail!("migration {version} was applied to the database with another text")
        }
    }
}

/// Whether the clocks of this host and the database agree well enough to serve.
///
/// Errors: they do not.
pub fn clocks_agree(skew_ms: i64) -> anyhow::Result<()> {
    if skew_ms.abs() > MAX_SKEW_MS {
        bail!("the clocks of this host and the database are {skew_ms} ms apart");
    }
    Ok(())
}

/// So often is the register read anew: a revocation is felt everywhere within 30 s.
const REGISTER: Duration = Duration::from_secs(5);

impl Parts {
    fn spawn(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.running.spawn(async move {
            part.await;
            name
        });
    }

    fn spawn_ingest(
        &mut self,
        ingest: Ingest,
        received: mpsc::Receiver<Arrival>,
        alive: Arc<AtomicI64>,
    ) {
        self.spawn("ingest", async move {
            ingest.run(received).await;
            alive.store(0, Ordering::Relaxed);
        });
    }

    fn spawn_live(
        &mut self,
        machines: &Machines,
        live: &broadcast::Sender<Committed>,
        (pool, tracks): (&Pool, &Pool),
        clock: &Arc<dyn Clock>,
    ) {
        if let Some(told) = &machines.told {
            let telling = mqtt::live::positions(
                live.subscribe(),
                told.clone(),
                pool.clone(),
                Arc::clone(clock),
                self.jobs_shut.clone(),
            );
            self.spawn("live", telling);
        }
        let keeping = mqtt::live::sessions(
            Arc::clone(&machines.presence),
            machines.bus.clone(),
            pool.clone(),
            tracks.clone(),
            Arc::clone(clock),
            self.jobs_shut.clone(),
        );
        self.spawn("sessions", keeping);
    }

    fn spawn_jobs(&mut self, jobs: Jobs, register: CachedRegister) {
        let (clock, shut) = (Arc::clone(&jobs.clock), self.jobs_shut.clone());
        self.spawn("register", async move {
            jobs::every(REGISTER, &shut, "register", || {
                register.refresh(clock.now())
            })
            .await;
        });
        let shut = self.jobs_shut.clone();
        self.spawn("jobs", jobs.run(shut));
    }

    async fn serve_people(
        &mut self,
        settings: &Settings,
        doors: Doors,
        authority: &Authority,
    ) -> anyhow::Result<(SocketAddr, Option<SocketAddr>)> {
        let metrics_router = http::metrics_router(doors.clone());
        let router = http::router(doors);
        let shut = self.doors_shut.clone();
        let (plain, http_addr) = listen(settings.http.listen).await?;
        self.spawn(
            "http",
            http::serve::serve(plain, None, router.clone(), shut.clone()),
        );
        if let Some(address) = settings.http.metrics_listen {
            let (listener, _) = listen(address).await?;
            self.spawn(
                "metrics",
                http::serve::serve(listener, None, metrics_router, shut.clone()),
            );
        }
        let Some(address) = settings.http.tls_listen else {
            return Ok((http_addr, None));
        };
        let (tls, https_addr) = listen(address).await?;
        let config = tls_files(authority).for_people()?;
        self.spawn("https", http::serve::serve(tls, Some(config), router, shut));
        Ok((http_addr, Some(https_addr)))
    }
}

/// The databases of a platform, looked at before anything is served.
struct Databases {
    pool: Pool,
    tracks: Pool,
    skew_ms: i64,
}

async fn databases(settings: &Settings, clock: &dyn Clock) -> anyhow::Result<Databases> {
    let pool = db::pool(&settings.database).context("database.url")?;
    usable(db::schema(&pool).await.context("database.url")?)?;
    let tracks = db::telemetry_pool(&settings.database, &pool).context("database.telemetry_url")?;
    let schema = db::schema(&tracks)
        .await
        .context("database.telemetry_url")?;
    usable(schema).context("database.telemetry_url")?;
    let skew_ms = jobs::skew_ms(&pool, clock).await.context("clock")?;
    // If they are too far apart readiness says no until they agree; frames are safe with the devices.
    jobs::note_skew(skew_ms);
    jobs::make_partitions(&tracks, clock.now())
        .await
        .context("partitions")?;
    Ok(Databases {
        pool,
        tracks,
        skew_ms,
    })
}

fn mqtt_url(settings: &Settings, plain: Option<SocketAddr>, tls: Option<SocketAddr>) -> String {
    let name = || {
        settings
            .http
            .names
            .first()
            .map_or("localhost", String::as_str)
    };
    let told = settings
        .mqtt
        .public_url
        .as_ref()
        .or(settings.mqtt.url.as_ref());
    match (told, tls, plain) {
        (Some(url), ..) => url.clone(),
        (None, Some(tls), _) => format!("mqtts://{}:{}", name(), tls.port()),
        (None, None, Some(plain)) => format!("mqtt://{plain}"),
        (None, None, None) => String::new(),
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listen on {address}"))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
