//! TLS of both ways to the platform: the machine door with our certificate, the enrolment with a pinned authority. Never trusts the host's list of authorities.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
        pem::{self, PemObject as _},
    },
    server::ParsedCertificate,
};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::{clock::SharedClock, identity::Identity};

/// Why TLS cannot be had.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A certificate is not PEM.
    #[error("a certificate is not PEM")]
    Pem(#[from] pem::Error),
    /// Key and certificate do not fit, or are none.
    #[error("key and certificates")]
    Rustls(#[from] Error),
}

/// SHA-256 of the first certificate in a PEM text.
///
/// Errors: it is not PEM.
pub fn fingerprint(pem: &str) -> Result<[u8; 32], TlsError> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes())?;
    Ok(Sha256::digest(&certificate).into())
}

/// For the machine door: the authority of the enrolment alone, our certificate, our time.
///
/// Errors: [`TlsError`].
pub fn for_machines(
    identity: &Identity,
    clock: SharedClock,
) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(identity.ca_pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key_der()));
    let config = ClientConfig::builder_with_details(provider(), clock)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    Ok(Arc::new(config))
}

/// For the enrolment: only a chain that ends in the authority with this SHA-256.
///
/// Errors: [`TlsError`].
pub fn for_enrolment(pin: [u8; 32], clock: SharedClock) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = provider();
    let verifier = Arc::new(Pinned {
        pin,
        provider: Arc::clone(&provider),
    });
    let config = ClientConfig::builder_with_details(provider, clock)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts what the pinned authority has signed for the server's name, in its time.
#[derive(Debug)]
struct Pinned {
    pin: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let authority = intermediates
            .iter()
            .find(|certificate| <[u8; 32]>::from(Sha256::digest(certificate)) == self.pin)
            .ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let server = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &server,
            &roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        verify_server_name(&server, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
