//! A running platform: every part started in its order and stopped in the reverse. Knows the parts, not what they do.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use furrow_protocol::{frame::Device, state::State};
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use tokio::{
    net::TcpListener,
    sync::{broadcast, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    app::{authority::Authority, devices::CachedRegister},
    clock::{Clock, SystemClock},
    config::Settings,
    db,
    http::{self, Doors},
    ingest::{Committed, Ingest},
    jobs::{self, Jobs},
    mqtt::gate::{Gate, GateSettings},
};

/// Commits that a slow live view may lag behind.
const LIVE: usize = 1024;
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
    pub pool: PgPool,
    /// Certificates.
    pub authority: Arc<Authority>,
    /// Commits as they happen.
    pub live: broadcast::Sender<Committed>,
    parts: JoinSet<&'static str>,
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
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let pool = db::pool(&settings.database).context("database.url")?;
        match db::pending_migrations(&pool)
            .await
            .context("database.url")?
        {
            0 => {}
            n => bail!("the database's schema is {n} migrations behind: run `furrow migrate`"),
        }
        jobs::make_partitions(&pool, clock.now())
            .await
            .context("partitions")?;
        let authority = Arc::new(Authority::open(
            &settings.data_dir,
            &settings.http.names,
            clock.now(),
        )?);
        let register = CachedRegister::new(pool.clone());
        register.refresh().await.context("register")?;

        let (doors_shut, jobs_shut) = (CancellationToken::new(), CancellationToken::new());
        let (arrivals, received) = mpsc::channel(settings.ingest.queue);
        let (states, health) = mpsc::channel(STATES);
        let (live, _) = broadcast::channel(LIVE);
        let alive = Arc::new(AtomicI64::new(clock.now().timestamp()));
        let skew = Arc::new(AtomicI64::new(0));
        let mut parts = JoinSet::new();

        let gate = Gate::bind(
            gate_settings(settings, &authority)?,
            Arc::new(register.clone()),
            arrivals,
            states,
        )
        .await?;
        let (mqtt_addr, mqtts_addr) = (gate.plain_addr(), gate.tls_addr());
        let ingest = Ingest {
            pool: pool.clone(),
            keys: register.keys(),
            clock: Arc::clone(&clock),
            settings: settings.ingest.clone(),
            live: live.clone(),
            alive: Arc::clone(&alive),
        };
        let gone = Arc::clone(&alive);
        parts.spawn(async move {
            ingest.run(received).await;
            gone.store(0, Ordering::Relaxed);
            "ingest"
        });
        let jobs = Jobs {
            pool: pool.clone(),
            clock: Arc::clone(&clock),
            register: register.clone(),
            clock_skew_ms: Arc::clone(&skew),
        };
        let shut = jobs_shut.clone();
        parts.spawn(async move {
            jobs.run(shut).await;
            "jobs"
        });
        parts.spawn(note_health(health));

        let doors = Doors {
            pool: pool.clone(),
            clock,
            authority: Arc::clone(&authority),
            register,
            mqtt_url: mqtt_url(settings, mqtt_addr, mqtts_addr),
            metrics,
            ingest_alive: alive,
            clock_skew_ms: skew,
        };
        let (http_addr, https_addr) =
            serve_people(settings, doors, &authority, &mut parts, &doors_shut).await?;
        let shut = doors_shut.clone();
        parts.spawn(async move {
            gate.run(shut).await;
            "gate"
        });
        Ok(Self {
            http_addr,
            https_addr,
            mqtt_addr,
            mqtts_addr,
            pool,
            authority,
            live,
            parts,
            doors_shut,
            jobs_shut,
        })
    }

    /// Waits until `stop`, then shuts the doors, stores what was received, and ends.
    ///
    /// Errors: a part that ended by itself; the process must end then, for a supervisor to start anew.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let early = tokio::select! {
            () = stop => None,
            ended = self.parts.join_next() => Some(ended),
        };
        self.doors_shut.cancel();
        self.jobs_shut.cancel();
        let all = async { while self.parts.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(20), all).await;
        match early {
            None => Ok(()),
            Some(Some(Ok(part))) => bail!("{part} ended by itself"),
            Some(Some(Err(error))) => Err(error).context("a part of the platform failed"),
            Some(None) => bail!("nothing is running"),
        }
    }
}

fn gate_settings(settings: &Settings, authority: &Authority) -> anyhow::Result<GateSettings> {
    let tls = match settings.mqtt.tls_listen {
        Some(address) => Some((address, authority.tls_files().for_machines()?)),
        None => None,
    };
    Ok(GateSettings {
        listen: settings.mqtt.listen,
        tls,
        max_connections: settings.mqtt.max_connections,
        max_per_address: settings.mqtt.max_per_address,
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
    match (&settings.mqtt.public_url, tls, plain) {
        (Some(url), ..) => url.clone(),
        (None, Some(tls), _) => format!("mqtts://{}:{}", name(), tls.port()),
        (None, None, Some(plain)) => format!("mqtt://{plain}"),
        (None, None, None) => String::new(),
    }
}

async fn serve_people(
    settings: &Settings,
    doors: Doors,
    authority: &Authority,
    parts: &mut JoinSet<&'static str>,
    shut: &CancellationToken,
) -> anyhow::Result<(SocketAddr, Option<SocketAddr>)> {
    let router = http::router(doors);
    let listen = |address: SocketAddr| async move {
        TcpListener::bind(address)
            .await
            .with_context(|| format!("listen on {address}"))
    };
    let plain = listen(settings.http.listen).await?;
    let http_addr = plain.local_addr()?;
    let (plain_router, plain_shut) = (router.clone(), shut.clone());
    parts.spawn(async move {
        if let Err(error) = http::serve::plain(plain, plain_router, plain_shut).await {
            tracing::error!(error = %error, "http.plain");
        }
        "http"
    });
    let Some(address) = settings.http.tls_listen else {
        return Ok((http_addr, None));
    };
    let tls = listen(address).await?;
    let https_addr = tls.local_addr()?;
    let (config, shut) = (authority.tls_files().for_people()?, shut.clone());
    parts.spawn(async move {
        if let Err(error) = http::serve::tls(tls, config, router, shut).await {
            tracing::error!(error = %error, "http.tls");
        }
        "https"
    });
    Ok((http_addr, Some(https_addr)))
}

/// Health messages become metrics and log lines; nothing else rests on them yet.
async fn note_health(mut states: mpsc::Receiver<(Device, Bytes)>) -> &'static str {
    while let Some((device, bytes)) = states.recv().await {
        match State::decode(&bytes) {
            Ok(state) => {
                metrics::counter!("furrow_device_states_total").increment(1);
                tracing::debug!(
                    device = device.0,
                    backlog = state.backlog_frames,
                    lost = state.lost_frames,
                    "device.state"
                );
            }
            Err(error) => {
                tracing::warn!(device = device.0, error = %error, "device.state_unreadable")
            }
        }
    }
    "health"
}
