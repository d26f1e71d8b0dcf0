//! `furrow`: reads the command line and ends the process; decides nothing.

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use furrow_platform::commands::facts;

/// Leasing of farm machinery with proof of what the machine did.
#[derive(Debug, Parser)]
#[command(name = "furrow", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Work out the facts of a track.
    Facts(facts::FactsArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Facts(args) => facts::run(&args, io::stdout().lock()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("furrow: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}
