//! `furrow-agent status`: how the running agent is, in words, as JSON, and as an exit code for a lamp. Never touches the spool.

use std::{
    io::{Read as _, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::Context as _;
use chrono::{DateTime, SecondsFormat};

use super::Whose;
use crate::{
    health::{Report, Verdict},
    run::status_socket,
};

/// Exit code where no agent runs.
const NOT_RUNNING: u8 = 30;

/// Says how the agent is. Exit code: 0 recording, 10 backlog, 20 no fix, 30 not running, 1 error.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Which agent.
    #[command(flatten)]
    pub whose: Whose,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command; the exit code.
///
/// Errors: the settings, or an answer that is none.
pub fn run(args: &StatusArgs, mut out: impl Write) -> anyhow::Result<u8> {
    let setup = args.whose.setup()?;
    let Ok(stream) = UnixStream::connect(status_socket(&setup.data_dir)) else {
        if args.json {
            writeln!(out, "{{\"verdict\":\"not_running\"}}")?;
        } else {
            writeln!(out, "not running")?;
        }
        return Ok(NOT_RUNNING);
    };
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut json = String::new();
    stream
        .take(64 * 1024)
        .read_to_string(&mut json)
        .context("the agent's answer")?;
    let report: Report = serde_json::from_str(&json).context("the agent's answer")?;
    if args.json {
        writeln!(out, "{}", json.trim_end())?;
    } else {
        write_words(&report, &mut out)?;
    }
    Ok(report.verdict.exit_code())
}

fn write_words(report: &Report, out: &mut impl Write) -> anyhow::Result<()> {
    let verdict = match report.verdict {
        Verdict::Recording => "recording",
        Verdict::Backlog => "backlog",
        Verdict::NoFix => "no fix",
    };
    let last = report
        .last_fix_ms
        .and_then(DateTime::from_timestamp_millis)
        .map_or_else(
            || "never".to_owned(),
            |at| at.to_rfc3339_opts(SecondsFormat::Secs, true),
        );
    writeln!(out, "{verdict}")?;
    writeln!(out, "device     {}", report.device)?;
    writeln!(out, "receiver   {}, last fix {last}", report.receiver)?;
    match &report.link_error {
        Some(error) => writeln!(out, "link       {}: {error}", report.link)?,
        None => writeln!(out, "link       {}", report.link)?,
    }
    writeln!(
        out,
        "backlog    {} frames, {} bytes; refused {}, lost {}",
        report.backlog_frames, report.backlog_bytes, report.refused_frames, report.lost_frames
    )?;
    writeln!(
        out,
        "spool      {} bytes, free on the disk {}",
        report.spool_bytes, report.disk_free_bytes
    )?;
    Ok(())
}
