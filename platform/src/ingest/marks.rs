//! The high-water marks of epochs: what lies above them is new without a look at the tracks. Never lowers one.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::db::{
    self, DbError,
    frames::{self, Place},
};

/// Marks are signed in the database: what lies beyond is always looked up.
const LAST_MARKED: u64 = i64::MAX.unsigned_abs();

/// What the high-water marks of a group's epochs were before it.
pub(super) struct Marks(HashMap<(u32, u64), u64>);

impl Marks {
    /// Locks the epochs of these places and raises their marks. The locks make groups of one epoch
    /// follow each other, in every process.
    ///
    /// Errors: the database.
    pub(super) async fn raise(
        tx: &mut db::Connection,
        places: impl Iterator<Item = Place>,
        now: DateTime<Utc>,
    ) -> Result<Self, DbError> {
        let mut highest: HashMap<(u32, u64), u64> = HashMap::new();
        for Place { device, epoch, seq } in places {
            let mark = highest.entry((device, epoch)).or_default();
            if seq <= LAST_MARKED {
                *mark = (*mark).max(seq);
            }
        }
        if highest.is_empty() {
            return Ok(Self(highest));
        }
        frames::raise_marks(tx, &highest, now).await.map(Self)
    }

    /// Whether something may have been kept at this place before the group.
    pub(super) fn may_be_kept(&self, place: &Place) -> bool {
        let mark = self.0.get(&(place.device, place.epoch)).copied();
        place.seq > LAST_MARKED || place.seq <= mark.unwrap_or(0)
    }
}
