//! The commands: each reads its arguments and drives the parts; none holds rules of its own.

pub mod check;
pub mod deliver;
pub mod enroll;
pub mod fixes;
pub mod replay;
pub mod run;
pub mod simulate;
pub mod status;

use std::path::PathBuf;

use anyhow::bail;

use crate::{config::Config, run::Setup};

/// Which agent is meant.
#[derive(Debug, Clone, clap::Args)]
pub struct Whose {
    /// Its settings file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Its data folder, in place of the one in the settings.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Where a packaged agent has its settings.
const USUAL: &str = "/etc/furrow-agent.toml";

impl Whose {
    /// What an agent needs to run; without arguments that of the package.
    ///
    /// Errors: the settings, or there is neither file nor folder.
    pub fn setup(&self) -> anyhow::Result<Setup> {
        let usual = PathBuf::from(USUAL);
        let file = match (&self.config, &self.data) {
            (Some(file), _) => Some(file),
            (None, None) if usual.exists() => Some(&usual),
            (None, _) => None,
        };
        let mut setup = match (file, &self.data) {
            (Some(file), _) => Setup::of(&Config::read(file)?),
            (None, Some(data)) => Setup::of_data(data.clone()),
            (None, None) => bail!("say which agent: --config FILE or --data DIR"),
        };
        if let Some(data) = &self.data {
            setup.data_dir.clone_from(data);
        }
        Ok(setup)
    }
}
