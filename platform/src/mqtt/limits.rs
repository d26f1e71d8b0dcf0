//! How many may be at the door at once: the silent, those in a handshake, connections in all and by address. Places give themselves back.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::Resource;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

/// Sockets that have said nothing yet, at most.
pub(super) const SILENT: usize = 1024;
/// Handshakes at once.
const HANDSHAKES: usize = 256;
/// A handshake of this age goes when others wait for its place: a genuine one takes a few round
/// trips, and those who begin one and stall must not keep everybody out for its whole time.
const STALLED: Duration = Duration::from_secs(2);
/// How often whoever waits for a place looks for a stalled one.
const LOOK: Duration = Duration::from_millis(100);

/// Asks the host for as many open files as it allows at all: the customary first limit of 1,024 is
/// less than the silent alone may hold.
pub(super) fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, limit) {
        tracing::warn!(error = %error, "gate.open_files");
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A row of places of which the oldest can be told to go.
#[derive(Debug, Default)]
struct Row {
    next: u64,
    taken: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

impl Row {
    fn take(&mut self) -> (u64, Arc<Notify>) {
        self.next += 1;
        let go = Arc::new(Notify::new());
        self.taken
            .insert(self.next, (Instant::now(), Arc::clone(&go)));
        (self.next, go)
    }

    /// Tells the oldest to go, if it is at least that old; its place counts as free from now on.
    fn oldest_goes(&mut self, age: Duration) -> bool {
        let Some(entry) = self.taken.first_entry() else {
            return false;
        };
        if entry.get().0.elapsed() < age {
            return false;
        }
        entry.remove().1.notify_one();
        true
    }
}

/// Counts of open connections.
#[derive(Debug)]
pub(super) struct Limits {
    max_connections: usize,
    max_per_address: usize,
    counts: Mutex<Counts>,
    silent: Mutex<Row>,
    handshakes: Semaphore,
    shaking: Mutex<Row>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Limits {
    pub(super) fn new(max_connections: usize, max_per_address: usize) -> Self {
        Self {
            max_connections,
            max_per_address,
            counts: Mutex::default(),
            silent: Mutex::default(),
            handshakes: Semaphore::new(HANDSHAKES),
            shaking: Mutex::default(),
        }
    }

    /// A place for a connection that has begun to speak, if there is one.
    pub(super) fn seat(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let address = network(address);
        let mut counts = locked(&self.counts);
        let of_one = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.total >= self.max_connections || of_one >= self.max_per_address {
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

    /// A place among the silent; whoever has been silent for longest goes when there is none.
    pub(super) fn silent(self: &Arc<Self>) -> Silent {
        let mut row = locked(&self.silent);
        if row.taken.len() >= SILENT {
            row.oldest_goes(Duration::ZERO);
        }
        let (id, go) = row.take();
        Silent {
            limits: Arc::clone(self),
            id,
            go,
        }
    }

    /// Makes room when the process is out of file descriptors.
    pub(super) fn oldest_silent_goes(&self) {
        locked(&self.silent).oldest_goes(Duration::ZERO);
    }

    /// A place for a handshake; None when there is none for `patience`.
    pub(super) async fn handshake(&self, patience: Duration) -> Option<Handshake<'_>> {
        let acquire = self.handshakes.acquire();
        tokio::pin!(acquire);
        let deadline = Instant::now() + patience;
        let permit = loop {
            // In turn: this wait keeps its place in the queue however often it looks.
            match timeout(LOOK, &mut acquire).await {
                Ok(permit) => break permit.ok()?,
                Err(_) if Instant::now() >= deadline => return None,
                Err(_) => locked(&self.shaking).oldest_goes(STALLED),
            };
        };
        let (id, go) = locked(&self.shaking).take();
        Some(Handshake {
            limits: self,
            id,
            go,
            _permit: permit,
        })
    }
}

/// An IPv6 customer has at least a /64: its addresses count as one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// A place at the door; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    limits: Arc<Limits>,
    address: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = locked(&self.limits.counts);
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
    pub(super) go: Arc<Notify>,
}

impl Drop for Silent {
    fn drop(&mut self) {
        locked(&self.limits.silent).taken.remove(&self.id);
    }
}

/// A handshake that is going on.
#[derive(Debug)]
pub(super) struct Handshake<'a> {
    limits: &'a Limits,
    id: u64,
    /// Fires when it has stalled and others wait.
    pub(super) go: Arc<Notify>,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        locked(&self.limits.shaking).taken.remove(&self.id);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn seats_are_counted_in_all_and_by_address_and_come_back() {
        let limits = Arc::new(Limits::new(3, 2));
        let a = limits.seat(ip("10.0.0.1")).unwrap();
        let _b = limits.seat(ip("10.0.0.1")).unwrap();
        assert!(limits.seat(ip("10.0.0.1")).is_none());
        assert!(limits.seat(ip("::ffff:10.0.0.1")).is_none());
        let _c = limits.seat(ip("10.0.0.2")).unwrap();
        assert!(limits.seat(ip("10.0.0.3")).is_none());
        drop(a);
        assert!(limits.seat(ip("10.0.0.1")).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let limits = Arc::new(Limits::new(9, 1));
        let _a = limits.seat(ip("2001:db8::1")).unwrap();
        assert!(limits.seat(ip("2001:db8::ffff")).is_none());
        assert!(limits.seat(ip("2001:db8:0:1::1")).is_some());
    }

    #[tokio::test]
    async fn the_longest_silent_goes_when_the_room_is_full() {
        let limits = Arc::new(Limits::new(1, 1));
        let mut all: Vec<Silent> = (0..SILENT).map(|_| limits.silent()).collect();
        all.push(limits.silent());
        all[0].go.notified().await;
        assert!(timeout(Duration::ZERO, all[1].go.notified()).await.is_err());
        drop(all);
        assert!(locked(&limits.silent).taken.is_empty());
    }

    #[tokio::test]
    async fn a_stalled_handshake_gives_way_to_one_that_waits() {
        let limits = Limits::new(1, 1);
        let mut all = Vec::new();
        for _ in 0..HANDSHAKES {
            all.push(limits.handshake(Duration::from_secs(10)).await.unwrap());
        }
        let oldest = all.remove(0);
        let (waited, ()) = tokio::join!(limits.handshake(Duration::from_secs(10)), async {
            oldest.go.notified().await;
            drop(oldest);
        });
        assert!(waited.is_some());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_handshake_for_ever() {
        let limits = Limits::new(1, 1);
        let mut all = Vec::new();
        for _ in 0..HANDSHAKES {
            all.push(limits.handshake(Duration::from_secs(10)).await.unwrap());
        }
        assert!(limits.handshake(Duration::from_millis(300)).await.is_none());
    }
}
