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
