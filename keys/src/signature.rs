//! Verification of signatures. The host verifies the algorithms that it offers, because it is faster. This
//! module verifies the others.
//!
//! jwt-simple reads the keys and converts them to the form that hosts expect. It does not verify signatures
//! here, because it verifies only whole tokens: it would parse header and claims a second time, with its own
//! rules. For example, a token whose `nonce` is a number would then pass at one host and be refused at another.
//! The module would also be 50 KB larger. So the libraries under jwt-simple, ecdsa and superboring, verify with
//! jwt-simple's keys.

mod ed25519;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ecdsa::elliptic_curve::CurveArithmetic;
use ecdsa::signature::Verifier as _;
use ecdsa::{DigestAlgorithm, EcdsaCurve, Signature, VerifyingKey};
use jwt_simple::prelude::{
    ECDSAP256PublicKeyLike as _, ES256PublicKey, RS256PublicKey, RSAPublicKeyLike as _,
};
use superboring::error::ErrorStack;
use superboring::hash::MessageDigest;
use superboring::pkey::{PKey, Public};
use superboring::rsa::Padding;
use superboring::sign::{RsaPssSaltlen, Verifier as RsaVerifier};

use claims::jwk::PublicKey;

use crate::algorithm::Algorithm;

/// The host's own verification of signatures.
pub trait HostVerifier: fmt::Debug + Send {
    /// True if the host verifies signatures of this algorithm.
    fn offers(&self, algorithm: Algorithm) -> bool;

    /// True if `signature` is the signature of `public_key` over `message`. The key is a SubjectPublicKeyInfo
    /// in DER, and an ECDSA signature is in DER too. `None` if the host does not offer the algorithm, or gives
    /// no answer.
    fn verify(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool>;

    /// True if the host or this module verifies this algorithm. This module verifies all algorithms except
    /// ES384.
    fn suffices_for(&self, algorithm: Algorithm) -> bool {
        algorithm != Algorithm::Es384 || self.offers(algorithm)
    }
}

/// Stands for a host that verifies nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoHostVerifier;

impl HostVerifier for NoHostVerifier {
    fn offers(&self, _: Algorithm) -> bool {
        false
    }

    fn verify(&self, _: Algorithm, _: &[u8], _: &[u8], _: &[u8]) -> Option<bool> {
        None
    }
}

/// A key that verifies signatures of one algorithm (RFC 8725 §3.1).
pub enum SignatureKey {
    /// Ed25519. Envoy does not offer it.
    Ed25519(Box<ed25519::VerifyingKey>),
    /// ECDSA on P-256 with SHA-256.
    P256 {
        /// For this module.
        key: Box<ES256PublicKey>,
        /// For the host: SubjectPublicKeyInfo, DER.
        spki: Vec<u8>,
    },
    /// ECDSA on P-384 with SHA-384. Only hosts verify it, because a second curve would make the module larger.
    P384 {
        /// For the host: SubjectPublicKeyInfo, DER.
        spki: Vec<u8>,
    },
    Rsa {
        /// One of [`RSA`].
        algorithm: Algorithm,
        /// For this module.
        key: Box<PKey<Public>>,
        /// For the host: SubjectPublicKeyInfo, DER.
        spki: Vec<u8>,
    },
}

impl fmt::Debug for SignatureKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.algorithm().name())
    }
}

/// The algorithms of RSA keys.
pub const RSA: [Algorithm; 4] = [
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
];

/// SubjectPublicKeyInfo of a P-256 key (RFC 5480 §2) up to the coordinates.
const P256_SPKI: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];

/// SubjectPublicKeyInfo of a P-384 key (RFC 5480 §2) up to the point, which follows as 4, x, y (SEC 1 §2.3.3).
const P384_SPKI: [u8; 24] = [
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
    0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00, 0x04,
];

impl SignatureKey {
    /// The Ed25519 key with these 32 bytes (RFC 8032 §5.1.5). Refuses keys of small order, for which anyone can
    /// make valid signatures.
    ///
    /// jwt-simple does not read this key, because its Ed25519 verifies three times as slowly, and would add a
    /// second copy of the curve, 25 KiB for each worker.
    ///
    /// # Errors
    /// What is wrong with the key.
    pub fn ed25519(bytes: &[u8]) -> Result<Self, &'static str> {
        let key = ed25519::VerifyingKey::from_bytes(bytes).ok_or("not an Ed25519 public key")?;
        Ok(Self::Ed25519(Box::new(key)))
    }

    /// The P-256 key of a JWK (RFC 7518 §6.2).
    ///
    /// # Errors
    /// What is wrong with the key.
    pub fn p256(jwk: &str) -> Result<Self, &'static str> {
        const REFUSAL: &str = "not a point on P-256";
        let key = ES256PublicKey::from_jwk(jwk).map_err(|_| REFUSAL)?;
        let spki = key.to_der().map_err(|_| REFUSAL)?;
        Ok(Self::P256 {
            key: Box::new(key),
            spki,
        })
    }

    /// The P-384 key with these coordinates (RFC 7518 §6.2.1). If the point is not on the curve, the host
    /// verifies no signature with it.
    ///
    /// # Errors
    /// What is wrong with the key.
    pub fn p384(x: &[u8], y: &[u8]) -> Result<Self, &'static str> {
        if (x.len(), y.len()) != (48, 48) {
            return Err("not a point on P-384");
        }
        let spki = [&P384_SPKI, x, y].concat();
        Ok(Self::P384 { spki })
    }

    /// The RSA key of a JWK (RFC 7518 §6.3) for an algorithm of [`RSA`]. The modulus must have 2048 to 4096
    /// bits, and the exponent must be 65537.
    ///
    /// # Errors
    /// What is wrong with the key.
    pub fn rsa(jwk: &str, algorithm: Algorithm) -> Result<Self, &'static str> {
        const REFUSAL: &str = "not an RSA key of 2048 to 4096 bits with the exponent 65537";
        if !RSA.contains(&algorithm) {
            return Err("not for an algorithm of RSA keys");
        }
        // Padding and digest do not matter for reading a key.
        let key = RS256PublicKey::from_jwk(jwk).map_err(|_| REFUSAL)?;
        let spki = key.to_der().map_err(|_| REFUSAL)?;
        let key = PKey::from_rsa(key.public_key().as_ref().clone()).map_err(|_| REFUSAL)?;
        Ok(Self::Rsa {
            algorithm,
            key: Box::new(key),
            spki,
        })
    }

    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::EdDsa,
            Self::P256 { .. } => Algorithm::Es256,
            Self::P384 { .. } => Algorithm::Es384,
            Self::Rsa { algorithm, .. } => *algorithm,
        }
    }

    /// True if `signature`, encoded as in a JWS, is this key's signature over `message`.
    pub fn signed(&self, host: &dyn HostVerifier, message: &[u8], signature: &[u8]) -> bool {
        let ask =
            |spki: &[u8], signature: &[u8]| host.verify(self.algorithm(), spki, message, signature);
        match self {
            Self::Ed25519(key) => key.verify(message, signature),
            Self::P256 { key, spki } => ecdsa_der::<32>(signature).is_some_and(|der| {
                ask(spki, &der)
                    .unwrap_or_else(|| ecdsa_signed(key.public_key().as_ref(), message, signature))
            }),
            Self::P384 { spki } => {
                ecdsa_der::<48>(signature).is_some_and(|der| ask(spki, &der).unwrap_or(false))
            }
            Self::Rsa {
                algorithm,
                key,
                spki,
            } => ask(spki, signature).unwrap_or_else(|| {
                rsa_signed(key, *algorithm, message, signature).unwrap_or(false)
            }),
        }
    }
}

/// True if `signature`, encoded as in a JWS, is the signature of `key` over `message`. For keys that the client chooses and
/// that may never come again: nothing is computed in advance, and the host reads the key where it verifies.
pub fn signed_once(
    key: &PublicKey,
    host: &dyn HostVerifier,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let jwk = || key.required_members();
    match key {
        PublicKey::Okp { x, .. } => ed25519::VerifyingKey::from_bytes(&decode(x))
            .is_some_and(|key| key.verify_once(message, signature)),
        PublicKey::Ec { x, y, .. } => ecdsa_der::<32>(signature).is_some_and(|der| {
            let spki = [P256_SPKI.as_slice(), &decode(x), &decode(y)].concat();
            let told = host.verify(Algorithm::Es256, &spki, message, &der);
            told.unwrap_or_else(|| {
                SignatureKey::p256(&jwk())
                    .is_ok_and(|key| key.signed(&NoHostVerifier, message, signature))
            })
        }),
        PublicKey::Rsa { .. } => SignatureKey::rsa(&jwk(), Algorithm::Rs256)
            .is_ok_and(|key| key.signed(host, message, signature)),
    }
}

/// ECDSA with the digest of the curve: SHA-256 for P-256 (RFC 7518 §3.4).
fn ecdsa_signed<C>(key: &VerifyingKey<C>, message: &[u8], signature: &[u8]) -> bool
where
    C: EcdsaCurve + CurveArithmetic + DigestAlgorithm,
{
    Signature::from_slice(signature).is_ok_and(|signature| key.verify(message, &signature).is_ok())
}

/// RSASSA-PKCS1-v1_5, or RSASSA-PSS with a salt as long as the digest (RFC 7518 §3.3 and §3.5).
fn rsa_signed(
    key: &PKey<Public>,
    algorithm: Algorithm,
    message: &[u8],
    signature: &[u8],
) -> Result<bool, ErrorStack> {
    let (digest, padding) = match algorithm {
        Algorithm::Rs256 => (MessageDigest::sha256(), Padding::PKCS1),
        Algorithm::Rs384 => (MessageDigest::sha384(), Padding::PKCS1),
        Algorithm::Rs512 => (MessageDigest::sha512(), Padding::PKCS1),
        Algorithm::Ps256 => (MessageDigest::sha256(), Padding::PKCS1_PSS),
        Algorithm::EdDsa | Algorithm::Es256 | Algorithm::Es384 => return Ok(false),
    };
    let mut verifier = RsaVerifier::new(digest, key)?;
    verifier.set_rsa_padding(padding)?;
    verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
    verifier.update(message)?;
    verifier.verify(signature)
}

/// Converts the ECDSA signature of a JWS, r and s of `N` bytes each (RFC 7518 §3.4), to DER for the host (RFC
/// 3279 §2.2.3). `None` if the length is wrong.
fn ecdsa_der<const N: usize>(signature: &[u8]) -> Option<Vec<u8>> {
    let (r, s) = signature.split_first_chunk::<N>()?;
    let s = <&[u8; N]>::try_from(s).ok()?;
    let mut integers = Vec::with_capacity(2 * N + 6);
    for number in [r, s] {
        let zeros = number.iter().take(N - 1).take_while(|byte| **byte == 0);
        let digits = number.get(zeros.count()..)?;
        // A set first bit would make the integer negative.
        let sign = digits.first().is_some_and(|first| *first >= 0x80);
        let length = digits.len() + usize::from(sign);
        integers.extend([0x02, u8::try_from(length).ok()?]);
        integers.extend(sign.then_some(0));
        integers.extend(digits);
    }
    let length = u8::try_from(integers.len()).ok()?;
    Some([&[0x30, length], integers.as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3279_s2_2_3_integers_are_minimal_and_positive() {
        let mut signature = [0; 64];
        (signature[31], signature[32], signature[63]) = (0x7f, 0x80, 1);
        let mut expected = vec![0x30, 38, 2, 1, 0x7f, 2, 33, 0, 0x80];
        expected.extend([0; 30]);
        expected.push(1);
        assert_eq!(ecdsa_der::<32>(&signature).unwrap(), expected);
        let zero = [0x30, 6, 2, 1, 0, 2, 1, 0];
        assert_eq!(ecdsa_der::<32>(&[0; 64]).unwrap(), zero);
        assert_eq!(ecdsa_der::<48>(&[0; 96]).unwrap(), zero);
        for length in [0, 31, 63, 65, 96] {
            assert_eq!(ecdsa_der::<32>(&vec![1; length]), None);
        }
        for length in [0, 64, 95, 97] {
            assert_eq!(ecdsa_der::<48>(&vec![1; length]), None);
        }
    }

    #[test]
    fn rfc3279_s2_2_3_another_library_reads_the_signature() {
        use aws_lc_rs::rand::SystemRandom;
        use aws_lc_rs::signature::{
            ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
            UnparsedPublicKey,
        };
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, pair.public_key().as_ref());
        // About one signature in 128 has a number with a leading zero byte.
        for number in 0..500_u16 {
            let message = number.to_be_bytes();
            let signature = pair.sign(&SystemRandom::new(), &message).unwrap();
            let der = ecdsa_der::<32>(signature.as_ref()).unwrap();
            assert!(key.verify(&message, &der).is_ok(), "{der:?}");
        }
    }
}
