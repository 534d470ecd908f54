//! The keys of a store: one value for everything that the service seals and tags.

use std::fmt;

use aws_lc_rs::aead::NONCE_LEN;
use aws_lc_rs::hmac;
use claims::dpop::NonceKey;
use zeroize::Zeroizing;

use super::at_rest::SealingKeys;
use super::derivation::{LENGTH, Root, copy, from_root};
use super::error::SealingError;
use super::issued::IssuingKeys;

/// Separates the key of the nonces from other keys that are derived from the root (RFC 5869 §3.2).
const NONCES_INFO: &[u8] = b"token-service dpop nonces v1";

/// Seals signing keys and TOTP secrets, and seals or tags values that the service issues.
pub struct EncryptionKey {
    sealing: SealingKeys,
    tagging: hmac::Key,
    issuing: IssuingKeys,
    nonce_key: NonceKey,
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EncryptionKey(..)")
    }
}

impl EncryptionKey {
    /// A single key, which is the root too. For tests.
    pub fn new(bytes: &[u8; LENGTH]) -> Result<Self, SealingError> {
        Self::with_root(SealingKeys::new(bytes, [])?, &Zeroizing::new(*bytes))
    }

    /// The given keys, with the root of the store.
    pub(crate) fn with_root(sealing: SealingKeys, root: &Root) -> Result<Self, SealingError> {
        Ok(Self {
            issuing: sealing.issuing(root)?,
            nonce_key: NonceKey::new(from_root(root, NONCES_INFO)?),
            sealing,
            tagging: hmac::Key::new(hmac::HMAC_SHA256, &**root),
        })
    }

    pub const fn sealing(&self) -> &SealingKeys {
        &self.sealing
    }

    /// The key of the nonces for DPoP proofs (RFC 9449 §8), the same for all replicas.
    pub const fn nonce_key(&self) -> &NonceKey {
        &self.nonce_key
    }

    /// A tag for `parts` (HMAC-SHA-256, 32 bytes), which nobody can forge without the root. The input includes the
    /// length of each part, so parts cannot be shifted. The first part names the purpose.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.tagging);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; 32];
        copy(context.sign().as_ref(), &mut tag);
        tag
    }

    /// Seals a value that the service issues and gets back. `purpose` names the kind of value: sealed bytes open only for
    /// their own purpose. The result is 28 bytes longer than `plaintext`. Every replica opens the value, until its
    /// encryption key leaves the key file.
    ///
    /// The nonce is random. AES-256-GCM would permit only 2^32 random nonces for one key (NIST SP 800-38D §8.3);
    /// AES-256-GCM-SIV permits any number of values of this size that a service can issue (RFC 8452 §9).
    pub(super) fn seal_issued(
        &self,
        purpose: &str,
        nonce: [u8; NONCE_LEN],
        plaintext: &[u8],
    ) -> Result<Vec<u8>, SealingError> {
        self.issuing.seal(purpose, nonce, plaintext)
    }

    /// Opens a value that [`Self::seal_issued`] sealed.
    ///
    /// # Errors
    /// [`SealingError::Refused`] if this service did not seal the bytes for this purpose.
    pub(super) fn open_issued(
        &self,
        purpose: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        self.issuing.open(purpose, sealed)
    }

    /// See [`SealingKeys::seal`].
    pub fn seal(&self, context: &str, plaintext: &[u8]) -> Result<Vec<u8>, SealingError> {
        self.sealing.seal(context, plaintext)
    }

    /// See [`SealingKeys::open`].
    ///
    /// # Errors
    /// [`SealingError::Refused`] if no key sealed the bytes in this context.
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        self.sealing.open(context, sealed)
    }
}
