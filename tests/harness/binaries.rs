//! Where the programs under test are: beside the one that runs. Never builds them.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

/// The platform's program.
///
/// Errors: it is not built.
pub fn furrow() -> anyhow::Result<PathBuf> {
    find("furrow", "FURROW_BIN")
}

/// The agent's program.
///
/// Errors: it is not built.
pub fn agent() -> anyhow::Result<PathBuf> {
    find("furrow-agent", "FURROW_AGENT_BIN")
}

/// The folder of the checkout.
#[must_use]
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn find(name: &str, variable: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Ok(path.into());
    }
    let here = env::current_exe().context("where this program is")?;
    // Rigs lie in target/PROFILE, tests in target/PROFILE/deps.
    for folder in here.ancestors().skip(1).take(2) {
        let path = folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
    }
    bail!(
        "{name} is not beside {}: build it (cargo build -p furrow-platform -p furrow-agent --bins) or set {variable}",
        here.display()
    )
}
