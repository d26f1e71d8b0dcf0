//! A track that was recorded or simulated, told again at a multiple of its speed and dated anew as a whole. Never tells a time that has not come.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{Event, Timed, live::Out};
use crate::{clock::SharedClock, position::Position};

/// Ahead by less than this is not waited for.
const GRAIN: Duration = Duration::from_millis(2);
/// A hole in a recording is told with its length, but one without measure (two days of one machine
/// in one file) would hold a run up for ever; at speed 1 longer holes are shortened, ms.
const LONGEST_HOLE_MS: i64 = 86_400_000;

/// A track with its own time.
#[derive(Debug, Clone)]
pub struct Track {
    positions: Vec<Position>,
    /// Time since the first position at which each one comes, ms.
    elapsed_ms: Vec<u64>,
}

/// How it is told.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Multiple of its own speed.
    pub speed: f64,
    /// Time of the first fix, ms since 1970 UTC; without it the last fix falls at the moment it is
    /// told.
    pub start_ms: Option<i64>,
    /// Again from its beginning for ever, time going on.
    pub endless: bool,
}

impl Track {
    /// A track of these positions, in their order.
    #[must_use]
    pub fn new(positions: Vec<Position>) -> Self {
        let mut elapsed = 0_u64;
        let mut before: Option<i64> = None;
        let elapsed_ms = positions
            .iter()
            .map(|position| {
                let passed = before.replace(position.at_ms).map_or(0, |before| {
                    position
                        .at_ms
                        .saturating_sub(before)
                        .clamp(0, LONGEST_HOLE_MS)
                });
                elapsed += passed.unsigned_abs();
                elapsed
            })
            .collect();
        Self {
            positions,
            elapsed_ms,
        }
    }

    /// Its positions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    fn length_ms(&self) -> u64 {
        self.elapsed_ms.last().copied().unwrap_or(0)
    }

    /// By how much its times are moved if it is told from `wall_ms` on, ms: as a whole, so that its
    /// last fix falls at the moment it is told, or its first at `start_ms`.
    #[must_use]
    pub fn shift_ms(&self, manner: &Manner, wall_ms: i64) -> i64 {
        let times = || self.positions.iter().map(|p| p.at_ms);
        let (Some(first), Some(latest)) = (times().next(), times().max()) else {
            return 0;
        };
        match manner.start_ms {
            Some(start_ms) => start_ms.saturating_sub(first),
            None => wall_ms
                .saturating_add(scaled(self.length_ms(), manner.speed))
                .saturating_sub(latest),
        }
    }

    /// Tells it; ends when it is told, or nobody listens.
    pub async fn tell(&self, manner: &Manner, shift_ms: i64, clock: &SharedClock, out: &Out) {
        let begin = Instant::now();
        let base_ms = clock.monotonic_ms();
        let (mut lap_ms, mut lap_shift) = (0_u64, shift_ms);
        loop {
            for (position, elapsed_ms) in self.positions.iter().zip(&self.elapsed_ms) {
                let due_ms = lap_ms + elapsed_ms;
                let due =
                    begin + Duration::from_millis(scaled(due_ms, manner.speed).unsigned_abs());
                if due.saturating_duration_since(Instant::now()) > GRAIN {
                    sleep_until(due).await;
                }
                let position = Position {
                    at_ms: position.at_ms.saturating_add(lap_shift),
                    ..*position
                };
                let timed = Timed {
                    now_ms: base_ms + due_ms,
                    event: Some(Event::Position(position)),
                };
                if out.send(timed).await.is_err() {
                    return;
                }
            }
            if !manner.endless || self.is_empty() {
                return;
            }
            // The machine begins anew a second after it has ended.
            let lap = self.length_ms() + 1000;
            lap_ms += lap;
            lap_shift = lap_shift.saturating_add(i64::try_from(lap).unwrap_or(i64::MAX));
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "spans of a track, far below 2^53 ms; casts of floats saturate"
)]
fn scaled(ms: u64, speed: f64) -> i64 {
    (ms as f64 / speed).round() as i64
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::Clock;

    fn track(times: &[i64]) -> Track {
        Track::new(
            times
                .iter()
                .map(|at_ms| Position::bare(*at_ms, 1_000_000_000, 0))
                .collect(),
        )
    }

    #[test]
    fn the_last_fix_falls_at_the_moment_it_is_told() {
        let track = track(&[5_000, 6_000, 65_000]);
        let manner = |speed, start_ms| Manner {
            speed,
            start_ms,
            endless: false,
        };
        // Told in 60 s at speed 1, in 1 s at speed 60: the whole is moved as one.
        assert_eq!(
            track.shift_ms(&manner(1.0, None), 1_000_000),
            1_000_000 + 60_000 - 65_000
        );
        assert_eq!(
            track.shift_ms(&manner(60.0, None), 1_000_000),
            1_000_000 + 1_000 - 65_000
        );
        assert_eq!(track.shift_ms(&manner(60.0, Some(7_000)), 1_000_000), 2_000);
    }

    #[test]
    fn a_recording_whose_clock_stepped_back_is_never_dated_ahead() {
        let track = track(&[900_000, 901_000, 5_000, 6_000]);
        let manner = Manner {
            speed: 1.0,
            start_ms: None,
            endless: false,
        };
        assert_eq!(track.length_ms(), 2_000);
        assert_eq!(track.shift_ms(&manner, 0), 2_000 - 901_000);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_at_a_multiple_of_its_speed_and_never_ahead_of_time() {
        let track = track(&[0, 1_000, 60_000]);
        let manner = Manner {
            speed: 60.0,
            start_ms: None,
            endless: false,
        };
        let clock = Clock::start();
        let (out, mut told) = mpsc::channel(8);
        let begin = Instant::now();
        let shift_ms = track.shift_ms(&manner, 0);
        track.tell(&manner, shift_ms, &clock, &out).await;
        assert!((begin.elapsed().as_millis()).abs_diff(1_000) < 20);
        drop(out);
        let mut times = Vec::new();
        while let Some(Timed {
            event: Some(Event::Position(position)),
            ..
        }) = told.recv().await
        {
            times.push(position.at_ms);
        }
        assert_eq!(times, [-59_000, -58_000, 1_000]);
    }
}
