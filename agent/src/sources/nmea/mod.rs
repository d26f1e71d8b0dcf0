//! NMEA 0183: bytes in, positions out. Never reads a clock: the caller tells the monotonic time.

mod epoch;
pub mod sentence;

use std::collections::VecDeque;

use chrono::{Days, NaiveDate};

use self::{
    epoch::{Epoch, Outcome},
    sentence::{Cut, Cutter, Kind, Told},
};
use super::{Event, Order, Skip};
use crate::position::Position;

const DAY_MS: i64 = 86_400_000;
/// An epoch closes when this passes without a sentence of a new time.
const EPOCH_CLOSES_MS: u64 = 250;
/// How long a position waits for its date.
const HELD_MS: i64 = 600_000;
/// Most positions that wait for a date: 10 min at 10 Hz.
const HELD_MAX: usize = 6_000;
/// 1024 weeks, the period of the GPS week number.
const ROLLOVER: Days = Days::new(7168);

/// The reader: one a receiver.
#[derive(Debug, Default)]
pub struct Reader {
    cutter: Cutter,
    open: Option<(Epoch, u64)>,
    dater: Dater,
    out: VecDeque<Event>,
}

impl Reader {
    /// A reader of a live receiver, which moves dates before `floor` forward by whole 1024 weeks.
    #[must_use]
    pub fn live(floor: NaiveDate) -> Self {
        Self {
            dater: Dater {
                floor: Some(floor),
                holds: true,
                ..Dater::default()
            },
            ..Self::default()
        }
    }

    /// A reader of a log. A log has no monotonic time by which to date back what came before the
    /// first date, so that is given up.
    #[must_use]
    pub fn log(floor: Option<NaiveDate>) -> Self {
        Self {
            dater: Dater {
                floor,
                ..Dater::default()
            },
            ..Self::default()
        }
    }

    /// Takes bytes that came at `now_ms` of the monotonic clock.
    pub fn push(&mut self, bytes: &[u8], now_ms: u64) {
        for &byte in bytes {
            let told = match self.cutter.push(byte) {
                None => continue,
                Some(Cut::Sentence(text)) => sentence::read(text),
                Some(Cut::BadChecksum) => {
                    self.out.push_back(Event::Skipped(Skip::BadChecksum));
                    continue;
                }
                Some(Cut::NoChecksum) => {
                    self.out.push_back(Event::Skipped(Skip::NoChecksum));
                    continue;
                }
                Some(Cut::Garbage) => {
                    self.out.push_back(Event::Skipped(Skip::Garbage));
                    continue;
                }
            };
            if let Some(told) = told {
                self.sentence(&told, now_ms);
            }
        }
    }

    /// Closes an epoch that nothing was added to for 250 ms.
    pub fn tick(&mut self, now_ms: u64) {
        if let Some((_, touched)) = &self.open
            && now_ms.saturating_sub(*touched) >= EPOCH_CLOSES_MS
        {
            self.close();
        }
    }

    /// The end of the bytes: closes the epoch and gives up positions without a date.
    pub fn finish(&mut self) {
        self.close();
        self.dater.give_up(&mut self.out);
    }

    /// The next event, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.out.pop_front()
    }

    fn sentence(&mut self, told: &Told, now_ms: u64) {
        let new = match (told.time, &self.open) {
            (Some(time), Some((epoch, _))) => !epoch.holds(time),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if new {
            self.close();
            if let Some(time) = told.time {
                self.open = Some((Epoch::new(time), now_ms));
            }
        }
        if let Some((epoch, touched)) = &mut self.open {
            // A sentence without time belongs to what came just before it; RMC, GGA, GNS and GLL
            // always tell one when they have a fix.
            if told.time.is_some() || matches!(told.kind, Kind::Vtg | Kind::Gsa) {
                epoch.add(told);
                *touched = now_ms;
            }
        }
        if told.time.is_none() && !matches!(told.kind, Kind::Vtg | Kind::Gsa | Kind::Zda) {
            self.out.push_back(Event::Skipped(Skip::Void("no time")));
        }
    }

    fn close(&mut self) {
        let Some((epoch, _)) = self.open.take() else {
            return;
        };
        match epoch.outcome() {
            Outcome::Silent => self.dater.date_only(&epoch, &mut self.out),
            Outcome::Void(reason) => {
                self.dater.fixing = false;
                self.out.push_back(Event::Skipped(Skip::Void(reason)));
            }
            Outcome::Good(place) => {
                let (speed_mm_s, course_e4) = epoch.motion();
                let (satellites, hdop_x10) = epoch.geometry();
                let position = Position {
                    speed_mm_s,
                    course_e4,
                    quality: epoch.quality(),
                    satellites,
                    hdop_x10,
                    ..Position::bare(epoch.time_ms(), place.lat_e9, place.lon_e9)
                };
                self.dater.fixing = true;
                self.dater.take(position, epoch.date(), &mut self.out);
            }
        }
    }
}

/// Puts dates to times of day, and times in order.
#[derive(Debug, Default)]
struct Dater {
    floor: Option<NaiveDate>,
    /// Whether positions wait for their date.
    holds: bool,
    /// Last good time, ms since 1970.
    last_ms: Option<i64>,
    order: Order,
    /// Positions with a time of day only, oldest first.
    held: VecDeque<Position>,
    /// Whether the last epoch with a place was good.
    fixing: bool,
}

impl Dater {
    /// `position.at_ms` is the time of day.
    fn take(&mut self, position: Position, date: Option<NaiveDate>, out: &mut VecDeque<Event>) {
        let of_day = position.at_ms;
        let Some(at_ms) = self.date(of_day, date) else {
            self.hold(position, out);
            return;
        };
        self.release(of_day, at_ms, out);
        self.last_ms = Some(at_ms);
        self.give(Position { at_ms, ..position }, out);
    }

    /// A ZDA of its own time dates the receiver's clock while it has a fix; without one, its battery
    /// clock may be wrong.
    fn date_only(&mut self, epoch: &Epoch, out: &mut VecDeque<Event>) {
        if !self.fixing || self.last_ms.is_some() {
            return;
        }
        if let Some(at_ms) = epoch
            .date()
            .and_then(|date| self.date(epoch.time_ms(), Some(date)))
        {
            self.release(epoch.time_ms(), at_ms, out);
            self.last_ms = Some(at_ms);
        }
    }

    fn date(&self, of_day: i64, date: Option<NaiveDate>) -> Option<i64> {
        if let Some(told) = date {
            let midnight = self.raise(told)?.and_hms_opt(0, 0, 0)?.and_utc();
            return Some(midnight.timestamp_millis() + of_day);
        }
        // The date within 12 h of the last good time.
        let last = self.last_ms?;
        let ahead = (of_day - last).rem_euclid(DAY_MS);
        Some(
            last + if ahead > DAY_MS / 2 {
                ahead - DAY_MS
            } else {
                ahead
            },
        )
    }

    fn raise(&self, date: NaiveDate) -> Option<NaiveDate> {
        let Some(floor) = self.floor else {
            return Some(date);
        };
        let mut date = date;
        while date < floor {
            date = date.checked_add_days(ROLLOVER)?;
        }
        Some(date)
    }

    fn hold(&mut self, position: Position, out: &mut VecDeque<Event>) {
        if !self.holds {
            return out.push_back(Event::Skipped(Skip::Undated));
        }
        while let Some(oldest) = self.held.front() {
            let age = (position.at_ms - oldest.at_ms).rem_euclid(DAY_MS);
            if age <= HELD_MS && self.held.len() < HELD_MAX {
                break;
            }
            self.held.pop_front();
            out.push_back(Event::Skipped(Skip::Undated));
        }
        self.held.push_back(position);
    }

    /// Dates what was held from an epoch whose date is known.
    fn release(&mut self, of_day: i64, at_ms: i64, out: &mut VecDeque<Event>) {
        while let Some(position) = self.held.pop_front() {
            let back = (of_day - position.at_ms).rem_euclid(DAY_MS);
            if back > HELD_MS {
                out.push_back(Event::Skipped(Skip::Undated));
            } else {
                self.give(
                    Position {
                        at_ms: at_ms - back,
                        ..position
                    },
                    out,
                );
            }
        }
    }

    fn give(&mut self, position: Position, out: &mut VecDeque<Event>) {
        self.order.give(position, |event| out.push_back(event));
    }

    fn give_up(&mut self, out: &mut VecDeque<Event>) {
        out.extend(self.held.drain(..).map(|_| Event::Skipped(Skip::Undated)));
    }
}
