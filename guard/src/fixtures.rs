//! An issuer with real keys, for tests: it signs whatever it is told to.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use serde_json::{Value, json};

use crate::keys::{KeySet, Skipped};

/// The time of the tests, in seconds.
pub(crate) const NOW: u64 = 1_800_000_000;

/// An issuer with one key, of the library with which the token service signs.
pub(crate) struct Issuer {
    key: SigningKey,
}

enum SigningKey {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    fn generate(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::EdDsa => Self::Ed25519(Ed25519KeyPair::generate().unwrap()),
            Algorithm::Es256 => {
                Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
            }
            Algorithm::Rs256 => {
                Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
            }
        }
    }

    const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::EdDsa,
            Self::P256(_) => Algorithm::Es256,
            Self::Rsa(_) => Algorithm::Rs256,
        }
    }

    fn jwk(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())})
            }
            Self::P256(pair) => {
                // An uncompressed point: 0x04, x, y (SEC 1 §2.3.3).
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)})
            }
            Self::Rsa(pair) => {
                let key = pair.public_key();
                let modulus = key.modulus().big_endian_without_leading_zero();
                let exponent = key.exponent().big_endian_without_leading_zero();
                json!({"kty": "RSA", "n": encode(modulus), "e": encode(exponent)})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Self::P256(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .unwrap();
                signature
            }
        }
    }
}

impl Issuer {
    /// The key's identifier.
    pub(crate) const KID: &str = "key-1";

    /// An issuer with a fresh key.
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self {
            key: SigningKey::generate(algorithm),
        }
    }

    /// Its key as a JWK under another identifier.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let mut jwk = self.key.jwk();
        jwk["kid"] = json!(kid);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.key.algorithm().name());
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
        let signature = self.key.sign(input.as_bytes());
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
