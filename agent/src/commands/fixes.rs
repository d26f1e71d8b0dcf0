//! `furrow-agent fixes`: what the agent would take from a log, as CSV; never sends or stores.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::PathBuf,
};

use anyhow::Context as _;
use chrono::{DateTime, NaiveDate};
use furrow_protocol::fix::Quality;

use crate::{
    position::Position,
    sources::{Event, Skip, Skipped, recorded},
};

/// Prints the fixes of a log.
#[derive(Debug, clap::Args)]
pub struct FixesArgs {
    /// NMEA log, gpsd JSON stream or track CSV; `-` is standard input.
    pub file: PathBuf,
    /// At most so many fixes a second (default: all).
    #[arg(long, value_name = "HZ", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Dates before this day are moved forward by whole 1024 weeks.
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub floor: Option<NaiveDate>,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=100.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("must lie between 0.01 and 100".to_owned())
    }
}

/// Runs the command: fixes to `out`, what was skipped to `err`.
///
/// Errors: the file cannot be read, or the output not written.
pub fn run(args: &FixesArgs, out: impl Write, mut err: impl Write) -> anyhow::Result<()> {
    let input: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(&args.file).with_context(|| args.file.display().to_string())?)
    };
    let mut out = BufWriter::new(out);
    let mut skipped = Skipped::default();
    let mut steps = 0_u64;
    let mut thinner = Thinner::new(args.rate);
    let mut failed = None;
    writeln!(out, "time,lat,lon,speed_mps,course_deg,quality")?;
    recorded::read(input, args.floor, |event| match event {
        Event::Position(position) if thinner.keeps(&position) => {
            if failed.is_none() {
                failed = write_fix(&mut out, &position).err();
            }
        }
        Event::Position(_) => skipped.count(Skip::Thinned),
        Event::Skipped(skip) => skipped.count(skip),
        Event::ClockStep { .. } => {
            steps += 1;
            thinner.restart();
        }
        Event::NoReceiver => {}
    })
    .with_context(|| args.file.display().to_string())?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    out.flush()?;
    for (skip, n) in skipped.iter() {
        writeln!(err, "skipped {n}: {skip}")?;
    }
    if steps > 0 {
        writeln!(err, "clock steps back of over 60 s: {steps}")?;
    }
    Ok(())
}

/// Keeps the first fix of each period.
struct Thinner {
    period_ms: Option<i64>,
    last_period: Option<i64>,
}

impl Thinner {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the rate lies between 0.01 and 100"
    )]
    fn new(rate: Option<f64>) -> Self {
        Self {
            period_ms: rate.map(|hz| (1000.0 / hz).round() as i64),
            last_period: None,
        }
    }

    fn keeps(&mut self, position: &Position) -> bool {
        let Some(period_ms) = self.period_ms else {
            return true;
        };
        let period = position.at_ms.div_euclid(period_ms);
        self.last_period.replace(period) != Some(period)
    }

    fn restart(&mut self) {
        self.last_period = None;
    }
}

fn write_fix(out: &mut impl Write, position: &Position) -> io::Result<()> {
    let Some(at) = DateTime::from_timestamp_millis(position.at_ms) else {
        return Ok(());
    };
    let degrees = |e9: i64| {
        let sign = if e9 < 0 { "-" } else { "" };
        format!(
            "{sign}{}.{:09}",
            e9.unsigned_abs() / 1_000_000_000,
            e9.unsigned_abs() % 1_000_000_000
        )
    };
    let speed = position
        .speed_mm_s
        .map(|v| format!("{}.{:03}", v / 1000, v % 1000))
        .unwrap_or_default();
    let course = position
        .course_e4
        .map(|v| format!("{}.{:04}", v / 10_000, v % 10_000))
        .unwrap_or_default();
    let quality = match position.quality {
        Quality::Unknown => String::new(),
        known => known.gga().to_string(),
    };
    writeln!(
        out,
        "{},{},{},{speed},{course},{quality}",
        at.format("%Y-%m-%dT%H:%M:%S%.3fZ"),
        degrees(position.lat_e9),
        degrees(position.lon_e9),
    )
}
