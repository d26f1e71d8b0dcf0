//! What came of a job: the agent's journal against the database, the facts against the simulator's truth, and whether each figure is inside its bar.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat};
use comfy_table::{Table, presets};
use furrow_domain::fieldwork::Facts;

/// Measured area against truth, relative (fieldwork.md section 1, RTK noise).
const AREA_BAR: f64 = 0.005;
/// Start against truth, s (fieldwork.md section 6).
const START_BAR_S: f64 = 30.0;

/// What the simulator says it did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    /// Area that it worked, m2.
    pub area_m2: f64,
    /// When it began to work, ms since 1970 UTC; None if it never did.
    pub started_ms: Option<i64>,
}

/// A frame's place: epoch and sequence.
pub type Place = (u64, u64);
/// Frames with the digest of their bytes.
pub type Digests = BTreeMap<Place, [u8; 16]>;

/// Frames and fixes of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Fixes stored.
    pub fixes: u64,
    /// Frames stored.
    pub frames: usize,
    /// Frames that the agent made durable and that are not stored, or with other bytes.
    pub lost: usize,
    /// Frames stored more than once.
    pub twice: usize,
}

impl Delivery {
    /// Compares the agent's journal with the rows of the database.
    #[must_use]
    pub fn between(journal: &Digests, stored: &[(Place, [u8; 16])], fixes: u64) -> Self {
        let mut rows: BTreeMap<Place, Vec<[u8; 16]>> = BTreeMap::new();
        for (place, digest) in stored {
            rows.entry(*place).or_default().push(*digest);
        }
        let lost = |(place, digest): &(&Place, &[u8; 16])| {
            !rows.get(place).is_some_and(|found| found.contains(digest))
        };
        Self {
            fixes,
            frames: stored.len(),
            lost: journal.iter().filter(lost).count(),
            twice: rows.values().map(|found| found.len() - 1).sum(),
        }
    }
}

/// A job that is over.
pub struct Outcome {
    /// The machine.
    pub name: String,
    /// Its device.
    pub device: u32,
    /// What was delivered.
    pub delivery: Delivery,
    /// The facts of the stored track.
    pub facts: Facts,
    /// What they should be.
    pub truth: Truth,
}

impl Outcome {
    /// What is outside its bar, in words.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let Delivery {
            frames,
            lost,
            twice,
            ..
        } = self.delivery;
        if frames == 0 {
            faults.push("nothing was stored".to_owned());
        }
        if lost > 0 {
            faults.push(format!("{lost} frames lost"));
        }
        if twice > 0 {
            faults.push(format!("{twice} frames stored twice"));
        }
        let truth = self.truth.area_m2;
        for (what, area) in [
            ("covered", self.facts.covered.m2()),
            ("closed", self.facts.closed.m2()),
        ] {
            if (area - truth).abs() > truth * AREA_BAR {
                faults.push(format!("{what} {area:.0} m2, truth {truth:.0} m2"));
            }
        }
        match (self.facts.started_ms, self.truth.started_ms) {
            (None, None) => {}
            (Some(found), Some(truth)) if seconds(found - truth).abs() <= START_BAR_S => {}
            (found, truth) => {
                faults.push(format!("start {}, truth {}", time(found), time(truth)));
            }
        }
        faults
    }
}

/// The table of all jobs. The bill rests on the closed area; "off by" is that against the truth.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "machine",
        "fixes stored",
        "frames",
        "lost",
        "twice",
        "covered",
        "closed",
        "truth",
        "off by",
        "start",
        "truth",
        "",
    ]);
    for outcome in outcomes {
        let (closed, truth) = (outcome.facts.closed.m2(), outcome.truth.area_m2);
        let off = if truth > 0.0 {
            format!("{:+.2} %", (closed / truth - 1.0) * 100.0)
        } else {
            format!("{closed:+.0} m2")
        };
        let verdict = if outcome.faults().is_empty() {
            "ok"
        } else {
            "OUTSIDE"
        };
        let hectares = |m2: f64| format!("{:.4} ha", m2 / 10_000.0);
        table.add_row([
            outcome.name.clone(),
            outcome.delivery.fixes.to_string(),
            outcome.delivery.frames.to_string(),
            outcome.delivery.lost.to_string(),
            outcome.delivery.twice.to_string(),
            hectares(outcome.facts.covered.m2()),
            hectares(closed),
            hectares(truth),
            off,
            time(outcome.facts.started_ms),
            time(outcome.truth.started_ms),
            verdict.to_owned(),
        ]);
    }
    table
}

fn time(ms: Option<i64>) -> String {
    ms.and_then(DateTime::from_timestamp_millis).map_or_else(
        || "none".to_owned(),
        |t| {
            let text = t.to_rfc3339_opts(SecondsFormat::Secs, true);
            text.get(11..).unwrap_or_default().to_owned()
        },
    )
}

#[expect(clippy::cast_precision_loss, reason = "spans of a day")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_altered_and_doubled_frames_are_told_apart_from_good_ones() {
        let journal = Digests::from([((1, 1), [1; 16]), ((1, 2), [2; 16]), ((1, 3), [3; 16])]);
        let stored = [
            ((1, 1), [1; 16]),
            ((1, 2), [9; 16]),
            ((1, 4), [4; 16]),
            ((1, 4), [4; 16]),
        ];
        let found = Delivery::between(&journal, &stored, 40);
        assert_eq!(
            found,
            Delivery {
                fixes: 40,
                frames: 4,
                lost: 2,
                twice: 1
            }
        );
    }
}
