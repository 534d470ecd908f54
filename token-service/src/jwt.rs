//! JWTs that this program signs as a client: with a private key in a file.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use claims::Algorithm;
use claims::json::BYTE_ORDER_MARK;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use domain::clock::Timestamp;
use domain::random::{self, Random};
use protocol::token::SigningKey;

/// What a client signs in place of its secret (RFC 7523 §3).
#[derive(Debug)]
pub(crate) struct ClientAssertion<'a> {
    pub client_id: &'a str,
    pub kid: Option<&'a str>,
    pub audience: &'a str,
    pub lifetime: Duration,
}

impl ClientAssertion<'_> {
    /// The assertion in its compact form.
    pub(crate) fn sign(
        &self,
        key: &SigningKey,
        now: Timestamp,
        random: &dyn Random,
    ) -> anyhow::Result<String> {
        let mut header = json!({"typ": "client-authentication+jwt", "alg": key.algorithm().name()});
        if let Some(kid) = self.kid {
            header["kid"] = json!(kid);
        }
        let claims = json!({
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self.audience,
            "jti": random::text::<16>(random)?,
            "iat": now.seconds(),
            "exp": (now + self.lifetime).seconds(),
        });
        compact(key, &header, &claims)
    }
}

/// A JWT in its compact form.
pub(crate) fn compact(key: &SigningKey, header: &Value, claims: &Value) -> anyhow::Result<String> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let input = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(input.as_bytes())?);
    Ok(format!("{input}.{signature}"))
}

/// Reads a private key of any algorithm from a PEM file, or from standard input.
pub(crate) fn read_key(path: &Path) -> anyhow::Result<SigningKey> {
    let file = path.display();
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let pem = Zeroizing::new(text.with_context(|| file.to_string())?);
    let lines = pem.trim_start_matches(BYTE_ORDER_MARK).lines();
    let lines = lines.filter(|line| !line.starts_with("-----"));
    let base64 = Zeroizing::new(lines.collect::<String>());
    let pkcs8 = Zeroizing::new(STANDARD.decode(&*base64).unwrap_or_default());
    let mut algorithms = Algorithm::ALL.into_iter();
    let key = algorithms.find_map(|algorithm| SigningKey::from_pkcs8(algorithm, &pkcs8).ok());
    key.with_context(|| {
        format!(
            "{file}: expected a private key in PEM (BEGIN PRIVATE KEY): Ed25519, P-256 or RSA; \
             `openssl genpkey -algorithm ED25519` makes one"
        )
    })
}
