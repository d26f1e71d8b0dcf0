//! Where an outside broker is and how it is reached. Connects to nothing.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use furrow_protocol::topic::{STATE_FILTER, UP_FILTER};
use rumqttc::{MqttOptions, QoS, SubscribeFilter, TlsConfiguration, Transport};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use thiserror::Error;

use crate::mqtt::{bus::LIVE_FILTER, packet::MAX_PACKET};

/// A dead broker is noticed within a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Where the broker is and who we are there.
#[derive(Debug, Clone)]
pub struct OutsideSettings {
    /// `mqtt://host[:port]` or `mqtts://host[:port]`.
    pub url: String,
    /// Our name; the only one that may write `down`.
    pub username: Option<String>,
    /// Our password.
    pub password: Option<String>,
    /// The broker's authority, PEM; must be there for `mqtts`.
    pub ca_file: Option<PathBuf>,
    /// The group in which all processes share the frames.
    pub share_group: String,
    /// Our client id, another one in each process.
    pub client_id: String,
}

/// Why an outside broker cannot be used.
#[derive(Debug, Error)]
pub enum OutsideError {
    /// The address.
    #[error("mqtt.url must be mqtt://host[:port] or mqtts://host[:port], not {0:?}")]
    Url(String),
    /// The group.
    #[error("mqtt.share_group must be 1 to 64 letters, digits, - or _")]
    Group,
    /// TLS without an authority.
    #[error("mqtts needs mqtt.ca_file")]
    NoAuthority,
    /// A file.
    #[error("read {0}")]
    File(PathBuf, #[source] io::Error),
    /// The authority is none.
    #[error("mqtt.ca_file")]
    Authority(#[source] rustls::Error),
    /// The authority is not PEM.
    #[error("mqtt.ca_file is not PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
}

impl OutsideSettings {
    /// What rumqttc needs to connect under this client id.
    pub(in crate::mqtt) fn options(
        &self,
        client_id: &str,
        login: Option<(&str, &str)>,
    ) -> Result<MqttOptions, OutsideError> {
        let (secure, host, port) = address(&self.url)?;
        let mut options = MqttOptions::new(client_id, host, port);
        options
            .set_keep_alive(KEEP_ALIVE)
            .set_clean_session(true)
            .set_manual_acks(true)
            .set_max_packet_size(MAX_PACKET, MAX_PACKET);
        if let Some((name, password)) = login {
            options.set_credentials(name, password);
        }
        if secure {
            let tls = TlsConfiguration::Rustls(Arc::new(self.tls()?));
            options.set_transport(Transport::tls_with_config(tls));
        }
        Ok(options)
    }

    /// Our own name and password.
    pub(in crate::mqtt) fn login(&self) -> Option<(&str, &str)> {
        let name = self.username.as_deref()?;
        Some((name, self.password.as_deref().unwrap_or_default()))
    }

    fn tls(&self) -> Result<ClientConfig, OutsideError> {
        let path = self.ca_file.as_ref().ok_or(OutsideError::NoAuthority)?;
        let pem = fs::read(path).map_err(|e| OutsideError::File(path.clone(), e))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots
                .add(certificate.map_err(OutsideError::Pem)?)
                .map_err(OutsideError::Authority)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(OutsideError::Authority)?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }

    pub(super) fn filters(&self) -> [SubscribeFilter; 3] {
        let shared = |filter: &str| format!("$share/{}/{filter}", self.share_group);
        [
            SubscribeFilter::new(shared(UP_FILTER), QoS::AtLeastOnce),
            SubscribeFilter::new(shared(STATE_FILTER), QoS::AtMostOnce),
            SubscribeFilter::new(LIVE_FILTER.into(), QoS::AtMostOnce),
        ]
    }
}

/// TLS or not, host, port.
fn address(url: &str) -> Result<(bool, String, u16), OutsideError> {
    let wrong = || OutsideError::Url(url.to_owned());
    let (secure, rest) = match (url.strip_prefix("mqtts://"), url.strip_prefix("mqtt://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        (None, None) => return Err(wrong()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let default = if secure { 8883 } else { 1883 };
    let (host, port) = match rest.rsplit_once(':') {
        // A colon within the brackets of an IPv6 address is none before a port.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (rest, default),
    };
    let lawful = !host.is_empty()
        && host
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'/' && b != b'@');
    if !lawful || port == 0 {
        return Err(wrong());
    }
    Ok((secure, host.to_owned(), port))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_exactly() {
        let good = [
            ("mqtt://broker", (false, "broker", 1883)),
            ("mqtts://broker.example/", (true, "broker.example", 8883)),
            ("mqtt://127.0.0.1:1", (false, "127.0.0.1", 1)),
            ("mqtts://[::1]:9", (true, "[::1]", 9)),
            ("mqtt://[::1]", (false, "[::1]", 1883)),
        ];
        for (url, (secure, host, port)) in good {
            assert_eq!(
                address(url).unwrap(),
                (secure, host.to_owned(), port),
                "{url}"
            );
        }
        for url in [
            "",
            "broker",
            "http://broker",
            "mqtt://",
            "mqtt://:1883",
            "mqtt://broker:0",
            "mqtt://broker:x",
            "mqtt://broker:70000",
            "mqtt://name:secret@broker",
            "mqtt://broker/path",
        ] {
            assert!(matches!(address(url), Err(OutsideError::Url(_))), "{url}");
        }
    }
}
