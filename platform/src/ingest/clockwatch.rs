//! Watches whether devices are ahead of the platform: if many are, the platform's own clock is wrong. Never corrects a time.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};
use furrow_protocol::frame::Device;

/// How long a device's last word counts.
const SPAN: TimeDelta = TimeDelta::hours(1);
/// More than one in so many devices ahead is the platform's fault.
const SHARE: usize = 20;
/// Fewer devices than this say nothing about the platform.
const LEAST_AHEAD: usize = 3;

/// Devices of the last hour, and which of them were ahead.
#[derive(Debug, Default)]
pub(super) struct ClockWatch(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    devices: HashMap<u32, (DateTime<Utc>, bool)>,
    judged: Option<(DateTime<Utc>, bool)>,
}

impl ClockWatch {
    pub(super) fn note(&self, device: Device, ahead: bool, now: DateTime<Utc>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.devices.insert(device.0, (now, ahead));
        if ahead {
            seen.judged = None;
        }
    }

    pub(super) fn distrusts_itself(&self, now: DateTime<Utc>) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, verdict)) = seen.judged
            && now - at < TimeDelta::seconds(1)
        {
            return verdict;
        }
        seen.devices.retain(|_, (at, _)| now - *at < SPAN);
        let ahead = seen.devices.values().filter(|(_, ahead)| *ahead).count();
        let verdict = ahead >= LEAST_AHEAD && ahead * SHARE > seen.devices.len();
        if verdict {
            tracing::error!(
                ahead,
                devices = seen.devices.len(),
                "ingest.own_clock_behind"
            );
        }
        metrics::gauge!("furrow_ingest_distrusts_own_clock").set(if verdict { 1.0 } else { 0.0 });
        seen.judged = Some((now, verdict));
        verdict
    }
}
