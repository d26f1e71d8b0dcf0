//! The spool on a disk that forgets, fails and lies; never on a real one.

mod hostile;

use std::collections::{BTreeMap, BTreeSet};

use furrow_protocol::{
    SigningKey,
    batch::{FormerEpoch, Gap, GapReason},
    frame::{Device, Digest, Frame, genesis},
};

use super::{
    model::Model,
    segment::{Found, SEGMENT_BYTES, Scan},
    *,
};

const DEVICE: Device = Device(7);
const FRESH: u64 = 1000;
const ROOMY: Limits = Limits {
    quota_bytes: u64::MAX,
    min_free_bytes: 0,
    min_free_inodes: 0,
};

fn key() -> SigningKey {
    SigningKey::from_bytes(&[5; 32])
}

fn open(model: &Model, fresh: u64) -> Spool {
    Spool::open(Box::new(model.clone()), ROOMY, DEVICE, fresh).expect("the model lists its files")
}

/// The next frame, with a batch of `length` bytes that no other frame has.
fn next_frame(spool: &Spool, salt: u64, length: usize) -> Frame {
    let next = spool.next();
    let mut batch = vec![0x5a; length.max(8)];
    batch[..8].copy_from_slice(&salt.to_be_bytes());
    let prev = next
        .prev
        .unwrap_or_else(|| genesis(DEVICE, next.epoch, &key().verifying_key()));
    Frame::sign(&key(), DEVICE, next.epoch, next.seq, prev, batch)
}

fn store(spool: &mut Spool, frame: &Frame) -> std::io::Result<()> {
    spool.append(frame.seq, &frame.to_bytes(), frame.digest(DEVICE))
}

fn add(spool: &mut Spool, salt: u64, length: usize) -> Frame {
    let frame = next_frame(spool, salt, length);
    store(spool, &frame).expect("the disk works");
    frame
}

fn read_all(spool: &mut Spool) -> Vec<Stored> {
    let (mut place, mut all) = (Place::default(), Vec::new());
    loop {
        let (stored, next, result) = spool.read(place, 3);
        if stored.is_empty() && result.is_ok() {
            return all;
        }
        all.extend(stored);
        place = next;
    }
}

fn places(stored: &[Stored]) -> Vec<(u64, u64)> {
    stored.iter().map(|s| (s.epoch, s.seq)).collect()
}

#[test]
fn the_chain_goes_on_over_a_restart_that_finds_all_in_order() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let frames: Vec<Frame> = (0..5).map(|n| add(&mut spool, n, 80)).collect();
    drop(spool);
    let mut spool = open(&model.after_power_cut(1), FRESH + 1);
    let next = spool.next();
    assert_eq!((next.epoch, next.seq), (FRESH, 6));
    assert_eq!(next.prev, Some(frames[4].digest(DEVICE)));
    assert_eq!(next.former, None);
    let bytes: Vec<_> = frames.iter().map(Frame::to_bytes).collect();
    let read: Vec<_> = read_all(&mut spool).into_iter().map(|s| s.frame).collect();
    assert_eq!(read, bytes);
}

#[test]
fn a_missing_cursor_opens_a_new_epoch_that_names_the_end_of_the_former_one() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let frames: Vec<Frame> = (0..3).map(|n| add(&mut spool, n, 80)).collect();
    let mut spool = open(&model.without(CURSOR), FRESH + 1);
    let next = spool.next();
    assert_eq!((next.epoch, next.seq, next.prev), (FRESH + 1, 1, None));
    let last = Some((3, frames[2].digest(DEVICE)));
    assert_eq!(next.former, Some(FormerEpoch { epoch: FRESH, last }));
    assert_eq!(read_all(&mut spool).len(), 3);
    add(&mut spool, 9, 80);
    assert_eq!(spool.next().former, None);
    let order = [(FRESH, 1), (FRESH, 2), (FRESH, 3), (FRESH + 1, 1)];
    assert_eq!(places(&read_all(&mut spool)), order);
}

#[test]
fn a_torn_tail_opens_a_new_epoch_in_a_new_segment_and_claims_no_end() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    (0..3).for_each(|n| drop(add(&mut spool, n, 80)));
    let name = segment_name(1);
    let end = spool.segments[0].end;
    let torn = model.tampered(&name, |bytes| bytes[end + 3] = 1);
    let mut spool = open(&torn, FRESH + 1);
    let former = FormerEpoch {
        epoch: FRESH,
        last: None,
    };
    assert_eq!(spool.next().former, Some(former));
    let before = torn.bytes(&name);
    add(&mut spool, 9, 80);
    assert_eq!(torn.bytes(&name), before);
    assert!(torn.names().contains(&segment_name(2)));
    assert_eq!(read_all(&mut spool).len(), 4);
}

#[test]
fn an_epoch_of_which_nothing_was_stored_is_never_named() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let frame = add(&mut spool, 0, 80);
    let model = model.without(CURSOR);
    let mut spool = open(&model, FRESH + 1);
    // The new epoch's segment and cursor are there, its first record is not.
    spool.rotate().expect("the disk works");
    drop(spool);
    let spool = open(&model, FRESH + 2);
    let last = Some((1, frame.digest(DEVICE)));
    assert_eq!(
        spool.next().former,
        Some(FormerEpoch { epoch: FRESH, last })
    );
    assert_eq!(spool.next().epoch, FRESH + 2);
}

#[test]
fn a_newest_segment_that_is_gone_opens_a_new_epoch() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    (0..14).for_each(|n| drop(add(&mut spool, n, 40_000)));
    assert!(spool.segments.len() > 2);
    let newest = segment_name(spool.newest);
    let first = spool.segments.back().map(|s| s.runs[0].first);
    let mut spool = open(&model.without(&newest), FRESH + 1);
    let former = FormerEpoch {
        epoch: FRESH,
        last: None,
    };
    assert_eq!(spool.next().former, Some(former));
    assert_eq!(read_all(&mut spool).last().map(|s| s.seq + 1), first);
}

/// (epoch, seq, first byte, last byte) of each record of a segment.
fn layout(bytes: &[u8]) -> Vec<(u64, u64, usize, usize)> {
    Scan::from(bytes, 0)
        .filter_map(|found| match found {
            Found::Record(r) => Some((r.epoch, r.seq, r.offset, r.end - 1)),
            Found::Foreign { .. } | Found::Damage { .. } => None,
        })
        .collect()
}

/// Opens a disk on which something was damaged and checks all that must still hold.
fn check_damaged(model: &Model, whole: &[(u64, u64)], used: &BTreeMap<(u64, u64), Vec<u8>>) {
    let mut spool = open(model, FRESH + 1);
    let read = read_all(&mut spool);
    assert_eq!(places(&read), whole);
    for stored in &read {
        assert_eq!(used[&(stored.epoch, stored.seq)], stored.frame);
    }
    let gone = used.len() - whole.len();
    let next = next_frame(&spool, 77, 60);
    assert!(
        !used.contains_key(&(next.epoch, next.seq)),
        "a place used twice"
    );
    if next.epoch == FRESH {
        assert_eq!(spool.lost(), gone as u64, "lost without a word");
    }
    store(&mut spool, &next).expect("the disk works");
    let mut spool = open(model, FRESH + 2);
    assert_eq!(read_all(&mut spool).len(), whole.len() + 1);
    assert_eq!(spool.next().epoch, next.epoch, "a sound end opens no epoch");
}

#[test]
fn a_segment_cut_or_flipped_at_any_byte_delivers_the_rest_and_uses_no_place_twice() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let frames: Vec<Frame> = (0..7).map(|n| add(&mut spool, n, 70)).collect();
    let used: BTreeMap<_, _> = frames
        .iter()
        .map(|f| ((f.epoch, f.seq), f.to_bytes()))
        .collect();
    let name = segment_name(1);
    let records = layout(&model.bytes(&name));
    let end = spool.segments[0].end;
    let positions = (0..end + 40).chain([SEGMENT_BYTES / 2, SEGMENT_BYTES - 1]);
    for at in positions {
        let whole = |hit: &dyn Fn(usize, usize) -> bool| -> Vec<(u64, u64)> {
            let kept = records.iter().filter(|(_, _, a, b)| !hit(*a, *b));
            kept.map(|(epoch, seq, _, _)| (*epoch, *seq)).collect()
        };
        let cut = model.tampered(&name, |bytes| bytes.truncate(at));
        check_damaged(&cut, &whole(&|_, last| last >= at), &used);
        let flipped = model.tampered(&name, |bytes| bytes[at] ^= 1 << (at % 8));
        check_damaged(&flipped, &whole(&|a, b| (a..=b).contains(&at)), &used);
    }
}

#[test]
fn a_cursor_cut_or_flipped_at_any_byte_costs_no_record() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let frames: Vec<Frame> = (0..4).map(|n| add(&mut spool, n, 70)).collect();
    spool.settle(FRESH, 2);
    spool.flush().expect("the disk works");
    let used: BTreeSet<_> = frames.iter().map(|f| (f.epoch, f.seq)).collect();
    for at in 0..model.bytes(CURSOR).len() {
        for disk in [
            model.tampered(CURSOR, |bytes| bytes.truncate(at)),
            model.tampered(CURSOR, |bytes| bytes[at] ^= 1 << (at % 8)),
        ] {
            let mut spool = open(&disk, FRESH + 1);
            assert_eq!(read_all(&mut spool).len(), 4, "resent, all of them");
            assert_eq!(spool.next().epoch, FRESH + 1);
            assert!(!used.contains(&(spool.next().epoch, spool.next().seq)));
        }
    }
}

#[test]
fn damage_that_comes_while_it_runs_is_counted_and_told() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    (0..9).for_each(|n| drop(add(&mut spool, n, 40_000)));
    let name = segment_name(1);
    let (_, seq, from, _) = layout(&model.bytes(&name))[2];
    let broken = model.tampered(&name, |bytes| bytes[from + 100] ^= 1);
    spool.disk = Box::new(broken);
    let read = read_all(&mut spool);
    assert_eq!(read.len(), 8);
    assert_eq!(spool.lost(), 1);
    let gap = Gap::Sequences {
        epoch: FRESH,
        first: seq,
        last: seq,
        reason: GapReason::Damaged,
    };
    assert_eq!(spool.untold(128), [gap]);
}

#[test]
fn a_segment_goes_when_all_in_it_is_settled_and_the_newest_never() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let frames: Vec<Frame> = (0..14).map(|n| add(&mut spool, n, 40_000)).collect();
    let before = spool.segments.len();
    assert!(before >= 3);
    for frame in &frames {
        spool.settle(frame.epoch, frame.seq);
    }
    spool.tick(1).expect("the disk works");
    assert_eq!(spool.segments.len(), before, "not more often than it pays");
    spool.tick(FREE_MS).expect("the disk works");
    assert_eq!(spool.segments.len(), 1);
    assert_eq!(spool.backlog(), Backlog::default());
    // Another start finds nothing to send and no loss.
    let mut spool = open(&model.after_power_cut(3), FRESH + 1);
    assert!(read_all(&mut spool).is_empty());
    assert_eq!((spool.lost(), spool.next().seq), (0, 15));
}

#[test]
fn a_refused_frame_is_kept_and_not_sent_until_its_room_is_needed() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let frames: Vec<Frame> = (0..6).map(|n| add(&mut spool, n, 45_000)).collect();
    spool.refuse(FRESH, 1);
    frames[1..]
        .iter()
        .for_each(|f| spool.settle(f.epoch, f.seq));
    spool.tick(CURSOR_MS).expect("the disk works");
    assert_eq!(spool.backlog().refused, 1);
    assert!(model.names().contains(&segment_name(1)));
    let mut spool = open(&model.after_power_cut(4), FRESH + 1);
    assert!(read_all(&mut spool).is_empty());
    spool.limits.quota_bytes = 2 * SEGMENT_BYTES as u64;
    (0..8).for_each(|n| drop(add(&mut spool, n, 45_000)));
    assert!(!model.names().is_empty());
    assert_eq!(spool.lost(), 0, "a refused frame is no loss");
}

#[test]
fn a_full_quota_drops_the_oldest_and_says_which() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    spool.limits.quota_bytes = 3 * SEGMENT_BYTES as u64;
    (0..40).for_each(|n| drop(add(&mut spool, n, 40_000)));
    assert!(spool.segments.len() <= 3);
    let kept = read_all(&mut spool);
    let lost = spool.lost();
    assert_eq!(kept.len() as u64 + lost, 40);
    let gap = Gap::Sequences {
        epoch: FRESH,
        first: 1,
        last: lost,
        reason: GapReason::QuotaDropped,
    };
    assert_eq!(spool.untold(128), [gap]);
    // Not told yet: a start in between still knows it.
    let spool = open(&model.after_power_cut(5), FRESH + 1);
    assert_eq!((spool.untold(128), spool.lost()), (&[gap][..], lost));
}

#[test]
fn a_quota_that_is_set_too_low_throws_away_no_more_than_comes() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    (0..40).for_each(|n| drop(add(&mut spool, n, 40_000)));
    let before = spool.segments.len();
    drop(spool);
    let tight = Limits {
        quota_bytes: SEGMENT_BYTES as u64,
        min_free_bytes: u64::MAX,
        min_free_inodes: 0,
    };
    let spool = Spool::open(Box::new(model.clone()), tight, DEVICE, 1);
    let mut spool = spool.expect("the model lists its files");
    assert_eq!(read_all(&mut spool).len(), 40);
    (0..12).for_each(|n| drop(add(&mut spool, n, 40_000)));
    assert_eq!(spool.segments.len(), before);
}

#[test]
fn a_full_disk_gives_up_the_oldest_to_go_on_recording() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    model.capacity(Some(5 * SEGMENT_BYTES as u64));
    (0..60).for_each(|n| drop(add(&mut spool, n, 40_000)));
    assert!(spool.lost() > 0);
    assert_eq!(read_all(&mut spool).len() as u64 + spool.lost(), 60);
    let mut spool = open(&model.after_power_cut(6), FRESH + 1);
    assert_eq!(read_all(&mut spool).len() as u64 + spool.lost(), 60);
}

#[test]
fn after_a_failed_sync_the_same_bytes_go_to_another_segment() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    add(&mut spool, 1, 70);
    for failure in [true, false] {
        if failure {
            model.fail_syncs(1);
        } else {
            model.short_writes(1);
        }
        let frame = next_frame(&spool, 2, 70);
        assert!(store(&mut spool, &frame).is_err());
        assert!(read_all(&mut spool).iter().all(|s| s.seq != frame.seq));
        store(&mut spool, &frame).expect("the disk works again");
        assert_eq!(read_all(&mut spool).last().map(|s| s.seq), Some(frame.seq));
    }
    assert_eq!(read_all(&mut spool).len(), 3);
    assert_eq!(spool.segments.len(), 3);
    let mut spool = open(&model.after_power_cut(7), FRESH + 1);
    let mut seqs: Vec<u64> = read_all(&mut spool).iter().map(|s| s.seq).collect();
    seqs.dedup();
    assert_eq!(seqs, [1, 2, 3]);
    assert_eq!(spool.next().epoch, FRESH);
}

#[test]
fn a_disk_that_keeps_failing_pushes_nothing_out() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    (0..9).for_each(|n| drop(add(&mut spool, n, 40_000)));
    spool.limits.quota_bytes = 3 * SEGMENT_BYTES as u64;
    let frame = next_frame(&spool, 50, 70);
    for _ in 0..50 {
        model.short_writes(9);
        assert!(store(&mut spool, &frame).is_err());
    }
    assert_eq!((read_all(&mut spool).len(), spool.lost()), (9, 0));
    model.short_writes(0);
    store(&mut spool, &frame).expect("the disk works again");
}

#[test]
fn a_record_that_only_the_page_cache_held_is_made_durable_before_it_is_sent() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    add(&mut spool, 1, 70);
    let frame = next_frame(&spool, 2, 70);
    // Killed between the write and the sync.
    model.fuse(1);
    assert!(store(&mut spool, &frame).is_err());
    let killed = model.after_kill();
    let mut spool = open(&killed, FRESH + 1);
    assert_eq!(read_all(&mut spool).len(), 2);
    assert_eq!(spool.next().seq, 3);
    for seed in 0..20 {
        let mut spool = open(&killed.after_power_cut(seed), FRESH + 2);
        assert_eq!(read_all(&mut spool).len(), 2, "it may have been sent");
    }
}

/// What must hold over all lives of one disk.
#[derive(Default, Clone)]
struct History {
    /// Bytes that may have left the agent, by their place.
    sent: BTreeMap<(u64, u64), Vec<u8>>,
    /// Places that were stored and not settled since.
    owed: BTreeSet<(u64, u64)>,
}

impl History {
    fn read(&mut self, spool: &mut Spool) {
        let read = read_all(spool);
        for stored in &read {
            let place = (stored.epoch, stored.seq);
            let bytes = self
                .sent
                .entry(place)
                .or_insert_with(|| stored.frame.clone());
            assert_eq!(*bytes, stored.frame, "a place was used twice");
        }
        let read: BTreeSet<_> = places(&read).into_iter().collect();
        let lacking: Vec<_> = self.owed.difference(&read).collect();
        assert!(lacking.is_empty(), "stored and gone: {lacking:?}");
    }

    /// Stores and settles until the power goes or all is done.
    fn live(&mut self, spool: &mut Spool, salt: u64) -> std::io::Result<()> {
        for n in 0..14 {
            let length = if n % 3 == 0 { 45_000 } else { 70 };
            let frame = next_frame(spool, salt + n, length);
            store(spool, &frame)?;
            self.owed.insert((frame.epoch, frame.seq));
            if n % 4 == 3 {
                self.read(spool);
            }
            if n % 5 == 4 {
                let half: Vec<_> = self.owed.iter().copied().collect();
                for place in half.into_iter().take(n.try_into().unwrap_or(0)) {
                    spool.settle(place.0, place.1);
                    self.owed.remove(&place);
                }
                spool.tick(spool.cursor_ms + CURSOR_MS)?;
            }
        }
        Ok(())
    }
}

#[test]
fn wherever_the_power_goes_what_is_stored_is_delivered_and_no_place_is_used_twice() {
    let whole = {
        let model = Model::default();
        let mut spool = open(&model, FRESH);
        History::default()
            .live(&mut spool, 0)
            .expect("no power cut");
        model.operations()
    };
    for cut in 0..whole {
        let mut disk = Model::default();
        let mut history = History::default();
        for life in 0..4_u64 {
            let mut spool = open(&disk, FRESH + life);
            history.read(&mut spool);
            assert_eq!(spool.lost(), 0, "power cut {cut}, life {life}");
            disk.fuse((cut * (life + 1) * 7 + life) % whole);
            let _ = history.live(&mut spool, cut * 1000 + life * 100);
            drop(spool);
            disk = if life == 2 {
                disk.after_kill()
            } else {
                disk.after_power_cut(cut * 31 + life)
            };
        }
        let mut spool = open(&disk, FRESH + 9);
        history.read(&mut spool);
        assert_eq!(spool.lost(), 0);
    }
}

#[test]
fn two_processes_never_have_the_same_spool() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spool");
    let first = disk::Folder::open(&path).expect("a new folder");
    let second = disk::Folder::open(&path).map_err(|e| e.kind());
    assert_eq!(second.err(), Some(std::io::ErrorKind::WouldBlock));
    drop(first);
    assert!(disk::Folder::open(&path).is_ok());
}

#[test]
fn a_real_folder_does_what_the_model_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spool");
    let start = |fresh| {
        let disk = disk::Folder::open(&path).expect("the folder is free");
        Spool::open(Box::new(disk), ROOMY, DEVICE, fresh).expect("a folder that lists")
    };
    let mut spool = start(FRESH);
    let frames: Vec<Frame> = (0..14).map(|n| add(&mut spool, n, 40_000)).collect();
    frames[..8]
        .iter()
        .for_each(|f| spool.settle(f.epoch, f.seq));
    spool.tick(CURSOR_MS).expect("the disk works");
    let left = places(&read_all(&mut spool));
    assert_eq!(left.len(), 6);
    drop(spool);
    let mut spool = start(FRESH + 1);
    assert_eq!(places(&read_all(&mut spool)), left);
    assert_eq!((spool.next().epoch, spool.next().seq), (FRESH, 15));
    assert_eq!(spool.next().prev, Some(frames[13].digest(DEVICE)));
}

/// 10 h of work and 14 h parked: a batch in 10 s, then one a minute, each acked soon after.
#[test]
#[expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "the figure of a bar, printed"
)]
fn a_day_writes_at_most_50_mb_of_flash() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    let (mut now_ms, mut acked) = (0, 0);
    while now_ms < 24 * 3_600_000_u64 {
        let at_work = now_ms < 10 * 3_600_000;
        now_ms += if at_work { 10_000 } else { 60_000 };
        let next = spool.next();
        let frame = plain_frame(next.epoch, next.seq, if at_work { 90 } else { 110 });
        spool
            .append(next.seq, &frame, Digest([1; 16]))
            .expect("the disk works");
        if now_ms % 30_000 == 0 {
            (acked + 1..=next.seq).for_each(|seq| spool.settle(next.epoch, seq));
            acked = next.seq;
        }
        spool.tick(now_ms).expect("the disk works");
    }
    let writes = spool.writes();
    // As measured on ext4: 8.5 KB per append with its sync, 20 KB per cursor with its rename; a new
    // segment is a file with its names, as much as a cursor.
    let flash = writes.appends * 8_500 + (writes.cursors + writes.segments) * 20_000;
    println!(
        "flash in 24 h: {:.1} MB, {writes:?}, pages {}",
        flash as f64 / 1e6,
        model.pages()
    );
    assert!(flash <= 50_000_000, "{flash} bytes of flash");
    assert!(writes.appends > 4400);
}

/// A frame's bytes without the price of its signature.
fn plain_frame(epoch: u64, seq: u64, batch: usize) -> Vec<u8> {
    let frame = Frame {
        epoch,
        seq,
        prev: Digest([2; 16]),
        batch: vec![3; batch],
        signature: [4; 64],
    };
    frame.to_bytes()
}
