//! Signatures checked by aws-lc, for the algorithms that the guard lets its host check.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use claims::Algorithm;
use guard::signature::HostVerifier;

/// RS256 and ES256 by aws-lc, in a fraction of the time that pure Rust takes. The guard checks EdDSA itself, with a table
/// that it keeps for each key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NativeSignatures;

impl HostVerifier for NativeSignatures {
    fn verify(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let verification: &dyn VerificationAlgorithm = match algorithm {
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Es256 => &ECDSA_P256_SHA256_ASN1,
            Algorithm::EdDsa => return None,
        };
        let key = UnparsedPublicKey::new(verification, public_key);
        Some(key.verify(message, signature).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    };
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use guard::signature::SignatureKey;

    use super::*;

    /// Checks a good and a forged signature; none may be left to the guard itself.
    #[track_caller]
    fn tells_right_from_wrong(key: &SignatureKey, signature: &[u8]) {
        #[derive(Debug)]
        struct Asked;
        impl HostVerifier for Asked {
            fn verify(
                &self,
                algorithm: Algorithm,
                public_key: &[u8],
                message: &[u8],
                signature: &[u8],
            ) -> Option<bool> {
                let told = NativeSignatures.verify(algorithm, public_key, message, signature);
                assert!(told.is_some());
                told
            }
        }
        assert!(key.signed(&Asked, b"message", signature));
        assert!(!key.signed(&Asked, b"another", signature));
        let mut forged = signature.to_vec();
        forged[40] ^= 1;
        assert!(!key.signed(&Asked, b"message", &forged));
    }

    #[test]
    fn es256_is_checked_by_aws_lc() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        // An uncompressed point: 4, x, y.
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let jwk = format!(r#"{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}}"#);
        let key = SignatureKey::p256(&jwk).unwrap();
        let signature = pair.sign(&SystemRandom::new(), b"message").unwrap();
        tells_right_from_wrong(&key, signature.as_ref());
    }

    #[test]
    fn rs256_is_checked_by_aws_lc() {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let public_key = pair.public_key();
        let modulus = public_key.modulus().big_endian_without_leading_zero();
        let exponent = public_key.exponent().big_endian_without_leading_zero();
        let (n, e) = (
            URL_SAFE_NO_PAD.encode(modulus),
            URL_SAFE_NO_PAD.encode(exponent),
        );
        let jwk = format!(r#"{{"kty":"RSA","n":"{n}","e":"{e}"}}"#);
        let key = SignatureKey::rsa(&jwk).unwrap();
        let mut signature = vec![0; pair.public_modulus_len()];
        let random = SystemRandom::new();
        pair.sign(&RSA_PKCS1_SHA256, &random, b"message", &mut signature)
            .unwrap();
        tells_right_from_wrong(&key, &signature);
    }
}
