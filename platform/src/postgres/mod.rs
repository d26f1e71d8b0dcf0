//! A private PostgreSQL under a folder: for the demo and for tests. Never touches a database that it did not make.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use thiserror::Error;

/// How long the server may take to answer, or to stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// Folders in which Debian and others keep the server's programs, newest first.
const BIN_FOLDERS: [&str; 8] = [
    "/usr/lib/postgresql/18/bin",
    "/usr/lib/postgresql/17/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/14/bin",
    "/usr/local/pgsql/bin",
    "/usr/local/bin",
    "/usr/bin",
];

/// Why there is no private server.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// Not installed.
    #[error(
        "PostgreSQL's server is not installed (no initdb under /usr/lib/postgresql); on Debian: apt-get install postgresql"
    )]
    NotInstalled,
    /// Nobody to run it as.
    #[error("running as root and there is no user postgres or nobody to run PostgreSQL as")]
    NoUser,
    /// A file or folder.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// A program of PostgreSQL said no.
    #[error("{program} failed: {said}")]
    Program {
        /// Which.
        program: &'static str,
        /// Its last words.
        said: String,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> PostgresError {
    let what = what.into();
    move |source| PostgresError::Io { what, source }
}

/// A running private server; stopped when dropped.
#[derive(Debug)]
pub struct PrivatePostgres {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    owner: Option<(u32, u32)>,
}

impl PrivatePostgres {
    /// Starts the server on a folder, making the cluster at first. A server that an earlier process
    /// left behind on this folder is taken over.
    ///
    /// Errors: not installed, the folder cannot be used, or the server does not come up.
    pub fn start(folder: &Path) -> Result<Self, PostgresError> {
        let bin = bin_folder()?;
        let owner = owner()?;
        fs::create_dir_all(folder).map_err(io_error(format!("make {}", folder.display())))?;
        let folder = folder
            .canonicalize()
            .map_err(io_error(format!("find {}", folder.display())))?;
        let folder = match owner {
            Some((uid, _)) => reachable(&folder, uid)?,
            None => folder,
        };
        let mut server = Self {
            bin,
            folder,
            port: 0,
            owner,
        };
        server.own_folder()?;
        if !server.cluster().join("PG_VERSION").exists() {
            server.init()?;
        }
        if let Some(port) = server.running_port() {
            server.port = port;
            if server.wait_ready().is_ok() {
                return Ok(server);
            }
        }
        server.clear_stale_lock()?;
        server.launch()?;
        Ok(server)
    }

    /// Where to connect, for a database of this name.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://furrow@127.0.0.1:{}/{database}", self.port)
    }

    /// The server's own process id, as its lock file tells.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.lock_line(0)?.parse().ok()
    }

    /// Stops the server; open transactions are rolled back.
    ///
    /// Errors: it does not stop.
    pub fn stop(&self) -> Result<(), PostgresError> {
        if self.running_port().is_none() {
            return Ok(());
        }
        self.run(
            "pg_ctl",
            &[
                "-D",
                &self.cluster_text(),
                "-m",
                "fast",
                "-w",
                "-t",
                "60",
                "stop",
            ],
        )
    }

    fn cluster(&self) -> PathBuf {
        self.folder.join("cluster")
    }

    fn cluster_text(&self) -> String {
        self.cluster().display().to_string()
    }

    /// The unprivileged user owns the folder; nobody else looks into it.
    fn own_folder(&self) -> Result<(), PostgresError> {
        let Some((uid, gid)) = self.owner else {
            return Ok(());
        };
        chown(&self.folder, Some(uid), Some(gid)).map_err(io_error(format!(
            "give {} to the server's user",
            self.folder.display()
        )))?;
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))
            .map_err(io_error(format!("close {}", self.folder.display())))
    }

    fn init(&self) -> Result<(), PostgresError> {
        let cluster = self.cluster_text();
        self.run(
            "initdb",
            &[
                "-D",
                &cluster,
                "-U",
                "furrow",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-locale",
                "--no-instructions",
            ],
        )?;
        // Durable as in production: fsync and synchronous_commit stay on.
        let settings = "\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 200\n\
                        shared_buffers = '256MB'\nmax_wal_size = '4GB'\nwal_compression = on\ntimezone = 'UTC'\n";
        let file = self.cluster().join("postgresql.conf");
        let mut text = fs::read_to_string(&file).map_err(io_error("read postgresql.conf"))?;
        text.push_str(settings);
        fs::write(&file, text).map_err(io_error("write postgresql.conf"))
    }

    fn launch(&mut self) -> Result<(), PostgresError> {
        let mut last = None;
        // Another process may take the port between the question and the start.
        for _ in 0..3 {
            self.port = free_port()?;
            let log = self.folder.join("postgresql.log").display().to_string();
            let options = format!("-p {}", self.port);
            let args = [
                "-D",
                &self.cluster_text(),
                "-l",
                &log,
                "-w",
                "-t",
                "60",
                "-o",
                &options,
                "start",
            ];
            match self.run("pg_ctl", &args) {
                Ok(()) => return self.make_database(),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(PostgresError::NotInstalled))
    }

    fn make_database(&self) -> Result<(), PostgresError> {
        let port = self.port.to_string();
        let base = [
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "furrow",
            "-d",
            "postgres",
            "-tAqc",
        ];
        let ask = [
            &base[..],
            &["select count(*) from pg_database where datname = 'furrow'"],
        ]
        .concat();
        if self.output("psql", &ask)?.trim() == "0" {
            self.run("psql", &[&base[..], &["create database furrow"]].concat())?;
        }
        Ok(())
    }

    fn wait_ready(&self) -> Result<(), PostgresError> {
        let begin = Instant::now();
        let port = self.port.to_string();
        loop {
            let asked = self.run("pg_isready", &["-q", "-h", "127.0.0.1", "-p", &port]);
            if asked.is_ok() {
                return self.make_database();
            }
            if begin.elapsed() > PATIENCE || self.running_port().is_none() {
                return asked;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The port of a live server on this folder: its lock file names a process that is PostgreSQL
    /// and works in this folder. A number that another process got since does not fool it.
    fn running_port(&self) -> Option<u16> {
        let pid: i32 = self.lock_line(0)?.parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let server = name.starts_with("postgres") || name.starts_with("postmaster");
        let here = fs::read_link(format!("/proc/{pid}/cwd")).ok()? == self.cluster();
        (server && here).then(|| self.lock_line(3)?.parse().ok())?
    }

    /// After a server died its children live on for a moment, and no other may begin before they are
    /// gone. When nobody works in the folder, a lock file that is still there names nobody.
    fn clear_stale_lock(&self) -> Result<(), PostgresError> {
        let lock = self.cluster().join("postmaster.pid");
        let begin = Instant::now();
        while lock.exists() && begin.elapsed() < PATIENCE {
            if !self.somebody_works_here() {
                return fs::remove_file(&lock).map_err(io_error("remove a stale postmaster.pid"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// PostgreSQL's processes work in the data folder. Those of other users cannot be asked, but are
    /// not this folder's either.
    fn somebody_works_here(&self) -> bool {
        let cluster = self.cluster();
        let Ok(processes) = fs::read_dir("/proc") else {
            return false;
        };
        processes.filter_map(Result::ok).any(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == cluster)
        })
    }

    fn lock_line(&self, line: usize) -> Option<String> {
        let text = fs::read_to_string(self.cluster().join("postmaster.pid")).ok()?;
        text.lines().nth(line).map(|l| l.trim().to_owned())
    }

    fn run(&self, program: &'static str, args: &[&str]) -> Result<(), PostgresError> {
        self.output(program, args).map(|_| ())
    }

    fn output(&self, program: &'static str, args: &[&str]) -> Result<String, PostgresError> {
        let path = self.bin.join(program);
        let path = if path.exists() {
            path
        } else {
            PathBuf::from(program)
        };
        let mut command = match self.owner {
            Some((uid, gid)) => {
                let mut command = Command::new("setpriv");
                command
                    .args([
                        &format!("--reuid={uid}"),
                        &format!("--regid={gid}"),
                        "--clear-groups",
                        "--",
                    ])
                    .arg(path);
                command
            }
            None => Command::new(path),
        };
        let said = tempfile_in(&self.folder, program)?;
        // pg_ctl's server keeps what it inherits open: its output goes to a file, not a pipe that never ends.
        let status = command
            .args(args)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(said.1.try_clone().map_err(io_error("open the output"))?)
            .stderr(said.1)
            .status()
            .map_err(io_error(format!("run {program}")))?;
        let text = fs::read_to_string(&said.0).unwrap_or_default();
        let _ = fs::remove_file(&said.0);
        if status.success() {
            Ok(text)
        } else {
            let lines: Vec<&str> = text.lines().rev().take(4).collect();
            Err(PostgresError::Program {
                program,
                said: lines.into_iter().rev().collect::<Vec<_>>().join("; "),
            })
        }
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(error = %error, "postgres.stop");
        }
    }
}

fn tempfile_in(folder: &Path, program: &str) -> Result<(PathBuf, fs::File), PostgresError> {
    let path = folder.join(format!(".{program}.{}.out", std::process::id()));
    let file = fs::File::create(&path).map_err(io_error(format!("write {}", path.display())))?;
    Ok((path, file))
}

/// Where the server's user can work: the folder itself, or, where a folder above is closed to others
/// (as `/root` is), one outside of which the folder keeps a link. Folders above are left as they are.
fn reachable(folder: &Path, uid: u32) -> Result<PathBuf, PostgresError> {
    let closed = folder.ancestors().skip(1).any(|above| {
        fs::metadata(above).is_ok_and(|meta| {
            let bit = if meta.uid() == uid { 0o100 } else { 0o001 };
            meta.permissions().mode() & bit == 0
        })
    });
    if !closed {
        return Ok(folder.to_owned());
    }
    let link = folder.join("elsewhere");
    if let Ok(outside) = link.canonicalize() {
        return Ok(outside);
    }
    let name = u64::from_be_bytes(crate::ids::secret());
    let outside = PathBuf::from(format!("/var/tmp/furrow-{name:016x}"));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&outside)
        .map_err(io_error(format!("make {}", outside.display())))?;
    // A link to a folder that is gone is of no use.
    let _ = fs::remove_file(&link);
    symlink(&outside, &link).map_err(io_error(format!("link {}", link.display())))?;
    Ok(outside)
}

fn bin_folder() -> Result<PathBuf, PostgresError> {
    BIN_FOLDERS
        .iter()
        .map(PathBuf::from)
        .find(|f| f.join("initdb").exists())
        .ok_or(PostgresError::NotInstalled)
}

/// Whom the server runs as: nobody else where we are not root.
fn owner() -> Result<Option<(u32, u32)>, PostgresError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(io_error("read /etc/passwd"))?;
    let find = |name: &str| {
        let line = users.lines().find(|l| l.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres")
        .or_else(|| find("nobody"))
        .map(Some)
        .ok_or(PostgresError::NoUser)
}

fn free_port() -> Result<u16, PostgresError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(io_error("find a free port"))?;
    listener
        .local_addr()
        .map(|a| a.port())
        .map_err(io_error("find a free port"))
}
