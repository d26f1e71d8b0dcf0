//! A durable PostgreSQL of our own that can be killed and started again on its port. Never touches another server.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{ports, proc, program, program::Program, wait::until};

/// How long a start may take: after a kill the log is replayed first.
const PATIENCE: Duration = Duration::from_secs(90);

/// What is durable in production is durable here; the rest is the default of a small server.
const SETTINGS: &str = "\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 100\n\
    shared_buffers = '256MB'\nmax_wal_size = '4GB'\nwal_compression = on\nfsync = on\nsynchronous_commit = on\n\
    timezone = 'UTC'\n";

/// A running server.
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    server: Program,
}

impl Postgres {
    /// Makes a cluster under `folder` and starts it.
    ///
    /// Errors: PostgreSQL is not installed, or does not start.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        give_away(folder)?;
        let cluster = folder.join("cluster");
        let mut initdb = as_server("initdb")?;
        initdb.current_dir(folder).arg("-D").arg(&cluster).args([
            "-U",
            "furrow",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-instructions",
        ]);
        program::run(initdb)?;
        let file = cluster.join("postgresql.conf");
        fs::write(&file, fs::read_to_string(&file)? + SETTINGS)?;
        let port = ports::free()?;
        let server = launch(folder, port)?;
        let mut postgres = Self {
            folder: folder.to_owned(),
            port,
            server,
        };
        postgres.wait_ready()?;
        let mut psql = Command::new(bin("psql")?);
        psql.args(["-qX", "-d", &postgres.url("postgres")])
            .args(["-c", "create database furrow"]);
        program::run(psql)?;
        Ok(postgres)
    }

    /// Where to connect, for a database of this name.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://furrow@127.0.0.1:{}/{database}", self.port)
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// SIGKILL to the server and every process of it, as when the machine loses its power.
    pub fn kill(&mut self) {
        let all = proc::tree(self.server.pid());
        self.server.kill();
        for pid in all.into_iter().skip(1) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Starts it again on its port.
    ///
    /// Errors: it does not come up.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        let begin = std::time::Instant::now();
        loop {
            self.server = launch(&self.folder, self.port)?;
            match self.wait_ready() {
                Ok(()) => return Ok(()),
                // Its last processes may still hold the shared memory: the next start finds it free.
                Err(_) if begin.elapsed() < PATIENCE => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait_ready(&mut self) -> anyhow::Result<()> {
        let mut ready = Command::new(bin("pg_isready")?);
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        let server = &mut self.server;
        let up = until("PostgreSQL answers", PATIENCE, || {
            if server.ended().is_some() {
                return Some(false);
            }
            ready.status().ok().filter(|s| s.success()).map(|_| true)
        })?;
        if !up {
            bail!("PostgreSQL ended: {}", self.server.last_words());
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A fast stop; sessions are ended.
        if self.server.ended().is_none() && self.server.signal(Signal::INT).is_ok() {
            let _ = self.server.wait(Duration::from_secs(20));
        }
        self.kill();
    }
}

fn launch(folder: &Path, port: u16) -> anyhow::Result<Program> {
    let mut command = as_server("postgres")?;
    command
        .current_dir(folder)
        .arg("-D")
        .arg(folder.join("cluster"))
        .args(["-p", &port.to_string()]);
    Program::start("PostgreSQL", command, &folder.join("postgresql.log"))
}

fn bin(program: &str) -> anyhow::Result<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("bin").join(program))
        .filter(|p| p.is_file())
        .collect();
    found.sort();
    found.pop().with_context(|| {
        format!("PostgreSQL's {program} is not installed (apt-get install postgresql)")
    })
}

/// A program of PostgreSQL, which refuses root: there it runs as another user.
fn as_server(program: &str) -> anyhow::Result<Command> {
    let path = bin(program)?;
    let Some((uid, gid)) = server_user()? else {
        return Ok(Command::new(path));
    };
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={uid}"))
        .arg(format!("--regid={gid}"))
        .args(["--clear-groups", "--"])
        .arg(path);
    Ok(command)
}

fn server_user() -> anyhow::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = users.lines().find(|l| l.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres")
        .or_else(|| find("nobody"))
        .map(Some)
        .context("running as root, and there is no user postgres or nobody")
}

fn give_away(folder: &Path) -> anyhow::Result<()> {
    let Some((uid, gid)) = server_user()? else {
        return Ok(());
    };
    chown(folder, Some(uid), Some(gid))?;
    // Temporary folders are closed to others: the server must pass through its parents.
    for parent in folder.ancestors().skip(1) {
        let mode = fs::metadata(parent)?.permissions().mode();
        if mode & 0o001 == 0 {
            fs::set_permissions(parent, fs::Permissions::from_mode(mode | 0o001))?;
        }
    }
    Ok(())
}
