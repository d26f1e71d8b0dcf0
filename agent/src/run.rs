//! The agent put together: identity, spool, link, batcher. Never decides alone: each part is told what it needs.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use furrow_protocol::down::Settings;
use tokio::{
    io::AsyncWriteExt as _,
    net::UnixListener,
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use crate::{
    batcher::Batcher,
    clock::SharedClock,
    config::{Config, Level, LinkConfig, Sampling, default_limits},
    health::{Health, SharedHealth},
    identity::Identity,
    keeper::{Gone, Keeper, Kept},
    link::Link,
    log,
    recorder::{Recorder, Signer},
    sources::{Event, Timed},
    spool::{Limits, Spool, disk::Folder},
};

/// What an agent needs to run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Identity and spool.
    pub data_dir: PathBuf,
    /// Room of the spool.
    pub limits: Limits,
    /// The way to the platform.
    pub link: LinkConfig,
    /// How positions are thinned and gathered.
    pub sampling: Sampling,
    /// Gets a line for each frame that is durable.
    pub journal: Option<PathBuf>,
}

impl Setup {
    /// Of a settings file.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            data_dir: config.data_dir.clone(),
            limits: config.spool,
            link: config.link.clone(),
            sampling: config.sampling,
            journal: None,
        }
    }

    /// Of a data folder alone, all else as usual.
    #[must_use]
    pub fn of_data(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            limits: default_limits(),
            link: LinkConfig::default(),
            sampling: Sampling::default(),
            journal: None,
        }
    }
}

/// The spool of a device: another identity has another one, so that none is ever signed for by the
/// wrong key.
#[must_use]
pub fn spool_folder(data_dir: &Path, device: u32) -> PathBuf {
    data_dir.join("spool").join(device.to_string())
}

/// Where a running agent tells how it is.
#[must_use]
pub fn status_socket(data_dir: &Path) -> PathBuf {
    data_dir.join("status.sock")
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All that was stored is committed.
    Done,
    /// The time is over.
    Waits {
        /// Frames that wait.
        frames: u64,
    },
    /// The platform will not have some of it.
    Refused {
        /// Frames that were refused.
        frames: u64,
    },
}

/// A running agent without a source.
pub struct Running {
    /// How it is.
    pub health: SharedHealth,
    clock: SharedClock,
    keeper: Keeper,
    batcher: Batcher,
    own_sampling: Sampling,
    settings: watch::Receiver<Option<Settings>>,
    stop: watch::Sender<bool>,
    link: JoinHandle<Result<(), Gone>>,
    given: u64,
}

impl Running {
    /// Starts all parts. Within a runtime.
    ///
    /// Errors: no identity, the spool is another process's, or a file.
    pub fn start(setup: &Setup, clock: SharedClock) -> anyhow::Result<Self> {
        let Some(identity) = Identity::load(&setup.data_dir)? else {
            bail!(
                "{} holds no identity: furrow-agent enroll --server URL --code CODE",
                setup.data_dir.display()
            );
        };
        let boot = random()? >> 32;
        let boot = u32::try_from(boot).context("a boot number")?;
        let folder = spool_folder(&setup.data_dir, identity.device.0);
        let disk = Folder::open(&folder).with_context(|| folder.display().to_string())?;
        let spool = Spool::open(Box::new(disk), setup.limits, identity.device, random()?)
            .with_context(|| folder.display().to_string())?;
        if let Some(last_ms) = spool.last_fix_ms() {
            clock.saw_gnss(last_ms);
        }
        let journal = setup.journal.as_deref().map(open_journal).transpose()?;
        let signer = Signer {
            device: identity.device,
            key: Arc::new(identity.key.clone()),
        };
        let recorder = Recorder::new(spool, signer, journal);
        let keeper = Keeper::start(recorder, Arc::clone(&clock))?;
        let health = Health::new(identity.device, boot);
        let (told, settings) = watch::channel(None);
        let link = Link::new(
            Arc::new(identity),
            &setup.link,
            keeper.clone(),
            Arc::clone(&clock),
            Arc::clone(&health),
            told,
        )?;
        let (stop, stopped) = watch::channel(false);
        serve_status(&setup.data_dir, &health, &keeper, &clock);
        Ok(Self {
            batcher: Batcher::new(boot, setup.sampling),
            own_sampling: setup.sampling,
            link: tokio::spawn(link.run(stopped)),
            health,
            clock,
            keeper,
            settings,
            stop,
            given: 0,
        })
    }

    /// Takes what a source tells.
    ///
    /// Errors: [`Gone`].
    pub async fn take(&mut self, timed: Timed) -> Result<(), Gone> {
        let now_ms = self.clock.monotonic_ms();
        self.health.beat_source(now_ms);
        match &timed.event {
            Some(event) => {
                if let Event::Position(position) = event {
                    self.clock.saw_gnss(position.at_ms);
                }
                self.health.source(event, now_ms);
                self.batcher.event(event, timed.now_ms);
            }
            None => self.batcher.tick(timed.now_ms),
        }
        self.store().await
    }

    /// The source has ended: what is held is stored.
    ///
    /// Errors: [`Gone`].
    pub async fn finish(&mut self, now_ms: u64) -> Result<(), Gone> {
        self.batcher.finish(now_ms);
        self.store().await
    }

    async fn store(&mut self) -> Result<(), Gone> {
        while let Some(batch) = self.batcher.next_batch() {
            self.given += 1;
            self.keeper.store(batch).await?;
        }
        Ok(())
    }

    /// A second has passed: the keeper's work by the clock, settings from afar.
    ///
    /// Errors: a part has ended, and so should the process.
    pub fn second(&mut self) -> anyhow::Result<()> {
        self.keeper.tick()?;
        if self.link.is_finished() {
            bail!("the link has ended");
        }
        if self.settings.has_changed().unwrap_or(false)
            && let Some(settings) = *self.settings.borrow_and_update()
        {
            self.batcher
                .set_sampling(sampling(self.own_sampling, &settings));
            if let Some(level) = settings.log_level {
                log::set_level(Level::from(level));
            }
        }
        Ok(())
    }

    /// Whether all parts turn and the disk takes what comes: what the watchdog is told.
    #[must_use]
    pub fn progresses(&self) -> bool {
        let kept = *self.keeper.kept().borrow();
        self.health.progresses(&kept, self.clock.monotonic_ms())
    }

    /// Waits until all that was given is committed, at most for `patience`.
    ///
    /// Errors: a part has ended.
    pub async fn delivered(&mut self, patience: Duration) -> anyhow::Result<Delivery> {
        let deadline = Instant::now() + patience;
        let mut kept = self.keeper.kept();
        loop {
            let now: Kept = *kept.borrow_and_update();
            if now.taken >= self.given && now.waiting == 0 && now.backlog.frames == 0 {
                return Ok(match now.backlog.refused {
                    0 => Delivery::Done,
                    frames => Delivery::Refused { frames },
                });
            }
            if Instant::now() >= deadline {
                let frames = now.backlog.frames + now.waiting;
                return Ok(Delivery::Waits { frames });
            }
            self.second()?;
            let next = deadline.min(Instant::now() + Duration::from_millis(500));
            if let Ok(changed) = timeout_at(next, kept.changed()).await {
                changed.context("the spool's thread has ended")?;
            }
        }
    }

    /// Stores what is held, says goodbye, writes the cursor.
    pub async fn close(mut self) {
        let _ = self.store().await;
        self.stop.send_replace(true);
        let patience = Instant::now() + Duration::from_secs(2);
        let _ = timeout_at(patience, &mut self.link).await;
        self.keeper.close().await;
    }
}

fn sampling(own: Sampling, settings: &Settings) -> Sampling {
    Sampling {
        rate_dhz: settings.rate_dhz.unwrap_or(own.rate_dhz),
        batch_s: settings.batch_s.unwrap_or(own.batch_s),
    }
}

fn random() -> anyhow::Result<u64> {
    getrandom::u64().map_err(|e| anyhow::anyhow!("the system gives no random numbers: {e}"))
}

fn open_journal(path: &Path) -> anyhow::Result<std::fs::File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| path.display().to_string())
}

/// Tells whoever connects how the agent is. Without it the agent works as well.
fn serve_status(data_dir: &Path, health: &SharedHealth, keeper: &Keeper, clock: &SharedClock) {
    let path = status_socket(data_dir);
    // The spool's lock is ours: whoever made this is gone.
    let _ = std::fs::remove_file(&path);
    let listener = match UnixListener::bind(&path) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(path = %path.display(), error = %error, "status.bind");
            return;
        }
    };
    let (health, kept, clock) = (Arc::clone(health), keeper.kept(), Arc::clone(clock));
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let report = health.report(&kept.borrow(), clock.monotonic_ms());
            if let Ok(mut json) = serde_json::to_vec(&report) {
                json.push(b'\n');
                // It fits the socket's buffer, so that nobody who does not read holds us up.
                let patience = Instant::now() + Duration::from_secs(1);
                let _ = timeout_at(patience, stream.write_all(&json)).await;
            }
        }
    });
}
