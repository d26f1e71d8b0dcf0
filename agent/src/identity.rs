//! Who this agent is: its key, number, token and certificates in a folder that is exchanged as a whole. Never sends the key anywhere.

use std::{
    fmt, fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use furrow_protocol::{SigningKey, frame::Device};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why an identity cannot be read or written.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// A file.
    #[error("{0}")]
    File(PathBuf, #[source] io::Error),
    /// What stands in a file.
    #[error("{0}: {1}")]
    Content(PathBuf, String),
}

/// An identity as the platform gave it.
#[derive(Clone)]
pub struct Identity {
    /// Its number.
    pub device: Device,
    /// Its key.
    pub key: SigningKey,
    /// For doors that ask for no certificate, 64 hex digits.
    pub token: String,
    /// Where the platform said that its machine door is.
    pub mqtt_url: String,
    /// Where it was enrolled.
    pub server: String,
    /// The client certificate over the key, PEM.
    pub certificate_pem: String,
    /// The platform's authority, PEM.
    pub ca_pem: String,
}

impl fmt::Debug for Identity {
    /// Without key and token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.device)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    device: u32,
    token: String,
    mqtt_url: String,
    server: String,
}

const CURRENT: &str = "identity";
const PENDING: &str = "identity.new";
const FORMER: &str = "identity.old";
const KEY: &str = "device.key";
const DEVICE: &str = "device.json";
const CERTIFICATE: &str = "certificate.pem";
const CA: &str = "ca.pem";

/// PKCS #8 of an Ed25519 key up to the 32 bytes of its seed (RFC 8410).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

impl Identity {
    /// The identity in force; None if the agent was never enrolled.
    ///
    /// Errors: [`IdentityError`].
    pub fn load(data_dir: &Path) -> Result<Option<Self>, IdentityError> {
        finish_exchange(data_dir)?;
        read(&data_dir.join(CURRENT))
    }

    /// The identity that was given and is not proven yet.
    ///
    /// Errors: [`IdentityError`].
    pub fn pending(data_dir: &Path) -> Result<Option<Self>, IdentityError> {
        read(&data_dir.join(PENDING))
    }

    /// Writes it beside the one in force.
    ///
    /// Errors: [`IdentityError`].
    pub fn save_pending(&self, data_dir: &Path) -> Result<(), IdentityError> {
        let building = data_dir.join("identity.tmp");
        remove(&building)?;
        make_folder(data_dir)?;
        make_folder(&building)?;
        let device = DeviceFile {
            device: self.device.0,
            token: self.token.clone(),
            mqtt_url: self.mqtt_url.clone(),
            server: self.server.clone(),
        };
        let json = serde_json::to_string_pretty(&device)
            .map_err(|e| IdentityError::Content(building.join(DEVICE), e.to_string()))?;
        for (name, text) in [
            (KEY, self.key_pem()),
            (DEVICE, json),
            (CERTIFICATE, self.certificate_pem.clone()),
            (CA, self.ca_pem.clone()),
        ] {
            write(&building.join(name), text.as_bytes())?;
        }
        sync(&building)?;
        let pending = data_dir.join(PENDING);
        remove(&pending)?;
        rename(&building, &pending)?;
        sync(data_dir)
    }

    /// Puts the pending identity in the place of the one in force, which is kept aside.
    ///
    /// Errors: [`IdentityError`]; the agent then has the one or the other, never none.
    pub fn activate_pending(data_dir: &Path) -> Result<(), IdentityError> {
        let (current, pending) = (data_dir.join(CURRENT), data_dir.join(PENDING));
        if current.exists() {
            let former = data_dir.join(FORMER);
            remove(&former)?;
            rename(&current, &former)?;
            sync(data_dir)?;
        }
        rename(&pending, &current)?;
        sync(data_dir)
    }

    /// The key as PKCS #8, DER.
    #[must_use]
    pub fn key_der(&self) -> Vec<u8> {
        [&PKCS8_PREFIX[..], self.key.as_bytes()].concat()
    }

    fn key_pem(&self) -> String {
        let body = BASE64_STANDARD.encode(self.key_der());
        format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
    }
}

/// The power went between the two renames of an exchange: the new identity was proven before the
/// first of them.
fn finish_exchange(data_dir: &Path) -> Result<(), IdentityError> {
    let (current, pending) = (data_dir.join(CURRENT), data_dir.join(PENDING));
    if !current.exists() && pending.exists() && data_dir.join(FORMER).exists() {
        rename(&pending, &current)?;
        sync(data_dir)?;
    }
    Ok(())
}

fn read(folder: &Path) -> Result<Option<Identity>, IdentityError> {
    if !folder.exists() {
        return Ok(None);
    }
    let text = |name: &str| {
        let file = folder.join(name);
        fs::read_to_string(&file).map_err(|e| IdentityError::File(file, e))
    };
    let device: DeviceFile = serde_json::from_str(&text(DEVICE)?)
        .map_err(|e| IdentityError::Content(folder.join(DEVICE), e.to_string()))?;
    let key = key_of(&text(KEY)?).ok_or_else(|| {
        IdentityError::Content(folder.join(KEY), "not an Ed25519 key (PKCS #8)".to_owned())
    })?;
    Ok(Some(Identity {
        device: Device(device.device),
        key,
        token: device.token,
        mqtt_url: device.mqtt_url,
        server: device.server,
        certificate_pem: text(CERTIFICATE)?,
        ca_pem: text(CA)?,
    }))
}

fn key_of(pem: &str) -> Option<SigningKey> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    let seed = der.secret_pkcs8_der().strip_prefix(&PKCS8_PREFIX)?;
    Some(SigningKey::from_bytes(seed.try_into().ok()?))
}

fn make_folder(path: &Path) -> Result<(), IdentityError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| IdentityError::File(path.to_owned(), e))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
    written.map_err(|e| IdentityError::File(path.to_owned(), e))
}

fn remove(path: &Path) -> Result<(), IdentityError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(IdentityError::File(path.to_owned(), error))
        }
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), IdentityError> {
    fs::rename(from, to).map_err(|e| IdentityError::File(to.to_owned(), e))
}

fn sync(folder: &Path) -> Result<(), IdentityError> {
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| IdentityError::File(folder.to_owned(), e))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn identity(number: u32) -> Identity {
        Identity {
            device: Device(number),
            key: SigningKey::from_bytes(&[u8::try_from(number).unwrap_or(0); 32]),
            token: "ab".repeat(32),
            mqtt_url: "mqtt://127.0.0.1:1883".to_owned(),
            server: "http://127.0.0.1:8080".to_owned(),
            certificate_pem: "c".to_owned(),
            ca_pem: "a".to_owned(),
        }
    }

    fn number(data_dir: &Path) -> Option<u32> {
        Identity::load(data_dir)
            .expect("readable files")
            .map(|i| i.device.0)
    }

    #[test]
    fn an_identity_is_read_as_it_was_written_and_its_key_is_for_nobody_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        assert_eq!(number(&data), None);
        identity(7).save_pending(&data).expect("a free disk");
        assert_eq!(number(&data), None, "not before it is activated");
        Identity::activate_pending(&data).expect("a free disk");
        let read = Identity::load(&data).expect("readable").expect("enrolled");
        assert_eq!(read.key.to_bytes(), [7; 32]);
        assert_eq!((read.device.0, read.token.len()), (7, 64));
        let mode = fs::metadata(data.join("identity/device.key")).expect("a key file");
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        assert!(!format!("{read:?}").contains("ab"));
    }

    #[test]
    fn an_exchange_that_the_power_cut_in_the_middle_is_finished_at_the_next_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path();
        for n in [7, 8] {
            identity(n).save_pending(data).expect("a free disk");
            if n == 7 {
                Identity::activate_pending(data).expect("a free disk");
            }
        }
        assert_eq!(number(data), Some(7));
        fs::rename(data.join(CURRENT), data.join(FORMER)).expect("the first half");
        assert_eq!(number(data), Some(8));
        assert!(Identity::pending(data).expect("readable").is_none());
    }
}
