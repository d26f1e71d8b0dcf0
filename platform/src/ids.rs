//! The only place that makes ids and random values. Never reads the clock: the time of an id is told.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use uuid::{ContextV7, Timestamp, Uuid};

/// The counter within a millisecond: ids of one process sort in the order in which they were made.
static CONTEXT: Mutex<ContextV7> = Mutex::new(ContextV7::new());

/// A new id (UUIDv7): ids of later times sort after earlier ones, and those of one time in their order.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the room for it")]
pub fn new_id(now: DateTime<Utc>) -> Uuid {
    let seconds = u64::try_from(now.timestamp()).unwrap_or(0);
    let context = CONTEXT.lock().unwrap_or_else(PoisonError::into_inner);
    Uuid::new_v7(Timestamp::from_unix(
        &*context,
        seconds,
        now.timestamp_subsec_nanos(),
    ))
}

/// Random bytes that nobody can guess.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the room for it")]
pub fn secret<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::Rng::fill_bytes(&mut rand::rng(), &mut bytes);
    bytes
}

/// A new trace id: 32 hex digits that are not all zero.
#[must_use]
pub fn trace_id() -> String {
    format!("{:032x}", u128::from_be_bytes(secret()) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_later_times_sort_after_earlier_ones_and_none_comes_twice() {
        let at = |s| DateTime::from_timestamp(s, 0).unwrap_or_default();
        assert!(new_id(at(1_700_000_000)) < new_id(at(1_700_000_001)));
        let all: Vec<_> = (0..1000).map(|_| new_id(at(1_800_000_000))).collect();
        assert!(all.is_sorted_by(|a, b| a < b), "one after another");
        assert_ne!(secret::<32>(), secret::<32>());
        assert_eq!(trace_id().len(), 32);
    }
}
