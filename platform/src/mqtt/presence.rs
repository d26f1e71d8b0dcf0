//! Which devices have a session, as changes to be taken. Never blocks a session and never forgets the latest change of a device, however late it is taken.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use furrow_protocol::frame::Device;
use tokio::sync::Notify;

/// What changed about a device since it was last taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub device: Device,
    /// The latest session's number, counted by this process from 1.
    pub session: u64,
    /// Whether that session runs.
    pub online: bool,
    /// Whether its identity was found to be used by several boxes.
    pub cloned: bool,
}

/// Changes that wait to be taken, one a device: as many as there are devices, at most.
#[derive(Debug, Default)]
pub struct Presence {
    changes: Mutex<HashMap<u32, Change>>,
    news: Notify,
}

impl Presence {
    /// Waits until something has changed, and takes all changes. For one taker.
    pub async fn changed(&self) -> Vec<Change> {
        loop {
            let changes = std::mem::take(&mut *self.changes());
            if !changes.is_empty() {
                return changes.into_values().collect();
            }
            self.news.notified().await;
        }
    }

    pub(super) fn began(&self, device: Device, session: u64) {
        self.change(device, session, |change| {
            change.session = session;
            change.online = true;
        });
    }

    pub(super) fn ended(&self, device: Device, session: u64) {
        self.change(device, session, |change| {
            if change.session <= session {
                change.session = session;
                change.online = false;
            }
        });
    }

    /// The session that stays is running.
    pub(super) fn cloned(&self, device: Device, session: u64) {
        self.change(device, session, |change| {
            change.cloned = true;
            if change.session <= session {
                change.session = session;
                change.online = true;
            }
        });
    }

    fn change(&self, device: Device, session: u64, how: impl FnOnce(&mut Change)) {
        how(self.changes().entry(device.0).or_insert(Change {
            device,
            session,
            online: false,
            cloned: false,
        }));
        self.news.notify_one();
    }

    fn changes(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_latest_change_of_each_device_is_kept_until_it_is_taken() {
        let presence = Presence::default();
        presence.began(Device(7), 1);
        presence.ended(Device(7), 1);
        presence.began(Device(7), 2);
        presence.ended(Device(7), 1);
        let change = |device, session, online, cloned| Change {
            device: Device(device),
            session,
            online,
            cloned,
        };
        assert_eq!(presence.changed().await, [change(7, 2, true, false)]);
        presence.ended(Device(7), 2);
        assert_eq!(presence.changed().await, [change(7, 2, false, false)]);
        presence.cloned(Device(8), 3);
        assert_eq!(presence.changed().await, [change(8, 3, true, true)]);
    }
}
