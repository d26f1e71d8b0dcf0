//! What is to be driven, as the command line says it, and the outline that follows from it. Never drives.

use furrow_protocol::fix::Quality;

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
    pub(super) const fn figures(self) -> (f64, f64, Quality) {
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

    /// The outline's rings in metres: outer, then holes. Passes lie along x; steps lie on the edges of passes.
    pub(super) fn rings(&self) -> Vec<Vec<[f64; 2]>> {
        let (x, y, w) = (self.length, self.breadth, self.width);
        let corners = vec![[0.0, 0.0], [x, 0.0], [x, y], [0.0, y]];
        match self.shape {
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
}
