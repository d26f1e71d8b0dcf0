//! `furrow device`: the register of devices from the command line.

use std::{collections::HashMap, io::Write};

use anyhow::{Context as _, bail};
use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::Table;
use uuid::Uuid;

use crate::{
    app::{authority::Authority, devices},
    clock::{Clock as _, SystemClock},
    config::Settings,
    db::{self, devices::DeviceListRow, states::SeenRow},
};

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum DeviceCommand {
    /// List the devices.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a one-time enrolment code for a machine.
    EnrollCode(CodeArgs),
    /// Turn a device away for good.
    Revoke {
        /// Its number.
        device: i32,
        /// Why.
        #[arg(long)]
        reason: String,
    },
}

/// For which machine.
#[derive(Debug, clap::Args)]
pub struct CodeArgs {
    /// A machine that is known.
    #[arg(
        long,
        value_name = "ID",
        conflicts_with = "new_machine",
        required_unless_present = "new_machine"
    )]
    pub machine: Option<Uuid>,
    /// A new machine of this name.
    #[arg(long, value_name = "NAME")]
    pub new_machine: Option<String>,
    /// Its kind.
    #[arg(long = "type", value_name = "T", default_value = "tractor")]
    pub machine_type: String,
    /// Its working width, m.
    #[arg(long, value_name = "M", default_value_t = 3.0)]
    pub width: f64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: the database, or what was asked for does not exist.
pub async fn run(
    command: &DeviceCommand,
    settings: &Settings,
    mut out: impl Write,
) -> anyhow::Result<()> {
    let pool = db::pool(&settings.database).context("database.url")?;
    let now = SystemClock.now();
    match command {
        DeviceCommand::List { json } => {
            let tracks =
                db::telemetry_pool(&settings.database, &pool).context("database.telemetry_url")?;
            let devices = db::devices::list(&pool, now).await?;
            let seen = db::states::seen(&tracks).await?;
            list(&devices, &seen, now, *json, &mut out)
        }
        DeviceCommand::Revoke { device, reason } => {
            if !devices::revoke(&pool, *device, reason, now).await? {
                bail!("there is no device {device}, or it is revoked already");
            }
            writeln!(
                out,
                "device {device} is revoked; its sessions end within 30 s"
            )?;
            Ok(())
        }
        DeviceCommand::EnrollCode(args) => {
            let machine = machine(&pool, args, now).await?;
            let code = devices::make_code(&pool, machine, now).await?;
            let authority = Authority::open(&settings.data_dir, now)?;
            let whole = format!("{code}#{}", authority.fingerprint());
            if args.json {
                let shown =
                    serde_json::json!({ "machine": machine, "code": whole, "valid_hours": 48 });
                writeln!(out, "{shown}")?;
            } else {
                writeln!(
                    out,
                    "machine  {machine}\ncode     {whole}\nvalid    48 hours, once"
                )?;
            }
            Ok(())
        }
    }
}

async fn machine(pool: &db::Pool, args: &CodeArgs, now: DateTime<Utc>) -> anyhow::Result<Uuid> {
    if let Some(machine) = args.machine {
        if !db::devices::machine_exists(pool, machine).await? {
            bail!("there is no machine {machine}");
        }
        return Ok(machine);
    }
    if !(0.1..=100.0).contains(&args.width) {
        bail!("--width must lie between 0.1 and 100 m");
    }
    #[expect(clippy::cast_possible_truncation, reason = "between 10 and 10,000")]
    let width_cm = (args.width * 100.0).round() as i32;
    let machine = crate::ids::new_id(now);
    let name = args.new_machine.as_deref().unwrap_or("machine");
    db::devices::insert_machine(pool, machine, name, &args.machine_type, width_cm, now).await?;
    Ok(machine)
}

fn list(
    devices: &[DeviceListRow],
    seen: &HashMap<i32, SeenRow>,
    now: DateTime<Utc>,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let never = SeenRow::default();
    let with_seen = || {
        devices
            .iter()
            .map(|d| (d, seen.get(&d.number).unwrap_or(&never)))
    };
    if json {
        let rows: Vec<_> = with_seen().map(|(d, s)| row(d, s, now)).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(());
    }
    let mut table = Table::new();
    table.set_header([
        "device",
        "machine",
        "enrolled",
        "online",
        "last frame",
        "last word",
        "agent",
        "backlog",
        "lost",
        "revoked",
    ]);
    let time = |t: Option<DateTime<Utc>>| {
        t.map_or_else(
            || "-".into(),
            |t| t.to_rfc3339_opts(SecondsFormat::Secs, true),
        )
    };
    let count = |n: Option<i64>| n.map_or_else(|| "-".into(), |n| n.to_string());
    let text = |t: &Option<String>| t.clone().unwrap_or_else(|| "-".into());
    for (d, s) in with_seen() {
        table.add_row([
            d.number.to_string(),
            text(&d.machine),
            time(Some(d.enrolled_at)),
            if s.online(now) { "yes" } else { "no" }.into(),
            time(s.last_frame_at),
            time(s.said_at),
            text(&s.agent),
            count(s.backlog_frames),
            count(s.lost_frames),
            time(d.revoked_at),
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn row(d: &DeviceListRow, s: &SeenRow, now: DateTime<Utc>) -> serde_json::Value {
    serde_json::json!({
        "device": d.number, "machine": d.machine, "machine_id": d.machine_id,
        "enrolled_at": d.enrolled_at, "revoked_at": d.revoked_at, "revoke_reason": d.revoke_reason,
        "last_frame_at": s.last_frame_at, "said_at": s.said_at, "agent": s.agent,
        "backlog_frames": s.backlog_frames, "lost_frames": s.lost_frames, "receiver": s.receiver,
        "online": s.online(now), "cloned_at": s.cloned_at,
    })
}
