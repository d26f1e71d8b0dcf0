//! Settings from a file and the environment; the only place that reads either. Never guesses: an unknown key is refused.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;

/// All settings. Environment: `FURROW__SECTION__KEY`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Keys and certificates, and the private database of the demo.
    pub data_dir: PathBuf,
    /// The database.
    pub database: Database,
    /// The human door.
    pub http: Http,
    /// The machine door.
    pub mqtt: Mqtt,
    /// The pipeline behind it.
    pub ingest: Ingest,
    /// Logs.
    pub log: Log,
}

/// Where the database is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// `postgres://…`.
    pub url: String,
    /// Where tracks are kept, if not in the same database.
    pub telemetry_url: Option<String>,
    /// Most connections of this process, 4 ..= 200.
    pub max_connections: u32,
}

/// The human door.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Where plain HTTP listens.
    pub listen: SocketAddr,
    /// Where HTTPS listens, with a certificate of the platform's own authority.
    pub tls_listen: Option<SocketAddr>,
    /// Where the counters for Prometheus are for whoever can reach it; otherwise only this host gets them.
    pub metrics_listen: Option<SocketAddr>,
    /// Names and addresses that the certificates of both doors are for.
    pub names: Vec<String>,
    /// Addresses of proxies whose `X-Forwarded-For` is believed.
    pub proxies: Vec<std::net::IpAddr>,
    /// All limits on how often are so many times as wide, 1 ..= 1,000,000.
    pub limit_factor: u32,
    /// How often one may.
    pub limits: Limits,
    /// Webhooks may be on this host or in this network: for development.
    pub webhooks_inside: bool,
}

/// How often one may; each 1 ..= 1,000,000.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Codes to one phone, an hour.
    pub codes_by_phone_h: u32,
    /// Codes asked for from one address, an hour.
    pub codes_by_address_h: u32,
    /// Sign-in tries on one phone, a quarter of an hour.
    pub sign_in_by_phone_15min: u32,
    /// Requests of who is not signed in from one address, a quarter of an hour.
    pub by_address_15min: u32,
    /// Requests of one account to one process, a minute.
    pub requests_by_account_min: u32,
    /// Orders made by one account, an hour.
    pub orders_by_account_h: u32,
    /// Machines made by one account, an hour.
    pub machines_by_account_h: u32,
    /// Organisations made and people asked in by one account, an hour.
    pub invitations_by_account_h: u32,
}

/// The machine door.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mqtt {
    /// Plain MQTT, on loopback only.
    pub listen: Option<SocketAddr>,
    /// MQTT over TLS.
    pub tls_listen: Option<SocketAddr>,
    /// What devices are told to connect to; by default made from the listeners.
    pub public_url: Option<String>,
    /// Most sessions, 1 ..= 1,000,000.
    pub max_connections: usize,
    /// Most sessions of one address, 1 ..= 1,000,000.
    pub max_per_address: usize,
    /// The operator's own integrations, which may read the bus.
    pub operators: Vec<Operator>,
    /// An outside broker in place of the gate: `mqtt://host` or `mqtts://host`.
    pub url: Option<String>,
    /// The platform's name there; the only one that may write to devices.
    pub username: Option<String>,
    /// Its password, in a file.
    pub password_file: Option<PathBuf>,
    /// The broker's authority, PEM.
    pub ca_file: Option<PathBuf>,
    /// The group in which all processes share the frames.
    pub share_group: String,
    /// A device's credential at the broker, with which its access rules are proven before serving.
    pub probe: Option<Probe>,
}

/// A device's credential at an outside broker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Its number.
    pub device: u32,
    /// Its password, in a file.
    pub password_file: PathBuf,
}

/// An integration of the operator's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Its MQTT username; its client ids begin with `operator-`.
    pub name: String,
    /// SHA-256 of its password, 64 hex digits.
    pub token_sha256: String,
    /// What it may subscribe: `furrow/v1/live/+` or `furrow/v1/event/+`, or of one machine.
    pub filters: Vec<String>,
}

/// The pipeline.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ingest {
    /// Most frames of a transaction, 1 ..= 10,000.
    pub group_frames: usize,
    /// Threads that verify signatures, 1 ..= 64.
    pub verifiers: usize,
    /// Transactions at a time, 1 ..= 16.
    pub writers: usize,
    /// Frames received and not yet taken, 64 ..= 1,000,000.
    pub queue: usize,
    /// Seconds that the database has for one statement of a group before it is tried anew, 1 ..= 600.
    pub statement_s: u64,
}

/// Logs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, or a filter such as `furrow_platform=debug,info`.
    pub level: String,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from(".furrow"),
            database: Database::default(),
            http: Http::default(),
            mqtt: Mqtt::default(),
            ingest: Ingest::default(),
            log: Log::default(),
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: String::new(),
            telemetry_url: None,
            max_connections: 20,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: loopback(8080),
            tls_listen: None,
            metrics_listen: None,
            names: vec!["localhost".into(), "127.0.0.1".into()],
            proxies: vec![],
            limit_factor: 1,
            limits: Limits::default(),
            webhooks_inside: false,
        }
    }
}

impl Http {
    fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let all = [
            ("http.limit_factor", self.limit_factor),
            ("http.limits.codes_by_phone_h", limits.codes_by_phone_h),
            ("http.limits.codes_by_address_h", limits.codes_by_address_h),
            (
                "http.limits.sign_in_by_phone_15min",
                limits.sign_in_by_phone_15min,
            ),
            ("http.limits.by_address_15min", limits.by_address_15min),
            (
                "http.limits.requests_by_account_min",
                limits.requests_by_account_min,
            ),
            (
                "http.limits.orders_by_account_h",
                limits.orders_by_account_h,
            ),
            (
                "http.limits.machines_by_account_h",
                limits.machines_by_account_h,
            ),
            (
                "http.limits.invitations_by_account_h",
                limits.invitations_by_account_h,
            ),
        ];
        let must = "between 1 and 1,000,000";
        match all.iter().find(|(_, n)| !(1..=1_000_000).contains(n)) {
            Some((key, _)) => Err(ConfigError::Range { key, must }),
            None => Ok(()),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            codes_by_phone_h: 5,
            codes_by_address_h: 60,
            sign_in_by_phone_15min: 10,
            by_address_15min: 300,
            requests_by_account_min: 600,
            orders_by_account_h: 60,
            machines_by_account_h: 60,
            invitations_by_account_h: 60,
        }
    }
}

impl Default for Mqtt {
    fn default() -> Self {
        Self {
            listen: Some(loopback(1883)),
            tls_listen: None,
            public_url: None,
            max_connections: 100_000,
            max_per_address: 20_000,
            operators: Vec::new(),
            url: None,
            username: None,
            password_file: None,
            ca_file: None,
            share_group: "furrow".into(),
            probe: None,
        }
    }
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            group_frames: 2000,
            verifiers: 2,
            writers: 2,
            queue: 8192,
            statement_s: 60,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info".into(),
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Why settings are refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{0}")]
    File(PathBuf, #[source] io::Error),
    /// The file is not TOML, or has a key or a value that is none of ours; the source names it.
    #[error("{0}")]
    Content(PathBuf, #[source] toml::de::Error),
    /// A variable of the environment names no key, or has a value that the key cannot have.
    #[error("{0}")]
    Variable(String, #[source] toml::de::Error),
    /// A value is out of its range.
    #[error("{key} must be {must}")]
    Range {
        /// Which key.
        key: &'static str,
        /// What it must be.
        must: &'static str,
    },
}

/// What a variable of the environment begins with.
const PREFIX: &str = "FURROW__";

impl Settings {
    /// Settings from a file, where one is given, and the environment over it.
    ///
    /// Errors: [`ConfigError`] naming the file or the variable, and the key.
    #[expect(clippy::disallowed_methods, reason = "this is the room for it")]
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::from(file, std::env::vars())
    }

    fn from(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut table = toml::Table::new();
        if let Some(file) = file {
            let text =
                fs::read_to_string(file).map_err(|e| ConfigError::File(file.to_owned(), e))?;
            let content = |e| ConfigError::Content(file.to_owned(), e);
            // Read as settings by itself first: then an error shows the line.
            toml::from_str::<Self>(&text).map_err(content)?;
            table = text.parse().map_err(content)?;
        }
        let mut variables: Vec<_> = environment
            .filter(|(name, _)| name.starts_with(PREFIX))
            .collect();
        variables.sort();
        for (name, value) in variables {
            table = with_variable(&table, &name, &value)?;
        }
        let settings: Self = table
            .try_into()
            .map_err(|e| ConfigError::Variable(PREFIX.to_owned(), e))?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let range = |ok: bool, key, must| {
            if ok {
                Ok(())
            } else {
                Err(ConfigError::Range { key, must })
            }
        };
        range(
            (4..=200).contains(&self.database.max_connections),
            "database.max_connections",
            "between 4 and 200",
        )?;
        self.http.check()?;
        range(
            (1..=1_000_000).contains(&self.mqtt.max_connections),
            "mqtt.max_connections",
            "between 1 and 1,000,000",
        )?;
        range(
            (1..=1_000_000).contains(&self.mqtt.max_per_address),
            "mqtt.max_per_address",
            "between 1 and 1,000,000",
        )?;
        let plain = self.mqtt.listen.is_none_or(|a| a.ip().is_loopback());
        range(
            plain,
            "mqtt.listen",
            "a loopback address: without TLS anybody could read the tokens",
        )?;
        range(
            (1..=10_000).contains(&self.ingest.group_frames),
            "ingest.group_frames",
            "between 1 and 10,000",
        )?;
        range(
            (1..=64).contains(&self.ingest.verifiers),
            "ingest.verifiers",
            "between 1 and 64",
        )?;
        range(
            (1..=16).contains(&self.ingest.writers),
            "ingest.writers",
            "between 1 and 16",
        )?;
        range(
            (64..=1_000_000).contains(&self.ingest.queue),
            "ingest.queue",
            "between 64 and 1,000,000",
        )?;
        range(
            (1..=600).contains(&self.ingest.statement_s),
            "ingest.statement_s",
            "between 1 and 600",
        )?;
        Ok(())
    }
}

/// A secret that a setting names the file of, without the end of its line.
///
/// Errors: the file cannot be read.
pub fn secret(file: &Path) -> Result<String, ConfigError> {
    let text = fs::read_to_string(file).map_err(|e| ConfigError::File(file.to_owned(), e))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The settings with one variable over them. Its value may be written as in the file, and a text
/// also without quotes.
fn with_variable(table: &toml::Table, name: &str, value: &str) -> Result<toml::Table, ConfigError> {
    let path = name.trim_start_matches(PREFIX).to_ascii_lowercase();
    let keys: Vec<&str> = path.split("__").collect();
    let as_text = toml::Value::String(value.to_owned());
    let as_written = format!("value = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("value"));
    let mut refused = None;
    for value in as_written.into_iter().chain([as_text]) {
        let mut with = table.clone();
        put(&mut with, &keys, value);
        match with.clone().try_into::<Settings>() {
            Ok(_) => return Ok(with),
            Err(error) => {
                refused.get_or_insert(error);
            }
        }
    }
    match refused {
        Some(error) => Err(ConfigError::Variable(name.to_owned(), error)),
        None => Ok(table.clone()),
    }
}

fn put(table: &mut toml::Table, keys: &[&str], value: toml::Value) {
    match keys {
        [] => {}
        [last] => {
            table.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = table
                .entry(*first)
                .or_insert_with(|| toml::Table::new().into());
            if !inner.is_table() {
                *inner = toml::Table::new().into();
            }
            if let Some(inner) = inner.as_table_mut() {
                put(inner, rest, value);
            }
        }
    }
}

/// The folder of the running program: what was built with it lies beside it.
///
/// Errors: the system does not tell.
pub fn own_folder() -> io::Result<PathBuf> {
    let mut path = std::env::current_exe()?;
    path.pop();
    Ok(path)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Settings, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("furrow.toml");
        std::fs::write(&file, text).unwrap();
        Settings::from(Some(&file), std::iter::empty())
    }

    fn with(name: &str, value: &str) -> Result<Settings, ConfigError> {
        let variable = (name.to_owned(), value.to_owned());
        Settings::from(None, std::iter::once(variable))
    }

    fn whole(error: &ConfigError) -> String {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            text.push_str(&format!(": {inner}"));
            source = inner.source();
        }
        text
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_file_the_line_and_the_key() {
        let said = whole(&load("[mqtt]\nlisten_port = 1").unwrap_err());
        for part in ["furrow.toml", "line 2", "listen_port"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(whole(&load("[mqtx]").unwrap_err()).contains("mqtx"));
        assert!(whole(&load("listen = [").unwrap_err()).contains("line 1"));
    }

    #[test]
    fn a_variable_goes_over_the_file_and_an_unknown_one_is_refused_by_its_name() {
        let url = "postgres://furrow@db/furrow";
        let settings = with("FURROW__DATABASE__URL", url).unwrap();
        assert_eq!(settings.database.url, url);
        let names = with("FURROW__HTTP__NAMES", "[\"farm.example\"]").unwrap();
        assert_eq!(names.http.names, ["farm.example"]);
        let listen = with("FURROW__HTTP__LISTEN", "[::1]:80").unwrap();
        assert_eq!(listen.http.listen.port(), 80);
        let number = with("FURROW__MQTT__PUBLIC_URL", "17").unwrap();
        assert_eq!(number.mqtt.public_url.as_deref(), Some("17"));
        for (name, value) in [
            ("FURROW__MQTT__LISTEN_PORT", "1"),
            ("FURROW__DATA_DIR__X", "1"),
            ("FURROW__INGEST__WRITERS", "two"),
            ("FURROW__", ""),
        ] {
            let said = whole(&with(name, value).unwrap_err());
            assert!(said.contains(name), "{said}");
        }
        assert!(with("FURROW_SHARED_DATA", "/elsewhere").is_ok());
    }

    #[test]
    fn plain_mqtt_is_refused_outside_loopback() {
        let error = load("[mqtt]\nlisten = \"0.0.0.0:1883\"").unwrap_err();
        assert!(whole(&error).contains("mqtt.listen"));
    }

    #[test]
    fn values_out_of_range_are_refused_by_their_key() {
        assert!(whole(&load("[ingest]\nwriters = 0").unwrap_err()).contains("ingest.writers"));
        assert!(whole(&load("[ingest]\nwriters = \"x\"").unwrap_err()).contains("writers"));
    }

    #[test]
    fn an_empty_file_gives_the_defaults() {
        assert_eq!(load("").unwrap().ingest.group_frames, 2000);
    }
}
