//! A simulated machine: drives to a field, works it pass by pass, drives home; as a receiver with its errors would tell it, beside the truth. Pure: every figure follows from the plan and its seed.

use std::f64::consts::{PI, SQRT_2, TAU};

use furrow_protocol::fix::{Quality, Work, WorkSource};
use serde::Serialize;

use crate::position::{Position, TURN_E4};

/// Speed on the road, m/s.
const ROAD_MPS: f64 = 6.0;
/// Standing in the yard before and after, s.
const YARD_S: u32 = 20;

/// The outline of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Four corners.
    Rectangle,
    /// A rectangle without its north-eastern quarter.
    Ell,
    /// A rectangle with a pond in it that is driven around.
    Pond,
}

/// Errors of a receiver: Gauss-Markov with a 2-D rms and a time constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Noise {
    /// None.
    None,
    /// RTK: 0.02 m, 10 s.
    Rtk,
    /// A receiver without correction: 1.5 m, 300 s.
    Metre,
}

impl Noise {
    const fn figures(self) -> (f64, f64, Quality) {
        match self {
            Self::None => (0.0, 1.0, Quality::RtkFixed),
            Self::Rtk => (0.02, 10.0, Quality::RtkFixed),
            Self::Metre => (1.5, 300.0, Quality::Autonomous),
        }
    }
}

/// What is driven.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct Plan {
    /// Latitude of the field's south-western corner, degrees.
    #[arg(long, default_value_t = 31.9, allow_negative_numbers = true)]
    pub lat: f64,
    /// Longitude of the field's south-western corner, degrees.
    #[arg(long, default_value_t = 117.2, allow_negative_numbers = true)]
    pub lon: f64,
    /// The field from west to east, along the passes, m.
    #[arg(long, default_value_t = 260.0, value_name = "M")]
    pub length: f64,
    /// The field from south to north, m.
    #[arg(long, default_value_t = 90.0, value_name = "M")]
    pub breadth: f64,
    /// The field turned counter-clockwise about that corner, degrees.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub turned: f64,
    /// Its outline.
    #[arg(long, value_enum, default_value_t = Shape::Rectangle)]
    pub shape: Shape,
    /// Width of the implement, m.
    #[arg(long, default_value_t = 3.0, value_name = "M")]
    pub width: f64,
    /// Speed at work, m/s.
    #[arg(long, default_value_t = 2.0, value_name = "M/S")]
    pub pace: f64,
    /// Way from the yard to the field, m.
    #[arg(long, default_value_t = 300.0, value_name = "M")]
    pub road: f64,
    /// Stops of two minutes in the middle of passes.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub stops: u32,
    /// Errors of the receiver.
    #[arg(long, value_enum, default_value_t = Noise::Rtk)]
    pub noise: Noise,
    /// No work input.
    #[arg(long)]
    pub no_sensor: bool,
    /// Drives past the field on the road and does not work.
    #[arg(long)]
    pub drive_past: bool,
    /// Fixes per second.
    #[arg(long, default_value_t = 1.0, value_name = "HZ")]
    pub rate: f64,
    /// The same seed gives the same errors.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            lat: 31.9,
            lon: 117.2,
            length: 260.0,
            breadth: 90.0,
            turned: 0.0,
            shape: Shape::Rectangle,
            width: 3.0,
            pace: 2.0,
            road: 300.0,
            stops: 0,
            noise: Noise::Rtk,
            no_sensor: false,
            drive_past: false,
            rate: 1.0,
            seed: 1,
        }
    }
}

impl Plan {
    /// What is out of range, in words.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        if !within(self.lat, -85.0, 85.0) || !within(self.lon, -180.0, 180.0) {
            Some("--lat must lie between -85 and 85, --lon between -180 and 180")
        } else if !within(self.length, 10.0, 5000.0) || !within(self.breadth, 2.0, 5000.0) {
            Some("--length must lie between 10 and 5000, --breadth between 2 and 5000")
        } else if !within(self.width, 0.5, 50.0) || self.width > self.breadth {
            Some("--width must lie between 0.5 and 50 and not be over --breadth")
        } else if !within(self.pace, 0.3, 8.0) {
            Some("--pace must lie between 0.3 and 8")
        } else if !within(self.road, 0.0, 20_000.0) {
            Some("--road must lie between 0 and 20000")
        } else if !within(self.rate, 0.1, 10.0) || !within(self.turned, -360.0, 360.0) {
            Some("--rate must lie between 0.1 and 10, --turned between -360 and 360")
        } else if self.breadth * self.length / self.width / self.pace > 200_000.0 {
            Some("so large a field takes more than two days")
        } else {
            None
        }
    }
}

/// What a simulation did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Truth {
    /// Area that was worked, m2.
    pub area_m2: f64,
    /// Width of the implement, m.
    pub width_m: f64,
    /// When the first worked step began, ms since 1970 UTC.
    pub started_ms: Option<i64>,
    /// When the last worked step ended, ms since 1970 UTC.
    pub finished_ms: Option<i64>,
    /// Time of the first fix, ms since 1970 UTC.
    pub begin_ms: i64,
    /// Time of the last fix, ms since 1970 UTC.
    pub end_ms: i64,
    /// The field as `[longitude, latitude]`: the closed outer ring, then holes.
    pub rings: Vec<Vec<[f64; 2]>>,
}

/// One true state: metres east and north of the corner.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    at_ms: i64,
    x: f64,
    y: f64,
    speed: f64,
    on: bool,
}

/// A simulation; its times begin at 0.
#[derive(Debug, Clone)]
pub struct Simulation {
    plan: Plan,
    states: Vec<State>,
}

impl Simulation {
    /// Drives a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let mut drive = Drive::new(plan);
        drive.all();
        Self {
            plan: plan.clone(),
            states: drive.states,
        }
    }

    /// How long it takes, ms.
    #[must_use]
    pub fn length_ms(&self) -> i64 {
        self.states.last().map_or(0, |s| s.at_ms)
    }

    /// What the receiver tells, the first fix at `begin_ms`.
    #[must_use]
    pub fn positions(&self, begin_ms: i64) -> Vec<Position> {
        let (rms_m, tau_s, quality) = self.plan.noise.figures();
        let mut dice = Dice(self.plan.seed);
        let sigma = rms_m / SQRT_2;
        let mut error = [sigma * dice.normal(), sigma * dice.normal()];
        let mut before = self.states.first().copied();
        self.states
            .iter()
            .map(|state| {
                let last = before.replace(*state).unwrap_or(*state);
                let keep = (-seconds(state.at_ms - last.at_ms) / tau_s).exp();
                for axis in &mut error {
                    *axis = keep * *axis + sigma * (1.0 - keep * keep).sqrt() * dice.normal();
                }
                let (dx, dy) = (state.x - last.x, state.y - last.y);
                let (lat, lon) = self.place(state.x + error[0], state.y + error[1]);
                let speed = (state.speed + 0.03 * dice.normal()).abs();
                Position {
                    speed_mm_s: u32::try_from(rounded(speed * 1e3)).ok(),
                    course_e4: (dx.hypot(dy) > 0.01).then(|| self.course(dx, dy)),
                    quality,
                    satellites: Some(if quality == Quality::RtkFixed { 17 } else { 11 }),
                    hdop_x10: Some(if quality == Quality::RtkFixed { 7 } else { 9 }),
                    work: match (self.plan.no_sensor, state.on) {
                        (true, _) => Work::Unknown,
                        (false, true) => Work::On,
                        (false, false) => Work::Off,
                    },
                    work_source: if self.plan.no_sensor {
                        WorkSource::None
                    } else {
                        WorkSource::Pto
                    },
                    width_cm: u16::try_from(rounded(self.plan.width * 100.0)).ok(),
                    ..Position::bare(
                        begin_ms + state.at_ms,
                        rounded(lat * 1e9),
                        rounded(lon * 1e9),
                    )
                }
            })
            .collect()
    }

    /// What is true of it, the first fix at `begin_ms`.
    #[must_use]
    pub fn truth(&self, begin_ms: i64) -> Truth {
        let first = self.states.iter().position(|s| s.on);
        let before = first.and_then(|at| self.states.get(at.saturating_sub(1)));
        let last = self.states.iter().rev().find(|s| s.on);
        let rings = rings(&self.plan);
        let area = |ring: &Vec<[f64; 2]>| ring_area(ring);
        let field: f64 =
            rings.first().map_or(0.0, area) - rings.iter().skip(1).map(area).sum::<f64>();
        Truth {
            area_m2: if first.is_some() { field } else { 0.0 },
            width_m: self.plan.width,
            started_ms: before.map(|s| begin_ms + s.at_ms),
            finished_ms: last.map(|s| begin_ms + s.at_ms),
            begin_ms,
            end_ms: begin_ms + self.length_ms(),
            rings: rings
                .iter()
                .map(|ring| {
                    let closed = ring.iter().chain(ring.first());
                    let place = |p: &[f64; 2]| self.place(p[0], p[1]);
                    closed.map(place).map(|(lat, lon)| [lon, lat]).collect()
                })
                .collect(),
        }
    }

    /// Degrees of a place in metres, on the ellipsoid.
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        const A: f64 = 6_378_137.0;
        const E2: f64 = 6.694_379_990_14e-3;
        let (sin, cos) = self.plan.turned.to_radians().sin_cos();
        let (east, north) = (x * cos - y * sin, x * sin + y * cos);
        let radii = |lat: f64| {
            let w = 1.0 - E2 * lat.sin().powi(2);
            (A * (1.0 - E2) / w.powf(1.5), A / w.sqrt())
        };
        let lat0 = self.plan.lat.to_radians();
        // Half way is where the meridian's radius counts.
        let halfway = lat0 + north / radii(lat0).0 / 2.0;
        let lat = lat0 + north / radii(halfway).0;
        let lon = self.plan.lon + (east / (radii(lat).1 * lat.cos())).to_degrees();
        (lat.to_degrees(), (lon + 180.0).rem_euclid(360.0) - 180.0)
    }

    fn course(&self, dx: f64, dy: f64) -> u32 {
        let degrees = (dx.atan2(dy).to_degrees() - self.plan.turned).rem_euclid(360.0);
        u32::try_from(rounded(degrees * 1e4)).map_or(0, |course| course % TURN_E4)
    }
}

/// Rings in metres, passes along x; steps lie on the edges of passes.
fn rings(plan: &Plan) -> Vec<Vec<[f64; 2]>> {
    let (x, y, w) = (plan.length, plan.breadth, plan.width);
    let corners = vec![[0.0, 0.0], [x, 0.0], [x, y], [0.0, y]];
    match plan.shape {
        Shape::Rectangle => vec![corners],
        Shape::Ell => {
            let step = ((y / 2.0 / w).round() * w).clamp(w, y);
            vec![vec![
                [0.0, 0.0],
                [x, 0.0],
                [x, step],
                [x / 2.0, step],
                [x / 2.0, y],
                [0.0, y],
            ]]
        }
        Shape::Pond => {
            let low = (y * 0.4 / w).round() * w;
            let high = (low + 3.0 * w).min(y);
            let pond = vec![
                [x * 0.4, low],
                [x * 0.6, low],
                [x * 0.6, high],
                [x * 0.4, high],
            ];
            vec![corners, pond]
        }
    }
}

fn ring_area(ring: &[[f64; 2]]) -> f64 {
    let next = ring.iter().cycle().skip(1);
    let twice: f64 = ring
        .iter()
        .zip(next)
        .map(|(a, b)| a[0] * b[1] - b[0] * a[1])
        .sum();
    (twice / 2.0).abs()
}

/// A drive that is put together piece by piece.
struct Drive<'a> {
    plan: &'a Plan,
    states: Vec<State>,
    interval_ms: i64,
}

impl<'a> Drive<'a> {
    fn new(plan: &'a Plan) -> Self {
        let yard = State {
            at_ms: 0,
            x: -plan.road - 10.0,
            y: -12.0,
            speed: 0.0,
            on: false,
        };
        Self {
            plan,
            states: vec![yard],
            interval_ms: rounded(1000.0 / plan.rate).max(1),
        }
    }

    fn last(&self) -> State {
        self.states.last().copied().unwrap_or(State {
            at_ms: 0,
            x: 0.0,
            y: 0.0,
            speed: 0.0,
            on: false,
        })
    }

    fn all(&mut self) {
        let yard = self.last();
        self.stand(YARD_S);
        self.to(-10.0, -12.0, ROAD_MPS, false);
        if self.plan.drive_past {
            self.to(self.plan.length + 60.0, -12.0, ROAD_MPS, false);
            self.stand(YARD_S);
            self.to(-10.0, -12.0, ROAD_MPS, false);
        } else {
            self.work();
            self.to(-10.0, -12.0, ROAD_MPS / 2.0, false);
        }
        self.to(yard.x, yard.y, ROAD_MPS, false);
        self.stand(YARD_S);
    }

    fn work(&mut self) {
        let (w, breadth) = (self.plan.width, self.plan.breadth);
        let passes = whole((breadth / w - 1e-9).ceil());
        let every = passes / (self.plan.stops + 1).max(1);
        let rings = rings(self.plan);
        for pass in 0..passes {
            // The last pass overlaps the one before rather than leave the field.
            let y = ((f64::from(pass) + 0.5) * w).min(breadth - w / 2.0);
            let back = pass % 2 == 1;
            let mut spans = spans(&rings, y);
            if back {
                spans.reverse();
                spans.iter_mut().for_each(|span| span.reverse());
            }
            for (part, [begin, end]) in spans.iter().enumerate() {
                if part == 0 && pass > 0 {
                    self.turn(*begin, y, if back { 1.0 } else { -1.0 });
                } else {
                    self.to(*begin, y, self.plan.pace, false);
                }
                let stops = part == 0 && every > 0 && pass % every == every - 1;
                if stops && pass / every < self.plan.stops {
                    self.to(f64::midpoint(*begin, *end), y, self.plan.pace, true);
                    self.stand(120);
                }
                self.to(*end, y, self.plan.pace, true);
            }
        }
    }

    /// Straight on to a place.
    fn to(&mut self, x: f64, y: f64, speed: f64, on: bool) {
        let from = self.last();
        let (dx, dy) = (x - from.x, y - from.y);
        let way = dx.hypot(dy);
        if way < 1e-6 {
            return;
        }
        let steps = whole((way / (speed * seconds(self.interval_ms))).ceil()).max(1);
        for step in 1..=steps {
            let part = f64::from(step) / f64::from(steps);
            self.states.push(State {
                at_ms: from.at_ms + i64::from(step) * self.interval_ms,
                x: from.x + dx * part,
                y: from.y + dy * part,
                speed: way / (f64::from(steps) * seconds(self.interval_ms)),
                on,
            });
        }
    }

    /// Standing still with the implement lifted.
    fn stand(&mut self, time_s: u32) {
        let from = self.last();
        for step in 1..=i64::from(time_s) * 1000 / self.interval_ms {
            self.states.push(State {
                at_ms: from.at_ms + step * self.interval_ms,
                speed: 0.0,
                on: false,
                ..from
            });
        }
    }

    /// From one pass to the next, implement lifted: a half circle outside, or straight where the
    /// next one begins elsewhere.
    fn turn(&mut self, x: f64, y: f64, out: f64) {
        let from = self.last();
        let (cx, cy) = (f64::midpoint(from.x, x), f64::midpoint(from.y, y));
        let radius = (x - from.x).hypot(y - from.y) / 2.0;
        let speed = self.plan.pace * 0.6;
        if radius > 0.8 * self.plan.width || radius < 0.1 {
            self.to(x, y, self.plan.pace, false);
            return;
        }
        let pieces = whole((radius * PI / speed).ceil()).max(3);
        for piece in 1..=pieces {
            let (sin, cos) = (PI * f64::from(piece) / f64::from(pieces)).sin_cos();
            let (ux, uy) = (from.x - cx, from.y - cy);
            self.to(
                cx + ux * cos + out * radius * sin,
                cy + uy * cos,
                speed,
                false,
            );
        }
    }
}

/// Where a pass at `y` is inside, as spans of x in order.
fn spans(rings: &[Vec<[f64; 2]>], y: f64) -> Vec<[f64; 2]> {
    let mut xs: Vec<f64> = Vec::new();
    for ring in rings {
        for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
            if (a[1] > y) != (b[1] > y) {
                xs.push(a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]));
            }
        }
    }
    xs.sort_by(f64::total_cmp);
    xs.chunks_exact(2)
        .filter_map(|pair| <[f64; 2]>::try_from(pair).ok())
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times of a simulation are days at most"
)]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

#[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
fn rounded(value: f64) -> i64 {
    value.round() as i64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate"
)]
fn whole(value: f64) -> u32 {
    value as u32
}

/// splitmix64 and Box-Muller.
struct Dice(u64);

impl Dice {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length of the worked steps x width: passes do not overlap but for the last.
    fn worked_m2(simulation: &Simulation) -> f64 {
        let pairs = simulation
            .states
            .iter()
            .zip(simulation.states.iter().skip(1));
        let way: f64 = pairs
            .filter(|(_, b)| b.on)
            .map(|(a, b)| (b.x - a.x).hypot(b.y - a.y))
            .sum();
        way * simulation.plan.width
    }

    #[test]
    fn what_is_driven_covers_the_field_and_no_more() {
        for shape in [Shape::Rectangle, Shape::Ell, Shape::Pond] {
            for turned in [0.0, 33.0] {
                let plan = Plan {
                    shape,
                    turned,
                    ..Plan::default()
                };
                let simulation = Simulation::of(&plan);
                let truth = simulation.truth(0);
                let worked = worked_m2(&simulation);
                assert!(
                    (worked / truth.area_m2 - 1.0).abs() < 1e-9,
                    "{shape:?}: {worked} {truth:?}"
                );
                assert!(truth.started_ms < truth.finished_ms);
            }
        }
    }

    #[test]
    fn who_drives_past_works_nothing() {
        let plan = Plan {
            drive_past: true,
            ..Plan::default()
        };
        let truth = Simulation::of(&plan).truth(5);
        assert_eq!((truth.area_m2, truth.started_ms), (0.0, None));
    }

    #[test]
    fn the_receiver_tells_what_was_driven_within_its_errors() {
        for noise in [Noise::None, Noise::Rtk, Noise::Metre] {
            let plan = Plan {
                noise,
                turned: 20.0,
                ..Plan::default()
            };
            let simulation = Simulation::of(&plan);
            let positions = simulation.positions(1_000_000);
            assert_eq!(positions.len(), simulation.states.len());
            assert!(positions.windows(2).all(|w| w[0].at_ms < w[1].at_ms));
            let exact = Simulation::of(&Plan {
                noise: Noise::None,
                ..plan.clone()
            });
            let mut square = 0.0;
            for (told, state) in positions.iter().zip(&exact.states) {
                let (lat, lon) = exact.place(state.x, state.y);
                let north = (told.lat_e9 as f64 / 1e9 - lat) * 110_900.0;
                let east = (told.lon_e9 as f64 / 1e9 - lon) * 94_500.0;
                square += north * north + east * east;
            }
            let rms = (square / positions.len() as f64).sqrt();
            let expected = noise.figures().0;
            assert!(rms <= expected * 1.6 + 0.001, "{noise:?}: {rms}");
            assert!(rms >= expected * 0.4, "{noise:?}: {rms}");
        }
    }

    #[test]
    fn stops_are_made_and_the_same_seed_gives_the_same_day() {
        let plan = Plan {
            stops: 2,
            ..Plan::default()
        };
        let without = Simulation::of(&Plan::default()).length_ms();
        let simulation = Simulation::of(&plan);
        assert!((simulation.length_ms() - without - 240_000).abs() < 20_000);
        assert_eq!(simulation.positions(7), Simulation::of(&plan).positions(7));
        assert!((worked_m2(&simulation) / simulation.truth(0).area_m2 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        assert_eq!(Plan::default().fault(), None);
        for change in [
            |p: &mut Plan| p.lat = 90.0,
            |p: &mut Plan| p.width = 0.0,
            |p: &mut Plan| p.width = 100.0,
            |p: &mut Plan| p.pace = f64::NAN,
            |p: &mut Plan| p.length = f64::INFINITY,
            |p: &mut Plan| p.rate = 0.0,
            |p: &mut Plan| (p.length, p.breadth, p.width) = (5000.0, 5000.0, 0.5),
        ] {
            let mut plan = Plan::default();
            change(&mut plan);
            assert!(plan.fault().is_some(), "{plan:?}");
        }
    }
}
