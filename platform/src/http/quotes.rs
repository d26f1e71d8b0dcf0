//! Search and quotes: what can be had and what it costs.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use furrow_domain::rent::Bill;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Doors, body::Body, machines::period, problem::Problem, session::SignedIn, yuan};
use crate::app::{
    quotes::{self, Offer, Place, Work},
    search::{self, Hit, Request, Sort},
};

/// A place with a declared area.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceBody {
    /// WGS-84, 1e-7 degree.
    lat_e7: i32,
    /// WGS-84, 1e-7 degree.
    lon_e7: i32,
    area_centi_mu: u64,
}

/// What is to be done, and where: own plots, or a place.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkBody {
    #[serde(default)]
    plots: Vec<Uuid>,
    #[serde(default)]
    place: Option<PlaceBody>,
    /// A crop's code.
    #[serde(default)]
    crop: Option<String>,
}

impl From<WorkBody> for Work {
    fn from(body: WorkBody) -> Self {
        Self {
            plots: body.plots,
            place: body.place.map(|p| Place {
                lat_e7: p.lat_e7,
                lon_e7: p.lon_e7,
                area_centi_mu: p.area_centi_mu,
            }),
            crop: body.crop,
        }
    }
}

/// How hits are sorted.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum SortBy {
    #[default]
    Total,
    Distance,
}

/// What is looked for.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchBody {
    /// Beginning of a region's code.
    #[serde(default)]
    region: Option<String>,
    /// Within so many km of the work, 1 to 500.
    #[serde(default)]
    within_km: Option<u32>,
    #[serde(default)]
    machine_type: Option<String>,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    work: WorkBody,
    #[serde(default)]
    sort: SortBy,
}

/// What an order would cost.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct OfferView {
    total_fen: i64,
    total_text: String,
    /// R, paid at booking.
    prepaid_fen: i64,
    prepaid_text: String,
    /// D.
    deposit_fen: i64,
    deposit_text: String,
    /// Lines with how each was calculated, in both languages.
    #[schema(value_type = Object)]
    estimate: Bill,
    /// Overtime, grace and service mode as the rule has them.
    #[schema(value_type = Object)]
    overtime: Option<furrow_domain::rent::Overtime>,
    grace_min: u16,
    travel_km: u32,
    meet_at: DateTime<Utc>,
    work_end: DateTime<Utc>,
}

impl From<Offer> for OfferView {
    fn from(offer: Offer) -> Self {
        Self {
            total_fen: offer.estimate.total_fen.0,
            total_text: yuan(offer.estimate.total_fen),
            prepaid_fen: offer.prepaid_fen.0,
            prepaid_text: yuan(offer.prepaid_fen),
            deposit_fen: offer.deposit_fen.0,
            deposit_text: yuan(offer.deposit_fen),
            overtime: offer.snapshot.rule.overtime,
            grace_min: offer.snapshot.rule.grace_min,
            travel_km: offer.snapshot.travel_km,
            meet_at: offer.meet_at,
            work_end: offer.work_end,
            estimate: offer.estimate,
        }
    }
}

/// A machine that can be booked then.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct HitView {
    machine_id: Uuid,
    name: String,
    machine_type: String,
    brand: String,
    model: String,
    working_width_cm: i32,
    /// To about a kilometre.
    near_lat_e7: i32,
    /// To about a kilometre.
    near_lon_e7: i32,
    distance_m: i64,
    auto_accept: bool,
    offer: OfferView,
}

/// A place to about a kilometre: where a machine lives is not for everybody.
fn near(e7: Option<i32>) -> i32 {
    e7.unwrap_or(0) / 100_000 * 100_000
}

impl From<Hit> for HitView {
    fn from(hit: Hit) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "metres on the globe")]
        let distance_m = hit.distance_m.round() as i64;
        Self {
            machine_id: hit.machine.id,
            name: hit.machine.name,
            machine_type: hit.machine.machine_type,
            brand: hit.machine.brand,
            model: hit.machine.model,
            working_width_cm: hit.machine.working_width_cm,
            near_lat_e7: near(hit.machine.home_lat_e7),
            near_lon_e7: near(hit.machine.home_lon_e7),
            distance_m,
            auto_accept: hit.machine.auto_accept,
            offer: hit.offer.into(),
        }
    }
}

/// A free time.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct FreeView {
    machine_id: Uuid,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

/// What a search finds.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct FoundView {
    hits: Vec<HitView>,
    /// Without a hit: the next free times of machines that fit otherwise.
    next_free: Vec<FreeView>,
}

/// Finds machines that can really be booked then, with what they would cost.
#[utoipa::path(post, path = "/api/search", tag = "search", request_body = SearchBody, responses(
    (status = 200, description = "hits, or the next free times", body = FoundView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn search(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<SearchBody>,
) -> Result<Json<FoundView>, Problem> {
    if body.within_km.is_some_and(|km| !(1..=500).contains(&km)) {
        return Err(
            crate::app::fault::Fault::invalid("within_km", "must lie between 1 and 500").into(),
        );
    }
    let request = Request {
        region: body.region,
        within_km: body.within_km,
        machine_type: body.machine_type,
        period: period(body.from, body.to)?,
        work: body.work.into(),
        sort: match body.sort {
            SortBy::Total => Sort::Total,
            SortBy::Distance => Sort::Distance,
        },
    };
    let found = search::search(&doors.pool, &who, &request, doors.clock.now()).await?;
    let free = |(machine_id, period): (Uuid, furrow_domain::period::Period)| FreeView {
        machine_id,
        from: period.from(),
        to: period.to(),
    };
    Ok(Json(FoundView {
        hits: found.hits.into_iter().map(HitView::from).collect(),
        next_free: found.next_free.into_iter().map(free).collect(),
    }))
}

/// What is to be quoted.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QuoteBody {
    machine_id: Uuid,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    work: WorkBody,
}

/// A quote.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct QuoteView {
    /// Holds the price; give it to `POST /api/orders`.
    quote_token: String,
    expires_at: DateTime<Utc>,
    offer: OfferView,
    /// The operator's windows and fees that the order would freeze.
    #[schema(value_type = Object)]
    policy: furrow_domain::order::terms::Policy,
}

/// Quotes a machine at a time: the price that a booking within 15 minutes has.
#[utoipa::path(post, path = "/api/quotes", tag = "search", request_body = QuoteBody, responses(
    (status = 200, description = "the quote", body = QuoteView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such machine", body = Problem),
    (status = 409, description = "taken or closed then", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn quote(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<QuoteBody>,
) -> Result<Json<QuoteView>, Problem> {
    let (period, work, now) = (
        period(body.from, body.to)?,
        body.work.into(),
        doors.clock.now(),
    );
    let machine = body.machine_id;
    let quote = quotes::quote(
        &doors.pool,
        &doors.tokens,
        &who,
        machine,
        &period,
        &work,
        now,
    )
    .await?;
    Ok(Json(QuoteView {
        quote_token: quote.token,
        expires_at: quote.expires_at,
        offer: quote.offer.into(),
        policy: quote.policy,
    }))
}
