//! What the sentences of one instant say together; never dates it.

use furrow_protocol::fix::Quality;

use super::sentence::{Date, Kind, Place, TimeOfDay, Told};
use crate::position::refuse_place;

/// The sentences of one time of day.
#[derive(Debug, Clone)]
pub struct Epoch {
    time: TimeOfDay,
    place: Option<Place>,
    bad_place: bool,
    void: bool,
    counted: bool,
    some_satellites: bool,
    gga_quality: Option<Quality>,
    mode_quality: Option<Quality>,
    satellites: Option<u8>,
    hdop_x10: Option<u16>,
    rmc_speed: Option<u32>,
    vtg_speed: Option<u32>,
    rmc_course: Option<u32>,
    vtg_course: Option<u32>,
    rmc_date: Option<Date>,
    zda_date: Option<Date>,
    positional: bool,
}

/// What an epoch comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A place that the receiver stands by.
    Good(Place),
    /// No fix, and why.
    Void(&'static str),
    /// No sentence in it tells places at all (ZDA alone).
    Silent,
}

impl Epoch {
    /// An epoch that begins with this time.
    #[must_use]
    pub const fn new(time: TimeOfDay) -> Self {
        Self {
            time,
            place: None,
            bad_place: false,
            void: false,
            counted: false,
            some_satellites: false,
            gga_quality: None,
            mode_quality: None,
            satellites: None,
            hdop_x10: None,
            rmc_speed: None,
            vtg_speed: None,
            rmc_course: None,
            vtg_course: None,
            rmc_date: None,
            zda_date: None,
            positional: false,
        }
    }

    /// Whether a sentence of this time belongs here: less than 10 ms apart, for some receivers round
    /// in one sentence what they tell in full in another.
    #[must_use]
    pub const fn holds(&self, time: TimeOfDay) -> bool {
        (self.time.ms - time.ms).abs() < 10
    }

    /// ms since midnight UTC, as RMC or GGA tell it where there is one.
    #[must_use]
    pub const fn time_ms(&self) -> i64 {
        self.time.ms
    }

    /// Date of RMC, else of ZDA.
    #[must_use]
    pub fn date(&self) -> Option<Date> {
        self.rmc_date.or(self.zda_date)
    }

    /// Adds a sentence.
    pub fn add(&mut self, told: &Told) {
        if let Some(time) = told
            .time
            .filter(|_| matches!(told.kind, Kind::Rmc | Kind::Gga))
        {
            self.time = time;
        }
        match told.kind {
            Kind::Rmc => {
                self.void |= told.active == Some(false) || told.quality == Some(None);
                self.mode_quality = better(self.mode_quality, told.quality.flatten());
                self.rmc_speed = told.speed_mm_s.or(self.rmc_speed);
                self.rmc_course = told.course_e4.or(self.rmc_course);
                self.rmc_date = told
                    .date
                    .filter(|_| told.active == Some(true))
                    .or(self.rmc_date);
                self.take_place(told);
            }
            Kind::Gga => {
                self.void |= told.quality == Some(None);
                self.gga_quality = better(self.gga_quality, told.quality.flatten());
                self.count(told);
                self.take_place(told);
            }
            Kind::Gns => {
                self.count(told);
                self.mode_quality = better(self.mode_quality, told.quality.flatten());
                if told.quality != Some(None) {
                    self.take_place(told);
                }
                self.positional = true;
            }
            Kind::Gll => {
                self.positional = true;
                if told.active != Some(false) && told.quality != Some(None) {
                    self.mode_quality = better(self.mode_quality, told.quality.flatten());
                    self.take_place(told);
                }
            }
            Kind::Vtg => {
                self.vtg_speed = told.speed_mm_s.or(self.vtg_speed);
                self.vtg_course = told.course_e4.or(self.vtg_course);
            }
            Kind::Zda => self.zda_date = told.date.or(self.zda_date),
            Kind::Gsa => self.hdop_x10 = self.hdop_x10.or(told.hdop_x10),
        }
    }

    fn count(&mut self, told: &Told) {
        self.hdop_x10 = told.hdop_x10.or(self.hdop_x10);
        if let Some(satellites) = told.satellites {
            self.counted = true;
            self.some_satellites |= satellites > 0;
            self.satellites = self.satellites.max(Some(satellites));
        }
    }

    /// Sentences of one epoch tell one place with more or fewer decimals: the finest stands, the
    /// last of equals.
    fn take_place(&mut self, told: &Told) {
        self.positional = true;
        self.bad_place |= told.bad_place;
        if let Some(place) = told.place
            && self
                .place
                .is_none_or(|kept| place.decimals >= kept.decimals)
        {
            self.place = Some(place);
        }
    }

    /// The verdict on the epoch's place (telemetry.md section 3, "NMEA reading").
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let Some(place) = self.place else {
            return match (self.positional, self.bad_place) {
                (_, true) => Outcome::Void("position malformed"),
                (true, false) => Outcome::Void("no fix"),
                (false, false) => Outcome::Silent,
            };
        };
        if self.void {
            Outcome::Void("no fix")
        } else if self.counted && !self.some_satellites {
            Outcome::Void("no satellites")
        } else if let Some(reason) = refuse_place(place.lat_e9, place.lon_e9) {
            Outcome::Void(reason)
        } else {
            Outcome::Good(place)
        }
    }

    /// Quality by GGA, else by a mode letter.
    #[must_use]
    pub fn quality(&self) -> Quality {
        self.gga_quality.or(self.mode_quality).unwrap_or_default()
    }

    /// Speed (mm/s) and course (0.0001 degree): RMC's, else VTG's.
    #[must_use]
    pub fn motion(&self) -> (Option<u32>, Option<u32>) {
        (
            self.rmc_speed.or(self.vtg_speed),
            self.rmc_course.or(self.vtg_course),
        )
    }

    /// Satellites and HDOP x 10.
    #[must_use]
    pub const fn geometry(&self) -> (Option<u8>, Option<u16>) {
        (self.satellites, self.hdop_x10)
    }
}

/// Several talkers tell their own quality: the best one made the place.
fn better(kept: Option<Quality>, told: Option<Quality>) -> Option<Quality> {
    const fn rank(quality: Quality) -> u8 {
        match quality {
            Quality::RtkFixed => 8,
            Quality::RtkFloat => 7,
            Quality::Pps => 6,
            Quality::Differential => 5,
            Quality::Autonomous => 4,
            Quality::DeadReckoning => 3,
            Quality::Manual => 2,
            Quality::Simulated => 1,
            Quality::Unknown => 0,
        }
    }
    match (kept, told) {
        (Some(a), Some(b)) => Some(if rank(b) > rank(a) { b } else { a }),
        (kept, told) => kept.or(told),
    }
}
