//! `furrow quarantine`: frames that are kept but are no track. Never stores one by rules of its own.

use std::io::Write;

use anyhow::{Context as _, bail};
use chrono::SecondsFormat;
use comfy_table::Table;
use uuid::Uuid;

use crate::{
    clock::{Clock as _, SystemClock},
    config::Settings,
    db::{self, quarantine},
    ingest::readmit::{Which, readmit},
    mqtt::cached::CachedRegister,
};

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum QuarantineCommand {
    /// List frames in quarantine, oldest first.
    List {
        /// Only those that are there for this reason.
        #[arg(long)]
        reason: Option<String>,
        /// The most to list.
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(i64).range(1..=100_000))]
        limit: i64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Judge frames again by today's rules; store those that are good now.
    Readmit {
        /// Only those that are there for this reason.
        #[arg(long, conflicts_with = "id")]
        reason: Option<String>,
        /// Only this one.
        #[arg(long)]
        id: Option<Uuid>,
    },
}

/// Runs the command.
///
/// Errors: the database, or there is no such frame.
pub async fn run(
    command: &QuarantineCommand,
    settings: &Settings,
    mut out: impl Write,
) -> anyhow::Result<()> {
    let pool = db::pool(&settings.database).context("database.url")?;
    let tracks = db::telemetry_pool(&settings.database, &pool).context("database.telemetry_url")?;
    match command {
        QuarantineCommand::List {
            reason,
            limit,
            json,
        } => {
            let rows = quarantine::page(&tracks, reason.as_deref(), Uuid::nil(), *limit).await?;
            list(&rows, *json, &mut out)
        }
        QuarantineCommand::Readmit { reason, id } => {
            let which = match (id, reason) {
                (Some(id), _) => Which::One(*id),
                (None, Some(reason)) => Which::Reason(reason),
                (None, None) => Which::All,
            };
            again(&pool, &tracks, which, &mut out).await
        }
    }
}

async fn again(
    pool: &db::Pool,
    tracks: &db::Pool,
    which: Which<'_>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let register = CachedRegister::new(pool.clone());
    register.refresh(now).await.context("register")?;
    let (mut stored, mut stay) = (0_u64, std::collections::BTreeMap::<&str, u64>::new());
    readmit(tracks, &register.keys(), which, now, |one| {
        match one.stays {
            None => stored += 1,
            Some(reason) => *stay.entry(reason).or_default() += 1,
        }
    })
    .await?;
    if let (Which::One(id), 0, true) = (which, stored, stay.is_empty()) {
        bail!("there is no frame {id} in quarantine");
    }
    writeln!(out, "{stored} stored")?;
    for (reason, count) in stay {
        writeln!(out, "{count} stay: {reason}")?;
    }
    Ok(())
}

fn list(
    rows: &[quarantine::QuarantineRow],
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if json {
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                serde_json::json!({
                    "id": row.id, "device": row.device, "reason": row.reason,
                    "bytes": row.payload.len(), "received_at": row.received_at,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&shown)?)?;
        return Ok(());
    }
    let mut table = Table::new();
    table.set_header(["id", "device", "reason", "bytes", "received"]);
    for row in rows {
        table.add_row([
            row.id.to_string(),
            row.device.to_string(),
            row.reason.clone(),
            row.payload.len().to_string(),
            row.received_at.to_rfc3339_opts(SecondsFormat::Secs, true),
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}
