//! The spool against hostile hands: wrong bytes, failures upon failures, doubts that outlive a process; never on a real disk.

use super::*;

#[test]
fn what_a_start_would_not_find_again_is_never_taken() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    add(&mut spool, 1, 70);
    let good = next_frame(&spool, 2, 70);
    let other = |epoch, seq| Frame {
        epoch,
        seq,
        ..good.clone()
    };
    let noise = vec![7; 196];
    let frames = [
        noise,
        Vec::new(),
        other(FRESH + 1, 2).to_bytes(),
        other(FRESH, 1).to_bytes(),
        other(FRESH, 3).to_bytes(),
    ];
    for frame in frames {
        let refused = spool
            .append(2, &frame, Digest([1; 16]))
            .map_err(|e| e.kind());
        assert_eq!(refused, Err(std::io::ErrorKind::InvalidInput));
    }
    // Whole, but not next.
    let skipped = other(FRESH, 9);
    assert!(store(&mut spool, &skipped).is_err());
    store(&mut spool, &good).expect("the disk works");
    let mut spool = open(&model, FRESH + 1);
    assert_eq!(places(&read_all(&mut spool)), [(FRESH, 1), (FRESH, 2)]);
    assert_eq!((spool.damaged_bytes(), spool.segments.len()), (0, 1));
}

#[test]
fn a_record_whose_sync_failed_is_not_used_twice_though_a_start_found_it_in_the_page_cache() {
    for kept_failing in [0, 1, 2, 3, 4, 5, 6] {
        let model = Model::default();
        let mut spool = open(&model, FRESH);
        add(&mut spool, 1, 70);
        spool.flush().expect("the disk works");
        let frame = next_frame(&spool, 2, 70);
        model.fail_syncs(1);
        assert!(store(&mut spool, &frame).is_err());
        // Killed: the page is clean to the kernel, and the disk has never seen it.
        let killed = model.after_kill();
        killed.fail_syncs(kept_failing);
        let mut spool = open(&killed, FRESH + 1);
        let sent = places(&read_all(&mut spool));
        for seed in 0..8 {
            let spool = open(&killed.after_power_cut(seed), FRESH + 2);
            let next = (spool.next().epoch, spool.next().seq);
            assert!(!sent.contains(&next), "{next:?} was sent already");
        }
        // A disk that works again gives all of it.
        killed.fail_syncs(0);
        spool.flush().expect("the disk works again");
        assert_eq!(places(&read_all(&mut spool)), [(FRESH, 1), (FRESH, 2)]);
    }
}

#[test]
fn a_crowded_disk_that_keeps_failing_gives_up_one_segment_and_no_more() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    (0..40).for_each(|n| drop(add(&mut spool, n, 40_000)));
    let before = spool.segments.len();
    assert!(before > 5);
    // Somebody else has filled it.
    spool.limits.min_free_bytes = u64::MAX;
    let frame = next_frame(&spool, 50, 70);
    for _ in 0..50 {
        model.short_writes(9);
        assert!(store(&mut spool, &frame).is_err());
    }
    model.short_writes(0);
    store(&mut spool, &frame).expect("the disk works again");
    assert!(spool.segments.len() >= before, "{}", spool.segments.len());
    let kept = read_all(&mut spool).len() as u64;
    assert_eq!(kept + spool.lost(), 41);
}

#[test]
fn a_disk_that_cannot_reserve_gives_up_the_oldest_when_a_record_meets_its_end() {
    let model = Model::default();
    let mut spool = open(&model, FRESH);
    (0..20).for_each(|n| drop(add(&mut spool, n, 40_000)));
    let before = spool.segments.len();
    let frame = next_frame(&spool, 50, 70);
    model.full_writes(1);
    assert!(store(&mut spool, &frame).is_err());
    store(&mut spool, &frame).expect("there is room now");
    assert_eq!(
        spool.segments.len(),
        before,
        "one goes for the one that comes"
    );
    assert!(spool.lost() > 0);
    assert_eq!(read_all(&mut spool).len() as u64 + spool.lost(), 21);
}

#[test]
fn the_cursor_keeps_the_epoch_that_is_written_however_many_others_wait() {
    let mut model = Model::default();
    for life in 0..80 {
        // Without its cursor each life begins an epoch.
        model = model.without(CURSOR);
        add(&mut open(&model, FRESH + life), life, 70);
    }
    for _ in 0..12 {
        let mut spool = open(&model, 1);
        assert_eq!(spool.next().epoch, FRESH + 79);
        spool.settle(FRESH, 1);
        spool.flush().expect("the disk works");
        let cursor = cursor::Cursor::decode(&model.bytes(CURSOR)).expect("a cursor");
        assert!(cursor.books.iter().any(|book| book.epoch == cursor.epoch));
    }
}
