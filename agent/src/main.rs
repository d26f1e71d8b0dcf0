//! `furrow-agent`: reads the command line and ends the process; decides nothing.

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use furrow_agent::commands::fixes;

/// Records what a farm machine did and delivers it to Furrow.
#[derive(Debug, Parser)]
#[command(name = "furrow-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the fixes that the agent would take from a log.
    Fixes(fixes::FixesArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Fixes(args) => fixes::run(args, io::stdout().lock(), io::stderr().lock()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ =
                io::Write::write_fmt(&mut io::stderr(), format_args!("furrow-agent: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Whoever reads our output has seen enough (`| head`).
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
