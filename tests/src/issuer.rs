//! Tokens that a token service would not issue: of other issuers, expired, or with any other content.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

/// A key that signs any token. Its `kid` is the name of its algorithm.
#[derive(Debug)]
pub struct SigningKey {
    algorithm: &'static str,
    key: Key,
}

#[derive(Debug)]
enum Key {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
}

impl SigningKey {
    /// A new key.
    ///
    /// # Errors
    /// If the algorithm is unknown, or the system returns no randomness.
    pub fn new(algorithm: &'static str) -> Result<Self> {
        let rsa = |encoding| -> Result<Key> {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048)?;
            Ok(Key::Rsa(Box::new(pair), encoding))
        };
        let key = match algorithm {
            "EdDSA" => Key::Ed25519(Ed25519KeyPair::generate()?),
            "ES256" => Key::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?),
            "RS256" => rsa(&RSA_PKCS1_SHA256)?,
            "RS384" => rsa(&RSA_PKCS1_SHA384)?,
            "RS512" => rsa(&RSA_PKCS1_SHA512)?,
            "PS256" => rsa(&RSA_PSS_SHA256)?,
            other => bail!("no key signs {other}"),
        };
        Ok(Self { algorithm, key })
    }

    /// The key of RS256 in this PKCS#8 document.
    ///
    /// # Errors
    /// If the document has no RSA key.
    pub fn rs256(pkcs8: &[u8]) -> Result<Self> {
        let pair = RsaKeyPair::from_pkcs8(pkcs8)?;
        Ok(Self {
            algorithm: "RS256",
            key: Key::Rsa(Box::new(pair), &RSA_PKCS1_SHA256),
        })
    }

    /// The key of EdDSA in this PKCS#8 document.
    ///
    /// # Errors
    /// If the document has no Ed25519 key.
    pub fn ed25519(pkcs8: &[u8]) -> Result<Self> {
        Ok(Self {
            algorithm: "EdDSA",
            key: Key::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8)?),
        })
    }

    #[must_use]
    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (kid, alg) = (self.algorithm, self.algorithm);
        match &self.key {
            Key::Ed25519(pair) => {
                let x = text(pair.public_key().as_ref());
                json!({"kid": kid, "alg": alg, "kty": "OKP", "crv": "Ed25519", "x": x})
            }
            Key::P256(pair) => {
                // An uncompressed point: 0x04, x, y (SEC 1 §2.3.3).
                let (_, point) = pair.public_key().as_ref().split_at(1);
                let (x, y) = point.split_at(32);
                let (x, y) = (text(x), text(y));
                json!({"kid": kid, "alg": alg, "kty": "EC", "crv": "P-256", "x": x, "y": y})
            }
            Key::Rsa(pair, _) => {
                let n = text(
                    pair.public_key()
                        .modulus()
                        .big_endian_without_leading_zero(),
                );
                let e = text(
                    pair.public_key()
                        .exponent()
                        .big_endian_without_leading_zero(),
                );
                json!({"kid": kid, "alg": alg, "kty": "RSA", "n": n, "e": e})
            }
        }
    }

    /// An access token (RFC 9068) with these claims.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn token(&self, claims: &Value) -> Result<String> {
        let header = json!({"typ": "at+jwt", "alg": self.algorithm, "kid": self.algorithm});
        self.sign(&header, claims)
    }

    /// A token with this header.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn sign(&self, header: &Value, claims: &Value) -> Result<String> {
        let [header, claims] =
            [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let input = format!("{header}.{claims}");
        let (message, random) = (input.as_bytes(), SystemRandom::new());
        let signature = match &self.key {
            Key::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Key::P256(pair) => pair.sign(&random, message)?.as_ref().to_vec(),
            Key::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, message, &mut signature)?;
                signature
            }
        };
        Ok(format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// An issuer with one key.
#[derive(Debug)]
pub struct Issuer(SigningKey);

impl Issuer {
    /// `iss` of its tokens.
    pub const NAME: &str = "https://issuer.test";

    /// An issuer with a new key.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn new() -> Result<Self> {
        Ok(Self(SigningKey::new("EdDSA")?))
    }

    /// The issuer's entry in the configuration of the guard.
    #[must_use]
    pub fn configuration(&self, audience: &str) -> Value {
        let keys = json!({"keys": [self.0.jwk()]});
        json!({"issuer": Self::NAME, "audiences": [audience], "jwks": keys})
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
        self.0.token(&Value::Object(claims))
    }
}
