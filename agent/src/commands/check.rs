//! `furrow-agent check`: whether `run` could work with these settings. Never changes anything but for a connection that it makes and ends.

use std::{
    fs,
    io::Write,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;

use crate::{
    clock::Clock,
    config::{Config, SourceConfig},
    identity::Identity,
    link,
    run::{spool_folder, status_socket},
};

/// A connection to the platform takes at most so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks whether `run` could work.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The settings file.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Do not connect to the platform.
    #[arg(long)]
    pub offline: bool,
}

/// Runs the command.
///
/// Errors: the first thing that is wrong, after all were told.
pub async fn run(args: &CheckArgs, mut out: impl Write) -> anyhow::Result<()> {
    let config = Config::read(&args.config)?;
    writeln!(out, "settings   ok")?;
    let mut faults = 0;
    let mut tell = |name: &str, found: Result<String, String>| {
        let (word, text) = match found {
            Ok(text) => ("ok", text),
            Err(text) => {
                faults += 1;
                ("WRONG", text)
            }
        };
        writeln!(out, "{name:<10} {word}  {text}")
    };
    tell("source", source(&config.source))?;
    let identity = Identity::load(&config.data_dir);
    match &identity {
        Ok(Some(identity)) => {
            tell("identity", Ok(format!("device {}", identity.device)))?;
            let folder = spool_folder(&config.data_dir, identity.device.0);
            tell("spool", writable(&folder))?;
        }
        Ok(None) => tell("identity", Err("not enrolled".to_owned()))?,
        Err(error) => tell("identity", Err(error.to_string()))?,
    }
    if let (Ok(Some(mut identity)), false) = (identity, args.offline) {
        if UnixStream::connect(status_socket(&config.data_dir)).is_ok() {
            // A second session of the same device would end the first.
            tell(
                "platform",
                Ok("not asked: the agent runs, see status".to_owned()),
            )?;
        } else {
            if let Some(url) = &config.link.url {
                let scheme = if url.tls { "mqtts" } else { "mqtt" };
                identity.mqtt_url = format!("{scheme}://{url}");
            }
            let proven = link::prove(&identity, &Clock::start(), PATIENCE).await;
            let text = identity.mqtt_url.clone();
            tell("platform", proven.map(|()| text).map_err(|e| e.to_string()))?;
        }
    }
    if faults > 0 {
        bail!("{faults} of these are wrong");
    }
    Ok(())
}

fn source(source: &SourceConfig) -> Result<String, String> {
    match source {
        SourceConfig::Serial { path, baud } => fs::metadata(path)
            .map(|_| format!("{} at {baud}", path.display()))
            .map_err(|e| format!("{}: {e}", path.display())),
        SourceConfig::File { path } => fs::metadata(path)
            .map(|_| path.display().to_string())
            .map_err(|e| format!("{}: {e}", path.display())),
        SourceConfig::Gpsd { address } => Ok(format!("gpsd at {address}")),
        SourceConfig::Tcp { address } => Ok(format!("NMEA at {address}")),
        SourceConfig::Udp { listen } => Ok(format!("NMEA to {listen}")),
        SourceConfig::Stdin => Ok("standard input".to_owned()),
        SourceConfig::Simulator { .. } => Ok("simulator".to_owned()),
    }
}

/// Looks at the nearest folder that exists, without making one.
fn writable(folder: &Path) -> Result<String, String> {
    let there = folder.ancestors().find(|f| f.exists()).unwrap_or(folder);
    let writable = rustix::fs::access(there, rustix::fs::Access::WRITE_OK);
    writable
        .map(|()| folder.display().to_string())
        .map_err(|e| format!("{}: {e}", there.display()))
}
