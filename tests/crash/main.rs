//! `make crash`: kills agents, the platform and PostgreSQL in turn and at random under load, and compares at the end what the agents have made durable with what is stored. Sets, not counts.

#![expect(clippy::print_stdout, reason = "a rig prints its figures")]

mod fleet;
mod rounds;
mod verdict;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use e2e::{
    database::Database,
    platform::{Options, Platform},
    postgres::Postgres,
};

use crate::{fleet::Fleet, rounds::Rounds};

/// Kills everything in turn and at random; nothing may be lost and nothing stored twice.
#[derive(Debug, Parser)]
struct Args {
    /// Kills.
    #[arg(long, default_value_t = 60)]
    rounds: u32,
    /// How long the rounds may take in all, s; they are spread over it.
    #[arg(long, default_value_t = 420)]
    seconds: u64,
    /// Agents, each a process of its own with its own spool.
    #[arg(long, default_value_t = 24)]
    agents: usize,
    /// Less than this many frames a second made by the agents is a failure.
    #[arg(long, default_value_t = 200.0)]
    floor: f64,
    /// How long the rest may take to arrive after the last kill, s.
    #[arg(long, default_value_t = 240)]
    drain: u64,
    /// Makes the random choices the same again; printed at the start.
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the folder with all logs.
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("crash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<bool> {
    let mut folder = tempfile::Builder::new().prefix("furrow-crash-").tempdir()?;
    folder.disable_cleanup(args.keep);
    let seed = args.seed.unwrap_or_else(rand::random);
    println!("seed {seed}, folder {}", folder.path().display());
    let postgres = Postgres::start(&folder.path().join("postgres"))?;
    let url = postgres.url("furrow");
    let platform = Platform::start(&folder.path().join("platform"), &url, &Options::default())?;
    let database = Database::at(&url)?;
    let mut fleet = Fleet::enrol(&folder.path().join("agents"), &platform, args.agents)?;
    fleet.start()?;
    let begin = Instant::now();
    let mut rounds = Rounds {
        platform,
        postgres,
        fleet,
        seed,
    };
    let kills = rounds.run(args.rounds, Duration::from_secs(args.seconds))?;
    let made_in = begin.elapsed();
    let expected = rounds.fleet.journals()?;
    let drained = verdict::drain(
        &database,
        &mut rounds,
        &expected,
        Duration::from_secs(args.drain),
    )?;
    verdict::print(
        args, &database, &rounds, &kills, &expected, made_in, drained,
    )
}
