//! The human door over TLS: its certificate is of the authority that a box pins.

use std::sync::Arc;

use furrow_platform::app::devices::hex;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::world::{World, loopback};

fn client(authority: CertificateDer<'static>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn who_trusts_the_pinned_authority_reaches_the_api_and_silent_sockets_hold_up_nobody() {
    let mut world = World::new().await;
    world.settings.http.tls_listen = Some(loopback());
    world.settings.http.names = vec!["farm.example".into(), "127.0.0.1".into()];
    let platform = world.platform().await;
    let https = platform.https_addr.unwrap();
    let pem = platform.authority.certificate_pem().to_owned();
    let authority = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    assert_eq!(
        hex(&Sha256::digest(&authority)),
        platform.authority.fingerprint()
    );

    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(https).await.unwrap());
    }
    for name in ["farm.example", "127.0.0.1"] {
        let socket = TcpStream::connect(https).await.unwrap();
        let name = ServerName::try_from(name).unwrap();
        let mut stream = client(authority.clone())
            .connect(name, socket)
            .await
            .unwrap();
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut said = String::new();
        // The other side may close without a farewell of TLS.
        let _ = stream.read_to_string(&mut said).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
    let other = World::new().await;
    let stranger = other.platform().await;
    let pem = stranger.authority.certificate_pem().to_owned();
    let wrong = client(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap());
    let socket = TcpStream::connect(https).await.unwrap();
    let name = ServerName::try_from("farm.example").unwrap();
    assert!(wrong.connect(name, socket).await.is_err());
}
