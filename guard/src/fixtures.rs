//! An issuer with real keys, for tests: it signs whatever it is told to.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use serde_json::{Value, json};
use token_service::token::SigningKey;

use crate::keys::{KeySet, Skipped};

/// The time of the tests, in seconds.
pub(crate) const NOW: u64 = 1_800_000_000;

/// An issuer with one key.
pub(crate) struct Issuer {
    key: SigningKey,
}

impl Issuer {
    /// The key's identifier.
    pub(crate) const KID: &str = "key-1";

    /// An issuer with a fresh key.
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let pkcs8 = SigningKey::generate_pkcs8(algorithm).unwrap();
        Self {
            key: SigningKey::from_pkcs8(algorithm, &pkcs8).unwrap(),
        }
    }

    /// Its key as a JWK under another identifier.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let mut jwk = serde_json::to_value(self.key.jwk().unwrap()).unwrap();
        jwk["kid"] = json!(kid);
        jwk
    }

    /// Its JWK set.
    pub(crate) fn jwks(&self) -> Vec<u8> {
        json!({"keys": [self.jwk(Self::KID)]})
            .to_string()
            .into_bytes()
    }

    /// Its keys, read.
    pub(crate) fn keys(&self) -> KeySet {
        let algorithms = Algorithm::ALL.into();
        let (keys, skipped) = KeySet::parse(&self.jwks(), &algorithms, &KeySet::default()).unwrap();
        assert_eq!(skipped, Skipped::default());
        keys
    }

    /// A good header.
    pub(crate) fn header(&self) -> Value {
        json!({"typ": "at+jwt", "alg": self.key.algorithm().name(), "kid": Self::KID})
    }

    /// A token with a good header.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&self.header().to_string(), &claims.to_string())
    }

    /// A token with these texts, signed.
    pub(crate) fn sign(&self, header: &str, body: &str) -> String {
        let input = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(body)
        );
        let signature = self.key.sign(input.as_bytes()).unwrap();
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Good claims, for an hour.
pub(crate) fn claims() -> Value {
    json!({
        "iss": "https://lobby.example.com",
        "aud": "https://api.example.com",
        "sub": "ada@example.com",
        "client_id": "web",
        "scope": "projects documents",
        "user_id": "1879048401",
        "iat": NOW,
        "exp": NOW + 3600,
        "jti": "token-1",
        "grant_id": "grant-1",
    })
}

/// `claims` with a member changed, or removed for `null`.
pub(crate) fn with(mut claims: Value, name: &str, value: Value) -> Value {
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

/// A configuration with that issuer, its keys fetched.
pub(crate) fn config() -> Value {
    json!({
        "issuers": [{
            "issuer": "https://lobby.example.com",
            "audiences": ["https://api.example.com"],
            "jwks": {"cluster": "token-service", "path": "/auth/jwks"},
        }],
        "rules": [
            {"path": "/healthz", "access": "anonymous"},
            {"path_prefix": "/api/admin/", "scopes": ["admin"]},
            {"path_prefix": "/api/"},
        ],
        "forward": {"x-user-id": "user_id", "x-client-id": "client_id"},
    })
}
