//! `furrow serve` as a process on ports that stay its own, so that it is found again after a kill. Never looks into it but through its doors.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustix::process::Signal;

use crate::{binaries, ports, program, program::Program, wait::until};

/// How long a start may take on a busy machine; after a kill of the database too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A platform.
pub struct Platform {
    folder: PathBuf,
    config: PathBuf,
    /// Its human door.
    pub http: SocketAddr,
    /// Its human door over TLS, if it has one.
    pub https: Option<SocketAddr>,
    /// Its plain machine door.
    pub mqtt: SocketAddr,
    /// Its machine door over TLS, if it has one.
    pub mqtts: Option<SocketAddr>,
    program: Option<Program>,
}

/// What differs from the defaults.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// TLS doors too.
    pub tls: bool,
    /// Where devices are told to connect: a proxy, say.
    pub public_url: Option<String>,
    /// Lines of the settings' section `[mqtt]`.
    pub mqtt: String,
    /// Most connections to the database.
    pub connections: Option<u32>,
    /// Level of its log.
    pub level: Option<&'static str>,
}

impl Platform {
    /// Brings the schema up to date and serves.
    ///
    /// Errors: the program, its settings, or it is not ready in time.
    pub fn start(folder: &Path, database: &str, options: &Options) -> anyhow::Result<Self> {
        let mut platform = Self::prepare(folder, database, options)?;
        platform.migrate()?;
        platform.serve()?;
        Ok(platform)
    }

    /// Writes the settings; starts nothing.
    ///
    /// Errors: the folder, or no free port.
    pub fn prepare(folder: &Path, database: &str, options: &Options) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let address = || anyhow::Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?)));
        let secure = |wanted: bool| {
            if wanted {
                address().map(Some)
            } else {
                Ok(None)
            }
        };
        let platform = Self {
            folder: folder.to_owned(),
            config: folder.join("furrow.toml"),
            http: address()?,
            https: secure(options.tls)?,
            mqtt: address()?,
            mqtts: secure(options.tls)?,
            program: None,
        };
        let line = |key: &str, value: Option<String>| {
            value.map_or_else(String::new, |v| format!("{key} = \"{v}\"\n"))
        };
        let text = format!(
            "data_dir = \"{}\"\n[database]\nurl = \"{database}\"\nmax_connections = {}\n\
             [http]\nlisten = \"{}\"\n{}[mqtt]\nlisten = \"{}\"\n{}{}{}\n[log]\nformat = \"json\"\nlevel = \"{}\"\n",
            folder.join("data").display(),
            options.connections.unwrap_or(8),
            platform.http,
            line("tls_listen", platform.https.map(|a| a.to_string())),
            platform.mqtt,
            line("tls_listen", platform.mqtts.map(|a| a.to_string())),
            line("public_url", options.public_url.clone()),
            options.mqtt,
            options.level.unwrap_or("info"),
        );
        fs::write(&platform.config, text)?;
        Ok(platform)
    }

    /// Brings the schema up to date.
    ///
    /// Errors: the command says no.
    pub fn migrate(&self) -> anyhow::Result<()> {
        self.command(&["migrate"]).map(|_| ())
    }

    /// Serves and waits until it is ready.
    ///
    /// Errors: it ends, or is not ready in time.
    pub fn serve(&mut self) -> anyhow::Result<()> {
        self.serve_unready()?;
        self.wait_ready()
    }

    /// Serves and waits for nothing.
    ///
    /// Errors: the program.
    pub fn serve_unready(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(binaries::furrow()?);
        command.arg("--config").arg(&self.config).arg("serve");
        let log = self.folder.join("furrow.log");
        self.program = Some(Program::start("furrow", command, &log)?);
        Ok(())
    }

    /// Waits until it is ready.
    ///
    /// Errors: it ends, or is not ready in time.
    pub fn wait_ready(&mut self) -> anyhow::Result<()> {
        let (http, program) = (self.http, &mut self.program);
        let state = until("furrow is ready", PATIENCE, || {
            if let Some(status) = program.as_mut().and_then(Program::ended) {
                return Some(Err(status));
            }
            (get(&format!("http://{http}/readyz")).ok()?.0 == 200).then_some(Ok(()))
        });
        match state {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => bail!("furrow ended with {status}:\n{}", self.last_words()),
            Err(error) => Err(error.context(self.last_words())),
        }
    }

    /// Runs another command of the same settings; what it printed.
    ///
    /// Errors: it says no.
    pub fn command(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(binaries::furrow()?);
        command.arg("--config").arg(&self.config).args(arguments);
        program::run(command)
    }

    /// A one-time enrolment code for a new machine, as `furrow-agent enroll` takes it.
    ///
    /// Errors: the command says no.
    pub fn enrolment_code(&self, machine: &str, width_m: f64) -> anyhow::Result<String> {
        let width = width_m.to_string();
        let said = self.command(&[
            "device",
            "enroll-code",
            "--new-machine",
            machine,
            "--width",
            &width,
            "--json",
        ])?;
        let said: serde_json::Value = serde_json::from_str(&said)?;
        Ok(said["code"].as_str().context("a code")?.to_owned())
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

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.program.as_ref().map_or(0, Program::pid)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.program.as_mut().and_then(Program::ended)
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.program
            .as_ref()
            .map_or_else(String::new, Program::last_words)
    }

    /// The settings file.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// A counter of `/metrics`: the sum over all lines of this name whose labels hold `label`.
    ///
    /// Errors: it does not answer.
    pub fn counter(&self, name: &str, label: &str) -> anyhow::Result<f64> {
        let (status, text) = get(&format!("http://{}/metrics", self.http))?;
        anyhow::ensure!(status == 200, "/metrics answered {status}");
        Ok(text
            .lines()
            .filter(|l| l.starts_with(name) && l.contains(label))
            .filter_map(|l| l.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum())
    }
}

/// GET: status and body.
///
/// Errors: the network.
pub fn get(url: &str) -> anyhow::Result<(u16, String)> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(5)))
        .build()
        .into();
    let mut answer = agent.get(url).call()?;
    Ok((
        answer.status().as_u16(),
        answer.body_mut().read_to_string()?,
    ))
}
