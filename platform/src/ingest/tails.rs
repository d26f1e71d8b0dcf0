//! The digest of the last frame of each epoch, so that the next one's link is judged without a question to the database. A miss costs that question, nothing else.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use furrow_protocol::frame::Digest;

use crate::db::frames::Place;

/// Epochs remembered at most; beyond it all are forgotten and learnt anew.
const MOST: usize = 2_000_000;

/// What each epoch ends with, as far as this process saw it. That another process keeps a second frame
/// at the same place is not known here: the two are told as a contradiction by whoever found them.
#[derive(Debug, Default)]
pub struct Tails(Mutex<HashMap<(u32, u64), (u64, Digest)>>);

impl Tails {
    /// The digest at a place, if it is the last one of its epoch.
    #[must_use]
    pub fn digest(&self, place: &Place) -> Option<Digest> {
        let tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tails
            .get(&(place.device, place.epoch))
            .filter(|(seq, _)| *seq == place.seq)
            .map(|(_, digest)| *digest)
    }

    /// Remembers committed frames beside which nothing else is kept at their place.
    pub fn note(&self, frames: impl Iterator<Item = (Place, Digest)>) {
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tails.len() > MOST {
            tails.clear();
        }
        for (place, digest) in frames {
            let tail = tails
                .entry((place.device, place.epoch))
                .or_insert((0, digest));
            if place.seq >= tail.0 {
                *tail = (place.seq, digest);
            }
        }
    }

    /// Forgets places where another frame is kept too: the database knows all of them.
    pub fn forget(&self, places: impl Iterator<Item = Place>) {
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for place in places {
            let epoch = (place.device, place.epoch);
            if tails.get(&epoch).is_some_and(|(seq, _)| *seq == place.seq) {
                tails.remove(&epoch);
            }
        }
    }
}
