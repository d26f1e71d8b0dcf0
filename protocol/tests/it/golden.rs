//! The golden files: what version 1 means, for ever. Each has its bytes in hex and its content in words.
//!
//! A file that is there is never rewritten. `FURROW_WRITE_GOLDEN=1` adds those that are missing.

use std::{fmt::Debug, fs, path::PathBuf};

use furrow_protocol::{
    SigningKey,
    batch::{Batch, Ext, FormerEpoch, Gap, GapReason},
    down::{Down, LogLevel, RefusedReason, Settings},
    fix::{Fix, Quality, Work, WorkSource},
    frame::{Device, Digest, Frame, genesis},
    state::{Receiver, State},
};

const START_MS: i64 = 1_577_986_220_000;
const DEVICE: Device = Device(4711);
const EPOCH: u64 = 0x0123_4567_89ab_cdef;

fn key() -> SigningKey {
    SigningKey::from_bytes(&std::array::from_fn(|i| u8::try_from(i).unwrap()))
}

fn path(name: &str, kind: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/v1");
    PathBuf::from(format!("{folder}/{name}.{kind}"))
}

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|b| format!("{b:02x}")).collect::<String>();
    bytes.chunks(32).map(|part| line(part) + "\n").collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The bytes of a golden file, which must say what `value` says and be written as `written`.
#[track_caller]
fn golden(name: &str, value: &impl Debug, written: &[u8]) -> Vec<u8> {
    let text = format!("{value:?}\n").replace("Fix {", "\n  Fix {");
    for (kind, content) in [("hex", hex(written)), ("txt", text.clone())] {
        let path = path(name, kind);
        if !path.exists() && std::env::var_os("FURROW_WRITE_GOLDEN").is_some() {
            fs::write(path, content).unwrap();
        }
    }
    let missing = "a golden file is missing: FURROW_WRITE_GOLDEN=1 adds it";
    let bytes = unhex(&fs::read_to_string(path(name, "hex")).expect(missing));
    assert_eq!(hex(written), hex(&bytes), "{name}: encoding has changed");
    let said = fs::read_to_string(path(name, "txt")).expect(missing);
    assert_eq!(text, said, "{name}: the content is another one");
    bytes
}

#[track_caller]
fn golden_batch(name: &str, batch: &Batch) {
    let bytes = golden(name, batch, &batch.encode().unwrap());
    assert_eq!(Batch::decode(&bytes).as_ref(), Ok(batch), "{name}");
}

fn bare(fixes: Vec<Fix>) -> Batch {
    Batch {
        at_ms: fixes.first().map_or(START_MS, |f| f.at_ms),
        boot: 0xfedc_ba98,
        monotonic_ms: 123_456,
        fixes,
        gaps: vec![],
        former: None,
        ext: vec![],
    }
}

/// A machine that turns in at the headland and begins to work, one fix missing.
fn working() -> Vec<Fix> {
    const STEPS: [(i64, i32, i32, u16); 10] = [
        (0, 0, 0, 139),
        (1, 115, 102, 139),
        (2, 231, 206, 142),
        (3, 345, 307, 144),
        (5, 571, 520, 147),
        (6, 688, 627, 147),
        (7, 802, 731, 144),
        (8, 920, 841, 150),
        (9, 1033, 950, 147),
        (10, 1149, 1055, 147),
    ];
    let fix = |(second, north, east, speed): (i64, i32, i32, u16)| Fix {
        at_ms: START_MS + second * 1000,
        lat_e7: 545_738_029 + north,
        lon_e7: 101_880_516 + east,
        speed_cm_s: Some(speed),
        work: if second < 4 { Work::Off } else { Work::On },
        width_cm: Some(900),
        ..Fix::default()
    };
    STEPS.into_iter().map(fix).collect()
}

/// All columns, some of them not known for all fixes.
fn all_columns() -> Vec<Fix> {
    let qualities = [
        Quality::Unknown,
        Quality::Autonomous,
        Quality::Differential,
        Quality::Pps,
        Quality::RtkFixed,
        Quality::RtkFloat,
        Quality::DeadReckoning,
        Quality::Manual,
        Quality::Simulated,
        Quality::RtkFixed,
    ];
    let sources = [
        WorkSource::None,
        WorkSource::Pto,
        WorkSource::Hitch,
        WorkSource::Section,
        WorkSource::Switch,
    ];
    let works = [Work::Unknown, Work::Off, Work::On];
    let fix = |(i, fix): (usize, Fix)| {
        let n = u16::try_from(i).unwrap();
        Fix {
            at_ms: fix.at_ms + if i == 9 { 7 } else { 0 },
            lat_e7: -fix.lat_e7,
            lon_e7: -fix.lon_e7,
            speed_cm_s: (i != 4).then_some(n * 37),
            course_ddeg: (i > 1).then_some(3590 - n * 3),
            quality: qualities[i],
            satellites: Some(if i < 5 { 14 } else { 255 }),
            hdop_x10: (i != 0).then_some(7 + n * n),
            work: works[i % 3],
            work_source: sources[i % 5],
            width_cm: Some(if i % 2 == 0 { 600 } else { 65_535 }),
            sections: (i < 8).then_some(0xfff_u32 >> i),
        }
    };
    working().into_iter().enumerate().map(fix).collect()
}

#[test]
fn batches_of_version_1_decode_and_encode_for_ever() {
    golden_batch("batch-one-fix", &bare(working()[..1].to_vec()));
    golden_batch("batch-working", &bare(working()));
    golden_batch("batch-all-columns", &bare(all_columns()));
    let parked = |i: i64| Fix {
        at_ms: START_MS + i * 5000,
        quality: Quality::Autonomous,
        satellites: Some(9),
        ..working()[0]
    };
    golden_batch("batch-parked", &bare((0..12).map(parked).collect()));
    let still = (0..150).map(|i| Fix {
        at_ms: START_MS + i * 100,
        lat_e7: if i < 140 { 900_000_000 } else { 899_999_999 },
        lon_e7: -1_800_000_000,
        ..Fix::default()
    });
    golden_batch("batch-long-runs", &bare(still.collect()));
}

#[test]
fn gaps_epochs_and_extensions_of_version_1_decode_and_encode_for_ever() {
    use GapReason as R;
    let reasons = [
        R::QuotaDropped,
        R::Damaged,
        R::DiskFailed,
        R::NoFix,
        R::NoReceiver,
        R::ClockStep,
        R::Undated,
        R::Overrun,
    ];
    let gap = |(i, reason): (u64, GapReason)| match i % 2 {
        0 => Gap::Sequences {
            epoch: EPOCH,
            first: 1 + i,
            last: 300 * (1 + i),
            reason,
        },
        _ => Gap::Silence {
            from_ms: START_MS - 60_000,
            to_ms: START_MS,
            reason,
        },
    };
    let silent = Batch {
        gaps: (0..).zip(reasons).map(gap).collect(),
        ..bare(vec![])
    };
    golden_batch("batch-without-fix", &silent);
    let ext = |tag, bytes: &[u8]| Ext {
        tag,
        bytes: bytes.to_vec(),
    };
    let first = Batch {
        former: Some(FormerEpoch {
            epoch: 77,
            last: Some((4_000, Digest([0xd1; 16]))),
        }),
        ext: vec![ext(1, b"furrow"), ext(65_535, &[0xff; 64]), ext(1, b"")],
        ..bare(working()[..2].to_vec())
    };
    golden_batch("batch-new-epoch", &first);
    let unknown_end = Batch {
        former: Some(FormerEpoch {
            epoch: 77,
            last: None,
        }),
        ..bare(vec![])
    };
    golden_batch("batch-new-epoch-after-an-unknown-end", &unknown_end);
}

#[test]
fn frames_of_version_1_decode_encode_and_verify_for_ever() {
    let public = key().verifying_key();
    // As the README names it for decoders in other languages.
    assert_eq!(
        hex(public.as_bytes()),
        "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8\n"
    );
    let mut prev = genesis(DEVICE, EPOCH, &public);
    for (seq, name) in [(1, "frame-first"), (2, "frame-second")] {
        let batch = bare(working()).encode().unwrap();
        let frame = Frame::sign(&key(), DEVICE, EPOCH, seq, prev, batch);
        let bytes = golden(name, &frame, &frame.to_bytes());
        let read = Frame::from_bytes(&bytes).unwrap();
        assert_eq!(read, frame);
        assert_eq!(read.verify(DEVICE, &public), Ok(()));
        assert_eq!(read.prev, prev);
        prev = read.digest(DEVICE);
    }
}

#[test]
fn down_messages_of_version_1_decode_and_encode_for_ever() {
    let ack = Down::Ack {
        epoch: EPOCH,
        ranges: vec![(1, 1), (3, 300), (302, u64::MAX)],
    };
    let settings = |version, all: bool| {
        Down::Settings(Settings {
            version,
            rate_dhz: all.then_some(100),
            batch_s: all.then_some(60),
            window: all.then_some(32),
            log_level: all.then_some(LogLevel::Debug),
        })
    };
    use RefusedReason as R;
    let refused = [
        ("undecodable", R::Undecodable),
        ("unknown-version", R::UnknownVersion),
        ("bad-signature", R::BadSignature),
        ("too-old", R::TooOld),
        ("ahead", R::Ahead),
        ("revoked", R::Revoked),
    ];
    let refused = refused.map(|(name, reason)| {
        let digest = Digest(std::array::from_fn(|i| u8::try_from(i).unwrap()));
        (
            format!("down-refused-{name}"),
            Down::Refused { digest, reason },
        )
    });
    let others = [
        ("down-ack".to_owned(), ack),
        ("down-settings".to_owned(), settings(9, true)),
        ("down-settings-own".to_owned(), settings(0, false)),
    ];
    for (name, down) in refused.into_iter().chain(others) {
        let bytes = golden(&name, &down, &down.encode().unwrap());
        assert_eq!(Down::decode(&bytes), Ok(down), "{name}");
    }
}

#[test]
fn state_messages_of_version_1_decode_and_encode_for_ever() {
    let state = State {
        agent: "0.1.0".to_owned(),
        boot: 0xfedc_ba98,
        uptime_s: 86_400,
        epoch: EPOCH,
        last_seq: 8_640,
        backlog_frames: 32,
        backlog_bytes: 5_504,
        last_fix_ms: Some(START_MS),
        quality: 4,
        receiver: Receiver::Fix,
        lost_frames: 3,
        disk_free_bytes: 2_000_000_000,
        settings_version: 9,
    };
    let bytes = golden("state", &state, &state.encode().unwrap());
    assert_eq!(State::decode(&bytes), Ok(state));
    let silent = State {
        last_fix_ms: None,
        receiver: Receiver::Absent,
        quality: 0,
        ..State::decode(&bytes).unwrap()
    };
    let bytes = golden("state-without-fix", &silent, &silent.encode().unwrap());
    assert_eq!(State::decode(&bytes), Ok(silent));
}
