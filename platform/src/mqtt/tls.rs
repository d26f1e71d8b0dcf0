//! TLS of the doors: our certificate out, devices' certificates in. Never trusts another authority than our own.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use thiserror::Error;
use x509_parser::prelude::FromDer as _;

/// Where the material lies.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The authority's certificate, PEM.
    pub authority: PathBuf,
    /// Our certificate, PEM.
    pub certificate: PathBuf,
    /// Our key, PEM.
    pub key: PathBuf,
}

/// Why TLS cannot be had.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file.
    #[error("read {0}")]
    File(PathBuf, #[source] io::Error),
    /// Not PEM.
    #[error("{0} is not PEM")]
    Pem(PathBuf, #[source] rustls::pki_types::pem::Error),
    /// Certificate and key do not fit.
    #[error("certificate and key")]
    Rustls(#[from] rustls::Error),
    /// The authority is none.
    #[error("client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = fs::read(path).map_err(|e| TlsError::File(path.to_owned(), e))?;
    CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| TlsError::Pem(path.to_owned(), e))
}

impl TlsFiles {
    fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let pem = fs::read(&self.key).map_err(|e| TlsError::File(self.key.clone(), e))?;
        PrivateKeyDer::from_pem_slice(&pem).map_err(|e| TlsError::Pem(self.key.clone(), e))
    }

    /// For the machine door: a device may show a certificate of our authority.
    ///
    /// Errors: [`TlsError`].
    pub fn for_machines(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            roots.add(certificate)?;
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.certificate)?, self.key()?)?;
        config.max_early_data_size = 0;
        // No resumption: each connection shows its certificate, and its dates are looked at.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(config))
    }

    /// For the human door.
    ///
    /// Errors: [`TlsError`].
    pub fn for_people(&self) -> Result<Arc<ServerConfig>, TlsError> {
        // With the authority: a box that enrols knows no more than its SHA-256.
        let mut chain = certificates(&self.certificate)?;
        chain.extend(certificates(&self.authority)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, self.key()?)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The Ed25519 key of a certificate, if it has one.
#[must_use]
pub fn ed25519_key(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let (_, parsed) = x509_parser::certificate::X509Certificate::from_der(certificate).ok()?;
    let spki = parsed.public_key();
    // id-Ed25519, RFC 8410.
    if spki.algorithm.algorithm.to_id_string() != "1.3.101.112" {
        return None;
    }
    spki.subject_public_key.data.as_ref().try_into().ok()
}
