//! How many may be at the door at once, in all and by address. Counts give themselves back.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// Sockets that have said nothing yet, at most.
const SILENT: usize = 1024;

/// Counts of open connections.
#[derive(Debug, Default)]
pub(super) struct Limits {
    counts: Mutex<Counts>,
    silent: Mutex<VecDeque<(u64, CancellationToken)>>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
}

/// A place at the door; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    limits: Arc<Limits>,
    address: IpAddr,
}

impl Limits {
    /// A place for a connection, if there is one.
    pub(super) fn seat(
        self: &Arc<Self>,
        address: IpAddr,
        most: usize,
        most_of_one: usize,
    ) -> Option<Seat> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.total >= most || of_one >= most_of_one {
            return None;
        }
        counts.total += 1;
        counts.by_address.insert(address, of_one + 1);
        metrics::gauge!("furrow_gate_connections").increment(1.0);
        Some(Seat {
            limits: Arc::clone(self),
            address,
        })
    }

    /// A place among the silent; the one that has been silent for longest goes when there is none.
    pub(super) fn silent(self: &Arc<Self>) -> Silent {
        let id = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.next += 1;
            counts.next
        };
        let gone = CancellationToken::new();
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if silent.len() >= SILENT
            && let Some((_, oldest)) = silent.pop_front()
        {
            oldest.cancel();
        }
        silent.push_back((id, gone.clone()));
        Silent {
            limits: Arc::clone(self),
            id,
            gone,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self
            .limits
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        counts.total = counts.total.saturating_sub(1);
        match counts.by_address.get_mut(&self.address) {
            Some(n) if *n > 1 => *n -= 1,
            _ => {
                counts.by_address.remove(&self.address);
            }
        }
        metrics::gauge!("furrow_gate_connections").decrement(1.0);
    }
}

/// A socket that has said nothing yet.
#[derive(Debug)]
pub(super) struct Silent {
    limits: Arc<Limits>,
    id: u64,
    /// Fires when the place is needed for another.
    pub(super) gone: CancellationToken,
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.limits
            .silent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(id, _)| *id != self.id);
    }
}
