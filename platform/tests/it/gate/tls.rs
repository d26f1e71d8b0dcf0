//! Certificates at the machine door: whose key is looked at, and who stays outside.

use std::{net::SocketAddr, sync::Arc};

use chrono::{DateTime, Days, Utc};
use furrow_platform::{app::authority::Authority, mqtt::tls::TlsFiles};
use rcgen::{KeyPair, PublicKeyData as _};
use rumqttc::mqttbytes::v4::ConnectReturnCode;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::bench::{Bench, Client, Opening, Witness, connect_of, frame, up};
use crate::world::now;

/// An authority in a folder that goes with it.
pub struct Files {
    authority: Authority,
    _folder: tempfile::TempDir,
}

/// A key and the certificate over it, as a box has them.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

pub fn authority() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let authority = Authority::open(folder.path(), now()).unwrap();
    authority.renew_server(&names, now()).unwrap();
    Files {
        authority,
        _folder: folder,
    }
}

impl Files {
    pub fn server(&self) -> Arc<ServerConfig> {
        let files = self.authority.files();
        let files = TlsFiles {
            authority: files.authority,
            certificate: files.certificate,
            key: files.key,
        };
        files.for_machines().unwrap()
    }

    /// A fresh key with a certificate for a device, dated from `at`; the key's 32 bytes beside it.
    fn identity(&self, number: u32, at: DateTime<Utc>) -> (Identity, [u8; 32]) {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let public: [u8; 32] = key.der_bytes().try_into().unwrap();
        let pem = self
            .authority
            .device_certificate(number, &public, at)
            .unwrap();
        let identity = Identity {
            certificate: CertificateDer::from_pem_slice(pem.as_bytes()).unwrap(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        };
        (identity, public)
    }

    /// A device's identity, entered in the register.
    pub fn device_key(&self, bench: &Bench, number: u32) -> Identity {
        let (identity, public) = self.identity(number, now());
        bench.book.keys.lock().unwrap().insert(public, number);
        identity
    }

    /// A TLS connection that trusts this authority; an error where the handshake is refused.
    pub async fn client(
        &self,
        to: SocketAddr,
        identity: Option<&Identity>,
    ) -> std::io::Result<Client<TlsStream<TcpStream>>> {
        let mut roots = RootCertStore::empty();
        let pem = self.authority.certificate_pem();
        roots
            .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            Some(identity) => config
                .with_client_auth_cert(vec![identity.certificate.clone()], identity.key.clone_key())
                .unwrap(),
            None => config.with_no_client_auth(),
        };
        let stream = TcpStream::connect(to).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        Ok(Client::over(stream))
    }
}

async fn tls_bench(files: &Files) -> (Bench, SocketAddr) {
    let opening = Opening {
        tls: Some(files.server()),
        ..Opening::default()
    };
    let bench = opening.open().await;
    let tls = bench.tls.unwrap();
    (bench, tls)
}

/// CONNECT as a device without a token.
async fn knock(
    files: &Files,
    to: SocketAddr,
    identity: &Identity,
    number: u32,
) -> std::io::Result<ConnectReturnCode> {
    let mut connect = connect_of(number);
    connect.login = None;
    files.client(to, Some(identity)).await?.knock(connect).await
}

#[tokio::test]
async fn a_device_with_its_certificate_needs_no_token() {
    let files = authority();
    let (bench, tls) = tls_bench(&files).await;
    let key = files.device_key(&bench, 7);
    let mut client = files.client(tls, Some(&key)).await.unwrap();
    let mut connect = connect_of(7);
    connect.login = None;
    assert_eq!(
        client.knock(connect).await.unwrap(),
        ConnectReturnCode::Success
    );
    assert_eq!(client.subscribe(&["furrow/v1/7/down"]).await, [0]);
    for seq in 1..=50 {
        client.publish(&up(7), 1, frame(seq, 2000)).await;
        client.answered(7, 1, seq).await.unwrap();
    }
}

#[tokio::test]
async fn a_token_does_over_tls_where_no_certificate_is_shown() {
    let files = authority();
    let (_bench, tls) = tls_bench(&files).await;
    let mut client = files.client(tls, None).await.unwrap();
    client.enter(7, 60).await;
    assert!(client.pings().await);
    let mut without = files.client(tls, None).await.unwrap();
    let mut connect = connect_of(7);
    connect.login = None;
    assert_eq!(
        without.knock(connect).await.unwrap(),
        ConnectReturnCode::BadUserNamePassword
    );
}

#[tokio::test]
async fn the_key_counts_and_not_the_name_in_the_certificate() {
    let files = authority();
    let (bench, tls) = tls_bench(&files).await;
    let witness = Witness::begin(&bench).await;
    // Named for device 7, but this key is nobody's.
    let (unknown, _) = files.identity(7, now());
    assert_eq!(
        knock(&files, tls, &unknown, 7).await.unwrap(),
        ConnectReturnCode::NotAuthorized
    );
    // Named for device 7, but the key is that of device 8.
    let (other, public) = files.identity(7, now());
    bench.book.keys.lock().unwrap().insert(public, 8);
    assert_eq!(
        knock(&files, tls, &other, 7).await.unwrap(),
        ConnectReturnCode::NotAuthorized
    );
    // A certificate is not made up for by another device's token.
    let mut client = files.client(tls, Some(&other)).await.unwrap();
    assert_eq!(
        client.knock(connect_of(7)).await.unwrap(),
        ConnectReturnCode::NotAuthorized
    );
    assert_eq!(
        knock(&files, tls, &other, 8).await.unwrap(),
        ConnectReturnCode::Success
    );
    bench.book.revoked.lock().unwrap().insert(8);
    assert_eq!(
        knock(&files, tls, &other, 8).await.unwrap(),
        ConnectReturnCode::NotAuthorized
    );
    witness.both_work().await;
}

#[tokio::test]
async fn certificates_of_others_expired_ones_and_other_kinds_of_key_stay_outside() {
    let (files, foreign) = (authority(), authority());
    let (bench, tls) = tls_bench(&files).await;
    let witness = Witness::begin(&bench).await;
    let (strange, public) = foreign.identity(7, now());
    bench.book.keys.lock().unwrap().insert(public, 7);
    assert!(knock(&files, tls, &strange, 7).await.is_err());
    let (expired, public) = files.identity(7, now() - Days::new(4000));
    bench.book.keys.lock().unwrap().insert(public, 7);
    assert!(knock(&files, tls, &expired, 7).await.is_err());
    let (early, public) = files.identity(7, now() + Days::new(30));
    bench.book.keys.lock().unwrap().insert(public, 7);
    assert!(knock(&files, tls, &early, 7).await.is_err());
    // The door's own certificate, signed by the same authority, is for a server.
    let door = files.authority.files();
    let door = Identity {
        certificate: CertificateDer::from_pem_file(door.certificate).unwrap(),
        key: PrivateKeyDer::from_pem_file(door.key).unwrap(),
    };
    assert!(knock(&files, tls, &door, 7).await.is_err());
    witness.both_work().await;
}

#[tokio::test]
async fn plain_mqtt_on_the_tls_port_and_tls_on_the_plain_port_are_closed() {
    let files = authority();
    let (bench, tls) = tls_bench(&files).await;
    let witness = Witness::begin(&bench).await;
    let mut plain = Client::dial(tls).await;
    assert!(plain.knock(connect_of(7)).await.is_err());
    assert!(files.client(bench.plain, None).await.is_err());
    witness.both_work().await;
}
