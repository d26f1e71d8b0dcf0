//! Enrolment: a new key, a signed request with the one-time code, an identity that is proven before it replaces another. Never sends a code or takes an identity over TLS that the pinned authority did not sign.

use std::path::Path;

use ed25519_dalek::Signer as _;
use furrow_protocol::{SigningKey, frame::Device};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    clock::SharedClock,
    endpoint::{Endpoint, EndpointError},
    hex,
    http::{self, Answer, HttpError},
    identity::{Identity, IdentityError},
    tls::{self, TlsError},
};

/// What the new key signs: this, the code's 16 characters, the key.
const ENROL_TAG: &[u8] = b"furrow enrol v1";
/// Crockford's base 32: no I, L, O, U.
const ALPHABET: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 80 bits.
const CODE_LENGTH: usize = 16;
const PATH: &str = "/api/devices/enrol";

/// Why there is no identity.
#[derive(Debug, Error)]
pub enum EnrollError {
    /// The server's address.
    #[error("--server: {0}")]
    Server(#[from] EndpointError),
    /// The code.
    #[error("--code: 16 characters in groups of four, as the platform showed them")]
    Code,
    /// The pin.
    #[error("the SHA-256 of the platform's authority has 64 hex digits")]
    Pin,
    /// TLS without a pin.
    #[error("an https server needs the SHA-256 of its authority: CODE#SHA256 or --ca-sha256")]
    NoPin,
    /// Two that differ.
    #[error("--ca-sha256 is another than the one in the code")]
    TwoPins,
    /// It has one already.
    #[error("this agent is device {0} already; --replace gives it another identity")]
    Enrolled(u32),
    /// The platform says no.
    #[error("the platform refused: {0}")]
    Refused(String),
    /// The platform's answer makes no sense.
    #[error("the platform's answer: {0}")]
    Answer(&'static str),
    /// The way there.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Keys and certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data folder.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// What the operator typed.
#[derive(Debug, Clone)]
pub struct Request {
    /// `https://host[:port]`, or `http://…` on loopback.
    pub server: String,
    /// `XXXX-XXXX-XXXX-XXXX`, with `#SHA256` or without.
    pub code: String,
    /// SHA-256 of the platform's authority.
    pub ca_sha256: Option<String>,
}

#[derive(Serialize)]
struct Body {
    code: String,
    public_key: String,
    signature: String,
}

/// Fields that a later platform may add are no reason to refuse it.
#[derive(Deserialize)]
struct Enrolled {
    device: u32,
    token: String,
    certificate_pem: String,
    ca_pem: String,
    ca_sha256: String,
    mqtt_url: String,
}

#[derive(Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
}

/// The 16 characters of a typed code, and the pin behind it.
///
/// Errors: [`EnrollError::Code`], [`EnrollError::Pin`], [`EnrollError::TwoPins`].
pub fn split_code(
    typed: &str,
    option: Option<&str>,
) -> Result<(String, Option<[u8; 32]>), EnrollError> {
    let (code, behind) = match typed.split_once('#') {
        Some((code, pin)) => (code, Some(pin)),
        None => (typed, None),
    };
    let code: String = code
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| match c.to_ascii_uppercase() {
            'I' | 'L' => '1',
            'O' => '0',
            c => c,
        })
        .collect();
    if code.len() != CODE_LENGTH || !code.bytes().all(|b| ALPHABET.contains(&b)) {
        return Err(EnrollError::Code);
    }
    // Tools show fingerprints with colons as well.
    let read = |pin: &str| {
        let digits: String = pin.chars().filter(|c| !matches!(c, ':' | ' ')).collect();
        hex::decode::<32>(&digits).ok_or(EnrollError::Pin)
    };
    let (behind, option) = (behind.map(read).transpose()?, option.map(read).transpose()?);
    match (behind, option) {
        (Some(a), Some(b)) if a != b => Err(EnrollError::TwoPins),
        (a, b) => Ok((code, a.or(b))),
    }
}

/// Enrols with a new key and writes the identity beside the one in force; it is not in force yet.
///
/// Errors: [`EnrollError`]; the data folder is as before then.
pub fn enroll(
    request: &Request,
    data_dir: &Path,
    replace: bool,
    clock: SharedClock,
) -> Result<Identity, EnrollError> {
    if let Some(known) = Identity::load(data_dir)?
        && !replace
    {
        return Err(EnrollError::Enrolled(known.device.0));
    }
    let server = Endpoint::http(request.server.trim())?;
    let (code, pin) = split_code(&request.code, request.ca_sha256.as_deref())?;
    let tls = match (server.tls, pin) {
        (true, None) => return Err(EnrollError::NoPin),
        (true, Some(pin)) => Some(tls::for_enrolment(pin, clock)?),
        (false, _) => None,
    };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(EnrollError::Random)?;
    let key = SigningKey::from_bytes(&seed);
    let answer = http::post(&server, PATH, &body(&code, &key)?, tls)?;
    let identity = identity(&answer, key, pin, request.server.trim())?;
    identity.save_pending(data_dir)?;
    Ok(identity)
}

fn body(code: &str, key: &SigningKey) -> Result<String, EnrollError> {
    let public = key.verifying_key().to_bytes();
    let signed = [ENROL_TAG, code.as_bytes(), &public].concat();
    let body = Body {
        code: code.to_owned(),
        public_key: hex::encode(&public),
        signature: hex::encode(&key.sign(&signed).to_bytes()),
    };
    serde_json::to_string(&body).map_err(|_| EnrollError::Answer("cannot be asked for"))
}

/// The identity that an answer gives, if all of it fits together.
fn identity(
    answer: &Answer,
    key: SigningKey,
    pin: Option<[u8; 32]>,
    server: &str,
) -> Result<Identity, EnrollError> {
    if answer.status != 201 {
        return Err(EnrollError::Refused(reason(answer)));
    }
    let enrolled: Enrolled = serde_json::from_slice(&answer.body)
        .map_err(|_| EnrollError::Answer("not the JSON of an enrolment"))?;
    let authority = tls::fingerprint(&enrolled.ca_pem)?;
    if hex::decode::<32>(&enrolled.ca_sha256) != Some(authority) {
        return Err(EnrollError::Answer("authority and its SHA-256 differ"));
    }
    if pin.is_some_and(|pin| pin != authority) {
        return Err(EnrollError::Answer("another authority than the pinned one"));
    }
    if enrolled.device == 0 || hex::decode::<32>(&enrolled.token).is_none() {
        return Err(EnrollError::Answer("no device number or token"));
    }
    // The key that the certificate is for shows at the first connection, which proves it.
    tls::fingerprint(&enrolled.certificate_pem)?;
    Endpoint::mqtt(&enrolled.mqtt_url)
        .map_err(|_| EnrollError::Answer("no address of a machine door that we would use"))?;
    Ok(Identity {
        device: Device(enrolled.device),
        key,
        token: enrolled.token,
        mqtt_url: enrolled.mqtt_url,
        server: server.to_owned(),
        certificate_pem: enrolled.certificate_pem,
        ca_pem: enrolled.ca_pem,
    })
}

fn reason(answer: &Answer) -> String {
    let problem = serde_json::from_slice::<Problem>(&answer.body).ok();
    let text = problem.and_then(|p| p.detail.or(p.title));
    // It goes to a terminal.
    let text: String = text
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(300)
        .collect();
    if text.is_empty() {
        format!("status {}", answer.status)
    } else {
        format!("{text} (status {})", answer.status)
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::Signature;

    use super::*;

    #[test]
    fn codes_are_read_as_people_type_them_and_carry_the_pin() {
        let pin = "ab".repeat(32);
        let read = |typed: &str, option: Option<&str>| {
            split_code(typed, option).map_err(|e| e.to_string())
        };
        let plain = "ABCD-EFGH-JKMN-PQRS";
        assert_eq!(read(plain, None), Ok(("ABCDEFGHJKMNPQRS".to_owned(), None)));
        let lower = format!("oil0 1111-2222 3333#{}", pin.to_uppercase());
        let expected = ("0110111122223333".to_owned(), Some([0xab; 32]));
        assert_eq!(read(&lower, Some(&pin)), Ok(expected));
        for (typed, option) in [
            ("ABCD-EFGH-JKMN-PQRU", None),
            ("ABCD-EFGH-JKMN-PQR", None),
            ("", None),
            ("ABCD-EFGH-JKMN-PQRS#abab", None),
            (plain, Some("xx")),
        ] {
            assert!(read(typed, option).is_err(), "{typed}");
        }
        let other = "cd".repeat(32);
        let two = split_code(&format!("{plain}#{pin}"), Some(&other));
        assert!(matches!(two, Err(EnrollError::TwoPins)));
    }

    #[test]
    fn the_request_is_signed_over_tag_code_and_key() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let json = body("ABCDEFGHJKMNPQRS", &key).expect("JSON");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let public = key.verifying_key();
        assert_eq!(json["public_key"], hex::encode(public.as_bytes()));
        let signature = hex::decode(json["signature"].as_str().unwrap_or("")).expect("hex");
        let signed = [b"furrow enrol v1ABCDEFGHJKMNPQRS", &public.as_bytes()[..]].concat();
        let strict = public.verify_strict(&signed, &Signature::from_bytes(&signature));
        assert!(strict.is_ok());
    }

    #[test]
    fn a_problem_is_told_in_its_own_words_without_control_characters() {
        let body = br#"{"title":"t","detail":"no such \u001b[2Jcode","status":404}"#.to_vec();
        let answer = Answer { status: 404, body };
        assert_eq!(reason(&answer), "no such [2Jcode (status 404)");
        let answer = Answer {
            status: 502,
            body: b"<html>".to_vec(),
        };
        assert_eq!(reason(&answer), "status 502");
    }
}
