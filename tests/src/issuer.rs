//! An issuer of tokens that a token service would not issue, such as expired tokens or tokens for another audience.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

/// The issuer, with one key.
#[derive(Debug)]
pub struct Issuer(Ed25519KeyPair);

impl Issuer {
    /// `iss` of its tokens.
    pub const NAME: &str = "https://issuer.test";

    /// An issuer with a new key.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn new() -> Result<Self> {
        Ok(Self(Ed25519KeyPair::generate()?))
    }

    /// The issuer's entry in the configuration of the guard.
    #[must_use]
    pub fn configuration(&self, audience: &str) -> Value {
        let public_key = URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref());
        let key =
            json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "1", "x": public_key});
        json!({"issuer": Self::NAME, "audiences": [audience], "jwks": {"keys": [key]}})
    }

    /// A valid token for `audience` with a lifetime of an hour. `changes` replace claims.
    ///
    /// # Errors
    /// If the system clock is before 1970.
    #[expect(
        clippy::disallowed_methods,
        reason = "gateways compare the tokens with the real time"
    )]
    pub fn token(&self, audience: &str, changes: &[(&str, Value)]) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = json!({
            "iss": Self::NAME, "aud": audience, "sub": "ada", "client_id": "client-1", "jti": "1",
            "user_id": "17", "scope": "projects", "iat": now - 10, "exp": now + 3600,
        });
        let mut claims: Map<String, Value> = serde_json::from_value(claims)?;
        for (name, value) in changes {
            claims.insert((*name).to_owned(), value.clone());
        }
        let header = json!({"typ": "at+jwt", "alg": "EdDSA", "kid": "1"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(&header), part(&Value::Object(claims)));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(input.as_bytes()));
        Ok(format!("{input}.{signature}"))
    }
}
