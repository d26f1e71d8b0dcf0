//! How a device is: its health message. Never needed for the truth of a track.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    error::{DecodeError, EncodeError},
    fix::Quality,
    wire::{Reader, put},
};

/// The layout that this build writes.
pub const VERSION: u8 = 1;
/// Most bytes of a state message.
pub const MAX_STATE_BYTES: usize = 512;
/// Most bytes of the agent's version.
pub const MAX_AGENT_BYTES: usize = 32;

/// What the receiver does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Receiver {
    /// Not there, or silent.
    Absent,
    /// There, but without a fix.
    NoFix,
    /// With a fix.
    Fix,
}

/// A health message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// Version of the agent: printable ASCII (it ends up in logs and pages), at most [`MAX_AGENT_BYTES`].
    pub agent: String,
    /// Random number of this start.
    pub boot: u32,
    /// Seconds since this start.
    pub uptime_s: u64,
    /// The spool's epoch.
    pub epoch: u64,
    /// Highest sequence in it, 0 for none.
    pub last_seq: u64,
    /// Frames stored and not acknowledged.
    pub backlog_frames: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Time of the last fix, ms since 1970 UTC.
    pub last_fix_ms: Option<i64>,
    /// GGA number of its quality, 0 ..= 8.
    pub quality: u8,
    /// The receiver.
    pub receiver: Receiver,
    /// Frames lost to quota, damage or a failing disk since the spool was made.
    pub lost_frames: u64,
    /// Free bytes on the spool's disk.
    pub disk_free_bytes: u64,
    /// Version of the settings in force, 0 for its own.
    pub settings_version: u32,
}

impl State {
    /// The message's bytes: version, then postcard.
    ///
    /// Errors: the agent's version too long or not printable ASCII, or an unknown quality.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        if let Some(field) = self.out_of_range() {
            return Err(EncodeError::OutOfRange(field));
        }
        let mut out = Vec::with_capacity(96);
        out.push(VERSION);
        put(&mut out, self);
        Ok(out)
    }

    /// The message that these bytes hold.
    ///
    /// Errors: anything that [`State::encode`] would not have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, VERSION, MAX_STATE_BYTES)?;
        let state: Self = reader.take("state message")?;
        reader.end()?;
        if state.encode()? == bytes {
            Ok(state)
        } else {
            Err(DecodeError::NotCanonical)
        }
    }

    fn out_of_range(&self) -> Option<&'static str> {
        let printable = self
            .agent
            .bytes()
            .all(|b| b.is_ascii_graphic() || b == b' ');
        if self.agent.len() > MAX_AGENT_BYTES || !printable {
            Some("agent")
        } else if Quality::from_gga(self.quality).is_none() {
            Some("quality")
        } else {
            None
        }
    }
}
