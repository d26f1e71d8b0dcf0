//! The machines of the demo and their fields, near Hefei. Never random: every run shows the same jobs.

use anyhow::Context as _;
use furrow_domain::{
    fieldwork::Setup,
    geo::{Degrees, Metres, datum::Datum, plot::Plot, projection::Projection},
};

/// What a machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Drives to its field, works it, drives home.
    Work,
    /// Drives past its field on the road.
    DrivePast,
}

/// A machine with its field.
#[derive(Debug, Clone)]
pub struct Machine {
    /// How it is called.
    pub name: String,
    /// Working width, m.
    pub width_m: f64,
    /// What it does.
    pub task: Task,
    /// Whether its link is cut for a while.
    pub cut: bool,
    /// South-western corner of the field.
    pub corner: Degrees,
    /// From west to east, m.
    pub length_m: f64,
    /// From south to north, m.
    pub breadth_m: f64,
}

/// So many machines: a good one, one with a bad link, one that drives past, then good ones.
#[must_use]
pub fn machines(count: usize) -> Vec<Machine> {
    let fields = [
        ("tractor", 3.0, 220.0, 72.0),
        ("harvester", 4.5, 240.0, 99.0),
        ("passer-by", 3.0, 240.0, 90.0),
    ];
    (0_u32..)
        .zip(fields.iter().cycle())
        .take(count)
        .map(|(number, (kind, width_m, length_m, breadth_m))| {
            // Half a kilometre apart, so that no two fields touch.
            let (east, north) = (f64::from(number % 4), f64::from(number / 4));
            let more = number >= 3;
            Machine {
                name: if more {
                    format!("tractor {}", number - 1)
                } else {
                    (*kind).to_owned()
                },
                width_m: *width_m,
                task: if number == 2 {
                    Task::DrivePast
                } else {
                    Task::Work
                },
                cut: number == 1,
                corner: Degrees {
                    lat: 31.90 + north * 0.0045,
                    lon: 117.20 + east * 0.0055,
                },
                length_m: *length_m,
                breadth_m: *breadth_m,
            }
        })
        .collect()
}

impl Machine {
    /// The corners of its field as (longitude, latitude), closed.
    #[must_use]
    pub fn ring(&self) -> Vec<[f64; 2]> {
        let projection = Projection::at(self.corner);
        let (x, y) = (self.length_m, self.breadth_m);
        [[0.0, 0.0], [x, 0.0], [x, y], [0.0, y], [0.0, 0.0]]
            .map(|[x, y]| projection.degrees(Metres { x, y }))
            .map(|place| [place.lon, place.lat])
            .to_vec()
    }

    /// Its field.
    ///
    /// Errors: the boundary is none; the fleet's own fault.
    pub fn plot(&self) -> anyhow::Result<Plot> {
        Plot::new(self.name.clone(), &[self.ring()], Datum::Wgs84)
            .with_context(|| format!("the field of {}", self.name))
    }

    /// What its facts depend on.
    ///
    /// Errors: no implement is so wide; the fleet's own fault.
    pub fn setup(&self) -> anyhow::Result<Setup> {
        Setup::new(self.width_m).with_context(|| format!("the width of {}", self.name))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn no_two_machines_share_a_name_or_a_field_and_the_three_kinds_are_there() {
        let fleet = machines(40);
        assert_eq!(fleet.iter().filter(|m| m.cut).count(), 1);
        let past = fleet.iter().filter(|m| m.task == Task::DrivePast);
        assert_eq!(past.count(), 1);
        for (i, one) in fleet.iter().enumerate() {
            let area = one.plot().unwrap().area().m2();
            assert!((area / (one.length_m * one.breadth_m) - 1.0).abs() < 1e-4);
            for other in &fleet[i + 1..] {
                assert_ne!(one.name, other.name);
                let projection = Projection::at(one.corner);
                let apart = projection.metres(other.corner);
                assert!(apart.x.abs() > 400.0 || apart.y.abs() > 400.0);
            }
        }
    }
}
