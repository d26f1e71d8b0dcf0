//! `furrow facts`: the facts of a track, from a file or from what a device delivered; the core works them out. Never opens a database for a file.

mod plots;
mod track;

use std::{io::Write, path::PathBuf};

use anyhow::{Context as _, bail};
use chrono::{DateTime, TimeDelta, Utc};
use furrow_domain::{
    fieldwork::{Facts, MachineType, Setup, facts},
    geo::{datum::Datum, plot::Plot},
    track::Fix,
};

use crate::{config::Settings, db, ingest::fixes, views::facts::FactsView};

/// Works out the facts of a track.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["track", "device"]))]
pub struct FactsArgs {
    /// A track: CSV with `t_unix_ms,lat,lon` (or `time` in RFC 3339) and, where known, `speed_mps`,
    /// `work_on`, `width_m`, `quality`.
    #[arg(long, value_name = "FILE.csv")]
    pub track: Option<PathBuf>,
    /// A device whose stored frames are read.
    #[arg(long, value_name = "ID", requires_all = ["from", "to"])]
    pub device: Option<u32>,
    /// First moment of the device's track, RFC 3339.
    #[arg(long, value_name = "T", conflicts_with = "track")]
    pub from: Option<DateTime<Utc>>,
    /// First moment after it, RFC 3339.
    #[arg(long, value_name = "T", conflicts_with = "track")]
    pub to: Option<DateTime<Utc>>,
    /// Working width, m.
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    pub width: f64,
    /// A plot (GeoJSON polygons); may be given several times.
    #[arg(long, value_name = "FILE.geojson")]
    pub plot: Vec<PathBuf>,
    /// Kind of machine; sprayers, spreaders and drills work faster than others.
    #[arg(long, value_name = "T", default_value = "tractor")]
    pub machine_type: String,
    /// Do not listen to the work sensor.
    #[arg(long)]
    pub no_sensor: bool,
    /// Datum of the plots' degrees, where the files do not tell it.
    #[arg(long, value_enum)]
    pub datum: Option<PlotDatum>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
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

/// The longest window of a device that is read at once.
const LONGEST: TimeDelta = TimeDelta::days(31);

impl FactsArgs {
    /// Whether the track lies in the database.
    #[must_use]
    pub const fn needs_database(&self) -> bool {
        self.device.is_some()
    }
}

/// Runs the command for a file; what is odd about the input goes to `notes`.
///
/// Errors: a file that cannot be read, a plot that is none, a width that no implement has.
pub fn run(args: &FactsArgs, out: impl Write, notes: impl Write) -> anyhow::Result<()> {
    let (setup, plots) = (setup(args)?, plots(args)?);
    let path = args.track.as_ref().context("no --track")?;
    let fixes = track::read(path).with_context(|| path.display().to_string())?;
    tell(args, &fixes, &setup, &plots, out, notes)
}

/// Runs the command for what a device delivered.
///
/// Errors: as [`run`]; the database; a stored frame that this version cannot read.
pub async fn run_device(
    args: &FactsArgs,
    settings: &Settings,
    out: impl Write,
    notes: impl Write,
) -> anyhow::Result<()> {
    let (setup, plots) = (setup(args)?, plots(args)?);
    let (Some(device), Some(from), Some(to)) = (args.device, args.from, args.to) else {
        bail!("--device goes with --from and --to");
    };
    if from >= to || to - from > LONGEST {
        bail!("--to must lie after --from, by 31 days at most");
    }
    let pool = db::pool(&settings.database).context("database.url")?;
    let pool = db::telemetry_pool(&settings.database, &pool).context("database.telemetry_url")?;
    let frames = db::frames::read_window(&pool, device, from, to).await?;
    let window = from.timestamp_millis()..to.timestamp_millis();
    let fixes = fixes::of_frames(&frames, window).context("a stored frame")?;
    tell(args, &fixes, &setup, &plots, out, notes)
}

fn setup(args: &FactsArgs) -> anyhow::Result<Setup> {
    Ok(Setup {
        machine_type: MachineType::named(&args.machine_type),
        use_sensor: !args.no_sensor,
        ..Setup::new(args.width).context("--width")?
    })
}

fn plots(args: &FactsArgs) -> anyhow::Result<Vec<Plot>> {
    let mut plots = Vec::new();
    for path in &args.plot {
        let of_file = plots::read(path, args.datum.map(Datum::from));
        plots.extend(of_file.with_context(|| path.display().to_string())?);
    }
    Ok(plots)
}

fn tell(
    args: &FactsArgs,
    fixes: &[Fix],
    setup: &Setup,
    plots: &[Plot],
    mut out: impl Write,
    mut notes: impl Write,
) -> anyhow::Result<()> {
    let facts = facts(fixes, setup, plots);
    for plot in plots.iter().filter(|plot| !plot.repairs.is_empty()) {
        writeln!(notes, "plot {}: mended {:?}", plot.name, plot.repairs)?;
    }
    note(&facts, &mut notes)?;
    print(&facts, args.json, &mut out)
}

/// What a person should look at, one a line.
fn note(facts: &Facts, notes: &mut impl Write) -> anyhow::Result<()> {
    for alarm in &facts.alarms {
        writeln!(notes, "look at: {}", serde_json::to_string(alarm)?)?;
    }
    let missing: f64 = facts.gaps.iter().map(|gap| gap.missing_m2).sum();
    if missing > 0.0 {
        writeln!(notes, "about {missing:.0} m2 may be missing in gaps")?;
    }
    Ok(())
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
