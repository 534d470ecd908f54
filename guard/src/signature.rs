//! Signatures: the host checks those that it can, which is quicker; the rest is checked here.
//!
//! The parts of the RustCrypto and dalek libraries that are needed, rather than all of a JWT library: a third of the
//! module's size, which every worker loads, for the same signatures.

mod ed25519;

use std::fmt;

use claims::Algorithm;
use p256::ecdsa::signature::Verifier as _;
use p256::pkcs8::EncodePublicKey as _;
use rsa::Pkcs1v15Sign;
use rsa::pkcs8::EncodePublicKey as _;
use sha2::{Digest as _, Sha256};

/// What stands before a SHA-256 digest in a PKCS#1 v1.5 signature (RFC 8017 §9.2, note 1).
const SHA256_DIGEST_INFO: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05,
    0x00, 0x04, 0x20,
];

/// The scheme of RS256. The library has one of its own, which comes with another copy of SHA-256.
fn pkcs1v15_sha256() -> Pkcs1v15Sign {
    Pkcs1v15Sign {
        hash_len: Some(<Sha256 as sha2::Digest>::output_size()),
        prefix: SHA256_DIGEST_INFO.into(),
    }
}

/// The host's own signature verification, where it has one.
pub trait HostVerifier: fmt::Debug {
    /// Whether `signature` over `message` is that of `public_key`: SubjectPublicKeyInfo, DER. An ECDSA signature is DER
    /// too. `None` when the host does not check signatures of this algorithm.
    fn verify(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool>;
}

/// A host that checks nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoHostVerifier;

impl HostVerifier for NoHostVerifier {
    fn verify(&self, _: Algorithm, _: &[u8], _: &[u8], _: &[u8]) -> Option<bool> {
        None
    }
}

/// A key that checks signatures of one algorithm.
pub enum SignatureKey {
    /// Ed25519. Envoy does not offer it.
    Ed25519(Box<ed25519::VerifyingKey>),
    /// ECDSA on P-256 with SHA-256.
    P256 {
        /// For this module.
        key: Box<p256::ecdsa::VerifyingKey>,
        /// For the host: SubjectPublicKeyInfo, DER.
        spki: Vec<u8>,
    },
    /// RSA, PKCS#1 v1.5 with SHA-256.
    Rsa {
        /// For this module.
        key: Box<rsa::RsaPublicKey>,
        /// For the host: SubjectPublicKeyInfo, DER.
        spki: Vec<u8>,
    },
}

impl fmt::Debug for SignatureKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.algorithm().name())
    }
}

impl SignatureKey {
    /// The Ed25519 key with these 32 bytes (RFC 8032 §5.1.5). Small-order keys sign anything, and are none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn ed25519(bytes: &[u8]) -> Result<Self, &'static str> {
        let key = ed25519::VerifyingKey::from_bytes(bytes).ok_or("not an Ed25519 public key")?;
        Ok(Self::Ed25519(Box::new(key)))
    }

    /// The P-256 key with this uncompressed point of 65 bytes (SEC 1 §2.3.3).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn p256(point: &[u8]) -> Result<Self, &'static str> {
        const REFUSAL: &str = "not a point on P-256";
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(point).map_err(|_| REFUSAL)?;
        let spki = key.to_public_key_der().map_err(|_| REFUSAL)?;
        Ok(Self::P256 {
            key: Box::new(key),
            spki: spki.into_vec(),
        })
    }

    /// The RSA key with this modulus and exponent, big endian.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, &'static str> {
        const REFUSAL: &str = "not a usable RSA key";
        let number = rsa::BigUint::from_bytes_be;
        let key = rsa::RsaPublicKey::new(number(modulus), number(exponent)).map_err(|_| REFUSAL)?;
        let spki = key.to_public_key_der().map_err(|_| REFUSAL)?;
        Ok(Self::Rsa {
            key: Box::new(key),
            spki: spki.into_vec(),
        })
    }

    /// The algorithm of its signatures.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::EdDsa,
            Self::P256 { .. } => Algorithm::Es256,
            Self::Rsa { .. } => Algorithm::Rs256,
        }
    }

    /// Whether `signature`, as a JWS carries it, is this key's over `message`.
    #[must_use]
    pub fn signed(&self, host: &dyn HostVerifier, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => key.verify(message, signature),
            Self::P256 { key, spki } => {
                // RFC 7518 §3.4: r and s, 32 bytes each.
                let Ok(signature) = p256::ecdsa::Signature::from_slice(signature) else {
                    return false;
                };
                let der = signature.to_der();
                host.verify(Algorithm::Es256, spki, message, der.as_bytes())
                    .unwrap_or_else(|| key.verify(message, &signature).is_ok())
            }
            Self::Rsa { key, spki } => host
                .verify(Algorithm::Rs256, spki, message, signature)
                .unwrap_or_else(|| {
                    let digest = Sha256::digest(message);
                    key.verify(pkcs1v15_sha256(), &digest, signature).is_ok()
                }),
        }
    }
}
