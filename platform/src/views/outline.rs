//! Plots from GeoJSON. Never takes degrees of a datum that it does not know.

use furrow_domain::geo::{
    datum::Datum,
    plot::{Plot, PlotError, Ring},
};
use geojson::{Feature, GeoJson, Geometry, GeometryValue, JsonObject, Position};
use thiserror::Error;

/// Corners and parts of a file, at most: beyond it nothing is read.
const MOST_CORNERS: usize = 200_000;

/// Why a file holds no plots.
#[derive(Debug, Error)]
pub enum OutlineError {
    /// Not GeoJSON.
    #[error("not GeoJSON")]
    Syntax(#[source] Box<geojson::Error>),
    /// Nothing in it is a polygon.
    #[error("no polygon in it")]
    NoPolygon,
    /// A corner is not two numbers.
    #[error("a corner without two numbers")]
    Corner,
    /// Too many corners.
    #[error("more than {MOST_CORNERS} corners")]
    TooMany,
    /// A datum that nobody knows.
    #[error("its crs {0} is not known: give WGS-84, GCJ-02 or BD-09 degrees")]
    UnknownDatum(String),
    /// The file and whoever gives it disagree.
    #[error("it says {0:?} and {1:?} was told")]
    OtherDatum(Datum, Datum),
    /// A polygon that is no plot.
    #[error("{0}")]
    Plot(String, #[source] PlotError),
}

/// Reads the polygons of a text, each feature a plot, named by its property or by `stem`. `told` is the
/// datum if the text does not say it.
///
/// # Errors
///
/// [`OutlineError`].
pub fn read(text: &str, stem: &str, told: Option<Datum>) -> Result<Vec<Plot>, OutlineError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file = text.parse::<GeoJson>();
    let file = file.map_err(|error| OutlineError::Syntax(Box::new(error)))?;
    let (crs, features) = features(file);
    let whole = datum_of(crs.as_ref())?;
    let mut plots = Vec::new();
    for (number, feature) in features.iter().enumerate() {
        let named = feature.property("name").and_then(|n| n.as_str());
        let name = match named {
            Some(name) => name.to_owned(),
            None if features.len() == 1 => stem.to_owned(),
            None => format!("{stem}-{}", number + 1),
        };
        let mut parts = Vec::new();
        if let Some(geometry) = &feature.geometry {
            polygons(geometry, &mut parts)?;
        }
        if parts.is_empty() {
            continue;
        }
        let own = datum_of(feature.foreign_members.as_ref())?
            .or(datum_of(feature.properties.as_ref())?)
            .or(whole);
        let datum = agreed(own, told)?;
        let plot = Plot::of_parts(name.clone(), &parts, datum);
        plots.push(plot.map_err(|error| OutlineError::Plot(name, error))?);
    }
    if plots.is_empty() {
        return Err(OutlineError::NoPolygon);
    }
    Ok(plots)
}

/// The features of a file, and what it says beside them.
fn features(file: GeoJson) -> (Option<JsonObject>, Vec<Feature>) {
    match file {
        GeoJson::Geometry(geometry) => {
            let crs = geometry.foreign_members.clone();
            let feature = Feature {
                geometry: Some(geometry),
                ..Feature::default()
            };
            (crs, vec![feature])
        }
        GeoJson::Feature(feature) => (None, vec![feature]),
        GeoJson::FeatureCollection(collection) => (collection.foreign_members, collection.features),
    }
}

/// The datum that a `crs` member names, also in the form of GeoJSON 2008.
fn datum_of(members: Option<&JsonObject>) -> Result<Option<Datum>, OutlineError> {
    let Some(crs) = members.and_then(|members| members.get("crs")) else {
        return Ok(None);
    };
    let name = crs
        .as_str()
        .or_else(|| crs.pointer("/properties/name").and_then(|n| n.as_str()));
    let Some(name) = name else {
        return Ok(None);
    };
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_uppercase())
        .collect();
    // CGCS2000 (EPSG 4490) and WGS-84 are the same to centimetres.
    let known = [
        ("CRS84", Datum::Wgs84),
        ("WGS84", Datum::Wgs84),
        ("4326", Datum::Wgs84),
        ("4490", Datum::Wgs84),
        ("CGCS2000", Datum::Wgs84),
        ("GCJ02", Datum::Gcj02),
        ("BD09", Datum::Bd09),
    ];
    let datum = known.iter().find(|(part, _)| plain.ends_with(part));
    match datum {
        Some((_, datum)) => Ok(Some(*datum)),
        None => Err(OutlineError::UnknownDatum(name.to_owned())),
    }
}

fn agreed(own: Option<Datum>, told: Option<Datum>) -> Result<Datum, OutlineError> {
    match (own, told) {
        (Some(own), Some(told)) if own != told => Err(OutlineError::OtherDatum(own, told)),
        (own, told) => Ok(own.or(told).unwrap_or_default()),
    }
}

/// The polygons of a geometry: rings, the outer one first.
fn polygons(geometry: &Geometry, parts: &mut Vec<Vec<Ring>>) -> Result<(), OutlineError> {
    match &geometry.value {
        GeometryValue::Polygon { coordinates } => {
            parts.push(rings(coordinates)?);
            let corners: usize = parts.iter().flatten().map(Vec::len).sum();
            if corners > MOST_CORNERS {
                return Err(OutlineError::TooMany);
            }
        }
        GeometryValue::MultiPolygon { coordinates } => {
            for polygon in coordinates {
                parts.push(rings(polygon)?);
            }
        }
        GeometryValue::GeometryCollection { geometries } => {
            for geometry in geometries {
                polygons(geometry, parts)?;
            }
        }
        GeometryValue::Point { .. }
        | GeometryValue::MultiPoint { .. }
        | GeometryValue::LineString { .. }
        | GeometryValue::MultiLineString { .. } => {}
    }
    Ok(())
}

fn rings(polygon: &[Vec<Position>]) -> Result<Vec<Ring>, OutlineError> {
    let corner = |position: &Position| match position.as_slice() {
        [lon, lat, ..] => Ok([*lon, *lat]),
        _ => Err(OutlineError::Corner),
    };
    polygon
        .iter()
        .map(|ring| ring.iter().map(corner).collect())
        .collect()
}
