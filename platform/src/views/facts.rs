//! Facts as JSON, the same from the command line and the API.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat};
use furrow_domain::{
    fieldwork::{Facts, Verdict},
    track::Rejection,
};
use serde::Serialize;

/// Facts with areas in m2 (4 decimals) and times in RFC 3339.
#[derive(Debug, Serialize)]
pub struct FactsView<'a> {
    union_m2: f64,
    covered_m2: f64,
    closed_m2: f64,
    gross_m2: f64,
    overlap_m2: f64,
    headland_m2: f64,
    outside_m2: f64,
    covered_mu: f64,
    work_distance_m: f64,
    distance_x_width_m2: f64,
    distance_m: f64,
    arrived_at: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
    left_at: Option<String>,
    work_s: f64,
    turn_s: f64,
    transit_s: f64,
    idle_s: f64,
    fixes: usize,
    fixes_rejected: &'a BTreeMap<Rejection, usize>,
    gaps: Vec<GapView>,
    plot: Option<&'a str>,
    plot_conflict: Option<ConflictView<'a>>,
    start_verdict: &'a Verdict,
    quality: QualityView,
}

#[derive(Debug, Serialize)]
struct GapView {
    from: Option<String>,
    to: Option<String>,
    missing_s: f64,
}

#[derive(Debug, Serialize)]
struct ConflictView<'a> {
    plot: &'a str,
    share: f64,
}

#[derive(Debug, Serialize)]
struct QualityView {
    good_share: f64,
    interval_s: Option<f64>,
    estimate: bool,
}

impl<'a> From<&'a Facts> for FactsView<'a> {
    fn from(facts: &'a Facts) -> Self {
        Self {
            union_m2: facts.union.m2(),
            covered_m2: facts.covered.m2(),
            closed_m2: facts.closed.m2(),
            gross_m2: facts.gross.m2(),
            overlap_m2: facts.overlap.m2(),
            headland_m2: facts.headland.m2(),
            outside_m2: facts.outside.m2(),
            covered_mu: round(facts.closed.mu(), 4),
            work_distance_m: round(facts.work_distance_m, 3),
            distance_x_width_m2: round(facts.distance_x_width_m2, 4),
            distance_m: round(facts.distance_m, 3),
            arrived_at: facts.arrived_ms.and_then(time),
            started_at: facts.started_ms.and_then(time),
            finished_at: facts.finished_ms.and_then(time),
            left_at: facts.left_ms.and_then(time),
            work_s: round(facts.work_s, 3),
            turn_s: round(facts.turn_s, 3),
            transit_s: round(facts.transit_s, 3),
            idle_s: round(facts.idle_s, 3),
            fixes: facts.fixes,
            fixes_rejected: &facts.rejected,
            gaps: facts
                .gaps
                .iter()
                .map(|g| GapView {
                    from: time(g.from_ms),
                    to: time(g.to_ms),
                    missing_s: g.missing_s,
                })
                .collect(),
            plot: facts.plot.as_deref(),
            plot_conflict: facts.plot_conflict.as_ref().map(|c| ConflictView {
                plot: &c.plot,
                share: round(c.share, 4),
            }),
            start_verdict: &facts.start,
            quality: QualityView {
                good_share: round(facts.quality.good_share, 4),
                interval_s: facts.quality.interval_s,
                estimate: facts.quality.estimate,
            },
        }
    }
}

fn time(ms: i64) -> Option<String> {
    Some(DateTime::from_timestamp_millis(ms)?.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// To so many decimals; for people and JSON, never for money.
fn round(value: f64, decimals: i32) -> f64 {
    let unit = 10_f64.powi(decimals);
    // An empty sum is -0; nobody should see that.
    (value * unit).round() / unit + 0.0
}
