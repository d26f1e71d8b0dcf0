//! What the world shows beside an order, behind a trait: whoever reads tracks fills it. Without a track nothing is taken for one.

use std::{future::Future, pin::Pin};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use furrow_domain::{order::facts::Presence, settlement::Measured};
use serde_json::Value;
use uuid::Uuid;

use super::fault::Fault;

/// What a track shows of an order.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// Where the machine is; none without a device.
    pub presence: Option<Presence>,
    /// It was in the fence at some time since an hour before the start.
    pub arrived: bool,
    /// Minutes in the fence at or after the start.
    pub present_min: u32,
    /// Its device has spoken lately.
    pub online: bool,
    /// The last proven working step.
    pub last_work_at: Option<DateTime<Utc>>,
    /// It stands still, or is away, since then.
    pub stopped_since: Option<DateTime<Utc>>,
}

/// What is asked about.
#[derive(Debug, Clone)]
pub struct Question {
    /// The machine.
    pub machine: Uuid,
    /// The order's plots as they were copied.
    pub plots: Vec<Value>,
    /// When one meets.
    pub start: DateTime<Utc>,
    /// The fence around the plots.
    pub geofence_m: u32,
    /// Now.
    pub now: DateTime<Utc>,
}

/// What work is measured.
#[derive(Debug, Clone)]
pub struct Work {
    /// The machine.
    pub machine: Uuid,
    /// The order's plots as they were copied.
    pub plots: Vec<Value>,
    /// The fence around a place that has no outline.
    pub geofence_m: u32,
    /// Where local dates are.
    pub zone: Tz,
    /// From.
    pub from: DateTime<Utc>,
    /// To.
    pub to: DateTime<Utc>,
}

/// Whoever reads tracks.
pub trait Witness: Send + Sync {
    /// What the track shows.
    fn look<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Result<Shown, Fault>> + Send + 'a>>;

    /// What the track shows of a whole work; nothing where there is none.
    fn measure<'a>(
        &'a self,
        _work: &'a Work,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Measured>, Fault>> + Send + 'a>> {
        Box::pin(async { Ok(None) })
    }
}
