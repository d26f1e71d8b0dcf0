//! Since when groups cannot be stored, for readiness and metrics. Never decides what is tried again.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use chrono::{DateTime, Utc};

/// The groups that were tried in vain and are not given up.
#[derive(Debug)]
pub(super) struct Failing {
    /// When each of them failed first, s since 1970.
    open: Mutex<Vec<i64>>,
    /// The earliest of them; 0 while there is none.
    since: Arc<AtomicI64>,
}

impl Failing {
    pub(super) fn new(since: Arc<AtomicI64>) -> Self {
        Self {
            open: Mutex::default(),
            since,
        }
    }

    /// A group fails for the first time.
    pub(super) fn begin(&self, now: DateTime<Utc>) -> i64 {
        let begun = now.timestamp();
        self.change(|open| open.push(begun));
        begun
    }

    /// A group that began to fail then does so no more.
    pub(super) fn end(&self, begun: i64) {
        self.change(|open| {
            if let Some(at) = open.iter().position(|one| *one == begun) {
                open.swap_remove(at);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Vec<i64>)) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut open);
        let since = open.iter().min().copied().unwrap_or(0);
        self.since.store(since, Ordering::Relaxed);
        metrics::gauge!("furrow_ingest_failing").set(if since == 0 { 0.0 } else { 1.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fails_since_the_earliest_of_those_that_still_do() {
        let since = Arc::new(AtomicI64::new(0));
        let failing = Failing::new(Arc::clone(&since));
        let at = |s| DateTime::from_timestamp(s, 0).unwrap_or_default();
        let (first, second) = (failing.begin(at(100)), failing.begin(at(140)));
        assert_eq!(since.load(Ordering::Relaxed), 100);
        failing.end(first);
        assert_eq!(since.load(Ordering::Relaxed), 140);
        failing.end(second);
        assert_eq!(since.load(Ordering::Relaxed), 0);
    }
}
