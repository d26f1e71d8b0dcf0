//! Cuts NMEA 0183 sentences out of bytes and reads their fields; never keeps more than one sentence.

use furrow_protocol::fix::Quality;

/// Longest sentence taken, in bytes from `$` to the checksum. The standard says 82; receivers with
/// many decimals pass it.
const MAX_SENTENCE: usize = 256;

/// What comes out of the bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Cut<'a> {
    /// The text between `$` and `*`, its checksum right.
    Sentence(&'a str),
    /// A sentence with a wrong checksum.
    BadChecksum,
    /// A sentence that ended without one.
    NoChecksum,
    /// A sentence over 256 bytes, or with bytes that are no text.
    Garbage,
}

/// Finds sentences in a stream of bytes.
#[derive(Debug)]
pub struct Cutter {
    text: [u8; MAX_SENTENCE],
    len: usize,
    inside: bool,
}

impl Default for Cutter {
    fn default() -> Self {
        Self {
            text: [0; MAX_SENTENCE],
            len: 0,
            inside: false,
        }
    }
}

impl Cutter {
    /// Takes one byte; gives what it completes.
    pub fn push(&mut self, byte: u8) -> Option<Cut<'_>> {
        match byte {
            b'$' => {
                let cut = self.inside && self.len > 0;
                self.inside = true;
                self.len = 0;
                cut.then_some(Cut::NoChecksum)
            }
            _ if !self.inside => None,
            b'\r' | b'\n' => {
                self.inside = false;
                (self.len > 0).then_some(Cut::NoChecksum)
            }
            0x20..=0x7e => self.push_text(byte),
            _ => {
                self.inside = false;
                Some(Cut::Garbage)
            }
        }
    }

    fn push_text(&mut self, byte: u8) -> Option<Cut<'_>> {
        let Some(slot) = self.text.get_mut(self.len) else {
            self.inside = false;
            return Some(Cut::Garbage);
        };
        *slot = byte;
        self.len += 1;
        let star = self.len.checked_sub(3)?;
        if self.text.get(star) != Some(&b'*') {
            return None;
        }
        self.inside = false;
        let (body, told) = self.text.get(..self.len)?.split_at(star);
        let told = core::str::from_utf8(told.get(1..)?).ok().and_then(|hex| {
            hex.bytes()
                .all(|b| b.is_ascii_hexdigit())
                .then(|| u8::from_str_radix(hex, 16).ok())?
        });
        let sum = body.iter().fold(0, |sum, byte| sum ^ byte);
        if told == Some(sum) {
            core::str::from_utf8(body).ok().map(Cut::Sentence)
        } else {
            Some(Cut::BadChecksum)
        }
    }
}

/// Time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOfDay {
    /// ms since midnight UTC; a second 60 is 59.999.
    pub ms: i64,
}

/// A date, not checked against any clock.
pub type Date = chrono::NaiveDate;

/// A place as told, with its precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// 1e-9 degree.
    pub lat_e9: i64,
    /// 1e-9 degree.
    pub lon_e9: i64,
    /// Decimals of the minutes.
    pub decimals: usize,
}

/// The sentences that make fixes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Told {
    /// Which: RMC, GGA, GNS, GLL, VTG, ZDA, GSA.
    pub kind: Kind,
    /// Time of day; VTG and GSA have none.
    pub time: Option<TimeOfDay>,
    /// The place, if both halves are well-formed.
    pub place: Option<Place>,
    /// A place stands there but is not one.
    pub bad_place: bool,
    /// Status: Some(true) for A, Some(false) for V (RMC and GLL).
    pub active: Option<bool>,
    /// Quality as the GGA number or a mode letter tells it; the outer None where nothing is told, the
    /// inner where it says "no fix".
    pub quality: Option<Option<Quality>>,
    /// Satellites used.
    pub satellites: Option<u8>,
    /// HDOP x 10.
    pub hdop_x10: Option<u16>,
    /// mm/s.
    pub speed_mm_s: Option<u32>,
    /// 0.0001 degree.
    pub course_e4: Option<u32>,
    /// Date (RMC, ZDA).
    pub date: Option<Date>,
}

/// Sentence kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Recommended minimum.
    #[default]
    Rmc,
    /// Fix data.
    Gga,
    /// Fix data of several systems.
    Gns,
    /// Place.
    Gll,
    /// Course and speed.
    Vtg,
    /// Time and date.
    Zda,
    /// Satellites and dilution.
    Gsa,
}

/// Reads a sentence; None for a kind that we do not use.
#[must_use]
pub fn read(text: &str) -> Option<Told> {
    let mut fields = text.split(',').map(str::trim);
    let address = fields.next()?;
    // Talker (two letters, any) and type; `P…` are makers' own.
    if address.len() != 5 || address.starts_with(['P', 'p']) || !address.is_ascii() {
        return None;
    }
    let kind = match address.get(2..)?.to_ascii_uppercase().as_str() {
        "RMC" => Kind::Rmc,
        "GGA" => Kind::Gga,
        "GNS" => Kind::Gns,
        "GLL" => Kind::Gll,
        "VTG" => Kind::Vtg,
        "ZDA" => Kind::Zda,
        "GSA" => Kind::Gsa,
        _ => return None,
    };
    let fields: Vec<&str> = fields.collect();
    let field = |i: usize| fields.get(i).copied().unwrap_or("");
    let told = Told {
        kind,
        ..Told::default()
    };
    Some(match kind {
        Kind::Rmc => read_rmc(&field, told),
        Kind::Gga => Told {
            time: time(field(0)),
            quality: field(5)
                .parse::<u8>()
                .ok()
                .map(|n| Quality::from_gga(n).filter(|_| n != 0)),
            satellites: field(6).parse().ok(),
            hdop_x10: tenths(field(7)),
            ..placed(told, [field(1), field(2), field(3), field(4)])
        },
        Kind::Gns => Told {
            time: time(field(0)),
            quality: best_mode(field(5)),
            satellites: field(6).parse().ok(),
            hdop_x10: tenths(field(7)),
            ..placed(told, [field(1), field(2), field(3), field(4)])
        },
        Kind::Gll => Told {
            time: time(field(4)),
            active: status(field(5)),
            quality: best_mode(field(6)),
            ..placed(told, [field(0), field(1), field(2), field(3)])
        },
        Kind::Vtg => read_vtg(&field, told),
        Kind::Zda => Told {
            time: time(field(0)),
            date: zda_date(field(1), field(2), field(3)),
            ..told
        },
        Kind::Gsa => Told {
            hdop_x10: tenths(field(15)),
            ..told
        },
    })
}

fn read_rmc<'a>(field: &impl Fn(usize) -> &'a str, told: Told) -> Told {
    Told {
        time: time(field(0)),
        active: status(field(1)),
        speed_mm_s: knots(field(6)),
        course_e4: course(field(7)),
        date: rmc_date(field(8)),
        quality: best_mode(field(11)),
        ..placed(told, [field(2), field(3), field(4), field(5)])
    }
}

fn read_vtg<'a>(field: &impl Fn(usize) -> &'a str, told: Told) -> Told {
    let quality = best_mode(field(8));
    if quality == Some(None) {
        return Told { quality, ..told };
    }
    let kmh = || decimal(field(6)).map(|v| scaled(v, 1_000_000, 3600));
    Told {
        quality,
        speed_mm_s: knots(field(4)).or_else(|| kmh()?.try_into().ok()),
        course_e4: course(field(0)),
        ..told
    }
}

fn placed(told: Told, [lat, ns, lon, ew]: [&str; 4]) -> Told {
    let lat = angle(lat, ns, ["N", "S"], 90);
    let lon = angle(lon, ew, ["E", "W"], 180);
    match (lat, lon) {
        (Ok(Some((lat_e9, a))), Ok(Some((lon_e9, b)))) => Told {
            place: Some(Place {
                lat_e9,
                lon_e9,
                decimals: a.min(b),
            }),
            ..told
        },
        (Ok(_), Ok(_)) => told,
        _ => Told {
            bad_place: true,
            ..told
        },
    }
}

/// `(d)ddmm.mmm` and its hemisphere, exactly: degrees x 1e9 and the decimals told. Ok(None) where empty.
fn angle(value: &str, side: &str, sides: [&str; 2], most: i64) -> Result<Option<(i64, usize)>, ()> {
    if value.is_empty() || side.is_empty() {
        return Ok(None);
    }
    let sign = match sides.iter().position(|s| s.eq_ignore_ascii_case(side)) {
        Some(0) => 1,
        Some(_) => -1,
        None => return Err(()),
    };
    let (mantissa, decimals) = decimal(value).ok_or(())?;
    let unit = 10_i64.pow(u32::try_from(decimals).map_err(|_| ())?);
    let (whole, fraction) = (mantissa / unit, mantissa % unit);
    let (degrees, minutes) = (whole / 100, whole % 100);
    if minutes >= 60 || degrees > most {
        return Err(());
    }
    let minutes_scaled = i128::from(minutes) * i128::from(unit) + i128::from(fraction);
    let minutes_e9 =
        (minutes_scaled * 1_000_000_000 + i128::from(unit) * 30) / (i128::from(unit) * 60);
    let e9 = degrees * 1_000_000_000 + i64::try_from(minutes_e9).map_err(|_| ())?;
    if e9 > most * 1_000_000_000 {
        Err(())
    } else {
        Ok(Some((sign * e9, decimals)))
    }
}

/// Digits with at most one point: (mantissa, decimals). At most 18 digits; further decimals are cut off.
fn decimal(text: &str) -> Option<(i64, usize)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.len() > 9
        || (whole.is_empty() && fraction.is_empty())
        || !digits(whole)
        || !digits(fraction)
    {
        return None;
    }
    let fraction = fraction.get(..fraction.len().min(9))?;
    let mantissa = whole
        .bytes()
        .chain(fraction.bytes())
        .fold(0_i64, |m, b| m * 10 + i64::from(b - b'0'));
    Some((mantissa, fraction.len()))
}

/// value x `times` / `over`, rounded.
fn scaled((mantissa, decimals): (i64, usize), times: i64, over: i64) -> i64 {
    let over = i128::from(over) * 10_i128.pow(u32::try_from(decimals).unwrap_or(9));
    i64::try_from((i128::from(mantissa) * i128::from(times) + over / 2) / over).unwrap_or(i64::MAX)
}

/// A knot is 1852 m/h.
fn knots(text: &str) -> Option<u32> {
    scaled(decimal(text)?, 1_852_000, 3600).try_into().ok()
}

fn tenths(text: &str) -> Option<u16> {
    scaled(decimal(text)?, 10, 1).try_into().ok()
}

fn course(text: &str) -> Option<u32> {
    let e4 = u32::try_from(scaled(decimal(text)?, 10_000, 1)).ok()?;
    (e4 <= crate::position::TURN_E4).then_some(e4 % crate::position::TURN_E4)
}

fn status(text: &str) -> Option<bool> {
    match text {
        "A" | "a" => Some(true),
        "V" | "v" => Some(false),
        _ => None,
    }
}

/// The best of the mode letters, one a system: `Some(None)` where all say "no fix".
fn best_mode(letters: &str) -> Option<Option<Quality>> {
    const ORDER: &[(u8, Quality)] = &[
        (b'R', Quality::RtkFixed),
        (b'F', Quality::RtkFloat),
        (b'P', Quality::Pps),
        (b'D', Quality::Differential),
        (b'A', Quality::Autonomous),
        (b'E', Quality::DeadReckoning),
        (b'M', Quality::Manual),
        (b'S', Quality::Simulated),
    ];
    if letters.is_empty() {
        return None;
    }
    let has = |letter: u8| letters.bytes().any(|b| b.eq_ignore_ascii_case(&letter));
    match ORDER.iter().find(|(letter, _)| has(*letter)) {
        Some((_, quality)) => Some(Some(*quality)),
        None => has(b'N').then_some(None),
    }
}

fn time(text: &str) -> Option<TimeOfDay> {
    let (hms, fraction) = text.split_once('.').unwrap_or((text, ""));
    if hms.len() != 6
        || !hms
            .bytes()
            .chain(fraction.bytes())
            .all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let part = |from: usize| hms.get(from..from + 2)?.parse::<i64>().ok();
    let (hours, minutes, seconds) = (part(0)?, part(2)?, part(4)?);
    if hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let millis = (0..3).fold(0, |ms, i| {
        ms * 10
            + fraction
                .as_bytes()
                .get(i)
                .map_or(0, |b| i64::from(b - b'0'))
    });
    let of_minute = if seconds == 60 {
        59_999
    } else {
        seconds * 1000 + millis
    };
    Some(TimeOfDay {
        ms: (hours * 60 + minutes) * 60_000 + of_minute,
    })
}

/// `ddmmyy`; years from 80 belong to the 20th century (GPS began in 1980).
fn rmc_date(text: &str) -> Option<Date> {
    if text.len() != 6 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize| text.get(from..from + 2)?.parse::<u32>().ok();
    let (day, month, year) = (part(0)?, part(2)?, i32::try_from(part(4)?).ok()?);
    Date::from_ymd_opt(
        if year >= 80 { 1900 + year } else { 2000 + year },
        month,
        day,
    )
}

fn zda_date(day: &str, month: &str, year: &str) -> Option<Date> {
    let year = year.parse().ok().filter(|y| (1980..=2200).contains(y))?;
    Date::from_ymd_opt(year, month.parse().ok()?, day.parse().ok()?)
}
