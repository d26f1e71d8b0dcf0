//! A simulated machine: drives to a field, works it pass by pass, drives home; as a receiver with its errors would tell it, beside the truth. Pure: every figure follows from the plan and its seed.

mod dice;
mod drive;
mod plan;

use std::f64::consts::SQRT_2;

use furrow_protocol::fix::{Quality, Work, WorkSource};
use serde::Serialize;

use self::{dice::Dice, drive::State};
use crate::position::{Position, TURN_E4};

pub use plan::{Noise, Plan, Shape};

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
        Self {
            plan: plan.clone(),
            states: drive::states(plan),
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
        let rings = self.plan.rings();
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

fn ring_area(ring: &[[f64; 2]]) -> f64 {
    let next = ring.iter().cycle().skip(1);
    let twice: f64 = ring
        .iter()
        .zip(next)
        .map(|(a, b)| a[0] * b[1] - b[0] * a[1])
        .sum();
    (twice / 2.0).abs()
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
