//! `furrow quarantine`: frames that are kept but are no track. Never stores one by rules of its own.

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context as _, bail};
use chrono::SecondsFormat;
use comfy_table::Table;
use uuid::Uuid;

use crate::{
    clock::{Clock as _, SystemClock},
    config::Settings,
    db::{
        self,
        quarantine::{self, QuarantineListRow},
    },
    ingest::{
        fault::Fault,
        readmit::{Outcome, Which, readmit},
    },
    mqtt::cached::CachedRegister,
};

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum QuarantineCommand {
    /// List frames in quarantine, oldest first.
    List {
        /// Only those that are there for this reason.
        #[arg(long, value_name = "R", value_parser = reason)]
        reason: Option<Fault>,
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
        #[arg(long, value_name = "R", value_parser = reason, conflicts_with = "id")]
        reason: Option<Fault>,
        /// Only this one.
        #[arg(long)]
        id: Option<Uuid>,
    },
}

/// A reason as it is typed.
fn reason(typed: &str) -> Result<Fault, String> {
    Fault::ALL
        .into_iter()
        .find(|fault| fault.name() == typed)
        .ok_or_else(|| format!("it is one of {}", Fault::ALL.map(Fault::name).join(", ")))
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
            let rows = quarantine::list(&tracks, reason.map(Fault::name), *limit).await?;
            list(&rows, *json, &mut out)
        }
        QuarantineCommand::Readmit { reason, id } => {
            let which = match (id, reason) {
                (Some(id), _) => Which::One(*id),
                (None, Some(reason)) => Which::Reason(*reason),
                (None, None) => Which::All,
            };
            again(&pool, &tracks, which, &mut out).await
        }
    }
}

async fn again(
    pool: &db::Pool,
    tracks: &db::Pool,
    which: Which,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let register = CachedRegister::new(pool.clone());
    register.refresh(now).await.context("register")?;
    let (mut left, mut stay) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    readmit(tracks, &register.keys(), which, now, |one| {
        let counts = match one.outcome {
            Outcome::Left(_) => &mut left,
            Outcome::Stays(_) | Outcome::NotStored => &mut stay,
        };
        *counts.entry(one.outcome.name()).or_default() += 1;
    })
    .await?;
    if let (Which::One(id), true, true) = (which, left.is_empty(), stay.is_empty()) {
        bail!("there is no frame {id} in quarantine");
    }
    writeln!(out, "{} stored", left.remove("stored").unwrap_or(0))?;
    for (kept_as, count) in left {
        writeln!(out, "{count} kept already: {kept_as}")?;
    }
    for (reason, count) in stay {
        writeln!(out, "{count} stay: {reason}")?;
    }
    Ok(())
}

fn list(rows: &[QuarantineListRow], json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    if json {
        let shown: Vec<_> = rows.iter().map(of_row).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&shown)?)?;
        return Ok(());
    }
    let mut table = Table::new();
    table.set_header([
        "id", "device", "epoch", "seq", "reason", "bytes", "received",
    ]);
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for row in rows {
        table.add_row([
            row.id.to_string(),
            row.device.to_string(),
            number(row.place.map(|place| place.epoch)),
            number(row.place.map(|place| place.seq)),
            row.reason.clone(),
            row.bytes.to_string(),
            row.received_at.to_rfc3339_opts(SecondsFormat::Secs, true),
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

/// Epoch and sequence are texts: they are larger than what JSON's readers keep of a number.
fn of_row(row: &QuarantineListRow) -> serde_json::Value {
    serde_json::json!({
        "id": row.id,
        "device": row.device,
        "epoch": row.place.map(|place| place.epoch.to_string()),
        "seq": row.place.map(|place| place.seq.to_string()),
        "reason": row.reason,
        "bytes": row.bytes,
        "received_at": row.received_at,
    })
}
