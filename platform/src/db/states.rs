//! What devices last said of themselves, and when their last frame came. Never evidence of anything.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::{PgPool, QueryBuilder};

use super::DbError;

/// What a device said of itself.
#[derive(Debug, Clone)]
pub struct NewState {
    /// Its number.
    pub device: u32,
    /// When it said so.
    pub said_at: DateTime<Utc>,
    /// Version of its agent.
    pub agent: String,
    /// Random number of its start.
    pub boot: u32,
    /// Seconds since then.
    pub uptime_s: u64,
    /// Its spool's epoch.
    pub epoch: u64,
    /// Highest sequence in it.
    pub last_seq: u64,
    /// Frames not yet acknowledged.
    pub backlog_frames: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Frames lost since the spool was made.
    pub lost_frames: u64,
    /// Time of its last fix.
    pub last_fix_at: Option<DateTime<Utc>>,
    /// GGA number of its quality.
    pub quality: u8,
    /// `absent`, `no_fix` or `fix`.
    pub receiver: &'static str,
    /// Free bytes on its disk.
    pub disk_free_bytes: u64,
    /// Version of the settings in force.
    pub settings_version: u32,
}

/// Counts of the wire are unsigned; beyond what a bigint holds they are as good as endless.
fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Keeps the last word of each device; an older one never replaces a newer one. Each device at most
/// once, at most 2,000 of them.
///
/// Errors: the database.
pub async fn put(pool: &PgPool, states: &[NewState]) -> Result<(), DbError> {
    if states.is_empty() {
        return Ok(());
    }
    let mut query = QueryBuilder::new(
        "insert into device_states as s (device, said_at, agent, boot, uptime_s, epoch, last_seq, backlog_frames,
         backlog_bytes, lost_frames, last_fix_at, quality, receiver, disk_free_bytes, settings_version) ",
    );
    query.push_values(states, |mut row, s| {
        row.push_bind(s.device.cast_signed())
            .push_bind(s.said_at)
            .push_bind(&s.agent)
            .push_bind(i64::from(s.boot))
            .push_bind(count(s.uptime_s))
            .push_bind(s.epoch.cast_signed())
            .push_bind(s.last_seq.cast_signed())
            .push_bind(count(s.backlog_frames))
            .push_bind(count(s.backlog_bytes))
            .push_bind(count(s.lost_frames))
            .push_bind(s.last_fix_at)
            .push_bind(i16::from(s.quality))
            .push_bind(s.receiver)
            .push_bind(count(s.disk_free_bytes))
            .push_bind(i64::from(s.settings_version));
    });
    query.push(
        " on conflict (device) do update set said_at = excluded.said_at, agent = excluded.agent, boot = excluded.boot,
         uptime_s = excluded.uptime_s, epoch = excluded.epoch, last_seq = excluded.last_seq,
         backlog_frames = excluded.backlog_frames, backlog_bytes = excluded.backlog_bytes,
         lost_frames = excluded.lost_frames, last_fix_at = excluded.last_fix_at, quality = excluded.quality,
         receiver = excluded.receiver, disk_free_bytes = excluded.disk_free_bytes,
         settings_version = excluded.settings_version
         where s.said_at <= excluded.said_at",
    );
    query.build().execute(pool).await?;
    Ok(())
}

/// A device's last signs of life.
#[derive(Debug, Clone, Default)]
pub struct SeenRow {
    /// Its number.
    pub device: i32,
    /// When its last frame was committed.
    pub last_frame_at: Option<DateTime<Utc>>,
    /// When it last said how it is.
    pub said_at: Option<DateTime<Utc>>,
    /// Version of its agent.
    pub agent: Option<String>,
    /// Frames that it had not delivered then.
    pub backlog_frames: Option<i64>,
    /// Frames that it has lost.
    pub lost_frames: Option<i64>,
    /// Its receiver then.
    pub receiver: Option<String>,
    /// Whether a gate said last that it has a session.
    pub session: Option<bool>,
    /// When a gate last said something of it.
    pub session_changed_at: Option<DateTime<Utc>>,
    /// When its identity was last found to be used by several boxes.
    pub cloned_at: Option<DateTime<Utc>>,
}

/// So long a device may say nothing before it counts as offline, s.
const SILENT_S: i64 = 150;

impl SeenRow {
    /// Whether the device is there: a gate has it and it gave a sign of life lately.
    #[must_use]
    pub fn online(&self, now: DateTime<Utc>) -> bool {
        let last = [self.last_frame_at, self.said_at, self.session_changed_at]
            .into_iter()
            .flatten()
            .max();
        // Behind an outside broker no gate knows of it.
        self.session != Some(false) && last.is_some_and(|at| (now - at).num_seconds() < SILENT_S)
    }
}

/// Last signs of life of all devices that gave one.
///
/// Errors: the database.
pub async fn seen(pool: &PgPool) -> Result<HashMap<i32, SeenRow>, DbError> {
    let rows = sqlx::query_as!(
        SeenRow,
        r#"with e as (
               select device, max(last_received_at) as last_frame_at from track_epochs group by device
           )
           select d.device as "device!", e.last_frame_at as "last_frame_at?",
                  s.said_at as "said_at?", s.agent as "agent?", s.backlog_frames as "backlog_frames?",
                  s.lost_frames as "lost_frames?", s.receiver as "receiver?", g.online as "session?",
                  g.changed_at as "session_changed_at?", g.cloned_at as "cloned_at?"
           from (select device from device_states union select device from e
                 union select device from device_sessions) d
           left join e on e.device = d.device
           left join device_states s on s.device = d.device
           left join device_sessions g on g.device = d.device"#,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.device, row)).collect())
}
