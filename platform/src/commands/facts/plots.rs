//! Plots from a GeoJSON file. Never reads another form.

use std::path::Path;

use furrow_domain::geo::{datum::Datum, plot::Plot};

use crate::views::outline;

/// Reads the polygons of a file, each feature a plot. `told` is the datum if the file does not say it.
///
/// Errors: the file; no GeoJSON, no polygon, a polygon that is no plot, a datum that is not known or not the one told.
pub(super) fn read(path: &Path, told: Option<Datum>) -> anyhow::Result<Vec<Plot>> {
    let stem = path
        .file_stem()
        .map_or_else(|| "plot".to_owned(), |s| s.to_string_lossy().into_owned());
    let text = std::fs::read_to_string(path)?;
    Ok(outline::read(&text, &stem, told)?)
}
