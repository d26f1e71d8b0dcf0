//! Webhooks: a notice posted to an organisation's own address, signed. Never follows a redirect and never waits long.

use std::{net::IpAddr, time::Duration};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// A post takes at most so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// SHA-256 works on blocks of so many bytes.
const BLOCK: usize = 64;

/// Why a post failed.
#[derive(Debug, Error)]
pub enum PostError {
    /// Not `http://` or `https://` with a host.
    #[error("not an address")]
    Address,
    /// The way there, or an answer that is no success.
    #[error("{0}")]
    Post(String),
}

/// HMAC-SHA-256 (RFC 2104) of a text, hex.
#[must_use]
pub fn signature(secret: &[u8], text: &[u8]) -> String {
    let mut key = [0_u8; BLOCK];
    let digest: [u8; 32] = Sha256::digest(secret).into();
    let short = if secret.len() > BLOCK {
        &digest[..]
    } else {
        secret
    };
    for (to, from) in key.iter_mut().zip(short) {
        *to = *from;
    }
    let pad = |with: u8| key.map(|byte| byte ^ with);
    let inner = Sha256::new()
        .chain_update(pad(0x36))
        .chain_update(text)
        .finalize();
    let outer = Sha256::new()
        .chain_update(pad(0x5c))
        .chain_update(inner)
        .finalize();
    outer.iter().map(|b| format!("{b:02x}")).collect()
}

/// Whether an address is one of the inside: nobody may make us speak to ourselves.
#[must_use]
pub fn is_inside(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(a) => {
            a.is_loopback()
                || a.is_private()
                || a.is_link_local()
                || a.is_unspecified()
                || a.is_broadcast()
        }
        IpAddr::V6(a) => {
            a.is_loopback()
                || a.is_unspecified()
                || a.is_unique_local()
                || a.is_unicast_link_local()
        }
    }
}

/// Posts a text with its signature. `inside` allows addresses of the inside, for development.
///
/// # Errors
///
/// [`PostError`].
pub fn post(url: &str, secret: &[u8], text: &str, inside: bool) -> Result<(), PostError> {
    let host = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .and_then(|rest| rest.split(['/', '?', '#']).next())
        .filter(|host| !host.is_empty() && !host.contains('@'))
        .ok_or(PostError::Address)?;
    if !inside {
        use std::net::ToSocketAddrs as _;
        let with_port = if host.contains(':') {
            host.to_owned()
        } else {
            format!("{host}:443")
        };
        let mut found = with_port
            .to_socket_addrs()
            .map_err(|e| PostError::Post(e.to_string()))?;
        if found.any(|a| is_inside(a.ip())) {
            return Err(PostError::Address);
        }
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .build()
        .into();
    let signed = format!("sha256={}", signature(secret, text.as_bytes()));
    agent
        .post(url)
        .header("content-type", "application/json")
        .header("furrow-signature", &signed)
        .send(text)
        .map(|_| ())
        .map_err(|error| PostError::Post(error.to_string()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // RFC 4231, test case 2.
        assert_eq!(
            signature(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long = signature(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
        );
        assert_eq!(
            long,
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn nobody_makes_us_speak_to_ourselves() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "169.254.169.254",
            "::1",
            "fd00::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_inside(inside.parse().unwrap()), "{inside}");
        }
        assert!(!is_inside("203.0.113.9".parse().unwrap()));
        for url in [
            "http://127.0.0.1:1/x",
            "https://localhost/",
            "file:///etc/passwd",
            "http://",
            "http://a@127.0.0.1/",
        ] {
            assert!(post(url, b"s", "{}", false).is_err(), "{url}");
        }
    }
}
