//! Simulated days with a known truth: fields worked pass by pass, road trips, crossings, parked machines; noise of receivers. Never random: every figure follows from its seed.
#![allow(
    dead_code,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "each test binary uses its part, with numbers of its own choosing"
)]

use furrow_domain::{
    geo::{Degrees, Metres, datum::Datum, plot::Plot, projection::Projection},
    track::Fix,
};

/// Where a simulation takes place: metres east and north of a centre, true to area at any latitude.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    pub projection: Projection,
}

impl Site {
    pub fn at(lon: f64, lat: f64) -> Self {
        Self {
            projection: Projection::at(Degrees { lon, lat }),
        }
    }

    pub fn place(&self, x: f64, y: f64) -> Degrees {
        self.projection.degrees(Metres { x, y })
    }

    /// A plot from rings in metres, the outer one first.
    pub fn plot(&self, name: &str, rings: &[Vec<[f64; 2]>]) -> Plot {
        let rings: Vec<Vec<[f64; 2]>> = rings
            .iter()
            .map(|ring| {
                let mut ring: Vec<[f64; 2]> = ring
                    .iter()
                    .map(|[x, y]| self.place(*x, *y))
                    .map(|p| [p.lon, p.lat])
                    .collect();
                ring.extend(ring.first().copied());
                ring
            })
            .collect();
        Plot::new(name.to_owned(), &rings, Datum::Wgs84).expect("a sound plot")
    }
}

/// splitmix64 and Box-Muller.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// Errors of a receiver: Gauss-Markov with a 2-D rms and a time constant.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    pub rms_m: f64,
    pub tau_s: f64,
    /// GGA quality that goes with it.
    pub quality: u8,
}

pub const EXACT: Noise = Noise {
    rms_m: 0.0,
    tau_s: 1.0,
    quality: 4,
};
pub const RTK: Noise = Noise {
    rms_m: 0.02,
    tau_s: 10.0,
    quality: 4,
};
pub const METRE_AND_A_HALF: Noise = Noise {
    rms_m: 1.5,
    tau_s: 300.0,
    quality: 1,
};
pub const WHITE: Noise = Noise {
    rms_m: 1.5,
    tau_s: 0.001,
    quality: 1,
};

/// One true state of a machine, metres at a site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    pub at_ms: i64,
    pub x: f64,
    pub y: f64,
    pub speed: f64,
    pub on: bool,
}

/// A drive that is put together piece by piece, one state a step of time.
#[derive(Debug, Clone)]
pub struct Drive {
    pub states: Vec<State>,
    pub interval_ms: i64,
}

pub const BEGIN_MS: i64 = 1_780_000_000_000;

impl Drive {
    pub fn from(x: f64, y: f64) -> Self {
        Self::every(1000, x, y)
    }

    pub fn every(interval_ms: i64, x: f64, y: f64) -> Self {
        let first = State {
            at_ms: BEGIN_MS,
            x,
            y,
            speed: 0.0,
            on: false,
        };
        Self {
            states: vec![first],
            interval_ms,
        }
    }

    pub fn last(&self) -> State {
        *self.states.last().expect("begins with one")
    }

    /// Straight on to a place.
    pub fn to(&mut self, x: f64, y: f64, speed: f64, on: bool) -> &mut Self {
        let from = self.last();
        let (dx, dy) = (x - from.x, y - from.y);
        let way = dx.hypot(dy);
        let step = speed * self.interval_ms as f64 / 1000.0;
        let steps = (way / step).ceil().max(1.0) as i64;
        for i in 1..=steps {
            let part = i as f64 / steps as f64;
            self.states.push(State {
                at_ms: from.at_ms + i * self.interval_ms,
                x: from.x + dx * part,
                y: from.y + dy * part,
                speed: way / (steps as f64 * self.interval_ms as f64 / 1000.0),
                on,
            });
        }
        self
    }

    /// Standing still.
    pub fn stand(&mut self, seconds: i64, on: bool) -> &mut Self {
        let from = self.last();
        for i in 1..=seconds * 1000 / self.interval_ms {
            self.states.push(State {
                at_ms: from.at_ms + i * self.interval_ms,
                speed: 0.0,
                on,
                ..from
            });
        }
        self
    }

    /// Nothing is recorded for so long.
    pub fn silence(&mut self, seconds: i64) -> &mut Self {
        let from = self.last();
        self.states.push(State {
            at_ms: from.at_ms + seconds * 1000,
            ..from
        });
        self
    }

    /// A half circle with the implement lifted, from one pass to the next.
    pub fn turn(&mut self, x: f64, y: f64, out_x: f64, out_y: f64, speed: f64) -> &mut Self {
        let from = self.last();
        let (cx, cy) = (f64::midpoint(from.x, x), f64::midpoint(from.y, y));
        let radius = (x - from.x).hypot(y - from.y) / 2.0;
        let pieces = ((radius * std::f64::consts::PI / speed).ceil() as u32).max(3);
        for i in 1..=pieces {
            let angle = std::f64::consts::PI * f64::from(i) / f64::from(pieces);
            let (ux, uy) = (from.x - cx, from.y - cy);
            self.to(
                cx + ux * angle.cos() + out_x * radius * angle.sin(),
                cy + uy * angle.cos() + out_y * radius * angle.sin(),
                speed,
                false,
            );
        }
        self
    }

    /// What a receiver makes of it.
    pub fn fixes(&self, site: &Site, noise: Noise, sensor: bool, seed: u64) -> Vec<Fix> {
        let mut dice = Dice(seed);
        let sigma = noise.rms_m / std::f64::consts::SQRT_2;
        let mut error = [sigma * dice.normal(), sigma * dice.normal()];
        let mut last_ms = self.states.first().map_or(0, |s| s.at_ms);
        self.states
            .iter()
            .map(|state| {
                let keep = (-((state.at_ms - last_ms) as f64 / 1000.0) / noise.tau_s).exp();
                last_ms = state.at_ms;
                for axis in &mut error {
                    *axis = keep * *axis + sigma * (1.0 - keep * keep).sqrt() * dice.normal();
                }
                Fix {
                    at_ms: state.at_ms,
                    place: site.place(state.x + error[0], state.y + error[1]),
                    speed_mps: Some((state.speed + 0.03 * dice.normal()).abs()),
                    quality: noise.quality,
                    accuracy_m: None,
                    work_on: sensor.then_some(state.on),
                    width_m: None,
                    sections: None,
                }
            })
            .collect()
    }
}

/// A field of straight passes: rows of x spans, turned by an angle about its middle.
#[derive(Debug, Clone)]
pub struct Field {
    /// Outer ring and holes, metres, passes along y.
    pub rings: Vec<Vec<[f64; 2]>>,
    pub width_m: f64,
    pub speed: f64,
    pub angle: f64,
}

impl Field {
    pub fn rectangle(across: f64, along: f64, width_m: f64) -> Self {
        Self {
            rings: vec![vec![
                [0.0, 0.0],
                [across, 0.0],
                [across, along],
                [0.0, along],
            ]],
            width_m,
            speed: 2.0,
            angle: 0.0,
        }
    }

    /// An L whose steps lie on pass edges.
    pub fn ell(across: f64, along: f64, width_m: f64) -> Self {
        let half = (across / 2.0 / width_m).round() * width_m;
        let ring = vec![
            [0.0, 0.0],
            [across, 0.0],
            [across, along / 2.0],
            [half, along / 2.0],
            [half, along],
            [0.0, along],
        ];
        Self {
            rings: vec![ring],
            ..Self::rectangle(across, along, width_m)
        }
    }

    /// A rectangle with a pond whose edges lie on pass edges.
    pub fn with_pond(across: f64, along: f64, width_m: f64) -> Self {
        let low = (across * 0.4 / width_m).round() * width_m;
        let high = low + 3.0 * width_m;
        let mut field = Self::rectangle(across, along, width_m);
        field.rings.push(vec![
            [low, along * 0.4],
            [low, along * 0.6],
            [high, along * 0.6],
            [high, along * 0.4],
        ]);
        field
    }

    fn turned(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let (sin, cos) = self.angle.sin_cos();
        [x * cos - y * sin, x * sin + y * cos]
    }

    pub fn plot(&self, site: &Site, name: &str) -> Plot {
        let rings: Vec<Vec<[f64; 2]>> = self
            .rings
            .iter()
            .map(|ring| ring.iter().map(|p| self.turned(*p)).collect())
            .collect();
        site.plot(name, &rings)
    }

    /// True area, m2.
    pub fn area_m2(&self) -> f64 {
        let of = |ring: &Vec<[f64; 2]>| {
            let next = ring.iter().cycle().skip(1);
            (ring
                .iter()
                .zip(next)
                .map(|(a, b)| a[0] * b[1] - b[0] * a[1])
                .sum::<f64>()
                / 2.0)
                .abs()
        };
        let mut rings = self.rings.iter();
        rings.next().map_or(0.0, of) - rings.map(of).sum::<f64>()
    }

    /// Where a pass at x is inside, as spans of y in order.
    fn spans(&self, x: f64) -> Vec<[f64; 2]> {
        let mut ys: Vec<f64> = Vec::new();
        for ring in &self.rings {
            for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
                if (a[0] > x) != (b[0] > x) {
                    ys.push(a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0]));
                }
            }
        }
        ys.sort_by(f64::total_cmp);
        ys.chunks(2).map(|c| [c[0], c[1]]).collect()
    }

    /// The whole field, pass beside pass; lifted over holes and in turns. Comes in from `from` on the
    /// road and goes back there.
    pub fn worked(&self, from: [f64; 2], interval_ms: i64) -> Drive {
        let across = self.rings[0].iter().map(|p| p[0]).fold(0.0, f64::max);
        let passes = (across / self.width_m - 1e-9).ceil() as i64;
        let mut drive = Drive::every(interval_ms, from[0], from[1]);
        let mut down = false;
        for pass in 0..passes {
            // The last pass overlaps the one before rather than leave the field.
            let x = ((pass as f64 + 0.5) * self.width_m).min(across - self.width_m / 2.0);
            let mut spans = self.spans(x);
            if down {
                spans.reverse();
                spans.iter_mut().for_each(|s| s.reverse());
            }
            for (i, [begin, end]) in spans.iter().enumerate() {
                let (b, e) = (self.turned([x, *begin]), self.turned([x, *end]));
                if i == 0 && pass > 0 {
                    let last = drive.last();
                    let near = (last.x - b[0]).hypot(last.y - b[1]) < 1.6 * self.width_m;
                    let out = self.turned([0.0, if down { 1.0 } else { -1.0 }]);
                    if near {
                        drive.turn(b[0], b[1], out[0], out[1], self.speed * 0.6);
                    } else {
                        drive.to(b[0], b[1], self.speed, false);
                    }
                } else {
                    drive.to(b[0], b[1], if pass == 0 { 6.0 } else { self.speed }, false);
                }
                drive.to(e[0], e[1], self.speed, true);
            }
            down = !down;
        }
        drive.to(from[0], from[1], 6.0, false);
        drive
    }
}
