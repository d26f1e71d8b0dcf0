//! What a machine's stored track shows of an order: where it is, whether it came, whether it works. Never decides what follows.

use std::{future::Future, pin::Pin};

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    fieldwork::{Setup, facts},
    geo::{
        Degrees,
        datum::Datum,
        plot::{Plot, Ring},
        projection::Projection,
        region::{Lookup, Region},
    },
    order::facts::Presence,
    settlement::Measured,
    track::Fix,
};

use super::fixes;
use crate::{
    app::{
        fault::Fault,
        witness::{Question, Shown, Witness, Work},
    },
    db::{Pool, frames, machines},
};

/// A fix older than this says nothing about now.
const FRESH: TimeDelta = TimeDelta::minutes(10);
/// Presence is looked for from so long before the start.
const BEFORE: TimeDelta = TimeDelta::minutes(60);
/// A track is read so far back at most.
const BACK: TimeDelta = TimeDelta::hours(24);
/// Slower than this is standing, m/s.
const STANDING_MPS: f64 = 0.3;

/// Reads the tracks of a database.
pub struct Tracks {
    /// Machines and their devices.
    pub pool: Pool,
    /// Their tracks.
    pub tracks: Pool,
}

impl Witness for Tracks {
    fn look<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Result<Shown, Fault>> + Send + 'a>> {
        Box::pin(self.read(question))
    }

    fn measure<'a>(
        &'a self,
        work: &'a Work,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Measured>, Fault>> + Send + 'a>> {
        Box::pin(self.measured(work))
    }
}

impl Tracks {
    async fn read(&self, question: &Question) -> Result<Shown, Fault> {
        let now = question.now;
        let (device, width_cm) = {
            let mut connection = self.pool.acquire().await?;
            let device = machines::device(&mut connection, question.machine, now).await?;
            let machine = machines::by_id(&mut connection, question.machine).await?;
            (device, machine.map_or(300, |m| m.working_width_cm))
        };
        let Some(device) = device else {
            return Ok(Shown::default());
        };
        let from = (question.start - BEFORE).min(now - FRESH).max(now - BACK);
        let stored = frames::read_window(&self.tracks, device.cast_unsigned(), from, now).await?;
        let window = from.timestamp_millis()..now.timestamp_millis() + 1;
        let question = question.clone();
        // Geometry of a day's fixes is too much for the runtime's threads.
        let shown = tokio::task::spawn_blocking(move || {
            let fixes = fixes::of_frames(&stored, window).unwrap_or_default();
            shown(&question, &fixes, f64::from(width_cm) / 100.0)
        });
        shown
            .await
            .map_err(|error| Fault::Broken(error.to_string()))
    }
}

/// The order's ground with the fence around it.
pub(super) struct Fence {
    projection: Projection,
    ground: Region,
    lookup: Lookup,
    fence_m: f64,
}

impl Fence {
    pub(super) fn new(plots: &[Plot], fence_m: f64) -> Option<Self> {
        let projection = Projection::at(plots.first()?.centre());
        let ground = plots
            .iter()
            .map(|plot| plot.region(&projection))
            .reduce(|all, next| all.union(&next))?;
        Some(Self {
            lookup: ground.lookup(),
            ground,
            projection,
            fence_m,
        })
    }

    /// Metres to the ground; nothing inside it.
    pub(super) fn distance_m(&self, place: Degrees) -> f64 {
        let metres = self.projection.metres(place);
        if self.lookup.contains(metres) {
            0.0
        } else {
            self.ground.edge_distance(metres)
        }
    }
}

/// The outline of a plot as it was copied; a declared place has none.
pub(super) fn outlines(value: &serde_json::Value) -> Option<Vec<Vec<Ring>>> {
    serde_json::from_value(value.pointer("/outline/coordinates")?.clone()).ok()
}

/// Plots of an order; a declared place is a square of its area.
pub(super) fn plots(copies: &[serde_json::Value]) -> Vec<Plot> {
    copies
        .iter()
        .filter_map(|value| {
            let parts = outlines(value).or_else(|| square(value))?;
            Plot::of_parts("plot".into(), &parts, Datum::Wgs84).ok()
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "areas and places on the globe")]
fn square(value: &serde_json::Value) -> Option<Vec<Vec<Ring>>> {
    let number = |key: &str| value.pointer(&format!("/place/{key}"))?.as_i64();
    let (lat, lon) = (
        number("lat_e7")? as f64 / 1e7,
        number("lon_e7")? as f64 / 1e7,
    );
    // 1 centi-mu is 20/3 m².
    let side_m = (number("area_centi_mu")? as f64 * 20.0 / 3.0).sqrt();
    let half_lat = side_m / 2.0 / 110_900.0;
    let half_lon = half_lat / lat.to_radians().cos().max(0.01);
    let (south, north, west, east) = (
        lat - half_lat,
        lat + half_lat,
        lon - half_lon,
        lon + half_lon,
    );
    Some(vec![vec![vec![
        [west, south],
        [east, south],
        [east, north],
        [west, north],
        [west, south],
    ]]])
}

pub(super) fn time(ms: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(ms)
}

/// What fixes show of an order.
fn shown(question: &Question, fixes: &[Fix], width_m: f64) -> Shown {
    let plots = plots(&question.plots);
    let Some(fence) = Fence::new(&plots, f64::from(question.geofence_m)) else {
        return Shown {
            presence: Some(Presence::Silent),
            ..Shown::default()
        };
    };
    let now_ms = question.now.timestamp_millis();
    let start_ms = question.start.timestamp_millis();
    let fresh_ms = now_ms - FRESH.num_milliseconds();
    let inside = |fix: &Fix| good(fix) && fence.distance_m(fix.place) <= fence.fence_m;
    let begin_ms = start_ms - BEFORE.num_milliseconds();
    let here: Vec<&Fix> = fixes
        .iter()
        .filter(|f| f.at_ms >= begin_ms && inside(f))
        .collect();
    let mut minutes: Vec<i64> = here
        .iter()
        .filter(|f| f.at_ms >= start_ms)
        .map(|f| f.at_ms.div_euclid(60_000))
        .collect();
    minutes.dedup();
    let work = Setup::new(width_m)
        .ok()
        .map(|setup| facts(fixes, &setup, &plots));
    let started = work
        .as_ref()
        .and_then(|w| w.started_ms)
        .filter(|ms| *ms >= begin_ms);
    let moving = |f: &&&Fix| f.speed_mps.unwrap_or(0.0) >= STANDING_MPS;
    let last_moving = here.iter().rev().find(moving).map(|f| f.at_ms);
    Shown {
        presence: Some(presence(fixes, &fence, fresh_ms, started)),
        arrived: !here.is_empty(),
        present_min: u32::try_from(minutes.len()).unwrap_or(u32::MAX),
        online: fixes.last().is_some_and(|f| f.at_ms >= fresh_ms),
        last_work_at: work.and_then(|w| w.finished_ms).and_then(time),
        stopped_since: fixes
            .last()
            .filter(|f| f.at_ms >= fresh_ms)
            .and(last_moving.or(here.first().map(|f| f.at_ms)))
            .and_then(time),
    }
}

fn good(fix: &Fix) -> bool {
    // Dead reckoning, manual and simulated positions are marked and never good.
    !matches!(fix.quality, 6..=8)
}

fn presence(fixes: &[Fix], fence: &Fence, fresh_ms: i64, started_ms: Option<i64>) -> Presence {
    let fresh = || fixes.iter().rev().take_while(|f| f.at_ms >= fresh_ms);
    let Some(last) = fresh().find(|f| good(f)) else {
        return if fresh().next().is_some() {
            Presence::Poor
        } else {
            Presence::Silent
        };
    };
    let distance = fence.distance_m(last.place);
    if distance > fence.fence_m {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "metres on the globe"
        )]
        let distance_m = distance.round() as u32;
        return Presence::Elsewhere { distance_m };
    }
    match started_ms.and_then(time) {
        Some(at) => Presence::Started { at },
        None => Presence::AtPlot,
    }
}
