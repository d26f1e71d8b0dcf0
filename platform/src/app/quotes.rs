//! What a machine would cost at a time, and the token that holds the price for a quarter of an hour. One function prices search, quote and booking.

use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    availability::{Calendar, Span},
    id::RuleId,
    money::{Bps, Fen},
    order::terms::Policy,
    period::Period,
    rent::{
        Bill, ENGINE_VERSION, Rule, Snapshot, Unit, Usage, centi_mu_rounded_half_up,
        needed_minutes, price, terms_of,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{calendars, fault::Fault, policies, tokens::Tokens, who::Who};
use crate::db::{
    Connection, Pool,
    machines::{self, MachineRow, RuleRow},
    plots::{self, PlotRow},
};

/// A quote holds so long.
pub const HOLDS: TimeDelta = TimeDelta::minutes(15);
/// The largest area of an order, centi-mu.
const AREA_MAX: u64 = 100_000_000;

/// What is to be done, and where.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Own plots.
    #[serde(default)]
    pub plots: Vec<Uuid>,
    /// Or a place with a declared area.
    #[serde(default)]
    pub place: Option<Place>,
    /// A crop's code.
    #[serde(default)]
    pub crop: Option<String>,
}

/// A place with a declared area.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// 1e-7 degree.
    pub lat_e7: i32,
    /// 1e-7 degree.
    pub lon_e7: i32,
    /// Centi-mu.
    pub area_centi_mu: u64,
}

/// Where work is to be done, as it was at the moment of asking.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Copies of plots, or the place.
    pub copies: Vec<Value>,
    /// In all.
    pub area_centi_mu: u64,
    /// Its middle, degrees.
    pub lat: f64,
    /// Its middle, degrees.
    pub lon: f64,
}

fn degrees(e7: i32) -> f64 {
    f64::from(e7) / 1e7
}

/// Reads the ground of a work: own plots only.
///
/// # Errors
///
/// `invalid`, `not_found`.
pub async fn ground(tx: &mut Connection, who: &Who, work: &Work) -> Result<Ground, Fault> {
    if let Some(place) = &work.place {
        if !work.plots.is_empty() {
            return Err(Fault::invalid("place", "either plots or a place"));
        }
        if !(1..=AREA_MAX).contains(&place.area_centi_mu) {
            return Err(Fault::invalid(
                "place.area_centi_mu",
                "must lie between 1 and 100,000,000",
            ));
        }
        return Ok(Ground {
            copies: vec![serde_json::json!({ "place": place })],
            area_centi_mu: place.area_centi_mu,
            lat: degrees(place.lat_e7),
            lon: degrees(place.lon_e7),
        });
    }
    if !(1..=20).contains(&work.plots.len()) {
        return Err(Fault::invalid("plots", "must be 1 to 20"));
    }
    let own = plots::own(tx, who.account.0, &work.plots).await?;
    let mut asked = work.plots.clone();
    asked.sort_unstable();
    asked.dedup();
    if own.len() != asked.len() {
        return Err(Fault::invalid("plots", "one of them is not yours"));
    }
    let area: u64 = own.iter().map(|p| p.area_e4_m2.unsigned_abs()).sum();
    let first = own.first().ok_or_else(Fault::not_found)?;
    Ok(Ground {
        area_centi_mu: centi_mu_rounded_half_up(area).max(1),
        lat: degrees(first.lat_e7),
        lon: degrees(first.lon_e7),
        copies: own.iter().map(copy).collect(),
    })
}

fn copy(plot: &PlotRow) -> Value {
    serde_json::json!({
        "plot_id": plot.id, "name": plot.name, "crop": plot.crop, "outline": plot.outline,
        "area_e4_m2": plot.area_e4_m2, "lat_e7": plot.lat_e7, "lon_e7": plot.lon_e7,
    })
}

/// Metres between two places, by the haversine on the mean sphere: for sorting and travel, never for area.
#[must_use]
pub fn distance_m(a: (f64, f64), b: (f64, f64)) -> f64 {
    const RADIUS_M: f64 = 6_371_008.8;
    let (lat_a, lat_b) = (a.0.to_radians(), b.0.to_radians());
    let half_lat = ((lat_b - lat_a) / 2.0).sin();
    let half_lon = ((b.1 - a.1).to_radians() / 2.0).sin();
    let h = half_lat * half_lat + lat_a.cos() * lat_b.cos() * half_lon * half_lon;
    2.0 * RADIUS_M * h.sqrt().min(1.0).asin()
}

/// What an order of this machine would freeze and cost.
#[derive(Debug, Clone)]
pub struct Offer {
    /// What prices rest on.
    pub snapshot: Snapshot,
    /// Its lines.
    pub estimate: Bill,
    /// R.
    pub prepaid_fen: Fen,
    /// D.
    pub deposit_fen: Fen,
    /// The greater of minimum and first day.
    pub first_day_fen: Fen,
    /// When one meets.
    pub meet_at: DateTime<Utc>,
    /// When work ends.
    pub work_end: DateTime<Utc>,
}

/// What a rule is booked in: area goes by days where the time is whole days.
#[must_use]
pub fn span(rule: &Rule, calendar: &Calendar, period: &Period) -> Span {
    match rule.unit {
        Unit::Mu
            if period.length() >= TimeDelta::days(1)
                && calendar.may_book(period, Span::Time).is_err() =>
        {
            Span::Days
        }
        unit => unit.span(),
    }
}

/// A machine's rule of now.
///
/// # Errors
///
/// Our own: a rule that this build cannot read.
pub fn rule_of(row: &RuleRow) -> Result<Rule, Fault> {
    serde_json::from_value(row.rule.clone())
        .map_err(|e| Fault::Broken(format!("rule {}: {e}", row.id)))
}

/// Prices a machine at a time for an area, and asks its calendar: the same for search, quote and booking.
///
/// # Errors
///
/// `slot_taken`, `not_open`, `off_grid`, `too_small`.
pub fn offer(
    machine: &MachineRow,
    row: &RuleRow,
    commission: Bps,
    calendar: &Calendar,
    period: &Period,
    ground: &Ground,
) -> Result<Offer, Fault> {
    let rule = rule_of(row)?;
    let span = span(&rule, calendar, period);
    may_book(calendar, period, span)?;
    let capacity = machine.capacity_centi_mu_h.unsigned_abs();
    if rule.unit == Unit::Mu && capacity > 0 && span == Span::Time {
        let needed = needed_minutes(ground.area_centi_mu, capacity);
        let enough = needed.is_some_and(|m| TimeDelta::minutes(i64::from(m)) <= period.length());
        if !enough {
            return Err(Fault::Refused {
                sort: super::fault::Sort::Invalid,
                code: "time_too_short",
                detail: "the area needs more time than that".into(),
                data: serde_json::json!({ "needed_minutes": needed }),
            });
        }
    }
    let home = (
        degrees(machine.home_lat_e7.unwrap_or(0)),
        degrees(machine.home_lon_e7.unwrap_or(0)),
    );
    let km = (distance_m(home, (ground.lat, ground.lon)) / 1000.0).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most half the earth"
    )]
    let travel_km = km as u32;
    let dates = period.local_dates(calendar.zone);
    let highest = dates.iter().map(|day| rule.factor(*day)).max();
    let snapshot = Snapshot {
        engine: ENGINE_VERSION,
        rule_id: RuleId(row.id),
        rule_version: row.version.unsigned_abs(),
        commission_bps: commission,
        zone: calendar.zone,
        max_factor_bps: highest.unwrap_or(Bps::WHOLE),
        travel_km,
        rule,
    };
    let usage = Usage::booked(&snapshot, period, ground.area_centi_mu);
    let estimate = price(&snapshot, &usage).map_err(|e| Fault::invalid("work", e))?;
    let (prepaid_fen, first_day_fen) = terms_of(&snapshot, &estimate)?;
    let (meet_at, work_end) = calendar.meet_and_end(period, span);
    Ok(Offer {
        deposit_fen: snapshot.rule.deposit_fen,
        snapshot,
        estimate,
        prepaid_fen,
        first_day_fen,
        meet_at,
        work_end,
    })
}

/// The one predicate, as a refusal.
///
/// # Errors
///
/// `off_grid`, `slot_taken`, `not_open`.
pub fn may_book(calendar: &Calendar, period: &Period, span: Span) -> Result<(), Fault> {
    use furrow_domain::availability::Unavailable;
    calendar.may_book(period, span).map_err(|reason| {
        let detail = reason.to_string();
        match reason {
            Unavailable::OffGrid(_) => Fault::invalid("period", detail),
            Unavailable::Taken(busy, _) => Fault::Refused {
                sort: super::fault::Sort::Conflict,
                code: "slot_taken",
                detail: "the time is taken".into(),
                data: serde_json::json!({ "next_busy_from": busy.from().max(period.from()) }),
            },
            Unavailable::Closed(_) => Fault::conflict("not_open", detail),
        }
    })
}

/// What a quote's token says.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Quoted {
    /// For whom.
    pub account: Uuid,
    /// The machine.
    pub machine: Uuid,
    /// When.
    pub period: Period,
    /// What and where.
    pub work: Work,
    /// By which rule.
    pub rule: Uuid,
    /// What it comes to.
    pub total_fen: Fen,
    /// The policy's version.
    pub policy: u32,
    /// Until when it holds.
    pub expires_at: DateTime<Utc>,
}

/// A quote.
#[derive(Debug, Clone)]
pub struct Quote {
    /// What it costs.
    pub offer: Offer,
    /// The operator's windows.
    pub policy: Policy,
    /// What holds it.
    pub token: String,
    /// Until when.
    pub expires_at: DateTime<Utc>,
}

/// Quotes a machine.
///
/// # Errors
///
/// As [`offer`]; `not_found` for a machine that cannot be let.
pub async fn quote(
    pool: &Pool,
    tokens: &Tokens,
    who: &Who,
    machine: Uuid,
    period: &Period,
    work: &Work,
    now: DateTime<Utc>,
) -> Result<Quote, Fault> {
    let mut tx = pool.begin().await?;
    let row = machines::by_id(&mut tx, machine).await?;
    let row = row.filter(|m| m.status == "listed" && m.deleted_at.is_none());
    let row = row.ok_or_else(Fault::not_found)?;
    let rules = machines::newest_rules(&mut tx, &[machine]).await?;
    let rule = rules.first().ok_or_else(Fault::not_found)?;
    let (policy, commission) = policies::current(&mut tx).await?;
    let ground = ground(&mut tx, who, work).await?;
    let calendar = calendars::load_one(&mut tx, &row, period, None, now).await?;
    let offer = offer(&row, rule, commission, &calendar, period, &ground)?;
    let expires_at = now + HOLDS;
    let quoted = Quoted {
        account: who.account.0,
        machine,
        period: *period,
        work: work.clone(),
        rule: rule.id,
        total_fen: offer.estimate.total_fen,
        policy: policy.version,
        expires_at,
    };
    let token =
        tokens.seal(&serde_json::to_vec(&quoted).map_err(|e| Fault::Broken(e.to_string()))?);
    Ok(Quote {
        offer,
        policy,
        token,
        expires_at,
    })
}

/// Reads a quote's token.
///
/// # Errors
///
/// `quote_unknown`, `quote_expired`.
pub fn read(tokens: &Tokens, who: &Who, token: &str, now: DateTime<Utc>) -> Result<Quoted, Fault> {
    let unknown = || Fault::invalid("quote_token", "is not one of ours");
    let bytes = tokens.open_sealed(token).ok_or_else(unknown)?;
    let quoted: Quoted = serde_json::from_slice(&bytes).map_err(|_| unknown())?;
    if quoted.account != who.account.0 {
        return Err(unknown());
    }
    if now >= quoted.expires_at {
        return Err(Fault::conflict(
            "quote_expired",
            "the quote is over: ask for a new one",
        ));
    }
    Ok(quoted)
}

/// An example by a rule that is not saved yet.
#[derive(Debug, Clone)]
pub struct Example {
    /// The rule.
    pub rule: Rule,
    /// The operator's share.
    pub commission: Bps,
    /// Where local dates are.
    pub zone: chrono_tz::Tz,
    /// When.
    pub period: Period,
    /// How much.
    pub area_centi_mu: u64,
    /// The way.
    pub travel_km: u32,
}

/// Prices an example.
///
/// # Errors
///
/// `invalid`.
pub fn example(of: Example) -> Result<Bill, Fault> {
    of.rule
        .check()
        .map_err(|f| Fault::invalid(&format!("rule.{}", f.field), f.message))?;
    let snapshot = Snapshot {
        engine: ENGINE_VERSION,
        rule_id: RuleId(Uuid::nil()),
        rule_version: 0,
        rule: of.rule,
        commission_bps: of.commission,
        zone: of.zone,
        max_factor_bps: Bps(u32::MAX),
        travel_km: of.travel_km,
    };
    let usage = Usage::booked(&snapshot, &of.period, of.area_centi_mu);
    price(&snapshot, &usage).map_err(|e| Fault::invalid("area_centi_mu", e))
}
