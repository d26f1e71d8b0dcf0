//! Decodes and verifies frames, many at a time, on a thread of its own. Never touches the database.

use std::collections::HashMap;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use ed25519_zebra::batch;
use furrow_protocol::{
    batch::Batch,
    error::DecodeError,
    frame::{Device, Digest, Frame, genesis, payload_digest},
};

use super::{fault::Fault, keys::DeviceKey};
use crate::db::frames::{NewFrame, Place};

/// Frames dated further ahead than this are not believed.
pub const AHEAD: TimeDelta = TimeDelta::minutes(5);
/// Frames dated further back than this are not taken.
pub const BACK: TimeDelta = TimeDelta::days(97);

/// What came, and from whom by its credentials.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The device.
    pub device: Device,
    /// All that it sent.
    pub payload: &'a Bytes,
}

/// A frame of a good signature as a link of its chain.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// Where it stands.
    pub place: Place,
    /// `prev` of the next frame.
    pub digest: Digest,
    /// `prev` of this frame.
    pub prev: Digest,
    /// What `prev` must be if this is the first of its epoch.
    pub genesis: Option<Digest>,
}

/// A frame that may be stored.
#[derive(Debug, Clone)]
pub struct Sound {
    /// As it is stored.
    pub frame: NewFrame,
    /// Its link.
    pub link: Link,
}

/// The verdict on an arrival.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// To be stored.
    Sound(Box<Sound>),
    /// To be kept in quarantine; with its link if the signature is good.
    Faulty(Fault, Option<Box<Link>>),
}

/// Judges what came, in its order.
#[must_use]
pub fn check(
    received: &[Received<'_>],
    keys: &HashMap<u32, DeviceKey>,
    now: DateTime<Utc>,
) -> Vec<Verdict> {
    let read: Vec<Result<Read<'_>, Fault>> = received.iter().map(|r| read(*r, keys)).collect();
    let readable: Vec<&Read<'_>> = read.iter().filter_map(|r| r.as_ref().ok()).collect();
    let mut good = vec![true; readable.len()];
    verify(&readable, &mut good);
    let mut good = good.into_iter();
    read.iter()
        .map(|read| match read {
            Err(fault) => Verdict::Faulty(*fault, None),
            Ok(read) if good.next() != Some(true) => Verdict::Faulty(
                if read.key.revoked {
                    Fault::Revoked
                } else {
                    Fault::BadSignature
                },
                None,
            ),
            Ok(read) => read.judge(now),
        })
        .collect()
}

struct Read<'a> {
    received: Received<'a>,
    key: &'a DeviceKey,
    frame: Frame,
    signed: Vec<u8>,
    batch: Batch,
}

fn read<'a>(received: Received<'a>, keys: &'a HashMap<u32, DeviceKey>) -> Result<Read<'a>, Fault> {
    let key = keys.get(&received.device.0).ok_or(Fault::UnknownDevice)?;
    // Of a device that is turned away nothing counts, but a frame of its own hand is still a link
    // between those that counted before.
    let otherwise = |fault| if key.revoked { Fault::Revoked } else { fault };
    let frame = Frame::from_bytes(received.payload).map_err(|error| {
        otherwise(match error {
            DecodeError::UnknownVersion(_) => Fault::UnknownVersion,
            _ => Fault::Undecodable,
        })
    })?;
    let batch = Batch::decode(&frame.batch).map_err(|_| otherwise(Fault::Undecodable))?;
    let signed = frame.signed_bytes(received.device);
    Ok(Read {
        received,
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
            .verify(one.received.device, &one.key.strict)
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
    fn link(&self) -> Link {
        let device = self.received.device;
        Link {
            place: Place {
                device: device.0,
                epoch: self.frame.epoch,
                seq: self.frame.seq,
            },
            digest: Digest::of_signed(&self.signed),
            prev: self.frame.prev,
            genesis: (self.frame.seq == 1)
                .then(|| genesis(device, self.frame.epoch, &self.key.strict)),
        }
    }

    fn judge(&self, now: DateTime<Utc>) -> Verdict {
        let link = self.link();
        match self.times(now) {
            Ok((first_at, last_at)) => Verdict::Sound(Box::new(Sound {
                frame: NewFrame {
                    place: link.place,
                    day: first_at.date_naive(),
                    first_at,
                    last_at,
                    fixes: i16::try_from(self.batch.fixes.len()).unwrap_or(i16::MAX),
                    frame: self.received.payload.clone(),
                },
                link,
            })),
            Err(fault) => Verdict::Faulty(fault, Some(Box::new(link))),
        }
    }

    /// First and last time, if they are believed.
    fn times(&self, now: DateTime<Utc>) -> Result<(DateTime<Utc>, DateTime<Utc>), Fault> {
        if self.key.revoked {
            return Err(Fault::Revoked);
        }
        // In whole milliseconds, as the wire has them: beyond all calendars there are times too.
        let now_ms = now.timestamp_millis();
        let (first_ms, last_ms) = (self.batch.at_ms, self.batch.last_at_ms());
        if last_ms.saturating_sub(now_ms) > AHEAD.num_milliseconds() {
            return Err(Fault::Ahead);
        }
        if now_ms.saturating_sub(first_ms) > BACK.num_milliseconds() {
            return Err(Fault::TooOld);
        }
        let time = |ms| DateTime::from_timestamp_millis(ms).ok_or(Fault::TooOld);
        Ok((time(first_ms)?, time(last_ms)?))
    }
}

/// The digest by which a refusal names a payload.
#[must_use]
pub fn name_of(payload: &Bytes) -> Digest {
    payload_digest(payload)
}
