//! The verdict on the start of work at a plot. Never calls a start proven that the track does not show, and never says where else a machine was.

use serde::Serialize;

use super::{
    DatumMistake, Setup,
    presence::Presence,
    start::{self, Ground, Start},
};
use crate::{
    geo::region::Region,
    track::{Track, step::Step},
};

/// What can be said of the start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The verdict.
    pub kind: VerdictKind,
    /// Why, as data.
    pub reasons: Vec<Reason>,
}

/// Kinds of verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The track shows the start.
    Proven,
    /// The device was on and elsewhere.
    Contradicted,
    /// The track can say neither.
    NotProvable,
    /// There is no plot to start at.
    None,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// So much work was seen within 10 minutes of the start.
    WorkSeen {
        /// Seconds of it.
        seconds: f64,
    },
    /// No plot was given.
    NoPlot,
    /// The device sent nothing.
    Silent,
    /// The device never came nearer to the plot than this.
    Elsewhere {
        /// Metres to the plot's edge.
        nearest_m: f64,
    },
    /// The machine was at the plot and did not work for long enough at a stretch.
    WorkTooShort {
        /// Seconds of work inside the plot in all.
        seconds: f64,
    },
    /// The machine was at the plot and did not work.
    NoWork,
    /// The machine worked, but its fixes are too far apart to show when it began.
    SparseFixes {
        /// Median seconds between them.
        interval_s: f64,
    },
    /// The work has the plot's shape and lies beside it: the boundary was likely drawn on another datum.
    LikelyDatumMistake {
        /// From the plot's centre to the work's, m.
        shift_m: f64,
    },
    /// Too few fixes were good.
    PoorFixes {
        /// Share of good ones.
        good_share: f64,
    },
}

/// Start of work (ms since 1970 UTC), if the track shows it, and the verdict on it.
pub(super) fn judge(
    track: &Track,
    steps: &[Step],
    worked: &[bool],
    (setup, sensor): (&Setup, bool),
    plot: Option<(&Region, Presence)>,
    datum: Option<&DatumMistake>,
) -> (Option<i64>, Verdict) {
    let Some((region, presence)) = plot else {
        return (None, verdict(VerdictKind::None, Reason::NoPlot, datum));
    };
    if track.points.is_empty() {
        let silent = verdict(VerdictKind::NotProvable, Reason::Silent, datum);
        return (None, silent);
    }
    let inside = region.grown(start::GROWN_M).lookup();
    let ground = Ground {
        track,
        steps,
        worked,
        setup,
        inside: &inside,
        plot_m2: region.area().m2(),
        sensor,
    };
    match ground.start() {
        Ok(Start { at_ms, seconds }) => {
            let seen = Reason::WorkSeen { seconds };
            (Some(at_ms), verdict(VerdictKind::Proven, seen, datum))
        }
        Err(reason) => (None, without_start(track, region, presence, reason, datum)),
    }
}

/// Online and never there is a contradiction; there and not at work, or with poor fixes, proves nothing.
fn without_start(
    track: &Track,
    region: &Region,
    presence: Presence,
    reason: Reason,
    datum: Option<&DatumMistake>,
) -> Verdict {
    let online = track.points.iter().any(|p| p.fix.good());
    let elsewhere = presence.arrived_ms.is_none()
        && matches!(reason, Reason::NoWork | Reason::SparseFixes { .. });
    if !(online && elsewhere) {
        return verdict(VerdictKind::NotProvable, reason, datum);
    }
    let inside = region.lookup();
    let distance = |place| {
        if inside.contains(place) {
            0.0
        } else {
            region.edge_distance(place)
        }
    };
    let nearest_m = track
        .points
        .iter()
        .map(|p| distance(p.place))
        .fold(f64::INFINITY, f64::min);
    verdict(
        VerdictKind::Contradicted,
        Reason::Elsewhere { nearest_m },
        datum,
    )
}

fn verdict(kind: VerdictKind, reason: Reason, datum: Option<&DatumMistake>) -> Verdict {
    let mistake = datum.map(|d| Reason::LikelyDatumMistake { shift_m: d.shift_m });
    Verdict {
        kind,
        reasons: std::iter::once(reason).chain(mistake).collect(),
    }
}
