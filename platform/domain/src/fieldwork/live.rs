//! Figures while a machine works, fix by fix and in constant time. Never the last word: late and wrong fixes are put right by the exact facts.

use super::{
    Setup,
    area::{CLOSE_M, CLOSE_WIDTHS},
    bitmap::Bitmap,
    swath::{Mark, strip},
};
use crate::{
    geo::{
        Metres,
        projection::Projection,
        region::{Lookup, Region},
    },
    track::{
        Fix,
        live::{Follower, Progress},
        step::LONG_STEP_M,
    },
};

/// Without a sensor, slower than this is no work, m/s.
const SLOWEST_WORK_MPS: f64 = 0.3;
/// Places nearer than this to the last kept one say nothing about direction, m.
const KEEP_M: f64 = 0.3;

/// What can be said so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LiveFigures {
    /// Covered, inside the plot where there is one, m2.
    pub covered_m2: f64,
    /// All the way, m.
    pub distance_m: f64,
    /// Seconds at work.
    pub work_s: f64,
    /// Whether the last step was work.
    pub working: bool,
    /// Whether the machine stands.
    pub parked: bool,
    /// Fixes taken.
    pub fixes: u64,
    /// Fixes left out: late, double, impossible.
    pub skipped: u64,
}

/// A job that runs.
#[derive(Debug, Clone)]
pub struct Live {
    setup: Setup,
    projection: Projection,
    follower: Follower,
    plot: Option<Lookup>,
    bitmap: Bitmap,
    /// The last marks of the running pass, at most three: a bar needs the direction into and out of it.
    run: Vec<Mark>,
    sensor: bool,
    figures: LiveFigures,
}

impl Live {
    /// Nothing covered yet; `plot` in the metres of the projection.
    #[must_use]
    pub fn new(setup: Setup, projection: Projection, plot: Option<&Region>) -> Self {
        Self {
            setup,
            projection,
            follower: Follower::default(),
            plot: plot.map(Region::lookup),
            bitmap: Bitmap::new(setup.width_m, plot),
            run: Vec::with_capacity(4),
            sensor: false,
            figures: LiveFigures::default(),
        }
    }

    /// One more fix, in order of time; a late one is left to the exact facts.
    pub fn push(&mut self, fix: &Fix) {
        let place = self.projection.metres(fix.place);
        let Some(progress) = self.follower.follow(fix, place) else {
            self.figures.skipped += 1;
            return;
        };
        self.figures.fixes += 1;
        self.figures.parked = progress.parked;
        self.sensor |= self.setup.use_sensor && fix.work_on.is_some();
        if progress.travels {
            self.figures.distance_m += progress.metres();
        }
        self.figures.working = self.works(&progress);
        if self.figures.working {
            self.figures.work_s += progress.seconds;
        }
        if self.figures.working && progress.sweeps {
            self.sweep(&progress);
        } else if !(progress.creeps && self.is_on(fix)) {
            self.lift();
        }
    }

    fn is_on(&self, fix: &Fix) -> bool {
        !self.sensor || fix.work_on == Some(true)
    }

    /// The sensor where there is one; else, until the whole track can tell, slow driving in the plot.
    fn works(&self, progress: &Progress) -> bool {
        if !progress.may_work {
            return false;
        }
        if self.sensor {
            return self.is_on(&progress.fix);
        }
        let paces = SLOWEST_WORK_MPS..=self.setup.machine_type.fastest_work_mps();
        let inside = self
            .plot
            .as_ref()
            .is_some_and(|plot| plot.contains(progress.to));
        inside && paces.contains(&progress.pace)
    }

    fn sweep(&mut self, progress: &Progress) {
        let told = progress.fix.width_m;
        let width_m = told.filter(|w| (0.0..=100.0).contains(w));
        let width_m = width_m.unwrap_or(self.setup.width_m);
        let mark = |place: Metres| Mark {
            place,
            at_ms: progress.fix.at_ms,
            width_m,
            sections: progress.fix.sections,
        };
        if self.run.is_empty() {
            self.run.push(mark(progress.from));
        }
        let last = self.run.last().map(|last| last.place.distance(progress.to));
        if last.is_some_and(|metres| metres < KEEP_M) {
            return;
        }
        if last.is_some_and(|metres| metres > LONG_STEP_M) {
            self.lift();
            self.run.push(mark(progress.from));
        }
        let mark = mark(progress.to);
        // With the mark after it known, the strip before stands for good.
        self.draw(Some(&mark));
        self.run.push(mark);
        if self.run.len() > 3 {
            self.run.remove(0);
        }
    }

    /// Draws the strip between the last two marks.
    fn draw(&mut self, after: Option<&Mark>) {
        let (before, a, b) = match self.run.as_slice() {
            [.., before, a, b] => (Some(before), a, b),
            [a, b] => (None, a, b),
            _ => return,
        };
        for ring in strip(before, a, b, after, self.setup.implement()) {
            self.bitmap.fill(&ring);
        }
    }

    /// The pass is over: work off, a gap, or the end.
    fn lift(&mut self) {
        self.draw(None);
        self.run.clear();
    }

    /// What can be said so far, the strip at the implement included.
    #[must_use]
    pub fn figures(&mut self) -> LiveFigures {
        self.draw(None);
        LiveFigures {
            covered_m2: self.bitmap.area_m2(),
            ..self.figures
        }
    }

    /// Covered and closed, m2. Only tiles that changed are worked out: meant for every ten seconds.
    #[must_use]
    pub fn closed_m2(&mut self) -> f64 {
        self.draw(None);
        let radius = CLOSE_M.min(CLOSE_WIDTHS * self.setup.width_m);
        self.bitmap.closed_m2(radius)
    }
}
