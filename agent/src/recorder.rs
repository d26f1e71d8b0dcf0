//! Batches become frames: numbered, chained, signed, and given to the spool. Never signs two batches for one place in the chain, whatever the disk does.

use std::{collections::VecDeque, fs::File, io, io::Write as _, sync::Arc};

use furrow_protocol::{
    SigningKey,
    batch::{Batch, Gap, GapReason, MAX_GAPS},
    frame::{Device, Digest, Frame, genesis},
};

use crate::{hex, spool::Spool};

/// Most batches that wait in memory for a disk that fails: at 10 s each a good ten minutes.
const WAITING: usize = 64;

/// What the recorder signs as.
#[derive(Clone)]
pub struct Signer {
    /// The device.
    pub device: Device,
    /// Its key.
    pub key: Arc<SigningKey>,
}

/// A frame that is signed, so that its place is used, and that the disk has not taken yet.
struct Unsynced {
    epoch: u64,
    seq: u64,
    frame: Vec<u8>,
    digest: Digest,
    gaps_told: Vec<Gap>,
}

/// The recorder.
pub struct Recorder {
    /// What is stored.
    pub spool: Spool,
    signer: Signer,
    journal: Option<File>,
    unsynced: Option<Unsynced>,
    waiting: VecDeque<Batch>,
    /// A span without batches that the next one tells: from, to.
    overrun: Option<(i64, i64)>,
    stored: u64,
    unencodable: u64,
}

impl Recorder {
    /// A recorder over a spool. The journal gets a line for every frame after its sync.
    #[must_use]
    pub fn new(spool: Spool, signer: Signer, journal: Option<File>) -> Self {
        Self {
            spool,
            signer,
            journal,
            unsynced: None,
            waiting: VecDeque::new(),
            overrun: None,
            stored: 0,
            unencodable: 0,
        }
    }

    /// Takes a batch; it is stored now, or waits in memory with those before it.
    ///
    /// Errors: the disk's.
    pub fn record(&mut self, batch: Batch) -> io::Result<()> {
        if self.waiting.len() >= WAITING
            && let Some(lost) = self.waiting.pop_front()
        {
            // The oldest goes: the batch after it tells the hole.
            tracing::error!("recorder.overrun");
            let from = self.overrun.map_or(lost.at_ms, |(from, _)| from);
            self.overrun = Some((from, lost.last_at_ms()));
        }
        self.waiting.push_back(batch);
        self.retry()
    }

    /// Stores what waits.
    ///
    /// Errors: the disk's; all is kept and may be tried again.
    pub fn retry(&mut self) -> io::Result<()> {
        loop {
            if let Some(unsynced) = &self.unsynced {
                self.spool
                    .append(unsynced.seq, &unsynced.frame, unsynced.digest)?;
                self.spool.told(&unsynced.gaps_told);
                self.stored += 1;
                if let Some(done) = self.unsynced.take() {
                    self.witness(&done);
                }
            }
            let Some(batch) = self.waiting.pop_front() else {
                return Ok(());
            };
            self.unsynced = self.sign(batch);
        }
    }

    /// Numbers, chains and signs a batch. None if it cannot be written, which would be our own fault:
    /// its place is not used then.
    fn sign(&mut self, mut batch: Batch) -> Option<Unsynced> {
        if let Some((from_ms, to_ms)) = self.overrun.take_if(|(from, _)| *from < batch.at_ms) {
            batch.gaps.push(Gap::Silence {
                from_ms,
                to_ms: to_ms.max(from_ms + 1).min(batch.at_ms),
                reason: GapReason::DiskFailed,
            });
        }
        batch.gaps.truncate(MAX_GAPS);
        let next = self.spool.next();
        batch.former = next.former;
        let untold = self.spool.untold(MAX_GAPS - batch.gaps.len()).to_vec();
        batch.gaps.extend_from_slice(&untold);
        let bytes = match batch.encode() {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unencodable += 1;
                tracing::error!(error = %error, "recorder.unencodable");
                return None;
            }
        };
        let Signer { device, key } = &self.signer;
        let prev = next
            .prev
            .unwrap_or_else(|| genesis(*device, next.epoch, &key.verifying_key()));
        let frame = Frame::sign(key, *device, next.epoch, next.seq, prev, bytes);
        Some(Unsynced {
            epoch: next.epoch,
            seq: next.seq,
            digest: frame.digest(*device),
            frame: frame.to_bytes(),
            gaps_told: untold,
        })
    }

    fn witness(&mut self, done: &Unsynced) {
        if let Some(journal) = &mut self.journal {
            let line = format!(
                "{} {} {}\n",
                done.epoch,
                done.seq,
                hex::encode(&done.digest.0)
            );
            if let Err(error) = journal.write_all(line.as_bytes()) {
                tracing::error!(error = %error, "recorder.journal");
            }
        }
    }

    /// Batches that the disk has not taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len() + usize::from(self.unsynced.is_some())
    }

    /// Frames stored since the start.
    #[must_use]
    pub const fn stored(&self) -> u64 {
        self.stored
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use furrow_protocol::{batch::FormerEpoch, fix::Fix};

    use super::*;
    use crate::spool::{Limits, Place, model::Model};

    const SIGNER: Device = Device(9);

    fn recorder(model: &Model, fresh: u64) -> Recorder {
        within_quota(model, fresh, u64::MAX)
    }

    fn within_quota(model: &Model, fresh: u64, quota_bytes: u64) -> Recorder {
        let limits = Limits {
            quota_bytes,
            min_free_bytes: 0,
            min_free_inodes: 0,
        };
        let spool = Spool::open(Box::new(model.clone()), limits, SIGNER, fresh);
        let signer = Signer {
            device: SIGNER,
            key: Arc::new(SigningKey::from_bytes(&[8; 32])),
        };
        Recorder::new(spool.expect("the model lists its files"), signer, None)
    }

    fn batch(at_ms: i64) -> Batch {
        Batch {
            at_ms,
            boot: 1,
            monotonic_ms: 2,
            fixes: vec![Fix {
                at_ms,
                ..Fix::default()
            }],
            gaps: vec![],
            former: None,
            ext: vec![],
        }
    }

    fn frames(recorder: &mut Recorder) -> Vec<(Frame, Batch)> {
        let (stored, _, result) = recorder.spool.read(Place::default(), 1000);
        result.expect("a readable disk");
        let mut frames = Vec::new();
        for stored in stored {
            let frame = Frame::from_bytes(&stored.frame).expect("a frame");
            let batch = Batch::decode(&frame.batch).expect("a batch");
            frames.push((frame, batch));
        }
        frames
    }

    #[test]
    fn frames_are_chained_and_signed_and_a_new_epoch_names_the_one_before() {
        let model = Model::default();
        let mut first = recorder(&model, 100);
        for n in 0..3 {
            first.record(batch(n * 10_000)).expect("the disk works");
        }
        drop(first);
        let mut second = recorder(&model.without("cursor"), 200);
        for n in 3..5 {
            second.record(batch(n * 10_000)).expect("the disk works");
        }
        let key = SigningKey::from_bytes(&[8; 32]).verifying_key();
        let all = frames(&mut second);
        let places: Vec<_> = all.iter().map(|(f, _)| (f.epoch, f.seq)).collect();
        assert_eq!(places, [(100, 1), (100, 2), (100, 3), (200, 1), (200, 2)]);
        assert!(all.iter().all(|(f, _)| f.verify(SIGNER, &key).is_ok()));
        assert_eq!(all[0].0.prev, genesis(SIGNER, 100, &key));
        assert_eq!(all[1].0.prev, all[0].0.digest(SIGNER));
        assert_eq!(all[3].0.prev, genesis(SIGNER, 200, &key));
        assert_eq!(all[4].0.prev, all[3].0.digest(SIGNER));
        let last = Some((3, all[2].0.digest(SIGNER)));
        assert_eq!(all[3].1.former, Some(FormerEpoch { epoch: 100, last }));
        assert_eq!(all[4].1.former, None);
    }

    #[test]
    fn a_frame_whose_sync_failed_is_written_again_with_the_very_same_bytes() {
        let model = Model::default();
        let mut recorder = recorder(&model, 100);
        recorder.record(batch(0)).expect("the disk works");
        model.fail_syncs(1);
        assert!(recorder.record(batch(10_000)).is_err());
        let signed = recorder.unsynced.as_ref().map(|u| u.frame.clone());
        assert!(recorder.waiting() > 0);
        recorder
            .record(batch(20_000))
            .expect("the disk works again");
        assert_eq!(recorder.waiting(), 0);
        let all = frames(&mut recorder);
        assert_eq!(all.len(), 3);
        assert_eq!(Some(all[1].0.to_bytes()), signed);
        assert_eq!(all[2].0.prev, all[1].0.digest(SIGNER));
    }

    #[test]
    fn a_disk_that_fails_for_long_costs_the_oldest_batches_and_the_next_one_says_so() {
        let model = Model::default();
        let mut recorder = recorder(&model, 100);
        recorder.record(batch(0)).expect("the disk works");
        model.short_writes(10_000);
        for n in 1..100 {
            assert!(recorder.record(batch(n * 10_000)).is_err());
        }
        assert!(recorder.waiting() <= WAITING + 1);
        model.short_writes(0);
        recorder.retry().expect("the disk works again");
        let all = frames(&mut recorder);
        assert_eq!(all.len(), WAITING + 2);
        // The first was signed before the disk failed for good; the one after it tells the hole.
        let told = all[2].1.gaps.first();
        let Some(Gap::Silence {
            from_ms,
            to_ms,
            reason: GapReason::DiskFailed,
        }) = told
        else {
            panic!("{told:?}");
        };
        assert_eq!((*from_ms, *to_ms), (20_000, 350_000));
    }

    #[test]
    fn lost_frames_are_told_once() {
        let model = Model::default();
        let mut first = recorder(&model, 100);
        for n in 0..3 {
            first.record(batch(n * 10_000)).expect("the disk works");
        }
        let name = "0000000000000001.seg";
        let middle = model.bytes(name).windows(2).count().min(230);
        let broken = model.tampered(name, |bytes| bytes[middle] ^= 1);
        let mut second = recorder(&broken, 200);
        second.record(batch(30_000)).expect("the disk works");
        second.record(batch(40_000)).expect("the disk works");
        let told: Vec<_> = frames(&mut second)
            .iter()
            .flat_map(|(_, batch)| batch.gaps.clone())
            .collect();
        let gap = Gap::Sequences {
            epoch: 100,
            first: 2,
            last: 2,
            reason: GapReason::Damaged,
        };
        assert_eq!(told, [gap]);
    }

    /// A batch of several thousand bytes.
    fn long_batch(at_ms: i64) -> Batch {
        let fix = |n: i64| Fix {
            at_ms: at_ms + n * 10,
            lat_e7: i32::try_from(n * n * 7_919 % 800_000_000).unwrap_or(0),
            lon_e7: i32::try_from(n * n * n * 104_729 % 1_600_000_000).unwrap_or(0),
            ..Fix::default()
        };
        Batch {
            fixes: (0..600).map(fix).collect(),
            ..batch(at_ms)
        }
    }

    /// All lost sequences that batches here tell or that wait to be told, and those that are here.
    fn accounted(recorder: &mut Recorder) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let here = frames(recorder);
        let told = here.iter().flat_map(|(_, batch)| batch.gaps.clone());
        let untold = recorder.spool.untold(MAX_GAPS).to_vec();
        let lost = told.chain(untold).flat_map(|gap| match gap {
            Gap::Sequences { first, last, .. } => first..=last,
            Gap::Silence { .. } => panic!("{gap:?}"),
        });
        let seqs = here.iter().map(|(frame, _)| frame.seq);
        (lost.collect(), seqs.collect())
    }

    #[test]
    fn what_was_told_by_a_batch_that_is_lost_itself_is_told_again() {
        let model = Model::default();
        let mut recorder = within_quota(&model, 100, 3 * 256 * 1024);
        for n in 0..400 {
            recorder
                .record(long_batch(n * 10_000))
                .expect("the disk works");
        }
        let (lost, here) = accounted(&mut recorder);
        assert!(recorder.spool.lost() > 200, "{}", recorder.spool.lost());
        let never_said: Vec<u64> = (1..=400)
            .filter(|seq| !here.contains(seq) && !lost.contains(seq))
            .collect();
        assert!(
            never_said.is_empty(),
            "neither here nor told: {never_said:?}"
        );
        assert!(lost.is_disjoint(&here));
    }

    #[test]
    fn a_gap_that_grows_while_a_signed_batch_waits_for_the_disk_is_told_to_its_end() {
        let model = Model::default();
        let mut recorder = within_quota(&model, 100, 3 * 256 * 1024);
        let mut at_ms = 0;
        let mut next = || {
            at_ms += 10_000;
            long_batch(at_ms)
        };
        for n in 0..200_u64 {
            if n % 5 < 2 {
                // Each failure begins a segment, for which the oldest goes.
                model.short_writes(1);
                if recorder.record(next()).is_err() {
                    recorder.retry().expect("the disk works again");
                }
            } else {
                recorder.record(next()).expect("the disk works");
            }
        }
        let (lost, here) = accounted(&mut recorder);
        assert!(recorder.spool.lost() > 0);
        let never_said: Vec<u64> = (1..=200)
            .filter(|seq| !here.contains(seq) && !lost.contains(seq))
            .collect();
        assert!(
            never_said.is_empty(),
            "neither here nor told: {never_said:?}"
        );
    }
}
