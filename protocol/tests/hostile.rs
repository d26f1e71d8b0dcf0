//! Mutation fuzz of every decoder: no panic, bounded memory, and nothing accepted that is not what the encoder writes.
//!
//! One test in this binary, so that the counting allocator counts it alone. It runs for
//! `FURROW_FUZZ_SECONDS` (default 30) from `FURROW_FUZZ_SEED` (default: a fixed one).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says what is wrong by failing"
)]

use std::{
    alloc::System,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use furrow_protocol::{batch::Batch, down::Down, frame::Frame, key, state::State, topic::Topic};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "it/strategies.rs"]
mod strategies;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// All that decoding may allocate in all, the encoding for comparison included.
const MOST_FOR_A_BATCH: usize = 256 * 1024;
const MOST_FOR_A_FRAME: usize = 64 * 1024;
const MOST_FOR_A_DOWN: usize = 16 * 1024;
const MOST_FOR_A_STATE: usize = 4 * 1024;

/// Small random numbers that a seed repeats (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(n).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        const EDGES: [u8; 12] = [0, 1, 2, 3, 4, 5, 9, 0x20, 0x7f, 0x80, 0x81, 0xff];
        match self.below(3) {
            0 => EDGES[self.below(EDGES.len())],
            _ => self.roll().to_le_bytes()[0],
        }
    }
}

#[derive(Default)]
struct Seen {
    batches: u64,
    frames: u64,
    downs: u64,
    states: u64,
    refused: u64,
}

/// What `decode` gives, and whether it kept to its memory.
#[track_caller]
fn within<T>(most: usize, decode: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let value = decode();
    let taken = region.change().bytes_allocated;
    assert!(taken <= most, "{taken} bytes allocated, at most {most}");
    value
}

fn try_batch(bytes: &[u8], seen: &mut Seen) {
    match within(MOST_FOR_A_BATCH, || Batch::decode(bytes)) {
        Ok(batch) => {
            assert_eq!(batch.encode().as_deref(), Ok(bytes), "another encoding");
            assert!(batch.last_at_ms() >= batch.at_ms);
            seen.batches += 1;
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            seen.refused += 1;
        }
    }
}

fn try_all(bytes: &[u8], seen: &mut Seen) {
    try_batch(bytes, seen);
    if let Ok(frame) = within(MOST_FOR_A_FRAME, || Frame::from_bytes(bytes)) {
        assert_eq!(frame.to_bytes(), bytes, "another encoding");
        try_batch(&frame.batch, seen);
        seen.frames += 1;
    }
    if let Ok(down) = within(MOST_FOR_A_DOWN, || Down::decode(bytes)) {
        assert_eq!(down.encode().as_deref(), Ok(bytes), "another encoding");
        seen.downs += 1;
    }
    if let Ok(state) = within(MOST_FOR_A_STATE, || State::decode(bytes)) {
        assert_eq!(state.encode().as_deref(), Ok(bytes), "another encoding");
        seen.states += 1;
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(topic) = within(0, || Topic::parse(&text)) {
        assert_eq!(topic.to_string(), text);
    }
    if let Some(key) = bytes.first_chunk() {
        // Curve arithmetic is slow: now and then is enough.
        if seen.refused.is_multiple_of(64)
            && let Ok(admitted) = key::admit(key)
        {
            assert_eq!(admitted.as_bytes(), key);
        }
    }
}

/// Runs one input; a panic is reported with the bytes that made it.
fn run(bytes: &[u8], seen: &mut Seen) {
    let outcome = catch_unwind(AssertUnwindSafe(|| try_all(bytes, seen)));
    if outcome.is_err() {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        panic!("failed on {hex}");
    }
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let end = (at + dice.below(12)).min(bytes.len());
        let Some(byte) = bytes.get_mut(at) else {
            bytes.push(dice.byte());
            continue;
        };
        match dice.below(8) {
            0 => *byte ^= 1 << dice.below(8),
            1 => *byte = dice.byte(),
            2 => bytes.insert(at, dice.byte()),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 => {
                let part = bytes[at..end].repeat(1 + dice.below(3));
                bytes.splice(at..at, part);
            }
            6 => {
                // A varint of many bytes, as counts and differences are attacked.
                let long = vec![0x80 | dice.byte(); dice.below(10)];
                bytes.splice(at..at, long);
            }
            _ => {
                let from = dice.below(other.len() + 1);
                let to = (from + dice.below(40)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
}

fn golden() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/v1");
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "hex"));
    paths.sort();
    let read = |path| {
        let text = std::fs::read_to_string(path).unwrap().replace('\n', "");
        let byte = |i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
        (0..text.len() / 2).map(byte).collect()
    };
    paths.into_iter().map(read).collect()
}

/// Golden files and messages by chance, of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    let messages = proptest::prop_oneof![
        6 => strategies::batch().prop_map(|b| b.encode().unwrap()),
        3 => strategies::frame().prop_map(|f| f.to_bytes()),
        1 => strategies::down().prop_map(|d| d.encode().unwrap()),
        1 => strategies::state().prop_map(|s| s.encode().unwrap()),
    ];
    let mut seeds = golden();
    seeds.extend([b"furrow/v1/1/up".to_vec(), b"furrow/v1/4711/state".to_vec()]);
    seeds.extend((0..400).map(|_| messages.new_tree(&mut runner).unwrap().current()));
    // Long ones are tried less often than short ones, or the seconds go to them alone.
    seeds.sort_by_key(Vec::len);
    seeds
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

#[test]
fn no_bytes_make_a_decoder_panic_waste_memory_or_accept_a_second_encoding() {
    let begin = Instant::now();
    let duration = Duration::from_secs(number("FURROW_FUZZ_SECONDS", 30));
    let mut dice = Dice(number("FURROW_FUZZ_SEED", 20_261_201));
    let mut seen = Seen::default();
    // Each golden file with each byte replaced by each value, and cut off everywhere.
    for bytes in golden() {
        let mut changed = bytes.clone();
        for at in 0..bytes.len().min(200) {
            for value in 0..=u8::MAX {
                changed[at] = value;
                run(&changed, &mut seen);
            }
            changed[at] = bytes[at];
            run(&bytes[..at], &mut seen);
        }
    }
    let seeds = seeds();
    let short = seeds.partition_point(|seed| seed.len() < 400);
    let mut rounds = 0_u64;
    while begin.elapsed() < duration || rounds < 1000 {
        for _ in 0..256 {
            let most = if dice.below(50) == 0 {
                seeds.len()
            } else {
                short
            };
            let mut bytes = seeds[dice.below(most)].clone();
            let other = dice.below(seeds.len());
            mutate(&mut bytes, &seeds[other], &mut dice);
            run(&bytes, &mut seen);
            rounds += 1;
        }
    }
    eprintln!(
        "{rounds} mutated messages; accepted: {} batches, {} frames, {} down, {} state; refused: {}",
        seen.batches, seen.frames, seen.downs, seen.states, seen.refused
    );
    let accepted = [seen.batches, seen.frames, seen.downs, seen.states];
    assert!(
        accepted.iter().all(|n| *n > 1000),
        "the mutations reach past the first checks"
    );
    assert!(seen.refused > 10_000);
}
