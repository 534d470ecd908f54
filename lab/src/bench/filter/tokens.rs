//! Issuers with real keys, and their tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use tests::SigningKey;

/// The audience of all tokens.
pub(crate) const AUDIENCE: &str = "https://api.example.com";
/// The claims that are forwarded, and their headers.
pub(crate) const FORWARDED: [(&str, &str); 6] = [
    ("x-auth-subject", "sub"),
    ("x-client-id", "client_id"),
    ("x-scope", "scope"),
    ("x-user-hat", "user_hat"),
    ("x-user-id", "user_id"),
    ("x-user-site", "user_site"),
];

/// Issuers that share one key.
pub(crate) struct Issuers {
    key: SigningKey,
    count: usize,
    now: u64,
}

impl Issuers {
    #[expect(
        clippy::disallowed_methods,
        reason = "Envoy compares the tokens with the real time"
    )]
    pub(crate) fn new(algorithm: &'static str, count: usize) -> Result<Self> {
        Ok(Self {
            key: SigningKey::new(algorithm)?,
            count,
            now: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        })
    }

    /// The names of all issuers.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|number| format!("https://lobby-{number}.example.com"))
    }

    /// The public key.
    pub(crate) fn jwk(&self) -> Value {
        self.key.jwk()
    }

    /// This number of different tokens, from all issuers in turn.
    pub(crate) fn tokens(&self, count: usize) -> Result<Vec<String>> {
        (0..count)
            .zip(self.names().collect::<Vec<_>>().into_iter().cycle())
            .map(|(number, issuer)| self.token(&issuer, number))
            .collect()
    }

    /// A token of the first issuer with this `cnf`.
    pub(crate) fn bound(&self, confirmation: &Value) -> Result<String> {
        let issuer = self.names().next().unwrap_or_default();
        let mut claims = self.claims(&issuer, 0);
        claims["cnf"] = confirmation.clone();
        self.key.token(&claims)
    }

    fn token(&self, issuer: &str, number: usize) -> Result<String> {
        self.key.token(&self.claims(issuer, number))
    }

    fn claims(&self, issuer: &str, number: usize) -> Value {
        json!({
            "iss": issuer, "aud": AUDIENCE, "sub": "ada@example.com", "client_id": "web-demo",
            "scope": "projects documents", "user_id": "1879048401", "user_hat": "alovelace",
            "user_site": "https://us1.example.com", "amr": ["USERNAME_PASSWORD"],
            "iat": self.now, "nbf": self.now, "exp": self.now + 24 * 3600,
            "jti": format!("token-{number}"), "grant_id": format!("grant-{number}"),
        })
    }
}
