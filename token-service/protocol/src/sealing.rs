//! Secrets at rest: sealed with AES-256-GCM under the encryption key, which never enters the store. The same key
//! authenticates what the service hands out and must recognise again.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// Why sealing or opening failed. Deliberately without detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealingError {
    /// The sealed bytes were made with another key, for another context, or were changed.
    #[error("sealed with another encryption key, or damaged")]
    Refused,
    /// The cryptographic library failed.
    #[error("sealing failed")]
    Failed,
}

/// The key that seals signing keys and TOTP secrets: 256 bits.
pub struct EncryptionKey {
    sealing: RandomizedNonceKey,
    tagging: hmac::Key,
}

/// Keeps the two uses of one key apart: the key for tags is derived, not the key itself.
const TAGGING_LABEL: &[u8] = b"token-service tags v1";

impl std::fmt::Debug for EncryptionKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("EncryptionKey(..)")
    }
}

impl EncryptionKey {
    /// Length of the key, in bytes.
    pub const LENGTH: usize = 32;

    /// The key with these bytes.
    ///
    /// # Errors
    /// [`SealingError::Failed`] when the library refuses them.
    pub fn new(bytes: &[u8; Self::LENGTH]) -> Result<Self, SealingError> {
        let sealing =
            RandomizedNonceKey::new(&AES_256_GCM, bytes).map_err(|_| SealingError::Failed)?;
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), TAGGING_LABEL);
        Ok(Self {
            sealing,
            tagging: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()),
        })
    }

    /// An unforgeable tag for `parts` (HMAC-SHA-256, 32 bytes): nobody without the key can make it. The parts are
    /// kept apart by their lengths.
    #[must_use]
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.tagging);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; 32];
        for (to, from) in tag.iter_mut().zip(context.sign().as_ref()) {
            *to = *from;
        }
        tag
    }

    /// Seals `plaintext`. `context` names what it is and whose: sealed bytes open only in their own context,
    /// so a row cannot be passed off as another. The answer is nonce, ciphertext, tag: 28 bytes longer.
    ///
    /// # Errors
    /// [`SealingError::Failed`] when the library fails.
    pub fn seal(&self, context: &str, plaintext: &[u8]) -> Result<Vec<u8>, SealingError> {
        let mut buffer = Zeroizing::new(plaintext.to_vec());
        let nonce = self
            .sealing
            .seal_in_place_append_tag(Aad::from(context), &mut *buffer)
            .map_err(|_| SealingError::Failed)?;
        Ok([nonce.as_ref(), buffer.as_slice()].concat())
    }

    /// Opens what [`EncryptionKey::seal`] made in the same context.
    ///
    /// # Errors
    /// [`SealingError::Refused`] for anything else.
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        let (nonce, ciphertext) = sealed
            .split_at_checked(NONCE_LEN)
            .ok_or(SealingError::Refused)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealingError::Refused)?;
        let mut buffer = Zeroizing::new(ciphertext.to_vec());
        let length = self
            .sealing
            .open_in_place(nonce, Aad::from(context), &mut buffer)
            .map_err(|_| SealingError::Refused)?
            .len();
        buffer.truncate(length);
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_depend_on_the_key_and_on_every_part() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let tag = key.tag(&[b"ab", b"c"]);
        assert_eq!(
            tag,
            EncryptionKey::new(&[1; 32]).unwrap().tag(&[b"ab", b"c"])
        );
        assert_ne!(
            tag,
            EncryptionKey::new(&[2; 32]).unwrap().tag(&[b"ab", b"c"])
        );
        assert_ne!(tag, key.tag(&[b"a", b"bc"]));
        assert_ne!(tag, key.tag(&[b"abc"]));
    }

    #[test]
    fn opens_only_with_the_same_key_and_context() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let sealed = key.seal("totp:ada", b"secret").unwrap();
        assert_eq!(sealed.len(), b"secret".len() + 28);
        assert_eq!(key.open("totp:ada", &sealed).unwrap().as_slice(), b"secret");
        assert_eq!(key.open("totp:bob", &sealed), Err(SealingError::Refused));
        let other = EncryptionKey::new(&[2; 32]).unwrap();
        assert_eq!(other.open("totp:ada", &sealed), Err(SealingError::Refused));
        for position in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[position] ^= 1;
            assert_eq!(key.open("totp:ada", &damaged), Err(SealingError::Refused));
            assert_eq!(
                key.open("totp:ada", &sealed[..position]),
                Err(SealingError::Refused)
            );
        }
        assert_ne!(
            sealed,
            key.seal("totp:ada", b"secret").unwrap(),
            "nonces are random"
        );
    }
}
