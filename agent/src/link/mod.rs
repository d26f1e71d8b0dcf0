//! The link: delivers what the spool holds until it is committed. A pipe with no memory: whatever happens to it, everything is sent again from the first unanswered frame.

mod connection;
mod machine;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use furrow_protocol::{
    down::{Down, Settings},
    frame::MAX_FRAME_BYTES,
};
use thiserror::Error;
use tokio::{
    sync::watch,
    time::{self, MissedTickBehavior},
};

use self::connection::{Connection, Dial, Heard};
pub use self::machine::{Machine, State};
use crate::{
    clock::SharedClock,
    config::LinkConfig,
    endpoint::{Endpoint, EndpointError},
    health::SharedHealth,
    identity::Identity,
    keeper::{Gone, Keeper},
    spool::{Place, Stored},
    tls::{self, TlsError},
};

const SECOND: Duration = Duration::from_secs(1);

/// Why there can be no link.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The address of the enrolment.
    #[error("the platform's address: {0}")]
    Endpoint(#[from] EndpointError),
    /// Keys and certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The platform was not reached, or did not take us.
    #[error("{0}")]
    Unproven(String),
}

/// The link.
pub struct Link {
    dial: Dial,
    machine: Machine,
    keeper: Keeper,
    clock: SharedClock,
    health: SharedHealth,
    settings: watch::Sender<Option<Settings>>,
    place: Place,
    read: VecDeque<Stored>,
}

/// How a session ended.
enum End {
    Lost(String),
    Stopped,
    KeeperGone,
}

impl From<Gone> for End {
    fn from(_: Gone) -> Self {
        Self::KeeperGone
    }
}

fn dial(
    identity: Arc<Identity>,
    url: Option<&Endpoint>,
    clock: &SharedClock,
) -> Result<Dial, LinkError> {
    let endpoint = match url {
        Some(url) => url.clone(),
        None => Endpoint::mqtt(&identity.mqtt_url)?,
    };
    let tls = if endpoint.tls {
        Some(tls::for_machines(&identity, Arc::clone(clock))?)
    } else {
        None
    };
    Ok(Dial {
        endpoint,
        identity,
        tls,
    })
}

/// Connects once as this identity: the platform takes it, or says why not.
///
/// Errors: [`LinkError`].
pub async fn prove(
    identity: &Identity,
    clock: &SharedClock,
    patience: Duration,
) -> Result<(), LinkError> {
    let mut connection = Connection::open(&dial(Arc::new(identity.clone()), None, clock)?);
    match time::timeout(patience, connection.heard()).await {
        Ok(Heard::Connected) => {
            connection.close().await;
            Ok(())
        }
        Ok(Heard::Lost(why)) => Err(LinkError::Unproven(why)),
        Ok(Heard::Subscribed | Heard::Down(_)) => {
            Err(LinkError::Unproven("an answer before the first".to_owned()))
        }
        Err(_) => Err(LinkError::Unproven("no answer in time".to_owned())),
    }
}

impl Link {
    /// A link for this identity; `settings` gets what the platform sets.
    ///
    /// Errors: [`LinkError`].
    pub fn new(
        identity: Arc<Identity>,
        config: &LinkConfig,
        keeper: Keeper,
        clock: SharedClock,
        health: SharedHealth,
        settings: watch::Sender<Option<Settings>>,
    ) -> Result<Self, LinkError> {
        Ok(Self {
            dial: dial(identity, config.url.as_ref(), &clock)?,
            machine: Machine::new(config.window, u64::from(config.backoff_cap_s) * 1000),
            keeper,
            clock,
            health,
            settings,
            place: Place::default(),
            read: VecDeque::new(),
        })
    }

    /// Delivers until `stop` becomes true.
    ///
    /// Errors: [`Gone`].
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), Gone> {
        loop {
            let end = self.session(&mut stop).await;
            let pause_ms = self.machine.lost(random());
            match end {
                End::Stopped => return Ok(()),
                End::KeeperGone => return Err(Gone),
                End::Lost(why) => {
                    tracing::info!(why, pause_ms, "link.offline");
                    self.health.link(State::Offline, Some(why));
                }
            }
            let deadline = time::Instant::now() + Duration::from_millis(pause_ms);
            loop {
                tokio::select! {
                    () = time::sleep_until(deadline) => break,
                    () = stopped(&mut stop) => return Ok(()),
                    () = time::sleep(SECOND) => self.health.beat_link(self.clock.monotonic_ms()),
                }
            }
        }
    }

    /// One session from dialling to its end.
    async fn session(&mut self, stop: &mut watch::Receiver<bool>) -> End {
        let mut connection = Connection::open(&self.dial);
        let mut kept = self.keeper.kept();
        let mut tick = time::interval(SECOND);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = loop {
            let step = tokio::select! {
                heard = connection.heard() => self.heard(&connection, heard).await,
                changed = kept.changed() => match changed {
                    Ok(()) => self.pump(&connection).await,
                    Err(_) => Err(End::KeeperGone),
                },
                _ = tick.tick() => self.tick(&connection).await,
                () = stopped(stop) => Err(End::Stopped),
            };
            if let Err(end) = step {
                break end;
            }
        };
        if matches!(end, End::Stopped) && self.machine.state() != State::Offline {
            connection.close().await;
        }
        end
    }

    async fn heard(&mut self, connection: &Connection, heard: Heard) -> Result<(), End> {
        match heard {
            Heard::Lost(why) => Err(End::Lost(why)),
            Heard::Connected => sent(connection.subscribe()),
            Heard::Subscribed => {
                tracing::info!(server = %self.dial.endpoint, "link.connected");
                self.place = Place::default();
                self.read.clear();
                self.machine.connected(self.clock.monotonic_ms());
                self.tick(connection).await
            }
            Heard::Down(bytes) => {
                self.down(&bytes).await?;
                self.pump(connection).await
            }
        }
    }

    async fn tick(&mut self, connection: &Connection) -> Result<(), End> {
        let now_ms = self.clock.monotonic_ms();
        self.health.beat_link(now_ms);
        if self.machine.stalled(now_ms) {
            return Err(End::Lost("no answer for frames that were sent".to_owned()));
        }
        if self.machine.state_is_due(now_ms) {
            let kept = *self.keeper.kept().borrow();
            match self.health.state(&kept, now_ms).encode() {
                Ok(state) => sent(connection.publish_state(state))?,
                Err(error) => tracing::error!(error = %error, "link.state"),
            }
        }
        self.pump(connection).await
    }

    /// Sends as much as the window takes.
    async fn pump(&mut self, connection: &Connection) -> Result<(), End> {
        while self.machine.room() > 0 {
            if self.read.is_empty() {
                let page = self.keeper.read(self.place, self.machine.room()).await?;
                self.place = page.next;
                self.read.extend(page.frames);
            }
            let Some(stored) = self.read.pop_front() else {
                self.machine.drained();
                break;
            };
            if self.machine.flies(stored.epoch, stored.seq) {
                continue;
            }
            // rumqttc would reconnect for ever over one packet that is too long.
            if stored.frame.len() > MAX_FRAME_BYTES {
                self.keeper.refuse(stored.epoch, stored.seq).await?;
                continue;
            }
            self.machine.sent(&stored, self.clock.monotonic_ms());
            sent(connection.publish(stored.frame))?;
        }
        self.health.link(self.machine.state(), None);
        Ok(())
    }

    async fn down(&mut self, bytes: &[u8]) -> Result<(), End> {
        let now_ms = self.clock.monotonic_ms();
        match Down::decode(bytes) {
            Ok(Down::Ack { epoch, ranges }) => {
                let settled = self.machine.acked(epoch, &ranges, now_ms);
                if !settled.is_empty() {
                    self.keeper.settle(settled).await?;
                }
            }
            Ok(Down::Refused { digest, reason }) => {
                if let Some((epoch, seq)) = self.machine.refused(digest, now_ms) {
                    tracing::warn!(epoch, seq, reason = ?reason, "link.refused");
                    self.keeper.refuse(epoch, seq).await?;
                }
            }
            Ok(Down::Settings(settings)) => {
                if let Some(window) = settings.window {
                    self.machine.set_window(window);
                }
                tracing::info!(version = settings.version, "link.settings");
                self.health.settings(settings.version);
                self.settings.send_replace(Some(settings));
            }
            Err(error) => tracing::warn!(error = %error, "link.down_unreadable"),
        }
        Ok(())
    }
}

/// Told to stop, or nobody is there to tell it.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn sent(taken: bool) -> Result<(), End> {
    if taken {
        Ok(())
    } else {
        Err(End::Lost("the client takes no more".to_owned()))
    }
}

/// For the jitter; without random numbers the pauses are merely the shortest.
fn random() -> u64 {
    getrandom::u64().unwrap_or(0)
}
