//! An issuer with real keys, and the shared data of several VMs, for tests. The issuer signs any content.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA384_FIXED_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::algorithm::Algorithm;
use crate::keys::{KeySet, Skipped};
use crate::shared_data::{SharedData, SharedDataError, Versioned};
use crate::signature::HostVerifier;

/// The time of the tests, in seconds.
pub(crate) const NOW: u64 = 1_800_000_000;

/// A host that verifies only the algorithms that the guard itself does not verify.
#[derive(Debug)]
pub(crate) struct LeastHost;

impl HostVerifier for LeastHost {
    fn offers(&self, algorithm: Algorithm) -> bool {
        algorithm == Algorithm::Es384
    }

    fn verify(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let key = UnparsedPublicKey::new(&ECDSA_P384_SHA384_ASN1, public_key);
        let offers = self.offers(algorithm);
        offers.then(|| key.verify(message, signature).is_ok())
    }
}

/// An issuer with one key. The key comes from the library with which the token service signs.
pub(crate) struct Issuer {
    algorithm: Algorithm,
    key: SigningKey,
}

enum SigningKey {
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
}

impl SigningKey {
    fn generate(algorithm: Algorithm) -> Self {
        let ecdsa = |algorithm| Self::Ecdsa(EcdsaKeyPair::generate(algorithm).unwrap());
        let rsa = |encoding| {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
            Self::Rsa(Box::new(pair), encoding)
        };
        match algorithm {
            Algorithm::EdDsa => Self::Ed25519(Ed25519KeyPair::generate().unwrap()),
            Algorithm::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            Algorithm::Rs256 => rsa(&RSA_PKCS1_SHA256),
            Algorithm::Rs384 => rsa(&RSA_PKCS1_SHA384),
            Algorithm::Rs512 => rsa(&RSA_PKCS1_SHA512),
            Algorithm::Ps256 => rsa(&RSA_PSS_SHA256),
        }
    }

    fn jwk(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())})
            }
            Self::Ecdsa(pair) => {
                // An uncompressed point: 0x04, x, y (SEC 1 §2.3.3).
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = format!("P-{}", 8 * x.len());
                json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            Self::Rsa(pair, _) => {
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
            Self::Ecdsa(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
        }
    }
}

impl Issuer {
    pub(crate) const KID: &str = "key-1";

    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            key: SigningKey::generate(algorithm),
        }
    }

    /// The key as a JWK with another identifier.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let mut jwk = self.key.jwk();
        jwk["kid"] = json!(kid);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm.name());
        jwk
    }

    /// The key as clients put it into the header of a proof.
    pub(crate) fn public_key(&self) -> Value {
        self.key.jwk()
    }

    pub(crate) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn jwks(&self) -> Vec<u8> {
        self.jwks_of(Self::KID)
    }

    pub(crate) fn jwks_of(&self, kid: &str) -> Vec<u8> {
        json!({"keys": [self.jwk(kid)]}).to_string().into_bytes()
    }

    pub(crate) fn keys(&self) -> KeySet {
        let algorithms = [self.algorithm].into();
        let (keys, skipped) = KeySet::parse(&self.jwks(), &algorithms, &KeySet::default()).unwrap();
        assert_eq!(skipped, Skipped::default());
        keys
    }

    /// A valid header.
    pub(crate) fn header(&self) -> Value {
        json!({"typ": "at+jwt", "alg": self.algorithm.name(), "kid": Self::KID})
    }

    /// A token with a valid header.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&self.header().to_string(), &claims.to_string())
    }

    /// A token with valid claims, whose header names another key.
    pub(crate) fn token_of(&self, kid: &str) -> String {
        let header = with(self.header(), "kid", json!(kid)).to_string();
        self.sign(&header, &claims().to_string())
    }

    /// A signed token of these texts.
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

/// Valid claims, for an hour.
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

/// `claims` with one member changed, or removed if `value` is `null`.
pub(crate) fn with(mut claims: Value, name: &str, value: Value) -> Value {
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

/// A configuration with this issuer, whose keys are fetched.
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

/// The shared data of several VMs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Store {
    pub(crate) values: Arc<Mutex<BTreeMap<String, Versioned>>>,
    pub(crate) versions: Arc<AtomicU32>,
    /// True if the store loses what is set.
    pub(crate) forgets: bool,
}

impl SharedData for Store {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedDataError> {
        Ok(self.values.lock().unwrap().get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> Result<bool, SharedDataError> {
        let mut values = self.values.lock().unwrap();
        let current = values.get(key).map(|(_, version)| *version);
        if version.is_some() && current.is_some() && version != current {
            return Ok(false);
        }
        let next = self.versions.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.forgets {
            values.insert(key.into(), (value.to_vec(), next));
        }
        Ok(true)
    }
}
