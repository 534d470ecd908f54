//! Signing keys in the store, sealed with the encryption key.

use claims::Algorithm;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// A signing key. Reading the private part requires the encryption key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSigningKey {
    pub kid: String,
    pub algorithm: Algorithm,
    /// The private key as PKCS#8 DER, sealed.
    pub sealed_pkcs8: Vec<u8>,
    pub created_at: Timestamp,
    /// Until this time the key is published but does not sign, so that every gateway knows the key before its first
    /// token.
    pub signs_from: Timestamp,
    /// One more than that of the key before, of the same algorithm: of two keys that start in the same second, the key
    /// with the higher number signs. 0 for the first key.
    pub number: u32,
    /// When the key was found to have stopped signing. The key verifies until its last token has expired.
    pub retired_at: Option<Timestamp>,
}

impl SealedSigningKey {
    /// Sorts keys in the order in which they sign. Times are whole seconds, so two keys may have the same time.
    pub fn oldest_first(mut keys: Vec<Self>) -> Vec<Self> {
        keys.sort_by(|one, other| one.age().cmp(&other.age()));
        keys
    }

    fn age(&self) -> (Timestamp, u32, Timestamp, &str) {
        (self.created_at, self.number, self.signs_from, &self.kid)
    }

    /// Of the keys that may sign, the one with the greatest turn signs.
    pub fn turn(&self) -> (Timestamp, u32, &str) {
        (self.signs_from, self.number, &self.kid)
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
