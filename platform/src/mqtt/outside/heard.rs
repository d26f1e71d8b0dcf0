//! Which devices are heard behind an outside broker, where no session tells. Counts nothing else.

use std::{collections::HashMap, sync::Arc, time::Duration};

use furrow_protocol::frame::Device;
use tokio::time::Instant;

use crate::mqtt::presence::Presence;

/// Silence after which a device counts as gone.
const SILENCE: Duration = Duration::from_secs(150);

/// Which devices were heard lately. With several processes each hears a part of what a device sends;
/// a device is gone when none of them hears it.
pub(super) struct Heard {
    presence: Arc<Presence>,
    last: HashMap<u32, (Instant, u64)>,
    sessions: u64,
    swept: Instant,
}

impl Heard {
    pub(super) fn new(presence: Arc<Presence>) -> Self {
        Self {
            presence,
            last: HashMap::new(),
            sessions: 0,
            swept: Instant::now(),
        }
    }

    pub(super) fn note(&mut self, device: Device) {
        let now = Instant::now();
        if let Some((last, _)) = self.last.get_mut(&device.0) {
            *last = now;
        } else {
            self.sessions += 1;
            self.last.insert(device.0, (now, self.sessions));
            self.presence.began(device, self.sessions);
        }
        if now - self.swept > SILENCE / 10 {
            self.sweep(now);
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let presence = &self.presence;
        self.last.retain(|device, (last, session)| {
            let here = now - *last <= SILENCE;
            if !here {
                presence.ended(Device(*device), *session);
            }
            here
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_silent_for_150_s_is_gone() {
        let mut heard = Heard::new(Arc::default());
        heard.note(Device(7));
        let begin = Instant::now();
        heard.sweep(begin + Duration::from_secs(100));
        assert_eq!(heard.last.len(), 1);
        heard.sweep(begin + Duration::from_secs(151));
        assert!(heard.last.is_empty());
    }
}
