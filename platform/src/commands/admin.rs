//! `furrow admin`: staff from the command line. A password comes by standard input, never as an argument.

use std::io::{BufRead, Write};

use anyhow::Context as _;

use crate::{
    app::accounts::make_staff,
    clock::{Clock as _, SystemClock},
    config::Settings,
    db,
};

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum AdminCommand {
    /// Make staff of an account, or a new account; the password is read from standard input.
    Create {
        /// With country code.
        #[arg(long)]
        phone: String,
        /// As others see it.
        #[arg(long)]
        name: String,
        /// A permission; `*` is all of them. May be given more than once.
        #[arg(long = "permission", value_name = "P", default_value = "*")]
        permissions: Vec<String>,
    },
}

/// Runs the command.
///
/// Errors: the database, a phone, a name or a password that cannot be.
pub async fn run(
    command: &AdminCommand,
    settings: &Settings,
    mut input: impl BufRead,
    mut out: impl Write,
) -> anyhow::Result<()> {
    let AdminCommand::Create {
        phone,
        name,
        permissions,
    } = command;
    let mut password = String::new();
    input.read_line(&mut password).context("standard input")?;
    let password = password.trim_end_matches(['\r', '\n']);
    let pool = db::pool(&settings.database).context("database.url")?;
    let now = SystemClock.now();
    let made = make_staff(&pool, phone, name, password, permissions, now).await?;
    writeln!(
        out,
        "account      {}\npermissions  {}\nsecret       {}\n             for the authenticator; it is not shown again\nrecovery     {}\n             each once in place of the authenticator; they are not shown again",
        made.account,
        permissions.join(" "),
        made.secret,
        made.recovery.join(" ")
    )?;
    Ok(())
}
