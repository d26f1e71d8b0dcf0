//! `furrow-agent enroll`: gives the agent its identity. Never replaces one that works by one that is not proven, never touches a spool.

use std::{io::Write, path::Path, time::Duration};

use anyhow::{Context as _, bail};

use super::Whose;
use crate::{
    clock::Clock,
    enroll::{self, Request},
    identity::Identity,
    link,
    run::spool_folder,
    spool::{Spool, disk::Folder},
};

/// A connection to the platform takes at most so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a key and has the platform take it in, by a one-time code.
#[derive(Debug, clap::Args)]
pub struct EnrollArgs {
    /// `https://host[:port]`; `http://…` on this host only.
    #[arg(long, value_name = "URL", required_unless_present = "finish")]
    pub server: Option<String>,
    /// As the platform showed it, with `#` and the SHA-256 of its authority or without.
    #[arg(long, value_name = "CODE", required_unless_present = "finish")]
    pub code: Option<String>,
    /// SHA-256 of the platform's authority, where the code does not carry it.
    #[arg(long, value_name = "HEX")]
    pub ca_sha256: Option<String>,
    /// Which agent.
    #[command(flatten)]
    pub whose: Whose,
    /// Give an enrolled agent another identity.
    #[arg(long)]
    pub replace: bool,
    /// Leave frames of the former identity that were not delivered in its spool.
    #[arg(long)]
    pub leave_backlog: bool,
    /// Prove an identity that was given before and put it in force.
    #[arg(long, conflicts_with_all = ["server", "code", "ca_sha256"])]
    pub finish: bool,
}

/// Runs the command.
///
/// Errors: the platform refuses, cannot be reached, or does not take the new identity in place of one that works.
pub async fn run(args: &EnrollArgs, mut out: impl Write) -> anyhow::Result<()> {
    let data_dir = args.whose.setup()?.data_dir;
    let former = Identity::load(&data_dir)?;
    if let Some(former) = former
        .as_ref()
        .filter(|_| args.replace && !args.leave_backlog)
    {
        refuse_backlog(&data_dir, former)?;
    }
    let clock = Clock::start();
    let identity = if args.finish {
        Identity::pending(&data_dir)?.context("no identity waits to be proven")?
    } else {
        let request = Request {
            server: args.server.clone().unwrap_or_default(),
            code: args.code.clone().unwrap_or_default(),
            ca_sha256: args.ca_sha256.clone(),
        };
        enroll::enroll(&request, &data_dir, args.replace, clock.clone())?
    };
    let device = identity.device;
    match (link::prove(&identity, &clock, PATIENCE).await, former) {
        (Ok(()), _) => {
            Identity::activate_pending(&data_dir)?;
            writeln!(out, "enrolled as device {device}; the platform takes it")?;
        }
        // There is nothing to lose: the link goes on trying.
        (Err(error), None) => {
            Identity::activate_pending(&data_dir)?;
            writeln!(
                out,
                "enrolled as device {device}; not connected yet: {error}"
            )?;
        }
        (Err(error), Some(former)) => bail!(
            "device {device} is enrolled, but the platform did not take it: {error}. \
             Device {} stays in force; try again with enroll --finish",
            former.device
        ),
    }
    Ok(())
}

/// What waits in the spool can only be delivered as the device that signed it.
fn refuse_backlog(data_dir: &Path, former: &Identity) -> anyhow::Result<()> {
    let folder = spool_folder(data_dir, former.device.0);
    if !folder.exists() {
        return Ok(());
    }
    let disk = Folder::open(&folder).context("end the running agent first")?;
    let limits = crate::config::default_limits();
    let spool = Spool::open(Box::new(disk), limits, former.device, 0)?;
    let frames = spool.backlog().frames;
    if frames > 0 {
        bail!(
            "{frames} frames of device {} are not delivered, and only it can deliver them: \
             run until they are, or --leave-backlog, which keeps them in {}",
            former.device,
            folder.display()
        );
    }
    Ok(())
}
