//! The platform's own certificate authority: made at first start, signs the doors' and the devices' certificates. Its key never leaves its file.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use chrono::{DateTime, Datelike as _, Days, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SignatureAlgorithm,
};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::devices::hex;

/// Days a device's certificate is good for: ten years; the register revokes.
const DEVICE_DAYS: u64 = 3653;
/// Days the authority's certificate is good for.
const AUTHORITY_DAYS: u64 = 7305;

/// Why there is no authority.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// A file.
    #[error("{0}")]
    File(PathBuf, #[source] io::Error),
    /// A key or a certificate.
    #[error("certificate")]
    Certificate(#[from] rcgen::Error),
}

/// Where the material of the doors' TLS lies, PEM.
#[derive(Debug, Clone)]
pub struct AuthorityFiles {
    /// The authority's certificate.
    pub authority: PathBuf,
    /// The doors' certificate.
    pub certificate: PathBuf,
    /// The doors' key.
    pub key: PathBuf,
}

/// The authority.
pub struct Authority {
    folder: PathBuf,
    key: KeyPair,
    certificate_pem: String,
    certificate_der: Vec<u8>,
}

impl Authority {
    /// Opens the authority under a folder, making it at first.
    ///
    /// Errors: [`AuthorityError`].
    pub fn open(folder: &Path, now: DateTime<Utc>) -> Result<Self, AuthorityError> {
        let folder = folder.join("authority");
        fs::create_dir_all(&folder).map_err(|e| AuthorityError::File(folder.clone(), e))?;
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        // Two processes that begin at once must not each make one.
        let _held = hold(&folder)?;
        let (key_path, certificate_path) = (folder.join("ca.key"), folder.join("ca.pem"));
        let key = if key_path.exists() {
            KeyPair::from_pem(&read(&key_path)?)?
        } else {
            let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
            write(&key_path, &key.serialize_pem())?;
            key
        };
        if !certificate_path.exists() {
            write(
                &certificate_path,
                &authority_params(now)?.self_signed(&key)?.pem(),
            )?;
        }
        let certificate_pem = read(&certificate_path)?;
        let certificate_der = der(&certificate_pem);
        Ok(Self {
            folder,
            key,
            certificate_pem,
            certificate_der,
        })
    }

    /// Its certificate.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// SHA-256 of its certificate, by which `furrow-agent enroll` knows it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(&self.certificate_der))
    }

    /// The files of the doors' TLS.
    #[must_use]
    pub fn files(&self) -> AuthorityFiles {
        AuthorityFiles {
            authority: self.folder.join("ca.pem"),
            certificate: self.folder.join("server.pem"),
            key: self.folder.join("server.key"),
        }
    }

    fn issuer(&self) -> Result<Issuer<'_, &KeyPair>, AuthorityError> {
        Ok(Issuer::from_ca_cert_pem(&self.certificate_pem, &self.key)?)
    }

    /// Makes a new certificate of the doors for `names`.
    ///
    /// Errors: [`AuthorityError`].
    pub fn renew_server(&self, names: &[String], now: DateTime<Utc>) -> Result<(), AuthorityError> {
        let _held = hold(&self.folder)?;
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "Furrow platform");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        valid(&mut params, now, DEVICE_DAYS);
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        let files = self.files();
        write(&files.key, &key.serialize_pem())?;
        write(&files.certificate, &certificate.pem())
    }

    /// A client certificate over a device's own key.
    ///
    /// Errors: [`AuthorityError`].
    pub fn device_certificate(
        &self,
        device: u32,
        public_key: &[u8; 32],
        now: DateTime<Utc>,
    ) -> Result<String, AuthorityError> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, format!("furrow-{device}"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        valid(&mut params, now, DEVICE_DAYS);
        let certificate = params.signed_by(&DeviceKey(public_key), &self.issuer()?)?;
        Ok(certificate.pem())
    }
}

/// A device's public key, of which the secret half never leaves the device.
struct DeviceKey<'a>(&'a [u8; 32]);

impl PublicKeyData for DeviceKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

fn authority_params(now: DateTime<Utc>) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Furrow authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, now, AUTHORITY_DAYS);
    Ok(params)
}

/// From a day ago: boxes without a clock battery may be a little behind.
fn valid(params: &mut CertificateParams, now: DateTime<Utc>, days: u64) {
    let date = |at: DateTime<Utc>| {
        let day = |n: u32| u8::try_from(n).unwrap_or(1);
        rcgen::date_time_ymd(at.year(), day(at.month()), day(at.day()))
    };
    params.not_before = date(now - Days::new(1));
    params.not_after = date(now + Days::new(days));
}

fn read(path: &Path) -> Result<String, AuthorityError> {
    fs::read_to_string(path).map_err(|e| AuthorityError::File(path.to_owned(), e))
}

/// Holds the folder against other processes until the file is closed.
fn hold(folder: &Path) -> Result<fs::File, AuthorityError> {
    let path = folder.join("lock");
    let file_error = |e| AuthorityError::File(path.clone(), e);
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(file_error)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|e| file_error(e.into()))?;
    Ok(file)
}

/// Whole or not at all, and for nobody else to read.
fn write(path: &Path, text: &str) -> Result<(), AuthorityError> {
    let file_error = |e| AuthorityError::File(path.to_owned(), e);
    let temporary = path.with_extension("new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(file_error)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(file_error)?;
    fs::rename(&temporary, path).map_err(file_error)
}

fn der(pem: &str) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map(|c| c.to_vec())
        .unwrap_or_default()
}
