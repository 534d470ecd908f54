//! Encryption at rest, with AES-256-GCM.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use super::derivation::{LENGTH, Root, derived};
use super::error::SealingError;
use super::issued::{ISSUED_INFO, IssuingKeys};

/// Identifier of an encryption key. It is derived from the key and reveals nothing about it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId([u8; 8]);

/// 16 hexadecimal digits.
impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// First byte of sealed bytes: the version of their layout. The [`KeyId`], the nonce, the ciphertext and the tag follow.
const VERSION: u8 = 1;

/// Separates the keys that HKDF derives from an encryption key (RFC 5869 §3.2).
const SEALING_INFO: &[u8] = b"token-service sealing v1";
const ID_INFO: &[u8] = b"token-service key id";
const SALT: &[u8] = b"token-service encryption key";

/// One encryption key and the keys derived from it.
struct SealingKey {
    id: KeyId,
    sealing: RandomizedNonceKey,
    /// With the root, the secret of [`IssuingKeys`].
    issuing: Zeroizing<[u8; LENGTH]>,
}

impl SealingKey {
    fn new(bytes: &[u8; LENGTH]) -> Result<Self, SealingError> {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(bytes);
        let sealing: Zeroizing<[u8; LENGTH]> = Zeroizing::new(derived(&secret, SEALING_INFO)?);
        let sealing = RandomizedNonceKey::new(&AES_256_GCM, &*sealing);
        Ok(Self {
            id: KeyId(derived(&secret, ID_INFO)?),
            sealing: sealing.map_err(|_| SealingError::Failed)?,
            issuing: Zeroizing::new(derived(&secret, ISSUED_INFO)?),
        })
    }

    fn opens(&self, context: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (_, rest) = split(sealed).filter(|(id, _)| *id == self.id)?;
        let (nonce, ciphertext) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut buffer = Zeroizing::new(ciphertext.to_vec());
        let opened = self
            .sealing
            .open_in_place(nonce, Aad::from(context), &mut buffer);
        let length = opened.ok()?.len();
        buffer.truncate(length);
        Some(buffer)
    }
}

/// Splits sealed bytes into the key id and the rest.
fn split(sealed: &[u8]) -> Option<(KeyId, &[u8])> {
    let rest = sealed.strip_prefix(&[VERSION])?;
    let (id, rest) = rest.split_first_chunk::<8>()?;
    Some((KeyId(*id), rest))
}

/// The current key, which seals and opens, and earlier keys, which only open.
pub struct SealingKeys {
    current: SealingKey,
    earlier: Vec<SealingKey>,
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.ids()).finish()
    }
}

impl SealingKeys {
    /// `current` seals; all keys open.
    pub(crate) fn new<'a>(
        current: &[u8; LENGTH],
        earlier: impl IntoIterator<Item = &'a [u8; LENGTH]>,
    ) -> Result<Self, SealingError> {
        let earlier = earlier.into_iter().map(SealingKey::new);
        Ok(Self {
            current: SealingKey::new(current)?,
            earlier: earlier.collect::<Result<_, _>>()?,
        })
    }

    /// The ids of the keys, the current key first.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> {
        self.all().map(|key| key.id)
    }

    /// The keys for issued values, with the root of the store.
    pub(super) fn issuing(&self, root: &Root) -> Result<IssuingKeys, SealingError> {
        let earlier = self.earlier.iter().map(|key| &*key.issuing);
        IssuingKeys::new(&self.current.issuing, earlier, root)
    }

    fn all(&self) -> impl Iterator<Item = &SealingKey> {
        std::iter::once(&self.current).chain(&self.earlier)
    }

    /// Seals `plaintext` with the current key. `context` names the kind and the owner of the secret. Sealed bytes open
    /// only in their own context, so nobody can pass one row off as another. The result is 37 bytes longer than
    /// `plaintext`.
    pub(crate) fn seal(&self, context: &str, plaintext: &[u8]) -> Result<Vec<u8>, SealingError> {
        let SealingKey { id, sealing, .. } = &self.current;
        let mut buffer = Zeroizing::new(plaintext.to_vec());
        let nonce = sealing
            .seal_in_place_append_tag(Aad::from(context), &mut *buffer)
            .map_err(|_| SealingError::Failed)?;
        Ok([
            &[VERSION],
            id.0.as_slice(),
            nonce.as_ref(),
            buffer.as_slice(),
        ]
        .concat())
    }

    /// Opens bytes that one of the keys sealed in the same context.
    ///
    /// # Errors
    /// [`SealingError::Refused`] for all other bytes.
    pub(crate) fn open(
        &self,
        context: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        self.all()
            .find_map(|key| key.opens(context, sealed))
            .ok_or(SealingError::Refused)
    }

    /// Id of the key that opens the sealed bytes.
    pub(crate) fn opener(&self, context: &str, sealed: &[u8]) -> Option<KeyId> {
        let mut all = self.all();
        let key = all.find(|key| key.opens(context, sealed).is_some());
        key.map(|key| key.id)
    }

    /// True if the current key sealed the bytes.
    pub(crate) fn is_up_to_date(&self, sealed: &[u8]) -> bool {
        split(sealed).is_some_and(|(id, _)| id == self.current.id)
    }

    /// Id of the key that the sealed bytes name, if that key is not available.
    pub(crate) fn missing(&self, sealed: &[u8]) -> Option<KeyId> {
        let (id, _) = split(sealed)?;
        self.ids().all(|known| known != id).then_some(id)
    }
}
