//! The real agent as a child process: enrolled by a code, set to simulate, always ended with the demo. Never links the agent.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

use super::{
    fleet::{Machine, Task},
    outcome::{Digests, Truth},
};
use crate::config;

/// The agent's program beside this one.
const NAME: &str = "furrow-agent";
/// Linux's own way to end a child when its parent is gone, whatever ended that.
const LEASH: &str = "/usr/bin/setpriv";

/// An enrolled box.
pub struct AgentBox {
    program: PathBuf,
    folder: PathBuf,
    /// Its number.
    pub device: u32,
}

/// The agent's program.
///
/// Errors: it is not there.
pub fn find(told: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match told {
        Some(path) => path.to_owned(),
        None => config::own_folder()?.join(NAME),
    };
    if !path.is_file() {
        bail!(
            "the agent's program is not at {}: build it (cargo build --release -p furrow-agent) or say where it is with --agent",
            path.display()
        );
    }
    Ok(path.canonicalize()?)
}

impl AgentBox {
    /// Makes a box in a folder and enrols it.
    ///
    /// Errors: the folder, or the agent says no.
    pub async fn enrol(
        program: &Path,
        folder: &Path,
        server: &str,
        code: &str,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let mut agent = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            device: 0,
        };
        agent.configure(None)?;
        let output = agent
            .command("enroll")
            .args(["--server", server, "--code", code])
            .output()
            .await?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        agent.device = agent.number()?;
        Ok(agent)
    }

    /// Starts a machine's job.
    ///
    /// Errors: the program or its files.
    pub fn work(
        &self,
        machine: &Machine,
        door: Option<SocketAddr>,
        speed: f64,
    ) -> anyhow::Result<Child> {
        self.configure(door)?;
        let log = File::create(self.log())?;
        let mut command = self.command("simulate");
        command
            .arg("--journal")
            .arg(self.folder.join("journal"))
            .arg("--truth")
            .arg(self.folder.join("truth.json"))
            .args(["--speed", &speed.to_string(), "--noise", "rtk"])
            .args(["--lat", &machine.corner.lat.to_string()])
            .args(["--lon", &machine.corner.lon.to_string()])
            .args(["--length", &machine.length_m.to_string()])
            .args(["--breadth", &machine.breadth_m.to_string()])
            .args(["--width", &machine.width_m.to_string()])
            .args(["--seed", &self.device.to_string()]);
        if machine.task == Task::DrivePast {
            command.arg("--drive-past");
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("start the agent")
    }

    /// What it has made durable: `epoch seq digest` a line.
    ///
    /// Errors: the file, or a line that is none.
    pub fn journal(&self) -> anyhow::Result<Digests> {
        let file = self.folder.join("journal");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        text.lines()
            .map(|line| read_line(line).with_context(|| format!("a line of the journal: {line}")))
            .collect()
    }

    /// What the simulator did.
    ///
    /// Errors: it has not told.
    pub fn truth(&self) -> anyhow::Result<Truth> {
        let file = self.folder.join("truth.json");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let told: serde_json::Value = serde_json::from_str(&text)?;
        Ok(Truth {
            area_m2: told["area_m2"].as_f64().context("the simulator's area")?,
            started_ms: told["started_ms"].as_i64(),
        })
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        let said = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines.get(lines.len().saturating_sub(10)..);
        last.unwrap_or_default().join("\n")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("agent.log")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = if Path::new(LEASH).is_file() {
            let mut command = Command::new(LEASH);
            command
                .args(["--pdeathsig", "TERM", "--"])
                .arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        command
            .arg(name)
            .arg("--config")
            .arg(self.folder.join("agent.toml"));
        command
    }

    fn configure(&self, door: Option<SocketAddr>) -> anyhow::Result<()> {
        let link = door.map_or_else(String::new, |door| format!("url = \"mqtt://{door}\"\n"));
        let text = format!(
            "data_dir = \"{}\"\n[source]\nkind = \"simulator\"\n[link]\nbackoff_cap_s = 2\n{link}",
            self.folder.join("data").display(),
        );
        fs::write(self.folder.join("agent.toml"), text).context("the agent's settings")
    }

    /// The number that it was given.
    fn number(&self) -> anyhow::Result<u32> {
        let file = self.folder.join("data/identity/device.json");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let told: serde_json::Value = serde_json::from_str(&text)?;
        let number = told["device"].as_u64().context("a device's number")?;
        Ok(u32::try_from(number)?)
    }
}

fn read_line(line: &str) -> Option<((u64, u64), [u8; 16])> {
    let mut fields = line.split_whitespace();
    let place = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((
        place,
        crate::app::devices::unhex(fields.next()?.as_bytes())?,
    ))
}
