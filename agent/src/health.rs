//! How the agent is: the receiver, the link, the spool; as a state message, as a report, as a verdict for a lamp. Never decides what the agent does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use furrow_protocol::{
    fix::Quality,
    frame::Device,
    state::{MAX_AGENT_BYTES, Receiver, State},
};
use serde::{Deserialize, Serialize};

use crate::{
    keeper::Kept,
    link,
    sources::{Event, Skip},
};

/// After so long without a position the receiver has no fix, ms.
const STALE_MS: u64 = 60_000;
/// More frames than this that wait are a backlog: ten minutes of work.
const BACKLOG_FRAMES: u64 = 60;
/// A task that has not shown life for so long is stuck, ms.
const STUCK_MS: u64 = 30_000;
/// Batches that the disk does not take for so long are no progress, ms.
const DISK_MS: u64 = 300_000;

/// What a lamp shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Positions come and are delivered.
    Recording,
    /// Positions come, or came; what is stored waits for the platform.
    Backlog,
    /// No positions.
    NoFix,
}

impl Verdict {
    /// Exit code of `status`. 0 is recording; 1 is an error of `status` itself, 2 a wrong command line.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Recording => 0,
            Self::Backlog => 10,
            Self::NoFix => 20,
        }
    }
}

/// What `status --json` prints of a running agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In one word.
    pub verdict: Verdict,
    /// The device's number.
    pub device: u32,
    /// Version of the agent.
    pub agent: String,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// `offline`, `catching_up` or `live`.
    pub link: String,
    /// Why the last session ended, as long as there is no other.
    pub link_error: Option<String>,
    /// `absent`, `no_fix` or `fix`.
    pub receiver: String,
    /// Time of the last position, ms since 1970 UTC.
    pub last_fix_ms: Option<i64>,
    /// The spool's epoch, 16 hex digits: not every reader of JSON holds 64 bits.
    pub epoch: String,
    /// Highest sequence in it.
    pub last_seq: u64,
    /// Frames that wait for their commit.
    pub backlog_frames: u64,
    /// About so many bytes of them.
    pub backlog_bytes: u64,
    /// Frames that the platform refused, kept.
    pub refused_frames: u64,
    /// Frames lost since the spool was made.
    pub lost_frames: u64,
    /// Batches that the disk has not taken.
    pub unsynced_batches: u64,
    /// Bytes that the spool takes.
    pub spool_bytes: u64,
    /// Free bytes of its disk.
    pub disk_free_bytes: u64,
    /// Version of the settings from afar, 0 for none.
    pub settings_version: u32,
    /// What was skipped in the receiver's data, by reason.
    pub skipped: Vec<(String, u64)>,
}

#[derive(Debug, Default)]
struct Inner {
    fix: Option<(i64, u64, Quality)>,
    heard_ms: Option<u64>,
    link: Option<link::State>,
    link_error: Option<String>,
    settings_version: u32,
    source_beat_ms: u64,
    link_beat_ms: u64,
    skipped: crate::sources::Skipped,
}

/// The health of this process.
#[derive(Debug)]
pub struct Health {
    device: Device,
    boot: u32,
    inner: Mutex<Inner>,
}

/// Shared by all tasks.
pub type SharedHealth = Arc<Health>;

impl Health {
    /// Of a process that has just started.
    #[must_use]
    pub fn new(device: Device, boot: u32) -> SharedHealth {
        Arc::new(Self {
            device,
            boot,
            inner: Mutex::default(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something came from the source.
    pub fn source(&self, event: &Event, now_ms: u64) {
        let mut inner = self.inner();
        match event {
            Event::Position(position) => {
                inner.fix = Some((position.at_ms, now_ms, position.quality));
                inner.heard_ms = Some(now_ms);
            }
            Event::Skipped(skip) => {
                inner.skipped.count(*skip);
                if *skip != Skip::Thinned {
                    inner.heard_ms = Some(now_ms);
                }
            }
            Event::ClockStep { .. } => inner.heard_ms = Some(now_ms),
            Event::NoReceiver => inner.heard_ms = None,
        }
    }

    /// The loop that takes positions turns.
    pub fn beat_source(&self, now_ms: u64) {
        self.inner().source_beat_ms = now_ms;
    }

    /// The loop of the link turns.
    pub fn beat_link(&self, now_ms: u64) {
        self.inner().link_beat_ms = now_ms;
    }

    /// Where the link is.
    pub fn link(&self, state: link::State, error: Option<String>) {
        let mut inner = self.inner();
        inner.link = Some(state);
        inner.link_error = error;
    }

    /// Settings of this version are in force.
    pub fn settings(&self, version: u32) {
        self.inner().settings_version = version;
    }

    /// Whether everything that must turn does, and what came has got to the disk: what the watchdog
    /// is told.
    #[must_use]
    pub fn progresses(&self, kept: &Kept, now_ms: u64) -> bool {
        let inner = self.inner();
        let fresh = |beat_ms: u64| now_ms.saturating_sub(beat_ms) < STUCK_MS;
        fresh(inner.source_beat_ms)
            && fresh(inner.link_beat_ms)
            && now_ms.saturating_sub(kept.good_ms) < DISK_MS
    }

    fn receiver(inner: &Inner, now_ms: u64) -> Receiver {
        let fresh = |at_ms: u64| now_ms.saturating_sub(at_ms) < STALE_MS;
        if inner.heard_ms.is_none_or(|at_ms| !fresh(at_ms)) {
            Receiver::Absent
        } else if inner.fix.is_some_and(|(_, at_ms, _)| fresh(at_ms)) {
            Receiver::Fix
        } else {
            Receiver::NoFix
        }
    }

    /// The message for `…/state`.
    #[must_use]
    pub fn state(&self, kept: &Kept, now_ms: u64) -> State {
        let inner = self.inner();
        State {
            agent: version(),
            boot: self.boot,
            uptime_s: now_ms / 1000,
            epoch: kept.epoch,
            last_seq: kept.last_seq,
            backlog_frames: kept.backlog.frames,
            backlog_bytes: kept.backlog.bytes,
            last_fix_ms: inner.fix.map(|(at_ms, ..)| at_ms),
            quality: inner.fix.map_or(0, |(_, _, quality)| quality.gga()),
            receiver: Self::receiver(&inner, now_ms),
            lost_frames: kept.lost,
            disk_free_bytes: kept.free_bytes,
            settings_version: inner.settings_version,
        }
    }

    /// The report for people and scripts.
    #[must_use]
    pub fn report(&self, kept: &Kept, now_ms: u64) -> Report {
        let inner = self.inner();
        let receiver = Self::receiver(&inner, now_ms);
        let verdict = match receiver {
            Receiver::Absent | Receiver::NoFix => Verdict::NoFix,
            Receiver::Fix if kept.waiting > 1 || kept.backlog.frames > BACKLOG_FRAMES => {
                Verdict::Backlog
            }
            Receiver::Fix => Verdict::Recording,
        };
        Report {
            verdict,
            device: self.device.0,
            agent: version(),
            uptime_s: now_ms / 1000,
            link: match inner.link {
                None | Some(link::State::Offline) => "offline",
                Some(link::State::CatchingUp) => "catching_up",
                Some(link::State::Live) => "live",
            }
            .to_owned(),
            link_error: inner.link_error.clone(),
            receiver: match receiver {
                Receiver::Absent => "absent",
                Receiver::NoFix => "no_fix",
                Receiver::Fix => "fix",
            }
            .to_owned(),
            last_fix_ms: inner.fix.map(|(at_ms, ..)| at_ms),
            epoch: format!("{:016x}", kept.epoch),
            last_seq: kept.last_seq,
            backlog_frames: kept.backlog.frames,
            backlog_bytes: kept.backlog.bytes,
            refused_frames: kept.backlog.refused,
            lost_frames: kept.lost,
            unsynced_batches: kept.waiting,
            spool_bytes: kept.taken_bytes,
            disk_free_bytes: kept.free_bytes,
            settings_version: inner.settings_version,
            skipped: inner
                .skipped
                .iter()
                .map(|(skip, n)| (skip.to_string(), n))
                .collect(),
        }
    }
}

/// What the state message says of the program.
fn version() -> String {
    let mut version = env!("CARGO_PKG_VERSION").to_owned();
    version.truncate(MAX_AGENT_BYTES);
    version
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{position::Position, spool::Backlog};

    fn fix() -> Event {
        Event::Position(Position::bare(1_000, 500_000_000, 100_000_000))
    }

    fn verdict(health: &Health, frames: u64, now_ms: u64) -> Verdict {
        let kept = Kept {
            backlog: Backlog {
                frames,
                ..Backlog::default()
            },
            ..Kept::default()
        };
        health.report(&kept, now_ms).verdict
    }

    #[test]
    fn the_lamp_shows_recording_backlog_or_no_fix() {
        let health = Health::new(Device(7), 1);
        assert_eq!(verdict(&health, 0, 0), Verdict::NoFix);
        health.source(&fix(), 5_000);
        assert_eq!(verdict(&health, 3, 6_000), Verdict::Recording);
        assert_eq!(verdict(&health, 61, 6_000), Verdict::Backlog);
        health.source(&Event::Skipped(Skip::Void("no fix")), 70_000);
        assert_eq!(verdict(&health, 0, 70_000), Verdict::NoFix);
        let codes: Vec<u8> = [Verdict::Recording, Verdict::Backlog, Verdict::NoFix]
            .map(Verdict::exit_code)
            .to_vec();
        assert_eq!(codes, [0, 10, 20]);
    }

    #[test]
    fn a_receiver_without_fix_and_one_that_is_gone_are_told_apart() {
        let health = Health::new(Device(7), 1);
        let receiver = |now_ms| health.state(&Kept::default(), now_ms).receiver;
        assert_eq!(receiver(0), Receiver::Absent);
        health.source(&Event::Skipped(Skip::Void("no fix")), 1_000);
        assert_eq!(receiver(2_000), Receiver::NoFix);
        health.source(&fix(), 3_000);
        assert_eq!(receiver(4_000), Receiver::Fix);
        health.source(&Event::NoReceiver, 5_000);
        assert_eq!(receiver(6_000), Receiver::Absent);
        assert!(health.state(&Kept::default(), 6_000).encode().is_ok());
    }

    #[test]
    fn the_watchdog_hears_of_progress_only_while_all_parts_turn_and_the_disk_takes() {
        let health = Health::new(Device(7), 1);
        let kept = |good_ms| Kept {
            good_ms,
            ..Kept::default()
        };
        health.beat_source(100_000);
        health.beat_link(100_000);
        assert!(health.progresses(&kept(100_000), 110_000));
        assert!(!health.progresses(&kept(100_000), 131_000));
        health.beat_source(500_000);
        assert!(
            !health.progresses(&kept(499_000), 500_000),
            "the link hangs"
        );
        health.beat_link(500_000);
        assert!(health.progresses(&kept(499_000), 500_000));
        assert!(
            !health.progresses(&kept(100_000), 500_000),
            "the disk takes nothing"
        );
    }
}
