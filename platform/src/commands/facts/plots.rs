//! Plots from a GeoJSON file. Never takes degrees of a datum that it does not know.

use std::path::Path;

use anyhow::{Context as _, bail};
use furrow_domain::geo::{
    datum::Datum,
    plot::{Plot, Ring},
};
use geojson::{Feature, GeoJson, Geometry, GeometryValue, JsonObject, Position};

/// Reads the polygons of a file, each feature a plot. `told` is the datum if the file does not say it.
///
/// Errors: no GeoJSON, no polygon, a polygon that is no plot, a datum that is not known or not the one told.
pub(super) fn read(path: &Path, told: Option<Datum>) -> anyhow::Result<Vec<Plot>> {
    let stem = path
        .file_stem()
        .map_or_else(|| "plot".to_owned(), |s| s.to_string_lossy().into_owned());
    let text = std::fs::read_to_string(path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let (crs, features) = features(text.parse::<GeoJson>().context("not GeoJSON")?);
    let whole = datum_of(crs.as_ref())?;
    let mut plots = Vec::new();
    for (number, feature) in features.iter().enumerate() {
        let named = feature.property("name").and_then(|n| n.as_str());
        let name = match named {
            Some(name) => name.to_owned(),
            None if features.len() == 1 => stem.clone(),
            None => format!("{stem}-{}", number + 1),
        };
        let mut parts = Vec::new();
        if let Some(geometry) = &feature.geometry {
            polygons(geometry, &mut parts).with_context(|| name.clone())?;
        }
        if parts.is_empty() {
            continue;
        }
        let own = datum_of(feature.foreign_members.as_ref())?
            .or(datum_of(feature.properties.as_ref())?)
            .or(whole);
        let datum = agreed(own, told)?;
        plots.push(Plot::of_parts(name.clone(), &parts, datum).with_context(|| name)?);
    }
    if plots.is_empty() {
        bail!("no polygon in it");
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
fn datum_of(members: Option<&JsonObject>) -> anyhow::Result<Option<Datum>> {
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
        None => bail!("its crs {name} is not known: give WGS-84, GCJ-02 or BD-09 degrees"),
    }
}

fn agreed(own: Option<Datum>, told: Option<Datum>) -> anyhow::Result<Datum> {
    match (own, told) {
        (Some(own), Some(told)) if own != told => {
            bail!("it says {own:?} and --datum says {told:?}")
        }
        (own, told) => Ok(own.or(told).unwrap_or_default()),
    }
}

/// The polygons of a geometry: rings, the outer one first.
fn polygons(geometry: &Geometry, parts: &mut Vec<Vec<Ring>>) -> anyhow::Result<()> {
    match &geometry.value {
        GeometryValue::Polygon { coordinates } => parts.push(rings(coordinates)?),
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

fn rings(polygon: &[Vec<Position>]) -> anyhow::Result<Vec<Ring>> {
    let corner = |position: &Position| match position.as_slice() {
        [lon, lat, ..] => Ok([*lon, *lat]),
        _ => bail!("a corner without two numbers"),
    };
    polygon
        .iter()
        .map(|ring| ring.iter().map(corner).collect())
        .collect()
}
