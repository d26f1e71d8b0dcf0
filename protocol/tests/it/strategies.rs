//! Batches, frames and messages by chance, within all limits and often on their edges.

use furrow_protocol::{
    SigningKey,
    batch::{Batch, Ext, FormerEpoch, Gap, GapReason, MAX_EXT_BYTES, MAX_SPAN_MS},
    down::{Down, LogLevel, MAX_RANGES, RefusedReason, Settings},
    fix::{Fix, MAX_LAT_E7, MAX_LON_E7, Quality, Work, WorkSource},
    frame::{Device, Digest, Frame},
    state::{Receiver, State},
};
use proptest::{collection::vec, option, prelude::*, sample::select};

/// A column: absent, constant, partly absent, or all different.
fn column<T>(
    n: usize,
    value: impl Strategy<Value = T> + Clone + 'static,
) -> BoxedStrategy<Vec<Option<T>>>
where
    T: Clone + std::fmt::Debug + 'static,
{
    let constant = value.clone().prop_map(move |v| vec![Some(v); n]);
    let rare = vec(option::weighted(0.1, value.clone()), n);
    prop_oneof![
        Just(vec![None; n]),
        constant,
        rare,
        vec(value.prop_map(Some), n)
    ]
    .boxed()
}

/// Coordinates up to `max` either way: a walk, a rest, or jumps from end to end.
fn places(n: usize, max: i32) -> BoxedStrategy<Vec<i32>> {
    let walk = (-max..=max, vec(-300..=300_i32, n)).prop_map(move |(start, steps)| {
        let go = |at: &mut i32, step: i32| {
            *at = (*at + step).clamp(-max, max);
            Some(*at)
        };
        steps.into_iter().scan(start, go).collect()
    });
    let rest = (-max..=max).prop_map(move |place| vec![place; n]);
    let jumps = vec(prop_oneof![Just(-max), Just(max), -max..=max], n);
    prop_oneof![4 => walk, 1 => rest, 1 => jumps].boxed()
}

/// Strictly ascending times, somewhere in all of i64.
fn times(n: usize) -> BoxedStrategy<Vec<i64>> {
    let start = prop_oneof![
        8 => 1_500_000_000_000..2_000_000_000_000_i64,
        1 => select(vec![0, -1, i64::MIN, i64::MAX - MAX_SPAN_MS]),
        1 => any::<i64>(),
    ];
    let steps = prop_oneof![
        Just(vec![1000; n]),
        vec(select(vec![100, 1000, 1000, 1000, 2000, 5000]), n),
        vec(1..=MAX_SPAN_MS / 600, n),
    ];
    (start, steps)
        .prop_map(|(start, steps)| {
            let start = start.min(i64::MAX - MAX_SPAN_MS);
            let add = |at: &mut i64, step: i64| {
                *at += step;
                Some(*at)
            };
            steps.into_iter().scan(start, add).collect()
        })
        .boxed()
}

/// `n` fixes.
fn fixes(n: usize) -> impl Strategy<Value = Vec<Fix>> {
    let quality = (1..=8_u8).prop_map(|n| Quality::from_gga(n).unwrap());
    let source = (1..=4_u8).prop_map(|n| WorkSource::from_number(n).unwrap());
    (
        (times(n), places(n, MAX_LAT_E7), places(n, MAX_LON_E7)),
        column(n, any::<u16>()),
        column(n, 0..3600_u16),
        column(n, quality),
        column(n, any::<u8>()),
        column(n, any::<u16>()),
        column(n, select(vec![Work::Off, Work::On])),
        column(n, source),
        column(n, any::<u16>()),
        column(n, any::<u32>()),
    )
        .prop_map(
            move |(place, speed, course, quality, sats, hdop, work, source, width, sections)| {
                let (at, lat, lon) = place;
                let fix = |i: usize| Fix {
                    at_ms: at[i],
                    lat_e7: lat[i],
                    lon_e7: lon[i],
                    speed_cm_s: speed[i],
                    course_ddeg: course[i],
                    quality: quality[i].unwrap_or_default(),
                    satellites: sats[i],
                    hdop_x10: hdop[i],
                    work: work[i].unwrap_or_default(),
                    work_source: source[i].unwrap_or_default(),
                    width_cm: width[i],
                    sections: sections[i],
                };
                (0..n).map(fix).collect()
            },
        )
}

fn reason() -> impl Strategy<Value = GapReason> {
    use GapReason as R;
    select(vec![
        R::QuotaDropped,
        R::Damaged,
        R::DiskFailed,
        R::NoFix,
        R::NoReceiver,
        R::ClockStep,
        R::Undated,
        R::Overrun,
    ])
}

fn gap() -> impl Strategy<Value = Gap> {
    let sequences = (any::<u64>(), 1..u64::MAX, any::<u64>(), reason()).prop_map(
        |(epoch, first, more, reason)| Gap::Sequences {
            epoch,
            first,
            last: first.saturating_add(more),
            reason,
        },
    );
    let silence = (any::<i64>(), 1..=i64::MAX, reason()).prop_map(|(from, length, reason)| {
        let to_ms = from.saturating_add(length);
        Gap::Silence {
            from_ms: from.min(to_ms - 1),
            to_ms,
            reason,
        }
    });
    prop_oneof![sequences, silence]
}

/// A digest.
pub fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 16]>().prop_map(Digest)
}

/// A batch of any size, mostly small.
pub fn batch() -> impl Strategy<Value = Batch> {
    let size = prop_oneof![2 => Just(0_usize), 4 => 1..4_usize, 8 => Just(10_usize), 4 => 4..80_usize, 1 => Just(600_usize)];
    let former = (any::<u64>(), option::of((1..=u64::MAX, digest())))
        .prop_map(|(epoch, last)| FormerEpoch { epoch, last });
    let ext = (any::<u16>(), vec(any::<u8>(), 0..=MAX_EXT_BYTES))
        .prop_map(|(tag, bytes)| Ext { tag, bytes });
    (
        (size.prop_flat_map(fixes), any::<i64>()),
        any::<u32>(),
        any::<u64>(),
        prop_oneof![3 => Just(vec![]), 1 => vec(gap(), 1..6)],
        option::weighted(0.2, former),
        prop_oneof![3 => Just(vec![]), 1 => vec(ext, 1..4)],
    )
        .prop_map(
            |((fixes, at_ms), boot, monotonic_ms, gaps, former, ext)| Batch {
                at_ms: fixes.first().map_or(at_ms, |f| f.at_ms),
                boot,
                monotonic_ms,
                fixes,
                gaps,
                former,
                ext,
            },
        )
}

/// A frame around a batch.
pub fn frame() -> impl Strategy<Value = Frame> {
    let seq = prop_oneof![1..100_u64, 1..=u64::MAX];
    (batch(), any::<u64>(), seq, digest()).prop_map(|(batch, epoch, seq, prev)| {
        let key = SigningKey::from_bytes(&[9; 32]);
        Frame::sign(&key, Device(7), epoch, seq, prev, batch.encode().unwrap())
    })
}

/// A down message.
pub fn down() -> impl Strategy<Value = Down> {
    let steps = vec((2..1_000_000_u64, 0..1_000_000_u64), 1..=MAX_RANGES);
    let ack = (any::<u64>(), steps).prop_map(|(epoch, steps)| {
        let range = |last: &mut u64, (skip, more): (u64, u64)| {
            let first = *last + skip;
            *last = first + more;
            Some((first, *last))
        };
        let ranges = steps.into_iter().scan(0, range).collect();
        Down::Ack { epoch, ranges }
    });
    use RefusedReason as R;
    let reason = select(vec![
        R::Undecodable,
        R::UnknownVersion,
        R::BadSignature,
        R::TooOld,
        R::Ahead,
        R::Revoked,
    ]);
    let refused = (digest(), reason).prop_map(|(digest, reason)| Down::Refused { digest, reason });
    use LogLevel as L;
    let level = select(vec![L::Error, L::Warn, L::Info, L::Debug]);
    let settings = (
        any::<u32>(),
        option::of(1..=100_u16),
        option::of(1..=60_u16),
        option::of(1..=32_u16),
        option::of(level),
    )
        .prop_map(|(version, rate_dhz, batch_s, window, log_level)| {
            Down::Settings(Settings {
                version,
                rate_dhz,
                batch_s,
                window,
                log_level,
            })
        });
    prop_oneof![ack, refused, settings]
}

/// A state message.
pub fn state() -> impl Strategy<Value = State> {
    let receiver = select(vec![Receiver::Absent, Receiver::NoFix, Receiver::Fix]);
    (
        "[ -~]{0,32}",
        any::<(u32, u64, u64, u64, u64, u64)>(),
        option::of(any::<i64>()),
        0..=8_u8,
        receiver,
        any::<(u64, u64, u32)>(),
    )
        .prop_map(|(agent, numbers, last_fix_ms, quality, receiver, rest)| {
            let (boot, uptime_s, epoch, last_seq, backlog_frames, backlog_bytes) = numbers;
            let (lost_frames, disk_free_bytes, settings_version) = rest;
            State {
                agent,
                boot,
                uptime_s,
                epoch,
                last_seq,
                backlog_frames,
                backlog_bytes,
                last_fix_ms,
                quality,
                receiver,
                lost_frames,
                disk_free_bytes,
                settings_version,
            }
        })
}
