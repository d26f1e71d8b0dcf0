//! A device's session as the rest of the platform sees it: how it is answered, and how it is ended. Never touches the network.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use furrow_protocol::{down::Down, frame::Device};
use tokio::sync::{Notify, Semaphore};

use crate::ingest::arrival::Reply;

/// Down messages that wait for a slow reader, at most; beyond it the session ends.
const MAX_DOWN: usize = 1024;

/// Why a session is ended by the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The device has come in anew.
    TakenOver,
    /// The register turned it away.
    Revoked,
    /// What it is told piles up.
    Slow,
    /// The gate closes: what is settled meanwhile is still told.
    Shutdown,
}

impl End {
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::TakenOver => "taken_over",
            Self::Revoked => "revoked",
            Self::Slow => "slow",
            Self::Shutdown => "shutdown",
        }
    }
}

/// A running session.
#[derive(Debug)]
pub(super) struct Session {
    pub device: Device,
    /// Counted by this process, from 1.
    pub number: u64,
    outbox: Mutex<Outbox>,
    /// Fires when there is something in the outbox.
    pub wake: Notify,
    end: Mutex<Option<End>>,
    /// Fires when the session must end, for the reason in [`Session::why`].
    pub stop: Notify,
    over: AtomicBool,
    gone: Semaphore,
}

/// What is to be told to the device.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub settled: Vec<u64>,
    pub down: Vec<Down>,
}

impl Session {
    pub(super) fn new(device: Device, number: u64) -> Self {
        Self {
            device,
            number,
            outbox: Mutex::default(),
            wake: Notify::new(),
            end: Mutex::default(),
            stop: Notify::new(),
            over: AtomicBool::new(false),
            gone: Semaphore::new(0),
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is to be told.
    pub(super) fn take(&self) -> Outbox {
        std::mem::take(&mut *self.outbox())
    }

    /// Asks the session to end. The first reason stays, but a shutdown gives way to any other.
    pub(super) fn end(&self, why: End) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*end, None | Some(End::Shutdown)) {
            *end = Some(why);
        }
        drop(end);
        self.stop.notify_one();
    }

    /// Why it was asked to end.
    pub(super) fn why(&self) -> Option<End> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is over: whoever still answers, answers into nothing.
    pub(super) fn close(&self) {
        self.over.store(true, Ordering::Release);
        drop(self.take());
        self.gone.close();
    }

    /// Waits until it is over.
    pub(super) async fn gone(&self) {
        let _ = self.gone.acquire().await;
    }
}

impl Reply for Session {
    fn settle(&self, _device: Device, tickets: &[u64], mut down: Vec<Down>) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let mut outbox = self.outbox();
        outbox.settled.extend_from_slice(tickets);
        if outbox.down.is_empty() {
            outbox.down = down;
        } else {
            outbox.down.append(&mut down);
        }
        let slow = outbox.down.len() > MAX_DOWN;
        drop(outbox);
        if slow {
            self.end(End::Slow);
        }
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_lets_messages_pile_up_is_ended() {
        let session = Session::new(Device(7), 1);
        let down = Down::Ack {
            epoch: 1,
            ranges: vec![(1, 1)],
        };
        session.settle(Device(7), &[], vec![down.clone(); MAX_DOWN]);
        assert_eq!(session.why(), None);
        session.settle(Device(7), &[], vec![down]);
        assert_eq!(session.why(), Some(End::Slow));
    }

    #[test]
    fn nothing_is_kept_for_a_session_that_is_over() {
        let session = Session::new(Device(7), 1);
        session.settle(Device(7), &[1], vec![]);
        session.close();
        session.settle(Device(7), &[2], vec![]);
        assert!(session.take().settled.is_empty());
    }

    #[test]
    fn a_take_over_counts_more_than_a_shutdown_and_the_first_reason_stays() {
        let session = Session::new(Device(7), 1);
        session.end(End::Shutdown);
        session.end(End::TakenOver);
        session.end(End::Revoked);
        assert_eq!(session.why(), Some(End::TakenOver));
    }
}
