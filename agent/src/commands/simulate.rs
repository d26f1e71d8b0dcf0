//! `furrow-agent simulate`: a simulated machine's day through the real spool and link, and the truth beside it. Never simulates the way to the platform.

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context as _, bail};

use super::deliver::{self, DeliverArgs};
use crate::{
    simulator::{Plan, Simulation},
    sources::replay::Track,
};

/// Delivers a simulated machine's day.
#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// What is driven.
    #[command(flatten)]
    pub plan: Plan,
    /// Write here, as JSON, what is true: area, start, finish, the field.
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// How it is delivered.
    #[command(flatten)]
    pub deliver: DeliverArgs,
}

/// Runs the command.
///
/// Errors: a plan that makes no sense, the truth's file, or the delivery.
pub async fn run(args: &SimulateArgs, out: impl Write) -> anyhow::Result<()> {
    if let Some(fault) = args.plan.fault() {
        bail!("{fault}");
    }
    let simulation = Simulation::of(&args.plan);
    let track = Track::new(simulation.positions(0));
    let clock = deliver::clock();
    let shift_ms = args.deliver.shift_ms(&track, &clock);
    if let Some(file) = &args.truth {
        let truth = serde_json::to_string_pretty(&simulation.truth(shift_ms))?;
        fs::write(file, truth).with_context(|| file.display().to_string())?;
    }
    drop(simulation);
    deliver::deliver(&args.deliver, track, shift_ms, clock, out).await
}
