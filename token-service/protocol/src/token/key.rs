//! One signing key. aws-lc-rs signs and verifies, because a jwt-simple signature takes ten times as long (130 us
//! against 13 us for Ed25519) and the service signs every token. jwt-simple exports the public key.

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use claims::Algorithm;
use claims::jwk::Jwk;
use jwt_simple::prelude::{ES256PublicKey, Ed25519PublicKey, RS256PublicKey};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// The cryptographic library failed. Contains no detail, deliberately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signing key cannot be made, read or used")]
pub struct KeyError;

/// A private signing key with its public key and identifier.
#[derive(Debug)]
pub struct SigningKey {
    public: Jwk,
    pair: KeyPair,
}

#[derive(Debug)]
enum KeyPair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair, SystemRandom),
    Rsa(RsaKeyPair, SystemRandom),
}

impl SigningKey {
    /// Generates a private key for `algorithm` as PKCS#8 DER; RSA keys have 2048 bits.
    pub fn generate_pkcs8(algorithm: Algorithm) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let random = SystemRandom::new();
        let bytes = match algorithm {
            Algorithm::EdDsa => Ed25519KeyPair::generate_pkcs8(&random)
                .map_err(|_| KeyError)?
                .as_ref()
                .to_vec(),
            Algorithm::Es256 => {
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
                    .map_err(|_| KeyError)?
                    .as_ref()
                    .to_vec()
            }
            Algorithm::Rs256 => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError)?;
                let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> =
                    pair.as_der().map_err(|_| KeyError)?;
                der.as_ref().to_vec()
            }
        };
        Ok(Zeroizing::new(bytes))
    }

    /// Reads a key from PKCS#8 DER.
    ///
    /// # Errors
    /// [`KeyError`] if the bytes are not a key for `algorithm`.
    pub fn from_pkcs8(algorithm: Algorithm, pkcs8: &[u8]) -> Result<Self, KeyError> {
        let pair = match algorithm {
            Algorithm::EdDsa => {
                KeyPair::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|_| KeyError)?)
            }
            Algorithm::Es256 => KeyPair::P256(
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
                    .map_err(|_| KeyError)?,
                SystemRandom::new(),
            ),
            Algorithm::Rs256 => KeyPair::Rsa(
                RsaKeyPair::from_pkcs8(pkcs8).map_err(|_| KeyError)?,
                SystemRandom::new(),
            ),
        };
        let public = export(&pair)?;
        Ok(Self { public, pair })
    }

    /// The key identifier: the first 16 characters (96 bits) of the key's RFC 7638 thumbprint, short because
    /// every token carries it.
    pub fn kid(&self) -> &str {
        &self.public.kid
    }

    pub const fn algorithm(&self) -> Algorithm {
        match self.pair {
            KeyPair::Ed25519(_) => Algorithm::EdDsa,
            KeyPair::P256(..) => Algorithm::Es256,
            KeyPair::Rsa(..) => Algorithm::Rs256,
        }
    }

    /// The public key as in the JWK set.
    pub const fn jwk(&self) -> &Jwk {
        &self.public
    }

    /// Signs `message`; the signature has JWS form (RFC 7518 §3.4: r and s side by side for ES256).
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match &self.pair {
            KeyPair::Ed25519(pair) => pair
                .try_sign(message)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(|_| KeyError),
            KeyPair::P256(pair, random) => pair
                .sign(random, message)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(|_| KeyError),
            KeyPair::Rsa(pair, random) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, random, message, &mut signature)
                    .map_err(|_| KeyError)?;
                Ok(signature)
            }
        }
    }

    /// True if `signature` is a signature of `message` by this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.pair {
            // Ed25519 gives a message one signature (RFC 8032 §5.1.6), and signing takes less than half the time of
            // verifying. Compared in constant time, or an attacker could find the signature byte by byte.
            KeyPair::Ed25519(pair) => pair
                .try_sign(message)
                .is_ok_and(|own| own.as_ref().ct_eq(signature).into()),
            KeyPair::P256(pair, _) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key())
                    .verify(message, signature)
                    .is_ok()
            }
            KeyPair::Rsa(pair, _) => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key())
                    .verify(message, signature)
                    .is_ok()
            }
        }
    }
}

/// Number of characters of the thumbprint in the identifier.
const KID_LENGTH: usize = 16;

/// The public key, identified by the start of its thumbprint (RFC 7638 §3).
fn export(pair: &KeyPair) -> Result<Jwk, KeyError> {
    let refused = |_| KeyError;
    let (thumbprint, jwk) = match pair {
        KeyPair::Ed25519(pair) => {
            let key = Ed25519PublicKey::from_bytes(pair.public_key().as_ref()).map_err(refused)?;
            (key.jwk_thumbprint(), key.to_jwk())
        }
        KeyPair::P256(pair, _) => {
            let key = ES256PublicKey::from_bytes(pair.public_key().as_ref()).map_err(refused)?;
            (key.jwk_thumbprint(), key.to_jwk())
        }
        KeyPair::Rsa(pair, _) => {
            let key = pair.public_key();
            let key = RS256PublicKey::from_components(
                key.modulus().big_endian_without_leading_zero(),
                key.exponent().big_endian_without_leading_zero(),
            )
            .map_err(refused)?;
            (key.jwk_thumbprint(), key.to_jwk())
        }
    };
    let mut members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&jwk).map_err(|_| KeyError)?;
    let kid = thumbprint.get(..KID_LENGTH).ok_or(KeyError)?;
    members.insert("kid".to_owned(), kid.into());
    serde_json::from_value(members.into()).map_err(|_| KeyError)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jwt_simple::prelude::*;

    use super::*;

    fn key(algorithm: Algorithm) -> SigningKey {
        let pkcs8 = SigningKey::generate_pkcs8(algorithm).unwrap();
        SigningKey::from_pkcs8(algorithm, &pkcs8).unwrap()
    }

    #[test]
    fn signs_what_an_independent_library_verifies_with_the_published_key() {
        for algorithm in Algorithm::ALL {
            let key = key(algorithm);
            let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
            let input = format!(
                "{}.{}",
                encode(&format!(r#"{{"alg":"{}"}}"#, algorithm.name())),
                encode(r#"{"exp":4102444800}"#)
            );
            let signature = key.sign(input.as_bytes()).unwrap();
            let token = format!("{input}.{}", URL_SAFE_NO_PAD.encode(&signature));
            let jwk = serde_json::to_string(&key.jwk()).unwrap();
            let verified = match algorithm {
                Algorithm::EdDsa => Ed25519PublicKey::from_jwk(&jwk)
                    .unwrap()
                    .verify_token::<NoCustomClaims>(&token, None)
                    .is_ok(),
                Algorithm::Es256 => ES256PublicKey::from_jwk(&jwk)
                    .unwrap()
                    .verify_token::<NoCustomClaims>(&token, None)
                    .is_ok(),
                Algorithm::Rs256 => RS256PublicKey::from_jwk(&jwk)
                    .unwrap()
                    .verify_token::<NoCustomClaims>(&token, None)
                    .is_ok(),
            };
            assert!(verified, "{algorithm:?}");
            assert!(key.verifies(input.as_bytes(), &signature));
            assert!(!key.verifies(b"other", &signature));
        }
    }

    /// Only the whole signature counts. For Ed25519 that includes the scalar, to which the order of the group may be
    /// added unless it is checked (RFC 8032 §5.1.7).
    #[test]
    fn a_changed_signature_is_none() {
        /// The order of the group of Ed25519, little endian (RFC 8032 §5.1).
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9,
            0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        for algorithm in Algorithm::ALL {
            let key = key(algorithm);
            let signature = key.sign(b"message").unwrap();
            for position in 0..signature.len() {
                let mut changed = signature.clone();
                changed[position] ^= 1;
                assert!(
                    !key.verifies(b"message", &changed),
                    "{algorithm:?} {position}"
                );
            }
            let longer = [signature.as_slice(), &[0]].concat();
            assert!(!key.verifies(b"message", &longer), "{algorithm:?}");
            let shorter = signature.split_last().unwrap().1;
            assert!(!key.verifies(b"message", shorter), "{algorithm:?}");
            assert!(!key.verifies(b"message", b""), "{algorithm:?}");
        }
        let key = key(Algorithm::EdDsa);
        let mut other = key.sign(b"message").unwrap();
        let mut carry = 0;
        for (byte, of_order) in other[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(of_order) + carry;
            *byte = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert!(!key.verifies(b"message", &other));
    }

    #[test]
    fn a_key_is_bound_to_its_algorithm() {
        for made_for in Algorithm::ALL {
            let pkcs8 = SigningKey::generate_pkcs8(made_for).unwrap();
            for read_as in Algorithm::ALL {
                assert_eq!(
                    SigningKey::from_pkcs8(read_as, &pkcs8).is_ok(),
                    made_for == read_as
                );
            }
        }
    }

    #[test]
    fn the_kid_is_the_start_of_the_thumbprint() {
        let key = key(Algorithm::EdDsa);
        let jwk = serde_json::to_string(&key.jwk()).unwrap();
        let thumbprint = Ed25519PublicKey::from_jwk(&jwk).unwrap().jwk_thumbprint();
        assert_eq!(key.kid(), &thumbprint[..16]);
    }
}
