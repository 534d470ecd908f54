//! Tokens: those of the real token service, and those that it would never issue, of an issuer that the tests play.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::now;

const ISSUER: &str = "https://issuer.test";

/// An issuer with one key.
pub(super) struct Issuer(Ed25519KeyPair);

impl Issuer {
    pub(super) fn new() -> Self {
        Self(Ed25519KeyPair::generate().unwrap())
    }

    /// Its entry in the configuration of the guard.
    pub(super) fn configuration(&self, audience: &str) -> Value {
        let public_key = URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref());
        let key =
            json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "1", "x": public_key});
        json!({"issuer": ISSUER, "audiences": [audience], "jwks": {"keys": [key]}})
    }

    /// A good token for `audience`, but for the claims that `changes` replace.
    pub(super) fn token(&self, audience: &str, changes: &Value) -> String {
        let now = now();
        let mut claims = json!({
            "iss": ISSUER, "aud": audience, "sub": "ada", "client_id": "client-1", "jti": "1",
            "user_id": "17", "scope": "projects", "iat": now - 10, "exp": now + 600,
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = json!({"typ": "at+jwt", "alg": "EdDSA", "kid": "1"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(&header), part(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(input.as_bytes()));
        format!("{input}.{signature}")
    }
}
