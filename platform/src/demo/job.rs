//! One machine's job from enrolment to its outcome, and the board on which its line is kept. Never judges.

use std::{
    collections::HashMap,
    path::Path,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use chrono::TimeDelta;
use furrow_domain::{
    fieldwork::{facts, live::Live},
    geo::projection::Projection,
};
use tokio::sync::broadcast::error::RecvError;

use super::{
    agent::AgentBox,
    fleet::Machine,
    outcome::{Delivery, Outcome},
    progress::{Progress, Seen},
    track,
    wire::Wire,
};
use crate::{
    app,
    clock::{Clock as _, SystemClock},
    db::{self, Pool},
    ids,
    ingest::Committed,
    platform::Platform,
};

/// The link is cut when so many fixes of the job are stored ...
const CUT_AFTER: u64 = 600;
/// ... and mended after so long.
const CUT_FOR: Duration = Duration::from_secs(12);
/// So often does the cutter look.
const LOOK: Duration = Duration::from_millis(100);

/// A machine that is enrolled.
pub struct Job {
    machine: Machine,
    agent: AgentBox,
    wire: Option<Wire>,
}

impl Job {
    /// Puts a machine and its device into the register: by a code, as everybody does.
    ///
    /// Errors: the register or the agent.
    pub async fn enrol(
        platform: &Platform,
        program: &Path,
        folder: &Path,
        machine: Machine,
    ) -> anyhow::Result<Self> {
        let now = SystemClock.now();
        let id = ids::new_id(now);
        #[expect(clippy::cast_possible_truncation, reason = "a width of the fleet")]
        let width_cm = (machine.width_m * 100.0).round() as i32;
        db::devices::insert_machine(&platform.pool, id, &machine.name, "tractor", width_cm, now)
            .await?;
        let code = app::devices::make_code(&platform.pool, id, now).await?;
        let code = format!("{code}#{}", platform.authority.fingerprint());
        let server = format!("http://{}", platform.http_addr);
        let folder = folder.join(machine.name.replace(' ', "-"));
        let agent = AgentBox::enrol(program, &folder, &server, &code)
            .await
            .with_context(|| format!("enrol {}", machine.name))?;
        let wire = match platform.mqtt_addr {
            Some(door) if machine.cut => Some(Wire::to(door).await?),
            _ => None,
        };
        Ok(Self {
            machine,
            agent,
            wire,
        })
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.agent.device
    }

    /// Its machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Works until all is delivered; the outcome.
    ///
    /// Errors: the agent fails, or the database.
    pub async fn run(self, pool: &Pool, speed: f64, board: &Board) -> anyhow::Result<Outcome> {
        let door = self.wire.as_ref().map(|wire| wire.address);
        let mut child = self.agent.work(&self.machine, door, speed)?;
        let status = {
            let (mut ended, mut cut) = (pin!(child.wait()), pin!(self.cut_for_a_while(board)));
            tokio::select! {
                status = &mut ended => status?,
                () = &mut cut => ended.await?,
            }
        };
        anyhow::ensure!(
            status.success(),
            "the agent of {} ended with {status}:\n{}",
            self.machine.name,
            self.agent.last_words()
        );
        board.done(self.device());
        self.outcome(pool).await
    }

    /// Cuts the wire in the middle of the job and mends it; nothing where there is none to cut.
    async fn cut_for_a_while(&self, board: &Board) {
        let Some(wire) = &self.wire else { return };
        while board.fixes(self.device()) < CUT_AFTER {
            tokio::time::sleep(LOOK).await;
        }
        wire.cut();
        board.linked(self.device(), false);
        tokio::time::sleep(CUT_FOR).await;
        wire.mend();
        board.linked(self.device(), true);
    }

    async fn outcome(&self, pool: &Pool) -> anyhow::Result<Outcome> {
        let now = SystemClock.now();
        let (from, to) = (now - TimeDelta::days(2), now + TimeDelta::days(1));
        let stored = track::stored(pool, self.device(), from, to).await?;
        let rows: Vec<_> = stored.iter().map(|s| (s.place, s.digest)).collect();
        let fixes: Vec<_> = stored.into_iter().flat_map(|s| s.fixes).collect();
        let delivery =
            Delivery::between(&self.agent.journal()?, &rows, u64::try_from(fixes.len())?);
        let (setup, plot) = (self.machine.setup()?, self.machine.plot()?);
        let facts = tokio::task::spawn_blocking(move || facts(&fixes, &setup, &[plot])).await?;
        Ok(Outcome {
            name: self.machine.name.clone(),
            device: self.device(),
            delivery,
            facts,
            truth: self.agent.truth()?,
        })
    }
}

struct Figures {
    seen: Seen,
    live: Live,
}

/// What is known of every machine while it works.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<HashMap<u32, Figures>>>);

impl Board {
    /// A board that hears of every commit of the platform.
    #[must_use]
    pub fn follow(platform: &Platform) -> Self {
        let board = Self::default();
        let (follower, mut commits) = (board.clone(), platform.live.subscribe());
        tokio::spawn(async move {
            loop {
                match commits.recv().await {
                    Ok(commit) => follower.take(&commit),
                    // What was missed is missing on the lines only.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
        board
    }

    /// A machine begins.
    ///
    /// Errors: its field.
    pub fn add(&self, device: u32, machine: &Machine) -> anyhow::Result<()> {
        let projection = Projection::at(machine.corner);
        let region = machine.plot()?.region(&projection);
        let figures = Figures {
            seen: Seen {
                linked: true,
                ..Seen::default()
            },
            live: Live::new(machine.setup()?, projection, Some(&region)),
        };
        self.with(|all| all.insert(device, figures));
        Ok(())
    }

    /// Shows every machine's line.
    pub fn show(&self, progress: &mut Progress) {
        self.with(|all| {
            for (device, figures) in all {
                figures.seen.area_m2 = figures.live.figures().covered_m2;
                progress.show(*device, &figures.seen);
            }
        });
    }

    fn take(&self, commit: &Committed) {
        let Ok(stored) = track::read(commit.device, &commit.frame) else {
            return;
        };
        self.with(|all| {
            let Some(figures) = all.get_mut(&commit.device) else {
                return;
            };
            for fix in &stored.fixes {
                figures.live.push(fix);
                figures.seen.fixes += 1;
                figures.seen.last_at_ms = figures.seen.last_at_ms.max(fix.at_ms);
            }
        });
    }

    fn fixes(&self, device: u32) -> u64 {
        self.with(|all| all.get(&device).map_or(0, |f| f.seen.fixes))
    }

    fn linked(&self, device: u32, linked: bool) {
        self.with(|all| {
            if let Some(figures) = all.get_mut(&device) {
                figures.seen.linked = linked;
            }
        });
    }

    fn done(&self, device: u32) {
        self.with(|all| {
            if let Some(figures) = all.get_mut(&device) {
                figures.seen.done = true;
            }
        });
    }

    fn with<T>(&self, what: impl FnOnce(&mut HashMap<u32, Figures>) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
