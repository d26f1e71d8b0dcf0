//! Addresses of the platform's doors. Plain text is taken for this host alone; never resolves a name.

use std::{fmt, net::IpAddr};

use thiserror::Error;

/// Why an address is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// Another scheme.
    #[error("must begin with {0}")]
    Scheme(&'static str),
    /// No host, or a port that is none, or more than an address.
    #[error("must be of the form scheme://host:port")]
    Form,
    /// Plain text over a network.
    #[error("without TLS only loopback is allowed")]
    Plain,
}

/// Where a door is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Endpoint {
    /// `mqtts://host[:8883]`, or `mqtt://host[:1883]` on loopback.
    ///
    /// Errors: [`EndpointError`].
    pub fn mqtt(url: &str) -> Result<Self, EndpointError> {
        let schemes = [("mqtts://", true, 8883), ("mqtt://", false, 1883)];
        Self::parse(url, schemes, "mqtts:// or mqtt://")
    }

    /// `https://host[:443]`, or `http://host[:80]` on loopback. No path.
    ///
    /// Errors: [`EndpointError`].
    pub fn http(url: &str) -> Result<Self, EndpointError> {
        let schemes = [("https://", true, 443), ("http://", false, 80)];
        Self::parse(url, schemes, "https:// or http://")
    }

    fn parse(
        url: &str,
        schemes: [(&str, bool, u16); 2],
        names: &'static str,
    ) -> Result<Self, EndpointError> {
        let (rest, tls, usual) = schemes
            .iter()
            .find_map(|(scheme, tls, port)| Some((url.strip_prefix(scheme)?, *tls, *port)))
            .ok_or(EndpointError::Scheme(names))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split(rest).ok_or(EndpointError::Form)?;
        let port = match port {
            None => usual,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|port| *port != 0 && digits.bytes().all(|b| b.is_ascii_digit()))
                .ok_or(EndpointError::Form)?,
        };
        let endpoint = Self {
            tls,
            host: host.to_owned(),
            port,
        };
        if !tls && !endpoint.is_loopback() {
            return Err(EndpointError::Plain);
        }
        Ok(endpoint)
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || (self.host.parse::<IpAddr>()).is_ok_and(|a| a.to_canonical().is_loopback())
    }

    /// The host as it stands before a colon: IPv6 in brackets.
    #[must_use]
    pub fn bracketed(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bracketed(), self.port)
    }
}

fn split(rest: &str) -> Option<(&str, Option<&str>)> {
    if let Some(inner) = rest.strip_prefix('[') {
        let (host, after) = inner.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    (!host.is_empty() && host.bytes().all(named)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_plain_text_stays_on_this_host() {
        let read = |url: &str| Endpoint::mqtt(url).map(|e| (e.tls, e.to_string()));
        assert_eq!(
            read("mqtts://a.example"),
            Ok((true, "a.example:8883".into()))
        );
        assert_eq!(
            read("mqtt://127.0.0.1:99"),
            Ok((false, "127.0.0.1:99".into()))
        );
        assert_eq!(read("mqtt://[::1]:99/"), Ok((false, "[::1]:99".into())));
        assert_eq!(
            read("mqtt://localhost"),
            Ok((false, "localhost:1883".into()))
        );
        for plain in [
            "mqtt://a.example",
            "mqtt://192.0.2.1",
            "mqtt://127.0.0.1.example",
        ] {
            assert_eq!(read(plain), Err(EndpointError::Plain), "{plain}");
        }
        for bad in [
            "mqtts://",
            "mqtts://:1",
            "mqtts://a:0",
            "mqtts://a:65536",
            "mqtts://a:+1",
            "mqtts://u@a",
            "mqtts://a/b",
            "mqtts://[::1",
            "mqtts://[a]:1",
            "mqtts://::1",
        ] {
            assert_eq!(read(bad), Err(EndpointError::Form), "{bad}");
        }
        assert!(matches!(read("https://a"), Err(EndpointError::Scheme(_))));
        assert!(Endpoint::http("https://a:8443").is_ok());
        assert_eq!(Endpoint::http("http://a"), Err(EndpointError::Plain));
    }
}
