//! The drive of a plan: road, passes, turns, stops, as true states. Knows no receiver and no errors.

use std::f64::consts::PI;

use super::{plan::Plan, rounded, seconds};

/// Speed on the road, m/s.
const ROAD_MPS: f64 = 6.0;
/// Standing in the yard before and after, s.
const YARD_S: u32 = 20;

/// One true state: metres east and north of the corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct State {
    pub at_ms: i64,
    pub x: f64,
    pub y: f64,
    pub speed: f64,
    pub on: bool,
}

/// All states of a plan, times from 0.
pub(super) fn states(plan: &Plan) -> Vec<State> {
    let mut drive = Drive::new(plan);
    drive.all();
    drive.states
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
        let rings = self.plan.rings();
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
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate"
)]
fn whole(value: f64) -> u32 {
    value as u32
}
