//! The real agent as a process, with a folder of its own. Never looks into its spool.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::Context as _;
use rustix::process::Signal;

use crate::{
    binaries,
    journal::{self, Frames},
    program,
    program::Program,
};

/// What differs from the defaults of an agent's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Lines of `[source]`.
    pub source: String,
    /// Lines of `[sampling]`.
    pub sampling: String,
    /// Lines of `[spool]`.
    pub spool: String,
    /// Lines of `[link]`.
    pub link: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            source: "kind = \"simulator\"".into(),
            sampling: String::new(),
            spool: "min_free_mb = 1".into(),
            // Rigs kill what agents talk to all the time.
            link: "backoff_cap_s = 2".into(),
        }
    }
}

/// An enrolled agent.
pub struct Agent {
    /// Its number.
    pub device: u32,
    folder: PathBuf,
    program: Option<Program>,
}

impl Agent {
    /// Enrols a box in `folder` at `server` by a one-time code.
    ///
    /// Errors: the agent or the server says no.
    pub fn enrol(
        folder: &Path,
        server: &str,
        code: &str,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut agent = Self {
            device: 0,
            folder: folder.to_owned(),
            program: None,
        };
        agent.configure(settings)?;
        let mut command = agent.command("enroll")?;
        command.args(["--server", server, "--code", code]);
        program::run(command)?;
        let identity = agent.data().join("identity/device.json");
        let identity: serde_json::Value = serde_json::from_str(&fs::read_to_string(identity)?)?;
        let number = identity["device"].as_u64().context("a device number")?;
        agent.device = u32::try_from(number)?;
        Ok(agent)
    }

    /// Writes its settings.
    ///
    /// Errors: the folder.
    pub fn configure(&self, settings: &Settings) -> anyhow::Result<()> {
        let text = format!(
            "data_dir = \"{}\"\n[source]\n{}\n[sampling]\n{}\n[spool]\n{}\n[link]\n{}\n",
            self.data().display(),
            settings.source,
            settings.sampling,
            settings.spool,
            settings.link
        );
        fs::write(self.config(), text).context("the agent's settings")
    }

    /// Where its identity and its spool lie.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("agent.toml")
    }

    /// Its journal.
    #[must_use]
    pub fn journal_file(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// One of its commands, with its settings.
    ///
    /// Errors: it is not built.
    pub fn command(&self, name: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(binaries::agent()?);
        command.arg(name).arg("--config").arg(self.config());
        Ok(command)
    }

    /// Starts `run`.
    ///
    /// Errors: the program.
    pub fn run(&mut self) -> anyhow::Result<()> {
        self.start("run", &[])
    }

    /// Starts a command that records: `run`, `replay`, `simulate`.
    ///
    /// Errors: the program.
    pub fn start(&mut self, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = self.command(name)?;
        command
            .arg("--journal")
            .arg(self.journal_file())
            .args(arguments);
        let log = self.folder.join("agent.log");
        self.program = Some(Program::start("furrow-agent", command, &log)?);
        Ok(())
    }

    /// Adds what it has made durable so far.
    ///
    /// Errors: the file, or a line that is none.
    pub fn journal(&self, into: &mut Frames) -> anyhow::Result<usize> {
        journal::read(&self.journal_file(), self.device, into)
    }

    /// Lines of its journal so far.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.journal(&mut Frames::new()).unwrap_or(0)
    }

    /// Its process id, while it was started.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.program.as_ref().map(Program::pid)
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(program) = &mut self.program {
            program.kill();
        }
    }

    /// TERM, and waits for the end.
    ///
    /// Errors: it does not end in time.
    pub fn terminate(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        let program = self.program.as_mut().context("it was never started")?;
        program.signal(Signal::TERM)?;
        program.wait(patience)
    }

    /// Waits for its end.
    ///
    /// Errors: it still runs after `patience`.
    pub fn wait(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        self.program
            .as_mut()
            .context("it was never started")?
            .wait(patience)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.program.as_mut().and_then(Program::ended)
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        self.program.as_mut().is_some_and(|p| p.ended().is_none())
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.program
            .as_ref()
            .map_or_else(String::new, Program::last_words)
    }

    /// What `status --json` says.
    ///
    /// Errors: it says no JSON.
    pub fn status(&self) -> anyhow::Result<serde_json::Value> {
        let mut command = self.command("status")?;
        // Its exit code tells a lamp what to show: a backlog is not an error here.
        let said = command.arg("--json").output()?;
        serde_json::from_slice(&said.stdout)
            .with_context(|| String::from_utf8_lossy(&said.stderr).into_owned())
    }
}
