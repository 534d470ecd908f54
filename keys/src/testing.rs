//! An issuer with real keys, for tests. The issuer signs any content.

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
use crate::signature::HostVerifier;
use crate::{KeySet, Skipped};

/// A host that verifies only the algorithms that the guard itself does not verify.
#[derive(Debug)]
pub struct LeastHost;

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
pub struct Issuer {
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
    pub const KID: &str = "key-1";

    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            key: SigningKey::generate(algorithm),
        }
    }

    /// The key as a JWK with another identifier.
    pub fn jwk(&self, kid: &str) -> Value {
        let mut jwk = self.key.jwk();
        jwk["kid"] = json!(kid);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm.name());
        jwk
    }

    /// The key as clients put it into the header of a proof.
    pub fn public_key(&self) -> Value {
        self.key.jwk()
    }

    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn jwks(&self) -> Vec<u8> {
        self.jwks_of(Self::KID)
    }

    pub fn jwks_of(&self, kid: &str) -> Vec<u8> {
        json!({"keys": [self.jwk(kid)]}).to_string().into_bytes()
    }

    pub fn keys(&self) -> KeySet {
        let algorithms = [self.algorithm].into();
        let (keys, skipped) = KeySet::parse(&self.jwks(), &algorithms, &KeySet::default()).unwrap();
        assert_eq!(skipped, Skipped::default());
        keys
    }

    pub fn header(&self) -> Value {
        json!({"typ": "at+jwt", "alg": self.algorithm.name(), "kid": Self::KID})
    }

    /// A token with a valid header.
    pub fn token(&self, claims: &Value) -> String {
        self.sign(&self.header().to_string(), &claims.to_string())
    }

    /// A signed token of these texts.
    pub fn sign(&self, header: &str, body: &str) -> String {
        let input = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(body)
        );
        let signature = self.key.sign(input.as_bytes());
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
