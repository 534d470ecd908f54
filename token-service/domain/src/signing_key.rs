//! Signing keys as the store keeps them: sealed with the encryption key.

use claims::Algorithm;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// A signing key. Its private part is readable only with the encryption key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSigningKey {
    /// The key identifier.
    pub kid: String,
    /// The algorithm it signs with.
    pub algorithm: Algorithm,
    /// The private key as PKCS#8 DER, sealed.
    pub sealed_pkcs8: Vec<u8>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until then it is only announced: published, so that every gateway knows it before its first token.
    pub signs_from: Timestamp,
    /// When it was seen to sign no more; it verifies until its last token has expired.
    pub retired_at: Option<Timestamp>,
}

impl SealedSigningKey {
    /// Puts keys in the order in which they sign; times are whole seconds, so two may have been made at the same one.
    #[must_use]
    pub fn oldest_first(mut keys: Vec<Self>) -> Vec<Self> {
        keys.sort_by(|one, other| one.age().cmp(&other.age()));
        keys
    }

    fn age(&self) -> (Timestamp, Timestamp, &str) {
        (self.created_at, self.signs_from, &self.kid)
    }
}

impl std::fmt::Debug for SealedSigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SealedSigningKey")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm)
            .field("signs_from", &self.signs_from)
            .field("retired_at", &self.retired_at)
            .finish_non_exhaustive()
    }
}
