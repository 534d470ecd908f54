//! Issuers with real keys, and their tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

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

enum Key {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// Issuers that share one key.
pub(crate) struct Issuers {
    algorithm: &'static str,
    key: Key,
    count: usize,
    now: u64,
}

impl Issuers {
    #[expect(
        clippy::disallowed_methods,
        reason = "Envoy compares the tokens with the real time"
    )]
    pub(crate) fn new(algorithm: &'static str, count: usize) -> Result<Self> {
        let key = match algorithm {
            "EdDSA" => Key::Ed25519(Ed25519KeyPair::generate()?),
            "ES256" => Key::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?),
            _ => Key::Rsa(Box::new(RsaKeyPair::generate(rsa::KeySize::Rsa2048)?)),
        };
        Ok(Self {
            algorithm,
            key,
            count,
            now: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        })
    }

    /// The names of all issuers.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|number| format!("https://lobby-{number}.example.com"))
    }

    /// The public key.
    pub(crate) fn jwk(&self) -> Result<Value> {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.key {
            Key::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": text(key.public_key().as_ref())})
            }
            Key::P256(key) => {
                let (_, point) = key
                    .public_key()
                    .as_ref()
                    .split_first()
                    .context("a point has bytes")?;
                let (x, y) = point.split_at(32);
                json!({"kty": "EC", "crv": "P-256", "x": text(x), "y": text(y)})
            }
            Key::Rsa(key) => json!({
                "kty": "RSA",
                "n": text(key.public_key().modulus().big_endian_without_leading_zero()),
                "e": text(key.public_key().exponent().big_endian_without_leading_zero()),
            }),
        };
        if let Some(members) = jwk.as_object_mut() {
            members.insert("kid".to_owned(), json!("key-1"));
            members.insert("alg".to_owned(), json!(self.algorithm));
        }
        Ok(jwk)
    }

    /// This number of different tokens, from all issuers in turn.
    pub(crate) fn tokens(&self, count: usize) -> Result<Vec<String>> {
        (0..count)
            .zip(self.names().collect::<Vec<_>>().into_iter().cycle())
            .map(|(number, issuer)| self.token(&issuer, number))
            .collect()
    }

    fn token(&self, issuer: &str, number: usize) -> Result<String> {
        let header = json!({"typ": "at+jwt", "alg": self.algorithm, "kid": "key-1"});
        let claims = json!({
            "iss": issuer, "aud": AUDIENCE, "sub": "ada@example.com", "client_id": "web-demo",
            "scope": "projects documents", "user_id": "1879048401", "user_hat": "alovelace",
            "user_site": "https://us1.example.com", "amr": ["USERNAME_PASSWORD"],
            "iat": self.now, "nbf": self.now, "exp": self.now + 24 * 3600,
            "jti": format!("token-{number}"), "grant_id": format!("grant-{number}"),
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(&header), part(&claims));
        let message = input.as_bytes();
        let random = SystemRandom::new();
        let signature = match &self.key {
            Key::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Key::P256(key) => key.sign(&random, message)?.as_ref().to_vec(),
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)?;
                signature
            }
        };
        Ok(format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
