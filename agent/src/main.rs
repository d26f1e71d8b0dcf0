//! `furrow-agent`: reads the command line and ends the process; decides nothing.

use std::{io, process::ExitCode};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use furrow_agent::commands::{check, enroll, fixes, replay, run, simulate, status};

/// Records what a farm machine did and delivers it to Furrow.
#[derive(Debug, Parser)]
#[command(name = "furrow-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record and deliver until told to end.
    Run(run::RunArgs),
    /// Give this agent its identity by a one-time code.
    Enroll(enroll::EnrollArgs),
    /// Say how the running agent is (exit code: 0 recording, 10 backlog, 20 no fix, 30 not running).
    Status(status::StatusArgs),
    /// Look whether `run` could work with these settings.
    Check(check::CheckArgs),
    /// Deliver a recorded track, dated anew; ends when all of it is committed.
    Replay(replay::ReplayArgs),
    /// Deliver a simulated machine's day; ends when all of it is committed.
    Simulate(simulate::SimulateArgs),
    /// Print the fixes that the agent would take from a log.
    Fixes(fixes::FixesArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match execute(&cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let line = format_args!("furrow-agent: {error:#}\n");
            let _ = io::Write::write_fmt(&mut io::stderr(), line);
            ExitCode::FAILURE
        }
    }
}

fn execute(command: &Command) -> anyhow::Result<u8> {
    let (out, err) = (io::stdout(), io::stderr());
    match command {
        Command::Run(args) => wait(run::run(args))?,
        Command::Enroll(args) => wait(enroll::run(args, out))?,
        Command::Status(args) => return status::run(args, out),
        Command::Check(args) => wait(check::run(args, out))?,
        Command::Replay(args) => wait(replay::run(args, out, err))?,
        Command::Simulate(args) => wait(simulate::run(args, out))?,
        Command::Fixes(args) => fixes::run(args, out.lock(), err.lock())?,
    }
    Ok(0)
}

/// One thread for all but the spool: a machine's computer has better to do.
fn wait(what: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime")?
        .block_on(what)
}

/// Whoever reads our output has seen enough (`| head`).
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
