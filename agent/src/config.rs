//! The agent's settings from a TOML file. Unknown keys are refused with file, line and key; nothing here can touch what the spool holds.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use crate::{endpoint::Endpoint, spool::Limits};

/// Why there are no settings.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file.
    #[error("{0}")]
    File(PathBuf, #[source] io::Error),
    /// What stands in it.
    #[error("{file}:{line}: {message}")]
    Content {
        /// The file.
        file: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong, with the key.
        message: String,
    },
}

/// The settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Identity and spool lie here.
    pub data_dir: PathBuf,
    /// What is logged.
    pub log_level: Level,
    /// Where positions come from.
    pub source: SourceConfig,
    /// How they are thinned and gathered.
    pub sampling: Sampling,
    /// Room of the spool.
    pub spool: Limits,
    /// The way to the platform.
    pub link: LinkConfig,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Errors only.
    Error,
    /// Warnings too.
    Warn,
    /// The default.
    #[default]
    Info,
    /// For finding faults.
    Debug,
}

/// Where positions come from.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceConfig {
    /// gpsd's JSON over TCP.
    Gpsd {
        /// `host:port`.
        address: String,
    },
    /// NMEA 0183 of a serial port.
    Serial {
        /// A stable path, such as `/dev/serial/by-id/…`.
        path: PathBuf,
        /// Bits per second.
        baud: u32,
    },
    /// NMEA 0183 of a TCP server.
    Tcp {
        /// `host:port`.
        address: String,
    },
    /// NMEA 0183 in UDP datagrams to this host.
    Udp {
        /// `address:port` to listen on.
        listen: String,
    },
    /// NMEA 0183 of a file that grows, or of a named pipe.
    File {
        /// The file.
        path: PathBuf,
    },
    /// NMEA 0183 on standard input.
    Stdin,
    /// A simulated machine in real time.
    Simulator {
        /// The same seed drives the same way.
        seed: u64,
        /// Over 1, it begins in the past and passes this much faster; for rigs.
        speed: f64,
    },
}

/// How positions are thinned and gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Fixes per second x 10, 1 to 100.
    pub rate_dhz: u16,
    /// Length of a batch, s, 1 to 60.
    pub batch_s: u16,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            rate_dhz: 10,
            batch_s: 10,
        }
    }
}

/// The way to the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkConfig {
    /// In place of the address that was given at enrolment.
    pub url: Option<Endpoint>,
    /// Longest pause between two attempts, s, 1 to 3600.
    pub backoff_cap_s: u32,
    /// Most frames that wait for their ack at once, 1 to 32.
    pub window: u16,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            url: None,
            backoff_cap_s: 60,
            window: 32,
        }
    }
}

const MIB: u64 = 1 << 20;

/// Room of the spool where nothing else is said.
#[must_use]
pub fn default_limits() -> Limits {
    Limits {
        quota_bytes: 512 * MIB,
        min_free_bytes: 64 * MIB,
        min_free_inodes: 256,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    data_dir: PathBuf,
    #[serde(default)]
    log_level: Level,
    source: Spanned<SourceFile>,
    #[serde(default)]
    sampling: SamplingFile,
    #[serde(default)]
    spool: SpoolFile,
    #[serde(default)]
    link: LinkFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Gpsd,
    Serial,
    Tcp,
    Udp,
    File,
    Stdin,
    Simulator,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceFile {
    kind: Kind,
    address: Option<Spanned<String>>,
    path: Option<Spanned<PathBuf>>,
    baud: Option<Spanned<u32>>,
    listen: Option<Spanned<String>>,
    seed: Option<Spanned<u64>>,
    speed: Option<Spanned<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SamplingFile {
    rate_hz: Option<Spanned<f64>>,
    batch_s: Option<Spanned<u16>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpoolFile {
    quota_mb: Option<Spanned<u64>>,
    min_free_mb: Option<Spanned<u64>>,
    min_free_inodes: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    url: Option<Spanned<String>>,
    backoff_cap_s: Option<Spanned<u32>>,
    window: Option<Spanned<u16>>,
}

/// What is wrong, and at which byte.
struct Wrong(usize, String);

impl Config {
    /// Reads a settings file.
    ///
    /// Errors: [`ConfigError`].
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(file).map_err(|e| ConfigError::File(file.to_owned(), e))?;
        Self::parse(&text).map_err(|Wrong(at, message)| ConfigError::Content {
            file: file.to_owned(),
            line: 1 + text.bytes().take(at).filter(|b| *b == b'\n').count(),
            message,
        })
    }

    fn parse(text: &str) -> Result<Self, Wrong> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(text.len(), |span| span.start);
            Wrong(at, error.message().replace('\n', " "))
        })?;
        if file.data_dir.as_os_str().is_empty() {
            return Err(Wrong(0, "data_dir must not be empty".to_owned()));
        }
        Ok(Self {
            data_dir: file.data_dir,
            log_level: file.log_level,
            source: source(file.source)?,
            sampling: sampling(&file.sampling)?,
            spool: spool(&file.spool)?,
            link: link(&file.link)?,
        })
    }
}

fn source(file: Spanned<SourceFile>) -> Result<SourceConfig, Wrong> {
    let at = file.span().start;
    let mut given = file.into_inner();
    let kind = given.kind;
    let lacks = |key: &str| Wrong(at, format!("source.{key} is missing for this kind"));
    let source = match kind {
        Kind::Gpsd => SourceConfig::Gpsd {
            address: given
                .address
                .take()
                .map_or_else(|| "127.0.0.1:2947".to_owned(), Spanned::into_inner),
        },
        Kind::Serial => SourceConfig::Serial {
            path: given.path.take().ok_or_else(|| lacks("path"))?.into_inner(),
            baud: within(given.baud.take().as_ref(), "source.baud", 300, 4_000_000)?
                .unwrap_or(9600),
        },
        Kind::Tcp => SourceConfig::Tcp {
            address: given
                .address
                .take()
                .ok_or_else(|| lacks("address"))?
                .into_inner(),
        },
        Kind::Udp => SourceConfig::Udp {
            listen: given
                .listen
                .take()
                .ok_or_else(|| lacks("listen"))?
                .into_inner(),
        },
        Kind::File => SourceConfig::File {
            path: given.path.take().ok_or_else(|| lacks("path"))?.into_inner(),
        },
        Kind::Stdin => SourceConfig::Stdin,
        Kind::Simulator => SourceConfig::Simulator {
            seed: given.seed.take().map_or(1, Spanned::into_inner),
            speed: within(given.speed.take().as_ref(), "source.speed", 1.0, 10_000.0)?
                .unwrap_or(1.0),
        },
    };
    // What is left over says something that would not be done.
    let left = [
        ("address", given.address.map(|v| v.span())),
        ("path", given.path.map(|v| v.span())),
        ("baud", given.baud.map(|v| v.span())),
        ("listen", given.listen.map(|v| v.span())),
        ("seed", given.seed.map(|v| v.span())),
        ("speed", given.speed.map(|v| v.span())),
    ];
    for (key, span) in left {
        if let Some(span) = span {
            let message = format!("source.{key} means nothing for this kind of source");
            return Err(Wrong(span.start, message));
        }
    }
    Ok(source)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the rate lies between 0.1 and 10"
)]
fn sampling(file: &SamplingFile) -> Result<Sampling, Wrong> {
    let rate = within(file.rate_hz.as_ref(), "sampling.rate_hz", 0.1, 10.0)?;
    Ok(Sampling {
        rate_dhz: rate.map_or(10, |hz| (hz * 10.0).round() as u16),
        batch_s: within(file.batch_s.as_ref(), "sampling.batch_s", 1, 60)?.unwrap_or(10),
    })
}

fn spool(file: &SpoolFile) -> Result<Limits, Wrong> {
    let usual = default_limits();
    let quota = within(file.quota_mb.as_ref(), "spool.quota_mb", 2, 1 << 20)?;
    let free = within(file.min_free_mb.as_ref(), "spool.min_free_mb", 0, 1 << 20)?;
    let inodes = file.min_free_inodes.as_ref();
    Ok(Limits {
        quota_bytes: quota.map_or(usual.quota_bytes, |mb| mb * MIB),
        min_free_bytes: free.map_or(usual.min_free_bytes, |mb| mb * MIB),
        min_free_inodes: within(inodes, "spool.min_free_inodes", 0, 1 << 40)?
            .unwrap_or(usual.min_free_inodes),
    })
}

fn link(file: &LinkFile) -> Result<LinkConfig, Wrong> {
    let usual = LinkConfig::default();
    let url = match &file.url {
        None => None,
        Some(url) => {
            let parsed = Endpoint::mqtt(url.get_ref());
            Some(parsed.map_err(|e| Wrong(url.span().start, format!("link.url: {e}")))?)
        }
    };
    let cap = file.backoff_cap_s.as_ref();
    Ok(LinkConfig {
        url,
        backoff_cap_s: within(cap, "link.backoff_cap_s", 1, 3600)?.unwrap_or(usual.backoff_cap_s),
        window: within(file.window.as_ref(), "link.window", 1, 32)?.unwrap_or(usual.window),
    })
}

fn within<T: PartialOrd + Copy + fmt::Display>(
    value: Option<&Spanned<T>>,
    key: &str,
    least: T,
    most: T,
) -> Result<Option<T>, Wrong> {
    match value {
        None => Ok(None),
        Some(value) if least <= *value.get_ref() && *value.get_ref() <= most => {
            Ok(Some(*value.get_ref()))
        }
        Some(value) => Err(Wrong(
            value.span().start,
            format!("{key} must lie between {least} and {most}"),
        )),
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn fault(text: &str) -> (usize, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("agent.toml");
        fs::write(&file, text).expect("a file");
        match Config::read(&file) {
            Err(ConfigError::Content { line, message, .. }) => (line, message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn little_needs_to_be_said() {
        let config = Config::parse("data_dir = '/d'\n[source]\nkind = 'gpsd'\n");
        let config = config.map_err(|Wrong(_, m)| m).expect("good settings");
        let address = "127.0.0.1:2947".to_owned();
        assert_eq!(config.source, SourceConfig::Gpsd { address });
        assert_eq!(config.link, LinkConfig::default());
        assert_eq!(config.spool, default_limits());
        assert_eq!(config.sampling, Sampling::default());
    }

    #[test]
    fn every_key_is_read() {
        let text = "data_dir = '/d'\nlog_level = 'debug'\n\
            [source]\nkind = 'serial'\npath = '/dev/x'\nbaud = 115200\n\
            [sampling]\nrate_hz = 0.5\nbatch_s = 30\n\
            [spool]\nquota_mb = 100\nmin_free_mb = 10\nmin_free_inodes = 5\n\
            [link]\nurl = 'mqtts://farm.example:8883'\nbackoff_cap_s = 2\nwindow = 8\n";
        let config = Config::parse(text).map_err(|Wrong(_, m)| m);
        let config = config.expect("good settings");
        let sampling = Sampling {
            rate_dhz: 5,
            batch_s: 30,
        };
        assert_eq!(config.sampling, sampling);
        assert_eq!(config.spool.quota_bytes, 100 << 20);
        assert_eq!((config.link.window, config.link.backoff_cap_s), (8, 2));
        assert_eq!(config.link.url.map(|u| u.port), Some(8883));
        assert_eq!(config.log_level, Level::Debug);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_name() {
        let (line, message) =
            fault("data_dir = '/d'\n[source]\nkind = 'stdin'\n[link]\nwindw = 3\n");
        assert_eq!(line, 5);
        assert!(message.contains("windw"), "{message}");
        let (line, message) = fault("data_dir = '/d'\nspol = 1\n[source]\nkind = 'stdin'\n");
        assert_eq!(line, 2);
        assert!(message.contains("spol"), "{message}");
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_its_line_and_name() {
        for (text, line, name) in [
            (
                "[source]\nkind = 'stdin'\n[link]\nwindow = 33\n",
                5,
                "link.window",
            ),
            (
                "[source]\nkind = 'stdin'\n[link]\nurl = 'mqtt://far.example'\n",
                5,
                "loopback",
            ),
            (
                "[source]\nkind = 'stdin'\n[sampling]\nrate_hz = 11.0\n",
                5,
                "sampling.rate_hz",
            ),
            (
                "[source]\nkind = 'stdin'\n[sampling]\nrate_hz = nan\n",
                5,
                "sampling.rate_hz",
            ),
            ("[source]\nkind = 'tcp'\n", 2, "source.address"),
            ("[source]\nkind = 'stdin'\nbaud = 9600\n", 4, "source.baud"),
            ("[source]\nkind = 'carrier pigeon'\n", 3, "carrier pigeon"),
            ("[source]\nkind = 7\n", 3, "kind"),
            ("[spool]\n", 1, "source"),
        ] {
            let (at, message) = fault(&format!("data_dir = '/d'\n{text}"));
            assert!(message.contains(name) || name == "kind", "{message}");
            assert_eq!(at, line, "{text}: {message}");
        }
    }
}
