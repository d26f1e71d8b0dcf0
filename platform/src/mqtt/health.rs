//! What boxes say of themselves: gathered for a moment, then kept in one statement. Never needed for the truth of a track: what cannot be kept is dropped.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use furrow_protocol::{
    frame::Device,
    state::{Receiver, State},
};
use tokio::sync::mpsc;

use crate::{
    clock::Clock,
    db::{
        Pool,
        states::{self, NewState},
    },
};

/// Words are gathered for so long ...
const GATHER: Duration = Duration::from_secs(1);
/// ... or until there are so many.
const MOST: usize = 2_000;

/// What a device said, as it came.
pub type Said = (Device, Bytes);

/// Keeps health messages until their sender is gone.
pub async fn keep(mut said: mpsc::Receiver<Said>, pool: Pool, clock: Arc<dyn Clock>) {
    while let Some(first) = said.recv().await {
        let mut gathered = HashMap::new();
        note(&mut gathered, first, clock.now());
        let end = tokio::time::Instant::now() + GATHER;
        while gathered.len() < MOST {
            match tokio::time::timeout_at(end, said.recv()).await {
                Ok(Some(next)) => note(&mut gathered, next, clock.now()),
                Ok(None) | Err(_) => break,
            }
        }
        let states: Vec<NewState> = gathered.into_values().collect();
        if let Err(error) = states::put(&pool, &states).await {
            metrics::counter!("furrow_device_states_total", "outcome" => "dropped")
                .increment(u64::try_from(states.len()).unwrap_or(u64::MAX));
            tracing::warn!(error = %error, states = states.len(), "device.states_dropped");
        }
    }
}

fn note(gathered: &mut HashMap<u32, NewState>, said: Said, now: DateTime<Utc>) {
    let (device, bytes) = said;
    match State::decode(&bytes) {
        Ok(state) => {
            metrics::counter!("furrow_device_states_total", "outcome" => "read").increment(1);
            gathered.insert(device.0, row(device, state, now));
        }
        Err(error) => {
            metrics::counter!("furrow_device_states_total", "outcome" => "unreadable").increment(1);
            tracing::debug!(device = device.0, error = %error, "device.state_unreadable");
        }
    }
}

fn row(device: Device, state: State, now: DateTime<Utc>) -> NewState {
    NewState {
        device: device.0,
        said_at: now,
        // PostgreSQL keeps no zero characters.
        agent: state.agent.replace('\0', ""),
        boot: state.boot,
        uptime_s: state.uptime_s,
        epoch: state.epoch,
        last_seq: state.last_seq,
        backlog_frames: state.backlog_frames,
        backlog_bytes: state.backlog_bytes,
        lost_frames: state.lost_frames,
        // A time that a database cannot hold is none.
        last_fix_at: state
            .last_fix_ms
            .filter(|ms| (0..253_402_300_800_000).contains(ms))
            .and_then(DateTime::from_timestamp_millis),
        quality: state.quality,
        receiver: match state.receiver {
            Receiver::Absent => "absent",
            Receiver::NoFix => "no_fix",
            Receiver::Fix => "fix",
        },
        disk_free_bytes: state.disk_free_bytes,
        settings_version: state.settings_version,
    }
}
