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
