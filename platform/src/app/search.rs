//! Search: machines that can really be booked then, with what they would cost. The answer of the same predicate and engine as a booking's.

use std::cmp::Ordering;

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    availability::Wanted as WantedTime,
    period::Period,
    rent::{Unit, needed_minutes},
};
use uuid::Uuid;

use super::{
    calendars,
    fault::Fault,
    policies,
    quotes::{self, Ground, Offer, Work, distance_m},
    who::Who,
};
use crate::db::{
    Pool,
    machines::{self, MachineRow, Wanted},
};

/// Machines looked at for one search, at most.
const CANDIDATES: i64 = 500;
/// Metres of a degree of latitude, rounded down so that no one within the circle is left out.
const METRES_PER_DEGREE: f64 = 110_000.0;
/// How far ahead the next free time is looked for.
const AHEAD: TimeDelta = TimeDelta::days(30);

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Beginning of a region's code.
    pub region: Option<String>,
    /// Within so many km of the work.
    pub within_km: Option<u32>,
    /// Code of a type.
    pub machine_type: Option<String>,
    /// When.
    pub period: Period,
    /// What and where.
    pub work: Work,
    /// How hits are sorted.
    pub sort: Sort,
}

/// How hits are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Cheapest first.
    Total,
    /// Nearest first.
    Distance,
}

/// A machine that can be booked then.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The machine.
    pub machine: MachineRow,
    /// What it would cost.
    pub offer: Offer,
    /// From its home to the work.
    pub distance_m: f64,
}

/// What a search finds.
#[derive(Debug, Clone)]
pub struct Found {
    /// Sorted.
    pub hits: Vec<Hit>,
    /// Without a hit: the next times of machines that fit otherwise, soonest first.
    pub next_free: Vec<(Uuid, Period)>,
}

/// Searches.
///
/// # Errors
///
/// `invalid`.
pub async fn search(
    pool: &Pool,
    who: &Who,
    request: &Request,
    now: DateTime<Utc>,
) -> Result<Found, Fault> {
    let mut tx = pool.begin().await?;
    let ground = quotes::ground(&mut tx, who, &request.work).await?;
    let (_, commission) = policies::current(&mut tx).await?;
    let wanted = Wanted {
        region: request.region.as_deref(),
        machine_type: request.machine_type.as_deref(),
        crop: request.work.crop.as_deref(),
        within: request.within_km.map(|km| square(&ground, km)),
    };
    let machines = machines::candidates(pool, &wanted, CANDIDATES).await?;
    let own = |m: &MachineRow| {
        let organisations = who.all_organisations();
        organisations.iter().any(|o| m.organisation_id == Some(o.0))
    };
    let far = |m: &MachineRow| {
        let most = request.within_km.map(|km| f64::from(km) * 1000.0);
        most.is_some_and(|most| from_home(m, &ground) > most)
    };
    let machines: Vec<MachineRow> = machines
        .into_iter()
        .filter(|m| !own(m) && !far(m))
        .collect();
    let ids: Vec<Uuid> = machines.iter().map(|m| m.id).collect();
    let rules = machines::newest_rules(&mut tx, &ids).await?;
    let ahead = Period::new(request.period.from(), request.period.to() + AHEAD);
    let ahead = ahead.unwrap_or(request.period);
    let calendars = calendars::load(&mut tx, &machines, &ahead, now).await?;
    let (mut hits, mut next_free) = (Vec::new(), Vec::new());
    for machine in machines {
        let rule = rules.iter().find(|r| r.machine_id == machine.id);
        let (Some(rule), Some(calendar)) = (rule, calendars.get(&machine.id)) else {
            continue;
        };
        let offer = quotes::offer(
            &machine,
            rule,
            commission,
            calendar,
            &request.period,
            &ground,
        );
        match offer {
            Ok(offer) => hits.push(Hit {
                distance_m: from_home(&machine, &ground),
                machine,
                offer,
            }),
            Err(Fault::Refused { .. }) => {
                let asked = quotes::rule_of(rule)?.unit;
                let time = time_of(&machine, asked, &request.period, ground.area_centi_mu);
                let next = calendar.next_free(time, &ahead, 1);
                next_free.extend(next.into_iter().map(|p| (machine.id, p)));
            }
            Err(other) => return Err(other),
        }
    }
    hits.sort_by(|a, b| order(a, b, request.sort));
    next_free.sort_by_key(|(id, period)| (period.from(), *id));
    next_free.truncate(20);
    if !hits.is_empty() {
        next_free.clear();
    }
    Ok(Found { hits, next_free })
}

fn order(a: &Hit, b: &Hit, sort: Sort) -> Ordering {
    let near = a.distance_m.total_cmp(&b.distance_m);
    let cheap = a.offer.estimate.total_fen.cmp(&b.offer.estimate.total_fen);
    let first = match sort {
        Sort::Total => cheap.then(near),
        Sort::Distance => near.then(cheap),
    };
    first.then(a.machine.id.cmp(&b.machine.id))
}

fn from_home(machine: &MachineRow, ground: &Ground) -> f64 {
    let degrees = |e7: Option<i32>| f64::from(e7.unwrap_or(0)) / 1e7;
    let home = (degrees(machine.home_lat_e7), degrees(machine.home_lon_e7));
    distance_m(home, (ground.lat, ground.lon))
}

/// South, west, north, east around the work, 1e-7 degree: never smaller than the circle.
#[expect(
    clippy::cast_possible_truncation,
    reason = "within the globe; casts saturate"
)]
fn square(ground: &Ground, km: u32) -> [i32; 4] {
    let lat = f64::from(km) * 1000.0 / METRES_PER_DEGREE;
    let narrow = (ground.lat.abs() + lat).min(89.0).to_radians().cos();
    let lon = (lat / narrow).min(180.0);
    let e7 = |degrees: f64| (degrees * 1e7) as i32;
    let wrap = |degrees: f64| (degrees + 180.0).rem_euclid(360.0) - 180.0;
    let (west, east) = if lon >= 180.0 {
        (-180.0, 180.0)
    } else {
        (wrap(ground.lon - lon), wrap(ground.lon + lon))
    };
    [
        e7(ground.lat - lat),
        e7(west),
        e7(ground.lat + lat),
        e7(east),
    ]
}

/// How much time is wanted of this machine: what was asked, but for area what its capacity needs.
fn time_of(machine: &MachineRow, unit: Unit, asked: &Period, area: u64) -> WantedTime {
    let whole = |length: TimeDelta, unit: i64| {
        u32::try_from((length.num_minutes() + unit - 1) / unit)
            .unwrap_or(1)
            .max(1)
    };
    match unit {
        Unit::Mu | Unit::Hour => {
            let capacity = machine.capacity_centi_mu_h.unsigned_abs();
            let needed = needed_minutes(area, capacity).filter(|_| unit == Unit::Mu);
            let minutes = needed.unwrap_or_else(|| whole(asked.length(), 1));
            WantedTime::Minutes(minutes.next_multiple_of(30))
        }
        Unit::HalfDay => WantedTime::HalfDays(whole(asked.length(), 12 * 60)),
        Unit::Day | Unit::Season => WantedTime::Days(whole(asked.length(), 24 * 60)),
    }
}
