//! Decodes and verifies frames, many at a time, on a thread of its own. Never touches the database.

use std::collections::HashMap;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use ed25519_zebra::batch;
use furrow_protocol::{
    batch::Batch,
    down::RefusedReason,
    error::DecodeError,
    frame::{Digest, Frame, genesis, payload_digest},
};

use super::{arrival::Arrival, keys::DeviceKey};
use crate::db::frames::{NewFrame, Place};

/// Frames dated further ahead than this are not believed.
pub const AHEAD: TimeDelta = TimeDelta::minutes(5);
/// Frames dated further back than this are not taken.
pub const BACK: TimeDelta = TimeDelta::days(97);

/// A frame that may be stored.
#[derive(Debug, Clone)]
pub struct Sound {
    /// As it is stored.
    pub frame: NewFrame,
    /// `prev` of the next frame.
    pub digest: Digest,
    /// `prev` of this frame.
    pub prev: Digest,
    /// What `prev` must be if this is the first of its epoch.
    pub genesis: Option<Digest>,
}

/// Why a frame is no track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Not a frame, or a frame that holds no batch.
    Undecodable,
    /// A version that this build does not know.
    UnknownVersion,
    /// The signature does not fit.
    BadSignature,
    /// Dated too far back.
    TooOld,
    /// Dated ahead.
    Ahead,
    /// From a device that was turned away, or is not known.
    Revoked,
}

impl Fault {
    /// In the database and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::UnknownVersion => "unknown_version",
            Self::BadSignature => "bad_signature",
            Self::TooOld => "too_old",
            Self::Ahead => "ahead",
            Self::Revoked => "revoked",
        }
    }

    /// What the device is told.
    #[must_use]
    pub const fn refused(self) -> RefusedReason {
        match self {
            Self::Undecodable => RefusedReason::Undecodable,
            Self::UnknownVersion => RefusedReason::UnknownVersion,
            Self::BadSignature => RefusedReason::BadSignature,
            Self::TooOld => RefusedReason::TooOld,
            Self::Ahead => RefusedReason::Ahead,
            Self::Revoked => RefusedReason::Revoked,
        }
    }
}

/// The verdict on an arrival.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// To be stored.
    Sound(Box<Sound>),
    /// To be kept in quarantine; with its place and digest if the signature is good.
    Faulty(Fault, Option<(Place, Digest)>),
}

/// Judges arrivals, in their order.
#[must_use]
pub fn check(
    arrivals: &[Arrival],
    keys: &HashMap<u32, DeviceKey>,
    now: DateTime<Utc>,
) -> Vec<Verdict> {
    let read: Vec<Result<Read<'_>, Fault>> = arrivals.iter().map(|a| read(a, keys)).collect();
    let readable: Vec<&Read<'_>> = read.iter().filter_map(|r| r.as_ref().ok()).collect();
    let mut good = vec![true; readable.len()];
    verify(&readable, &mut good);
    let mut good = good.into_iter();
    read.iter()
        .map(|read| match read {
            Err(fault) => Verdict::Faulty(*fault, None),
            Ok(_) if good.next() != Some(true) => Verdict::Faulty(Fault::BadSignature, None),
            Ok(read) => read.judge(now),
        })
        .collect()
}

struct Read<'a> {
    arrival: &'a Arrival,
    key: &'a DeviceKey,
    frame: Frame,
    signed: Vec<u8>,
    batch: Batch,
}

fn read<'a>(arrival: &'a Arrival, keys: &'a HashMap<u32, DeviceKey>) -> Result<Read<'a>, Fault> {
    let key = keys
        .get(&arrival.device.0)
        .filter(|key| !key.revoked)
        .ok_or(Fault::Revoked)?;
    let frame = Frame::from_bytes(&arrival.payload).map_err(|error| match error {
        DecodeError::UnknownVersion(_) => Fault::UnknownVersion,
        _ => Fault::Undecodable,
    })?;
    let batch = Batch::decode(&frame.batch).map_err(|_| Fault::Undecodable)?;
    let signed = frame.signed_bytes(arrival.device);
    Ok(Read {
        arrival,
        key,
        frame,
        signed,
        batch,
    })
}

/// Batches are a filter: if one does not verify, halves are tried until the bad ones are found.
fn verify(frames: &[&Read<'_>], good: &mut [bool]) {
    if frames.is_empty() || batch_verifies(frames) {
        return;
    }
    if let ([one], [good]) = (frames, &mut *good) {
        *good = one
            .frame
            .verify(one.arrival.device, &one.key.strict)
            .is_ok();
        return;
    }
    let half = frames.len() / 2;
    let (first, second) = frames.split_at(half);
    let (first_good, second_good) = good.split_at_mut(half);
    verify(first, first_good);
    verify(second, second_good);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the weights of a batch of signatures, needed here only"
)]
fn batch_verifies(frames: &[&Read<'_>]) -> bool {
    let mut verifier = batch::Verifier::new();
    for read in frames {
        let signature = ed25519_zebra::Signature::from(read.frame.signature);
        verifier.queue((read.key.batch, signature, &read.signed));
    }
    verifier.verify(rand::rng()).is_ok()
}

impl Read<'_> {
    fn judge(&self, now: DateTime<Utc>) -> Verdict {
        let device = self.arrival.device;
        let place = Place {
            device: device.0,
            epoch: self.frame.epoch,
            seq: self.frame.seq,
        };
        let digest = Digest::of_signed(&self.signed);
        let times = (time(self.batch.at_ms), time(self.batch.last_at_ms()));
        let (first_at, last_at) = match times {
            (Some(first), Some(last)) if last > now + AHEAD => {
                let _ = first;
                return Verdict::Faulty(Fault::Ahead, Some((place, digest)));
            }
            (Some(first), Some(last)) if first >= now - BACK => (first, last),
            (Some(_), _) => return Verdict::Faulty(Fault::TooOld, Some((place, digest))),
            // Beyond all calendars, before or after.
            (None, _) if self.batch.at_ms < 0 => {
                return Verdict::Faulty(Fault::TooOld, Some((place, digest)));
            }
            (None, _) => return Verdict::Faulty(Fault::Ahead, Some((place, digest))),
        };
        let frame = NewFrame {
            place,
            day: first_at.date_naive(),
            first_at,
            last_at,
            fixes: i16::try_from(self.batch.fixes.len()).unwrap_or(i16::MAX),
            frame: self.arrival.payload.clone(),
        };
        let genesis = (place.seq == 1).then(|| genesis(device, place.epoch, &self.key.strict));
        Verdict::Sound(Box::new(Sound {
            frame,
            digest,
            prev: self.frame.prev,
            genesis,
        }))
    }
}

/// Times of years 1 to 9999; others are none that a database or a person could use.
fn time(ms: i64) -> Option<DateTime<Utc>> {
    const YEAR_1: i64 = -62_135_596_800_000;
    const YEAR_10000: i64 = 253_402_300_800_000;
    (YEAR_1..YEAR_10000)
        .contains(&ms)
        .then(|| DateTime::from_timestamp_millis(ms))
        .flatten()
}

/// The digest by which a refusal names a payload.
#[must_use]
pub fn name_of(payload: &Bytes) -> Digest {
    payload_digest(payload)
}
