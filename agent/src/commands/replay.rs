//! `furrow-agent replay`: a recorded track through the real spool and link, dated anew. Never changes the recording.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
};

use anyhow::{Context as _, bail};
use chrono::NaiveDate;

use super::deliver::{self, DeliverArgs};
use crate::sources::{Event, Skipped, recorded, replay::Track};

/// Delivers a recorded track.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// NMEA log, gpsd JSON stream, track CSV or GPX; `-` is standard input.
    pub file: PathBuf,
    /// Dates before this day are moved forward by whole 1024 weeks.
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub floor: Option<NaiveDate>,
    /// How it is delivered.
    #[command(flatten)]
    pub deliver: DeliverArgs,
}

/// Runs the command.
///
/// Errors: the file, a file without a fix, or the delivery.
pub async fn run(args: &ReplayArgs, out: impl Write, mut err: impl Write) -> anyhow::Result<()> {
    let input: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(&args.file).with_context(|| args.file.display().to_string())?)
    };
    let (mut positions, mut skipped) = (Vec::new(), Skipped::default());
    recorded::read(input, args.floor, |event| match event {
        Event::Position(position) => positions.push(position),
        Event::Skipped(skip) => skipped.count(skip),
        Event::ClockStep { .. } | Event::NoReceiver => {}
    })
    .with_context(|| args.file.display().to_string())?;
    for (skip, n) in skipped.iter() {
        writeln!(err, "skipped {n}: {skip}")?;
    }
    if positions.is_empty() {
        bail!("{} holds no fix", args.file.display());
    }
    let track = Track::new(positions);
    let clock = deliver::clock();
    let shift_ms = args.deliver.shift_ms(&track, &clock);
    deliver::deliver(&args.deliver, track, shift_ms, clock, out).await
}
