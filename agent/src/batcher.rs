//! Positions become batches: sampled, thinned while parked, closed by time; silences are told. Pure: the time is passed in, nothing is sent or stored.

use std::collections::VecDeque;

use furrow_protocol::{
    batch::{Batch, Gap, GapReason, MAX_FIXES, MAX_GAPS},
    fix::{Fix, Work},
};

use crate::{
    config::Sampling,
    position::Position,
    sources::{Event, Skip},
};

/// Slower than this is standing still, cm/s.
const STILL_CM_S: u16 = 30;
/// Standing still for so long is parked, ms.
const PARKED_AFTER_MS: i64 = 60_000;
/// Parked, one fix in so many ms.
const PARKED_EVERY_MS: i64 = 5_000;
/// A batch of parked fixes alone closes after so long, ms; a batch without fix comes no more often.
const LONG_MS: u64 = 60_000;
/// A hole between two positions that is no silence yet, ms; at low rates three periods.
const SILENCE_MS: i64 = 10_000;
/// A time that lies back by more than this is another sequence of time, ms.
const STEP_BACK_MS: i64 = 60_000;

/// A position that was received: its time and the monotonic time of its coming, ms.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at_ms: i64,
    now_ms: u64,
    lat_e7: i32,
    lon_e7: i32,
}

#[derive(Debug)]
struct Open {
    since_ms: u64,
    parked: bool,
    fixes: Vec<Fix>,
}

/// The batcher.
#[derive(Debug)]
pub struct Batcher {
    boot: u32,
    sampling: Sampling,
    open: Option<Open>,
    out: VecDeque<Batch>,
    gaps: Vec<Gap>,
    seen: Option<Seen>,
    /// Silence is told up to here, ms since 1970 UTC.
    told_ms: Option<i64>,
    /// Why nothing comes, as the source last said.
    reason: GapReason,
    period: Option<i64>,
    still_since_ms: Option<i64>,
    kept_ms: Option<i64>,
    /// The last fix of a stop so far, thinned: sent if the machine moves on from it.
    held: Option<Fix>,
    closed_ms: u64,
}

impl Batcher {
    /// A batcher of a process with this boot number.
    #[must_use]
    pub fn new(boot: u32, sampling: Sampling) -> Self {
        Self {
            boot,
            sampling,
            open: None,
            out: VecDeque::new(),
            gaps: Vec::new(),
            seen: None,
            told_ms: None,
            reason: GapReason::NoFix,
            period: None,
            still_since_ms: None,
            kept_ms: None,
            held: None,
            closed_ms: 0,
        }
    }

    /// Another sampling, from the next fix on.
    pub fn set_sampling(&mut self, sampling: Sampling) {
        self.sampling = sampling;
        self.period = None;
    }

    /// Its sampling.
    #[must_use]
    pub const fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Takes what a source tells at `now_ms` of its monotonic time.
    pub fn event(&mut self, event: &Event, now_ms: u64) {
        match event {
            Event::Position(position) => self.position(position, now_ms),
            Event::Skipped(Skip::Void(_)) => self.reason = GapReason::NoFix,
            Event::Skipped(_) => {}
            Event::NoReceiver => self.reason = GapReason::NoReceiver,
            Event::ClockStep { .. } => self.clock_step(now_ms),
        }
        self.tick(now_ms);
    }

    /// Closes what its time has come for, and tells a silence.
    pub fn tick(&mut self, now_ms: u64) {
        self.close_due(now_ms);
        if self.open.is_none() {
            self.tell_silence(now_ms);
        }
    }

    fn close_due(&mut self, now_ms: u64) {
        let length = match &self.open {
            None => return,
            Some(open) if open.parked => LONG_MS,
            Some(_) => u64::from(self.sampling.batch_s) * 1000,
        };
        let since_ms = self.open.as_ref().map_or(now_ms, |open| open.since_ms);
        if now_ms.saturating_sub(since_ms) >= length {
            self.close(now_ms);
        }
    }

    /// The end: what is held is given.
    pub fn finish(&mut self, now_ms: u64) {
        self.give_held(now_ms);
        self.close(now_ms);
    }

    /// The next batch, oldest first.
    pub fn next_batch(&mut self) -> Option<Batch> {
        self.out.pop_front()
    }

    fn position(&mut self, position: &Position, now_ms: u64) {
        let fix = position.to_fix();
        if fix.out_of_range().is_some() {
            return;
        }
        // A fix that comes when the batch is full of its time begins the next one.
        self.close_due(now_ms);
        if let Some(seen) = self.seen.filter(|seen| fix.at_ms <= seen.at_ms) {
            if seen.at_ms.saturating_sub(fix.at_ms) <= STEP_BACK_MS {
                return;
            }
            self.clock_step(now_ms);
            self.add_silence(fix.at_ms, seen.at_ms, GapReason::ClockStep);
        }
        self.end_silence(fix.at_ms);
        let before = self.seen.replace(Seen {
            at_ms: fix.at_ms,
            now_ms,
            lat_e7: fix.lat_e7,
            lon_e7: fix.lon_e7,
        });
        let length_ms = self.period_ms();
        let period = fix.at_ms.div_euclid(length_ms);
        if self.period.replace(period) == Some(period) {
            return;
        }
        let still = !moves(&fix, before);
        if still && fix.work != Work::On {
            let since = *self.still_since_ms.get_or_insert(fix.at_ms);
            let parked = fix.at_ms.saturating_sub(since) >= PARKED_AFTER_MS;
            let recent = self
                .kept_ms
                .is_some_and(|kept| fix.at_ms.saturating_sub(kept) < PARKED_EVERY_MS);
            if parked && recent {
                self.held = Some(fix);
            } else {
                self.keep(fix, parked, now_ms);
            }
        } else {
            self.still_since_ms = None;
            self.give_held(now_ms);
            self.keep(fix, false, now_ms);
        }
    }

    fn period_ms(&self) -> i64 {
        (10_000 / i64::from(self.sampling.rate_dhz.max(1))).max(1)
    }

    fn give_held(&mut self, now_ms: u64) {
        if let Some(held) = self.held.take() {
            self.keep(held, false, now_ms);
        }
    }

    fn keep(&mut self, fix: Fix, parked: bool, now_ms: u64) {
        self.held = None;
        self.kept_ms = Some(fix.at_ms);
        let fits = self.open.as_ref().is_none_or(|open| {
            let first = open.fixes.first().map_or(fix.at_ms, |f| f.at_ms);
            open.fixes.last().is_none_or(|last| last.at_ms < fix.at_ms)
                && fix
                    .at_ms
                    .checked_sub(first)
                    .is_some_and(|span| span <= furrow_protocol::batch::MAX_SPAN_MS)
        });
        if !fits {
            self.close(now_ms);
        }
        let open = self.open.get_or_insert_with(|| Open {
            since_ms: now_ms,
            parked: true,
            fixes: Vec::new(),
        });
        open.parked &= parked;
        open.fixes.push(fix);
        if open.fixes.len() >= MAX_FIXES {
            self.close(now_ms);
        }
    }

    fn close(&mut self, now_ms: u64) {
        let Some(open) = self.open.take() else {
            return;
        };
        let Some(at_ms) = open.fixes.first().map(|fix| fix.at_ms) else {
            return;
        };
        self.give(at_ms, open.since_ms, open.fixes, now_ms);
    }

    fn give(&mut self, at_ms: i64, monotonic_ms: u64, fixes: Vec<Fix>, now_ms: u64) {
        self.closed_ms = now_ms;
        self.out.push_back(Batch {
            at_ms,
            boot: self.boot,
            monotonic_ms,
            fixes,
            gaps: std::mem::take(&mut self.gaps),
            former: None,
            ext: Vec::new(),
        });
    }

    /// The receiver's time went back: what came before is closed, and nothing of it counts for what
    /// comes.
    fn clock_step(&mut self, now_ms: u64) {
        self.give_held(now_ms);
        self.close(now_ms);
        self.period = None;
        self.still_since_ms = None;
        self.kept_ms = None;
        self.told_ms = None;
    }

    /// A position has come: a hole before it is a silence.
    fn end_silence(&mut self, at_ms: i64) {
        let Some(seen) = self.seen else {
            return;
        };
        let from_ms = self.told_ms.take().unwrap_or(seen.at_ms).max(seen.at_ms);
        let most = SILENCE_MS.max(3 * self.period_ms());
        if at_ms.saturating_sub(from_ms) > most {
            self.add_silence(from_ms, at_ms, self.reason);
        }
        self.reason = GapReason::NoFix;
    }

    /// Nothing has come for a minute: a batch without fix, dated by the last one plus monotonic time.
    fn tell_silence(&mut self, now_ms: u64) {
        let Some(seen) = self.seen else {
            return;
        };
        let silent_ms = now_ms.saturating_sub(seen.now_ms);
        if silent_ms < LONG_MS || now_ms.saturating_sub(self.closed_ms) < LONG_MS {
            return;
        }
        self.give_held(now_ms);
        self.close(now_ms);
        let at_ms = seen
            .at_ms
            .saturating_add(i64::try_from(silent_ms).unwrap_or(i64::MAX));
        let from_ms = self.told_ms.unwrap_or(seen.at_ms);
        self.add_silence(from_ms, at_ms, self.reason);
        self.told_ms = Some(at_ms);
        self.give(at_ms, now_ms, Vec::new(), now_ms);
    }

    fn add_silence(&mut self, from_ms: i64, to_ms: i64, reason: GapReason) {
        let length = to_ms.checked_sub(from_ms);
        if length.is_some_and(|length| length > 0) && self.gaps.len() < MAX_GAPS / 2 {
            self.gaps.push(Gap::Silence {
                from_ms,
                to_ms,
                reason,
            });
        }
    }
}

/// Whether the machine moves: by its reported speed, else by the way from the position before.
fn moves(fix: &Fix, before: Option<Seen>) -> bool {
    if let Some(speed) = fix.speed_cm_s {
        return speed >= STILL_CM_S;
    }
    let Some(before) = before else {
        return true;
    };
    // 1e-7 degree of latitude is 1.11 cm; of longitude less: where that matters we keep too much.
    let way_cm = (i64::from(fix.lat_e7) - i64::from(before.lat_e7))
        .unsigned_abs()
        .max((i64::from(fix.lon_e7) - i64::from(before.lon_e7)).unsigned_abs());
    let time_ms = fix.at_ms.abs_diff(before.at_ms).max(1);
    way_cm.saturating_mul(1000) / time_ms >= u64::from(STILL_CM_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: i64 = 1_780_000_000_000;

    fn fix_at(second: i64, speed_cm_s: u32, work: Work) -> Event {
        Event::Position(Position {
            speed_mm_s: Some(speed_cm_s * 10),
            work,
            ..Position::bare(T0 + second * 1000, 31_900_000_000, 117_200_000_000)
        })
    }

    fn drive(events: impl IntoIterator<Item = Event>) -> Vec<Batch> {
        let mut batcher = Batcher::new(7, Sampling::default());
        let mut now_ms = 0;
        for event in events {
            if let Event::Position(position) = &event {
                now_ms = now_ms.max(u64::try_from(position.at_ms - T0).unwrap_or(0));
            }
            batcher.event(&event, now_ms);
        }
        batcher.finish(now_ms);
        let batches: Vec<Batch> = std::iter::from_fn(|| batcher.next_batch()).collect();
        assert!(batches.iter().all(|batch| batch.encode().is_ok()));
        batches
    }

    fn seconds(batches: &[Batch]) -> Vec<i64> {
        let fixes = batches.iter().flat_map(|batch| &batch.fixes);
        fixes.map(|fix| (fix.at_ms - T0) / 1000).collect()
    }

    #[test]
    fn at_work_a_batch_holds_ten_seconds() {
        let batches = drive((0..60).map(|s| fix_at(s, 200, Work::On)));
        assert_eq!(batches.len(), 6);
        let sizes: Vec<usize> = batches.iter().map(|b| b.fixes.len()).collect();
        assert!(sizes.iter().all(|n| *n == 10), "{sizes:?}");
        assert_eq!(seconds(&batches), (0..60).collect::<Vec<_>>());
        assert_eq!((batches[1].boot, batches[1].at_ms - T0), (7, 10_000));
        assert_eq!(batches[1].monotonic_ms, 10_000);
    }

    #[test]
    fn of_a_ten_hertz_receiver_the_first_fix_of_each_second_is_taken() {
        let events = (0..300).map(|tenth| {
            Event::Position(Position {
                speed_mm_s: Some(2000),
                ..Position::bare(T0 + 40 + tenth * 100, 31_900_000_000, 117_200_000_000)
            })
        });
        let batches = drive(events);
        let times: Vec<i64> = batches
            .iter()
            .flat_map(|b| &b.fixes)
            .map(|f| f.at_ms - T0)
            .collect();
        assert_eq!(times, (0..30).map(|s| s * 1000 + 40).collect::<Vec<_>>());
    }

    #[test]
    fn parked_one_fix_in_five_seconds_is_kept_and_the_first_and_last_of_the_stop() {
        let stop = (0..10).map(|s| fix_at(s, 200, Work::Off));
        let stop = stop.chain((10..203).map(|s| fix_at(s, 5, Work::Off)));
        let stop = stop.chain((203..215).map(|s| fix_at(s, 200, Work::Off)));
        let kept = seconds(&drive(stop));
        assert!(kept.contains(&10), "the first of the stop");
        assert!(kept.contains(&202), "the last of the stop");
        let parked: Vec<i64> = kept
            .iter()
            .copied()
            .filter(|s| (71..202).contains(s))
            .collect();
        assert!(parked.windows(2).all(|w| w[1] - w[0] == 5), "{parked:?}");
        assert!((10..70).all(|s| kept.contains(&s)), "not yet parked");
        assert!((203..215).all(|s| kept.contains(&s)), "moving again");
    }

    #[test]
    fn parked_batches_hold_a_minute() {
        let batches = drive((0..600).map(|s| fix_at(s, 0, Work::Off)));
        let parked: Vec<_> = batches.iter().filter(|b| b.at_ms >= T0 + 120_000).collect();
        assert!((7..=9).contains(&parked.len()), "{}", parked.len());
        assert!(parked.iter().all(|b| b.fixes.len() <= 13));
    }

    #[test]
    fn with_the_implement_down_nothing_is_thinned() {
        let kept = seconds(&drive((0..300).map(|s| fix_at(s, 0, Work::On))));
        assert_eq!(kept.len(), 300);
    }

    #[test]
    fn without_reported_speed_the_way_decides() {
        let at = |s: i64, north: i64| {
            Event::Position(Position::bare(
                T0 + s * 1000,
                31_900_000_000 + north,
                117_200_000_000,
            ))
        };
        let standing = seconds(&drive((0..300).map(|s| at(s, 0))));
        assert!(standing.len() < 120, "{}", standing.len());
        let going = seconds(&drive((0..300).map(|s| at(s, s * 10_000))));
        assert_eq!(going.len(), 300);
    }

    #[test]
    fn a_hole_is_told_as_a_silence_with_the_reason_of_the_source() {
        for (said, reason) in [
            (Event::NoReceiver, GapReason::NoReceiver),
            (Event::Skipped(Skip::Void("no fix")), GapReason::NoFix),
        ] {
            let events = [fix_at(0, 200, Work::Off), said, fix_at(30, 200, Work::Off)];
            let batches = drive(events);
            let gaps: Vec<Gap> = batches.iter().flat_map(|b| b.gaps.clone()).collect();
            let gap = Gap::Silence {
                from_ms: T0,
                to_ms: T0 + 30_000,
                reason,
            };
            assert_eq!(gaps, [gap]);
        }
        let short = drive([fix_at(0, 200, Work::Off), fix_at(9, 200, Work::Off)]);
        assert!(short.iter().all(|b| b.gaps.is_empty()));
    }

    #[test]
    fn a_long_silence_is_recorded_once_a_minute_without_overlap() {
        let mut batcher = Batcher::new(7, Sampling::default());
        batcher.event(&fix_at(0, 200, Work::Off), 1_000);
        batcher.event(&Event::NoReceiver, 6_000);
        for second in 7..=400 {
            batcher.tick(second * 1000);
        }
        batcher.event(&fix_at(400, 200, Work::Off), 401_000);
        batcher.finish(402_000);
        let batches: Vec<Batch> = std::iter::from_fn(|| batcher.next_batch()).collect();
        let empty: Vec<_> = batches.iter().filter(|b| b.fixes.is_empty()).collect();
        assert!((5..=6).contains(&empty.len()), "{}", empty.len());
        assert_eq!(
            empty[0].at_ms - T0,
            i64::try_from(empty[0].monotonic_ms - 1000).unwrap_or(0)
        );
        let mut told = T0;
        for gap in batches.iter().flat_map(|b| &b.gaps) {
            let Gap::Silence {
                from_ms,
                to_ms,
                reason: GapReason::NoReceiver,
            } = gap
            else {
                unreachable!("{gap:?}");
            };
            assert_eq!(*from_ms, told);
            told = *to_ms;
        }
        assert_eq!(told, T0 + 400_000);
    }

    #[test]
    fn before_the_first_fix_nothing_is_told() {
        let mut batcher = Batcher::new(7, Sampling::default());
        for second in 0..600 {
            batcher.event(&Event::Skipped(Skip::Void("no fix")), second * 1000);
        }
        batcher.finish(600_000);
        assert_eq!(batcher.next_batch(), None);
    }

    #[test]
    fn when_time_steps_back_a_batch_ends_and_the_next_one_tells_it() {
        let events = [
            fix_at(1000, 200, Work::Off),
            fix_at(1001, 200, Work::Off),
            Event::ClockStep {
                from_ms: T0 + 1_001_000,
                to_ms: T0 + 5_000,
            },
            fix_at(5, 200, Work::Off),
            fix_at(6, 200, Work::Off),
        ];
        let batches = drive(events);
        assert_eq!(batches.len(), 2);
        let gap = Gap::Silence {
            from_ms: T0 + 5_000,
            to_ms: T0 + 1_001_000,
            reason: GapReason::ClockStep,
        };
        assert_eq!(batches[1].gaps, [gap]);
        // A little back is a duplicate of the receiver's.
        let again = drive([fix_at(9, 200, Work::Off), fix_at(8, 200, Work::Off)]);
        assert_eq!(seconds(&again), [9]);
    }

    #[test]
    fn a_jump_ahead_of_more_than_a_day_ends_the_batch() {
        let batches = drive([fix_at(0, 200, Work::Off), fix_at(90_000, 200, Work::Off)]);
        assert_eq!(batches.len(), 2);
    }

    #[test]
    fn a_batch_never_holds_more_than_its_limit() {
        let sampling = Sampling {
            rate_dhz: 100,
            batch_s: 60,
        };
        let mut batcher = Batcher::new(7, sampling);
        for n in 0..700_i64 {
            let position = Position {
                speed_mm_s: Some(2000),
                ..Position::bare(T0 + n * 100, 31_900_000_000, 117_200_000_000)
            };
            batcher.event(&Event::Position(position), 0);
        }
        let first = batcher.next_batch().map(|b| b.fixes.len());
        assert_eq!(first, Some(MAX_FIXES));
    }
}
