//! Renters' plots: imported from GeoJSON, listed, removed.

use axum::{Json, extract::State, http::StatusCode};
use furrow_domain::geo::{
    Degrees,
    datum::Datum,
    plot::{Plot, Repair},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Doors,
    body::{Asked, Body, Page, PageOf, Path},
    problem::Problem,
    session::SignedIn,
};
use crate::{
    app::fault::Fault,
    db::plots::{self, PlotRow},
    ids,
    views::outline,
};

/// Plots to import.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlotBody {
    /// For one without a name of its own.
    name: String,
    /// A crop's code.
    #[serde(default)]
    crop: String,
    /// GeoJSON; each feature is a plot.
    #[schema(value_type = Object)]
    geojson: Value,
    /// `wgs84`, `gcj02` or `bd09`, where the file does not say it.
    #[serde(default)]
    datum: Option<String>,
}

/// A plot.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct PlotView {
    id: Uuid,
    name: String,
    crop: String,
    /// GeoJSON geometry, WGS-84.
    #[schema(value_type = Object)]
    outline: Value,
    area_m2: f64,
    /// 1/100 mu.
    area_centi_mu: u64,
    /// What was put right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    repairs: Vec<String>,
}

#[expect(clippy::cast_precision_loss, reason = "an area within the globe")]
fn view(row: PlotRow, repairs: Vec<String>) -> PlotView {
    PlotView {
        id: row.id,
        name: row.name,
        crop: row.crop,
        area_m2: row.area_e4_m2 as f64 / 1e4,
        area_centi_mu: furrow_domain::rent::centi_mu_rounded_half_up(row.area_e4_m2.unsigned_abs()),
        outline: row.outline,
        repairs,
    }
}

/// The name of what was put right.
fn repair(repair: &Repair) -> String {
    let name = serde_json::to_value(repair).ok();
    name.and_then(|n| n.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn datum(told: Option<&str>) -> Result<Option<Datum>, Fault> {
    match told {
        None => Ok(None),
        Some("wgs84") => Ok(Some(Datum::Wgs84)),
        Some("gcj02") => Ok(Some(Datum::Gcj02)),
        Some("bd09") => Ok(Some(Datum::Bd09)),
        Some(_) => Err(Fault::invalid("datum", "must be wgs84, gcj02 or bd09")),
    }
}

/// A plot as it is kept: the repaired outline in WGS-84.
fn row(plot: &Plot, crop: &str, id: Uuid) -> Result<PlotRow, Fault> {
    let area = plot.area().m2();
    // A county is 10^9 m²; below a square metre nothing is worked.
    if !(1.0..=1e9).contains(&area) {
        return Err(Fault::invalid(
            "geojson",
            "the area must lie between 1 m² and 1,000 km²",
        ));
    }
    let Degrees { lat, lon } = plot.centre();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "within the globe; the area is bounded"
    )]
    let (area_e4_m2, lat_e7, lon_e7) = (
        (area * 1e4).round() as i64,
        (lat * 1e7).round() as i32,
        (lon * 1e7).round() as i32,
    );
    Ok(PlotRow {
        id,
        name: plot.name.chars().take(60).collect(),
        crop: crop.to_owned(),
        outline: json!({ "type": "MultiPolygon", "coordinates": plot.rings() }),
        area_e4_m2,
        lat_e7,
        lon_e7,
    })
}

/// Imports plots. What can be repaired is, and told; what cannot is refused with the reason.
#[utoipa::path(post, path = "/api/plots", tag = "plots", request_body = PlotBody, responses(
    (status = 201, description = "imported", body = Vec<PlotView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field, or no outline, with the reason", body = Problem)
))]
pub(super) async fn import(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Body(body): Body<PlotBody>,
) -> Result<(StatusCode, Json<Vec<PlotView>>), Problem> {
    let name = crate::app::accounts::normal_name("name", &body.name, 60)?;
    if body.crop.chars().count() > 40 {
        return Err(Fault::invalid("crop", "must have at most 40 characters").into());
    }
    let told = datum(body.datum.as_deref())?;
    let text = body.geojson.to_string();
    let read = tokio::task::spawn_blocking(move || outline::read(&text, &name, told));
    let found = read
        .await
        .map_err(|_| Problem::internal())?
        .map_err(|error| Fault::invalid("geojson", describe(&error)))?;
    if found.len() > 100 {
        return Err(Fault::invalid("geojson", "holds more than 100 plots").into());
    }
    let now = doors.clock.now();
    let mut tx = doors.pool.begin().await?;
    let mut views = Vec::new();
    for plot in &found {
        let row = row(plot, &body.crop, ids::new_id(now))?;
        plots::insert(&mut tx, who.account.0, &row, now).await?;
        views.push(view(row, plot.repairs.iter().map(repair).collect()));
    }
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(views)))
}

/// An error with what caused it, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.chars().take(300).collect()
}

/// One's own plots.
#[utoipa::path(get, path = "/api/plots", tag = "plots", params(PageOf), responses(
    (status = 200, description = "a page", body = Page<PlotView>),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(super) async fn own(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Asked(page): Asked<PageOf>,
) -> Result<Json<Page<PlotView>>, Problem> {
    let most = page.most()?;
    let after = page.cursor.unwrap_or(Uuid::nil());
    let limit = i64::try_from(most + 1).unwrap_or(101);
    let rows = plots::page(&doors.pool, who.account.0, after, limit).await?;
    let views = rows.into_iter().map(|row| view(row, vec![])).collect();
    Ok(Json(Page::of(views, most, |p: &PlotView| p.id)))
}

/// Takes a plot from the list; orders keep their copy of it.
#[utoipa::path(delete, path = "/api/plots/{id}", tag = "plots", params(("id" = Uuid, Path)), responses(
    (status = 204, description = "gone"),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such plot of yours", body = Problem)
))]
pub(super) async fn delete(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, Problem> {
    if plots::delete(&doors.pool, who.account.0, id, doors.clock.now()).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Fault::not_found().into())
    }
}
