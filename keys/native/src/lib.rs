//! Verification of signatures with aws-lc, for the algorithms that a host verifies.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use keys::algorithm::Algorithm;
use keys::signature::HostVerifier;

/// Verifies all algorithms except EdDSA with aws-lc, which is several times faster than pure Rust. The guard
/// verifies EdDSA itself, with a table for each key.
#[derive(Debug, Clone, Copy)]
pub struct NativeSignatures;

fn verification(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::Es256 => &ECDSA_P256_SHA256_ASN1,
        Algorithm::Es384 => &ECDSA_P384_SHA384_ASN1,
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::EdDsa => return None,
    })
}

impl HostVerifier for NativeSignatures {
    fn offers(&self, algorithm: Algorithm) -> bool {
        verification(algorithm).is_some()
    }

    fn verify(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let key = UnparsedPublicKey::new(verification(algorithm)?, public_key);
        Some(key.verify(message, signature).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
        RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
    };
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use keys::signature::{NoHostVerifier, RSA, SignatureKey};

    use super::*;

    /// Checks a valid signature and forged ones. This host must answer all of them, and agree with the guard's
    /// own verification if there is one.
    #[track_caller]
    fn tells_right_from_wrong(key: &SignatureKey, signature: &[u8]) {
        #[derive(Debug)]
        struct Asked;
        impl HostVerifier for Asked {
            fn offers(&self, algorithm: Algorithm) -> bool {
                NativeSignatures.offers(algorithm)
            }

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
        let mut forged = signature.to_vec();
        forged[40] ^= 1;
        let own = NoHostVerifier.suffices_for(key.algorithm());
        let hosts: [&dyn HostVerifier; 2] = [&Asked, &NoHostVerifier];
        for host in hosts.into_iter().take(1 + usize::from(own)) {
            assert!(key.signed(host, b"message", signature), "{key:?} {host:?}");
            assert!(!key.signed(host, b"another", signature), "{key:?} {host:?}");
            assert!(!key.signed(host, b"message", &forged), "{key:?} {host:?}");
        }
    }

    #[test]
    fn ecdsa_is_verified_by_aws_lc() {
        let verified = |algorithm: &'static EcdsaSigningAlgorithm,
                        read: &dyn Fn(&[u8], &[u8]) -> SignatureKey| {
            let pair = EcdsaKeyPair::generate(algorithm).unwrap();
            // An uncompressed point: 4, x, y.
            let point = &pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let signature = pair.sign(&SystemRandom::new(), b"message").unwrap();
            tells_right_from_wrong(&read(x, y), signature.as_ref());
        };
        verified(&ECDSA_P256_SHA256_FIXED_SIGNING, &|x, y| {
            let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
            let jwk = format!(r#"{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}}"#);
            SignatureKey::p256(&jwk).unwrap()
        });
        verified(&ECDSA_P384_SHA384_FIXED_SIGNING, &|x, y| {
            SignatureKey::p384(x, y).unwrap()
        });
    }

    #[test]
    fn a_point_that_is_not_on_p384_verifies_nothing() {
        let key = SignatureKey::p384(&[1; 48], &[1; 48]).unwrap();
        assert!(!key.signed(&NativeSignatures, b"message", &[0; 96]));
        assert!(!key.signed(&NativeSignatures, b"message", &[1; 96]));
    }

    #[test]
    fn rsa_is_verified_by_aws_lc() {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let public_key = pair.public_key();
        let modulus = public_key.modulus().big_endian_without_leading_zero();
        let exponent = public_key.exponent().big_endian_without_leading_zero();
        let (n, e) = (
            URL_SAFE_NO_PAD.encode(modulus),
            URL_SAFE_NO_PAD.encode(exponent),
        );
        let jwk = format!(r#"{{"kty":"RSA","n":"{n}","e":"{e}"}}"#);
        let encodings: [&dyn RsaEncoding; 4] = [
            &RSA_PKCS1_SHA256,
            &RSA_PKCS1_SHA384,
            &RSA_PKCS1_SHA512,
            &RSA_PSS_SHA256,
        ];
        for (algorithm, encoding) in RSA.into_iter().zip(encodings) {
            let key = SignatureKey::rsa(&jwk, algorithm).unwrap();
            let mut signature = vec![0; pair.public_modulus_len()];
            let random = SystemRandom::new();
            pair.sign(encoding, &random, b"message", &mut signature)
                .unwrap();
            tells_right_from_wrong(&key, &signature);
            // The same key with another algorithm.
            for other in RSA.into_iter().filter(|other| *other != algorithm) {
                let key = SignatureKey::rsa(&jwk, other).unwrap();
                for host in [&NativeSignatures as &dyn HostVerifier, &NoHostVerifier] {
                    assert!(!key.signed(host, b"message", &signature), "{other:?}");
                }
            }
        }
    }
}
