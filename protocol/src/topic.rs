//! Topics, built and parsed here alone.

use core::fmt;

use crate::{error::TopicError, frame::Device};

/// What an outside broker is asked for to get all frames.
pub const UP_FILTER: &str = "furrow/v1/+/up";
/// What an outside broker is asked for to get all state messages.
pub const STATE_FILTER: &str = "furrow/v1/+/state";

const PREFIX: &str = "furrow/v1/";

/// The three lanes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Frames, from the device.
    Up,
    /// Acks, refusals and settings, to the device.
    Down,
    /// Health, from the device.
    State,
}

impl Lane {
    const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::State => "state",
        }
    }
}

/// `furrow/v1/{device}/{lane}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Topic {
    /// Whose.
    pub device: Device,
    /// Which lane.
    pub lane: Lane,
}

impl Topic {
    /// The topic that this string is, exactly: a decimal number from 1 without sign or leading zero.
    ///
    /// Errors: [`TopicError`].
    pub fn parse(topic: &str) -> Result<Self, TopicError> {
        let rest = topic.strip_prefix(PREFIX).ok_or(TopicError)?;
        let (number, lane) = rest.split_once('/').ok_or(TopicError)?;
        let lane = match lane {
            "up" => Lane::Up,
            "down" => Lane::Down,
            "state" => Lane::State,
            _ => return Err(TopicError),
        };
        let digits = number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
        if !digits {
            return Err(TopicError);
        }
        let device = number.parse().map_err(|_| TopicError)?;
        Ok(Self {
            device: Device(device),
            lane,
        })
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}/{}", self.device, self.lane.name())
    }
}
