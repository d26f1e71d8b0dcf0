//! From a track to facts that a bill can stand on (worked area, arrival, start, finish, times). Never rounds for money.

mod activity;
mod alarm;
mod area;
mod bitmap;
mod choice;
mod facts;
mod infer;
pub mod live;
mod passes;
mod presence;
mod share;
mod start;
mod swath;
mod verdict;

pub use activity::Activity;
pub use alarm::Alarm;
pub use choice::{DatumMistake, PlotConflict};
pub use facts::{Facts, Gap, Quality, Survey, facts, survey};
pub use share::{Share, Visit, shares};
pub use verdict::{Reason, Verdict, VerdictKind};

use thiserror::Error;

/// What kind of machine: decides how fast work can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MachineType {
    /// Tillage, harvest, mowing and all else.
    #[default]
    Other,
    /// Sprayers.
    Sprayer,
    /// Spreaders.
    Spreader,
    /// Seed drills.
    Drill,
}

impl MachineType {
    /// By what it is called in the register; whatever is not known is [`MachineType::Other`].
    #[must_use]
    pub fn named(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if is(&["spray"]) {
            Self::Sprayer
        } else if is(&["spread"]) {
            Self::Spreader
        } else if is(&["drill", "seeder"]) {
            Self::Drill
        } else {
            Self::Other
        }
    }

    /// The fastest work of such a machine, m/s (fieldwork.md section 3).
    #[must_use]
    pub const fn fastest_work_mps(self) -> f64 {
        match self {
            Self::Other => 4.2,
            Self::Sprayer | Self::Spreader | Self::Drill => 7.0,
        }
    }
}

/// What the facts depend on beside the track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setup {
    /// Nominal working width, m.
    pub width_m: f64,
    /// From the antenna to the implement, m forward (behind is negative).
    pub forward_m: f64,
    /// From the antenna to the middle of the implement, m to the left.
    pub left_m: f64,
    /// How many sections of equal width the implement has (1 to 32), where its masks are to count.
    pub sections: Option<u32>,
    /// Kind of machine.
    pub machine_type: MachineType,
    /// Whether the work sensor is listened to.
    pub use_sensor: bool,
}

impl Setup {
    /// A machine of this width with the antenna over the middle of the implement.
    ///
    /// Errors: [`SetupError`] where no implement is so wide.
    pub fn new(width_m: f64) -> Result<Self, SetupError> {
        if !(0.1..=100.0).contains(&width_m) {
            return Err(SetupError);
        }
        Ok(Self {
            width_m,
            forward_m: 0.0,
            left_m: 0.0,
            sections: None,
            machine_type: MachineType::Other,
            use_sensor: true,
        })
    }
}

impl Setup {
    /// The implement as its swath is drawn.
    fn implement(&self) -> swath::Implement {
        let sound = |m: f64| if m.abs() <= MOST_OFFSET_M { m } else { 0.0 };
        swath::Implement {
            forward_m: sound(self.forward_m),
            left_m: sound(self.left_m),
            sections: self.sections.filter(|n| (1..=32).contains(n)),
        }
    }
}

/// An antenna further from its implement than this is not on the same machine, m.
const MOST_OFFSET_M: f64 = 50.0;

/// A width that no implement has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the working width must lie between 0.1 and 100 m")]
pub struct SetupError;
