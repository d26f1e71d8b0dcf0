//! `furrow`: reads the command line and ends the process; decides nothing.

use std::{io, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use furrow_platform::{
    commands::{admin, device, facts, quarantine, serve},
    config::Settings,
    demo,
};

/// Leasing of farm machinery with proof of what the machine did.
#[derive(Debug, Parser)]
#[command(name = "furrow", version)]
struct Cli {
    /// Settings (TOML); the environment (`FURROW__SECTION__KEY`) goes over it.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until told to stop.
    Serve,
    /// Bring the database's schema up to date.
    Migrate,
    /// Look whether `serve` could run.
    Check,
    /// The operator's staff.
    Admin {
        #[command(subcommand)]
        command: admin::AdminCommand,
    },
    /// The register of devices.
    Device {
        #[command(subcommand)]
        command: device::DeviceCommand,
    },
    /// Frames that are kept but are no track.
    Quarantine {
        #[command(subcommand)]
        command: quarantine::QuarantineCommand,
    },
    /// Everything on this host: a database, the platform, simulated machines with the real agent.
    Demo(demo::DemoArgs),
    /// Work out the facts of a track.
    Facts(facts::FactsArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("furrow: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let out = io::stdout();
    if let Command::Facts(args) = &cli.command
        && !args.needs_database()
    {
        return facts::run(args, out.lock(), io::stderr());
    }
    let settings = Settings::load(cli.config.as_deref())?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            match &cli.command {
                Command::Serve => serve::serve(&settings).await,
                Command::Migrate => serve::migrate(&settings, out).await,
                Command::Check => serve::check(&settings, out).await,
                Command::Admin { command } => {
                    admin::run(command, &settings, io::stdin().lock(), out).await
                }
                Command::Device { command } => device::run(command, &settings, out).await,
                Command::Quarantine { command } => quarantine::run(command, &settings, out).await,
                Command::Facts(args) => facts::run_device(args, &settings, out, io::stderr()).await,
                Command::Demo(args) => demo::run(args, &settings).await,
            }
        })
}
