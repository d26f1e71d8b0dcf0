//! `furrow facts`: the facts of a track from a file, by the core alone; never opens a database for it.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use furrow_domain::{
    fieldwork::{Facts, MachineType, Setup, facts},
    geo::{Degrees, datum::Datum, plot::Plot},
    track::Fix,
};

use crate::views::facts::FactsView;

/// Works out the facts of a track.
#[derive(Debug, clap::Args)]
pub struct FactsArgs {
    /// A track: CSV with `t_unix_ms,lat,lon` and, where known, `speed_mps`, `work_on`, `width_m`, `quality`.
    #[arg(long, value_name = "FILE.csv")]
    pub track: PathBuf,
    /// Working width, m.
    #[arg(long, value_name = "M")]
    pub width: f64,
    /// A plot (GeoJSON polygon); may be given several times.
    #[arg(long, value_name = "FILE.geojson")]
    pub plot: Vec<PathBuf>,
    /// Kind of machine.
    #[arg(long, value_name = "T", value_enum, default_value_t = Kind::Other)]
    pub machine_type: Kind,
    /// Do not listen to the work sensor.
    #[arg(long)]
    pub no_sensor: bool,
    /// Datum of the plots' degrees.
    #[arg(long, value_enum, default_value_t = PlotDatum::Wgs84)]
    pub datum: PlotDatum,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Kinds of machine by which the fastest work differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Everything else.
    Other,
    /// Tractor with an implement.
    Tractor,
    /// Combine or forage harvester.
    Harvester,
    /// Sprayer.
    Sprayer,
    /// Spreader.
    Spreader,
    /// Seed drill.
    Drill,
}

impl From<Kind> for MachineType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Other | Kind::Tractor | Kind::Harvester => Self::Other,
            Kind::Sprayer => Self::Sprayer,
            Kind::Spreader => Self::Spreader,
            Kind::Drill => Self::Drill,
        }
    }
}

/// What the plots' degrees mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PlotDatum {
    /// GNSS.
    Wgs84,
    /// Amap and Tencent.
    Gcj02,
    /// Baidu.
    Bd09,
}

impl From<PlotDatum> for Datum {
    fn from(datum: PlotDatum) -> Self {
        match datum {
            PlotDatum::Wgs84 => Self::Wgs84,
            PlotDatum::Gcj02 => Self::Gcj02,
            PlotDatum::Bd09 => Self::Bd09,
        }
    }
}

/// Runs the command.
///
/// Errors: a file that cannot be read, a plot that is none, a width that no implement has.
pub fn run(args: &FactsArgs, mut out: impl Write) -> anyhow::Result<()> {
    let setup = Setup {
        machine_type: args.machine_type.into(),
        use_sensor: !args.no_sensor,
        ..Setup::new(args.width).context("--width")?
    };
    let fixes = read_track(&args.track).with_context(|| args.track.display().to_string())?;
    let mut plots = Vec::new();
    for path in &args.plot {
        plots.extend(
            read_plots(path, args.datum.into()).with_context(|| path.display().to_string())?,
        );
    }
    let facts = facts(&fixes, &setup, &plots);
    print(&facts, args.json, &mut out)
}

/// Prints facts as JSON or as lines of `key value`.
///
/// Errors: the output cannot be written.
pub fn print(facts: &Facts, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let view = FactsView::from(facts);
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&view)?)?;
        return Ok(());
    }
    let view = serde_json::to_value(view)?;
    for (key, value) in view.as_object().into_iter().flatten() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        writeln!(out, "{key:<20} {text}")?;
    }
    Ok(())
}

fn read_track(path: &Path) -> anyhow::Result<Vec<Fix>> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(File::open(path)?);
    let headers = reader.headers()?.clone();
    let find = |name: &str| {
        headers
            .iter()
            .position(|h| h.trim_start_matches('\u{feff}').eq_ignore_ascii_case(name))
    };
    let must =
        |name: &str| find(name).with_context(|| format!("no column {name} in the header line"));
    let (at, lat, lon) = (must("t_unix_ms")?, must("lat")?, must("lon")?);
    let (speed, work, width, quality) = (
        find("speed_mps"),
        find("work_on"),
        find("width_m"),
        find("quality"),
    );
    let mut fixes = Vec::new();
    for (number, record) in reader.records().enumerate() {
        let record = record?;
        let field = |column: usize| record.get(column).unwrap_or("");
        let optional = |column: Option<usize>| column.and_then(|c| field(c).parse::<f64>().ok());
        let line = || format!("line {}", number + 2);
        let number = |column: usize, name: &str| {
            field(column)
                .parse::<f64>()
                .with_context(|| format!("{}: {name} is not a number", line()))
        };
        fixes.push(Fix {
            at_ms: field(at)
                .parse()
                .with_context(|| format!("{}: t_unix_ms is not a whole number", line()))?,
            place: Degrees {
                lat: number(lat, "lat")?,
                lon: number(lon, "lon")?,
            },
            speed_mps: optional(speed),
            quality: quality.and_then(|c| field(c).parse().ok()).unwrap_or(0),
            accuracy_m: None,
            work_on: match work.map(field) {
                Some("1" | "true" | "on") => Some(true),
                Some("0" | "false" | "off") => Some(false),
                _ => None,
            },
            width_m: optional(width),
            sections: None,
        });
    }
    Ok(fixes)
}

fn read_plots(path: &Path, datum: Datum) -> anyhow::Result<Vec<Plot>> {
    use geojson::{Feature, GeoJson};
    let stem = path
        .file_stem()
        .map_or_else(|| "plot".to_owned(), |s| s.to_string_lossy().into_owned());
    let text = std::fs::read_to_string(path)?;
    let features = match text.parse::<GeoJson>().context("not GeoJSON")? {
        GeoJson::Geometry(geometry) => vec![Feature {
            geometry: Some(geometry),
            ..Feature::default()
        }],
        GeoJson::Feature(feature) => vec![feature],
        GeoJson::FeatureCollection(collection) => collection.features,
    };
    let mut plots = Vec::new();
    for (number, feature) in features.iter().enumerate() {
        let told = feature.property("name").and_then(|n| n.as_str());
        let name = match told {
            Some(name) => name.to_owned(),
            None if features.len() == 1 => stem.clone(),
            None => format!("{stem}-{}", number + 1),
        };
        let Some(geometry) = &feature.geometry else {
            bail!("{name}: a feature without geometry")
        };
        for rings in polygons(geometry).with_context(|| name.clone())? {
            plots.push(Plot::new(name.clone(), &rings, datum).with_context(|| name.clone())?);
        }
    }
    if plots.is_empty() {
        bail!("no polygon in it");
    }
    Ok(plots)
}

type Rings = Vec<Vec<[f64; 2]>>;

fn polygons(geometry: &geojson::Geometry) -> anyhow::Result<Vec<Rings>> {
    use geojson::GeometryValue;
    let rings = |polygon: &Vec<Vec<geojson::Position>>| -> anyhow::Result<Rings> {
        polygon
            .iter()
            .map(|ring| {
                ring.iter()
                    .map(|position| match position.as_slice() {
                        [lon, lat, ..] => Ok([*lon, *lat]),
                        _ => bail!("a corner without two numbers"),
                    })
                    .collect()
            })
            .collect()
    };
    match &geometry.value {
        GeometryValue::Polygon { coordinates } => Ok(vec![rings(coordinates)?]),
        GeometryValue::MultiPolygon { coordinates } => coordinates.iter().map(rings).collect(),
        _ => bail!("not a polygon"),
    }
}
