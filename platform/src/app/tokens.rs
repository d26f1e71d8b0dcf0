//! Access tokens: short-lived, of one algorithm, naming an account and a session and nothing else. Rights are never read from one.

use std::{fs, io, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use ed25519_dalek::{
    Signature, SigningKey, VerifyingKey,
    pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _},
};
use furrow_domain::id::AccountId;
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
};
use serde::{Deserialize, Serialize};
use signature::{Signer, Verifier};
use uuid::Uuid;

use crate::ids;

/// An access token lives so long.
pub const ACCESS: TimeDelta = TimeDelta::minutes(15);
const ISSUER: &str = "furrow";
const AUDIENCE: &str = "furrow-api";

/// What a token says. All of it is required.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// The account.
    pub sub: Uuid,
    /// The session: the refresh family.
    pub sid: Uuid,
    /// The account's token version.
    pub ver: i32,
    /// Until, s since 1970.
    pub exp: i64,
    /// From, s since 1970.
    pub iat: i64,
    iss: String,
    aud: String,
    jti: Uuid,
}

/// Makes and reads tokens.
#[derive(Clone)]
pub struct Tokens(Arc<Keys>);

struct Keys {
    seal: SigningKey,
    sign: EncodingKey,
    read: DecodingKey,
    validation: Validation,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    /// With the key under `data_dir/keys`, made at first use; every process of a platform shares it.
    ///
    /// # Errors
    ///
    /// The file.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join("keys");
        fs::create_dir_all(&folder)?;
        let path = folder.join("tokens.pkcs8");
        let der = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path)?,
            read => read?,
        };
        let key = SigningKey::from_pkcs8_der(&der).map_err(io::Error::other)?;
        // Another part may have installed the same one already.
        let _ = PROVIDER.install_default();
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[ISSUER]);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        // Times are judged by the platform's own clock, below.
        validation.validate_exp = false;
        Ok(Self(Arc::new(Keys {
            sign: EncodingKey::from_ed_der(&der),
            read: DecodingKey::from_ed_der(key.verifying_key().as_bytes()),
            validation,
            seal: key,
        })))
    }

    /// A token for a session; None only if this build cannot sign.
    #[must_use]
    pub fn make(
        &self,
        account: AccountId,
        session: Uuid,
        version: i32,
        now: DateTime<Utc>,
    ) -> Option<String> {
        let claims = Claims {
            sub: account.0,
            sid: session,
            ver: version,
            exp: (now + ACCESS).timestamp(),
            iat: now.timestamp(),
            iss: ISSUER.into(),
            aud: AUDIENCE.into(),
            jti: ids::new_id(now),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &self.0.sign).ok()
    }

    /// What a token says, if it is ours and of now.
    #[must_use]
    pub fn read(&self, token: &str, now: DateTime<Utc>) -> Option<Claims> {
        if token.len() > 2048 {
            return None;
        }
        let read = jsonwebtoken::decode::<Claims>(token, &self.0.read, &self.0.validation);
        let claims = read.ok()?.claims;
        let now = now.timestamp();
        (claims.iat <= now + 60 && now < claims.exp).then_some(claims)
    }
}

/// What a sealed text begins with when it is signed: it can never be taken for a token.
const SEAL: &[u8] = b"furrow sealed v1";

impl Tokens {
    /// A text that comes back unchanged or not at all: base 64 of signature and content.
    #[must_use]
    pub fn seal(&self, content: &[u8]) -> String {
        let message = [SEAL, content].concat();
        let signature = ed25519_dalek::Signer::sign(&self.0.seal, &message).to_bytes();
        URL_SAFE_NO_PAD.encode([&signature, content].concat())
    }

    /// What was sealed, if it was sealed here.
    #[must_use]
    pub fn open_sealed(&self, text: &str) -> Option<Vec<u8>> {
        if text.len() > 32 * 1024 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signature, content) = bytes.split_first_chunk::<64>()?;
        let message = [SEAL, content].concat();
        let key = self.0.seal.verifying_key();
        key.verify_strict(&message, &Signature::from_bytes(signature))
            .ok()?;
        Some(content.to_vec())
    }
}

/// Two processes may begin at once: whoever links its file first has made the key.
fn make(path: &Path) -> io::Result<Vec<u8>> {
    let key = SigningKey::from_bytes(&ids::secret());
    let der = key.to_pkcs8_der().map_err(io::Error::other)?;
    // Not by the process id: two containers that share the folder may have the same.
    let temporary = path.with_extension(super::devices::hex(&ids::secret::<8>()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    io::Write::write_all(&mut file, der.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::read(path),
    }
}

/// One algorithm and no other: a token's header cannot choose.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory,
    verifier_factory,
    key_utils: KeyUtils::new_unimplemented(),
};

struct Hand(SigningKey);
struct Eye(VerifyingKey);

fn signer_factory(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    let key = SigningKey::from_pkcs8_der(key.as_bytes()).map_err(|_| ErrorKind::InvalidEddsaKey)?;
    match algorithm {
        Algorithm::EdDSA => Ok(Box::new(Hand(key))),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier_factory(
    algorithm: &Algorithm,
    key: &DecodingKey,
) -> Result<Box<dyn JwtVerifier>, Error> {
    let bytes = key.try_get_as_bytes()?;
    let bytes = <&[u8; 32]>::try_from(bytes).map_err(|_| ErrorKind::InvalidEddsaKey)?;
    let key = VerifyingKey::from_bytes(bytes).map_err(|_| ErrorKind::InvalidEddsaKey)?;
    match algorithm {
        Algorithm::EdDSA => Ok(Box::new(Eye(key))),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

impl Signer<Vec<u8>> for Hand {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(ed25519_dalek::Signer::sign(&self.0, message)
            .to_bytes()
            .to_vec())
    }
}

impl JwtSigner for Hand {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

impl Verifier<Vec<u8>> for Eye {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let signature = Signature::from_slice(signature).map_err(|_| signature::Error::new())?;
        self.0
            .verify_strict(message, &signature)
            .map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Eye {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-05-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_token_is_read_until_it_ends_and_only_by_its_own_platform() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tokens = Tokens::open(folder.path()).unwrap();
        let account = AccountId(Uuid::from_u128(7));
        let token = tokens.make(account, Uuid::from_u128(8), 3, now()).unwrap();
        let claims = tokens.read(&token, now()).unwrap();
        assert_eq!((claims.sub, claims.ver), (account.0, 3));
        assert!(tokens.read(&token, now() + ACCESS).is_none());
        assert!(tokens.read(&token, now() - TimeDelta::minutes(2)).is_none());
        let again = Tokens::open(folder.path()).unwrap();
        assert!(again.read(&token, now()).is_some(), "another process");
        let stranger = Tokens::open(other.path()).unwrap();
        assert!(stranger.read(&token, now()).is_none());
    }

    #[test]
    fn a_token_cannot_choose_its_algorithm_or_change_a_letter() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(folder.path()).unwrap();
        let token = tokens
            .make(AccountId(Uuid::nil()), Uuid::nil(), 1, now())
            .unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        for header in [
            r#"{"typ":"JWT","alg":"none"}"#,
            r#"{"typ":"JWT","alg":"HS256"}"#,
            r#"{"typ":"JWT","alg":"RS256"}"#,
        ] {
            let header = URL_SAFE_NO_PAD.encode(header);
            for signature in [parts[2], ""] {
                let forged = format!("{header}.{}.{signature}", parts[1]);
                assert!(tokens.read(&forged, now()).is_none());
            }
        }
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(bytes).unwrap();
            // The last letter holds bits that count for nothing in base 64.
            let same = at + 1 == token.len();
            assert!(same || tokens.read(&altered, now()).is_none(), "{at}");
        }
        assert!(tokens.read("", now()).is_none());
        assert!(tokens.read(&"x".repeat(5000), now()).is_none());
    }
}
