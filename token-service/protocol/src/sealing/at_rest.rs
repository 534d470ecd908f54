//! Encryption at rest, with AES-256-GCM.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{hkdf, hmac};
use zeroize::Zeroizing;

use super::derivation::{LENGTH, Root, copy, derived};
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

/// First byte of sealed bytes in version 2, followed by the [`KeyId`], the nonce, the ciphertext and the tag. Version 1
/// had only the nonce, the ciphertext and the tag.
const NAMES_ITS_KEY: u8 = 2;

/// Separates the keys that HKDF derives from an encryption key (RFC 5869 §3.2).
const SEALING_INFO: &[u8] = b"token-service sealing v2";
const ID_INFO: &[u8] = b"token-service key id";
const SALT: &[u8] = b"token-service encryption key";

/// Label from which version 1 derived the root of the tags. Stores created by version 1 still have that root.
const FIRST_ROOT_LABEL: &[u8] = b"token-service tags v1";

/// One encryption key and the keys derived from it.
struct SealingKey {
    id: KeyId,
    sealing: RandomizedNonceKey,
    /// Opens what version 1 sealed directly with the key.
    first: RandomizedNonceKey,
    first_root: Root,
    /// With the root, the secret of [`IssuingKeys`].
    issuing: Zeroizing<[u8; LENGTH]>,
}

impl SealingKey {
    fn new(bytes: &[u8; LENGTH]) -> Result<Self, SealingError> {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(bytes);
        let aead = |key: &[u8]| {
            RandomizedNonceKey::new(&AES_256_GCM, key).map_err(|_| SealingError::Failed)
        };
        let sealing: Zeroizing<[u8; LENGTH]> = Zeroizing::new(derived(&secret, SEALING_INFO)?);
        let mut first_root = Root::default();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), FIRST_ROOT_LABEL);
        copy(tag.as_ref(), &mut *first_root);
        Ok(Self {
            id: KeyId(derived(&secret, ID_INFO)?),
            sealing: aead(&*sealing)?,
            first: aead(bytes)?,
            first_root,
            issuing: Zeroizing::new(derived(&secret, ISSUED_INFO)?),
        })
    }

    fn opens(&self, context: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let named = split(sealed).filter(|(id, _)| *id == self.id);
        named
            .and_then(|(_, rest)| open(&self.sealing, context, rest))
            .or_else(|| open(&self.first, context, sealed))
    }
}

/// Splits sealed bytes into the key id and the rest.
fn split(sealed: &[u8]) -> Option<(KeyId, &[u8])> {
    let rest = sealed.strip_prefix(&[NAMES_ITS_KEY])?;
    let (id, rest) = rest.split_first_chunk::<8>()?;
    Some((KeyId(*id), rest))
}

fn open(key: &RandomizedNonceKey, context: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, ciphertext) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut buffer = Zeroizing::new(ciphertext.to_vec());
    let opened = key.open_in_place(nonce, Aad::from(context), &mut buffer);
    let length = opened.ok()?.len();
    buffer.truncate(length);
    Some(buffer)
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
    ///
    /// # Errors
    /// [`SealingError::Failed`] if the library refuses a key.
    pub fn new<'a>(
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
    ///
    /// # Errors
    /// [`SealingError::Failed`] if the library fails.
    pub(super) fn issuing(&self, root: &Root) -> Result<IssuingKeys, SealingError> {
        let earlier = self.earlier.iter().map(|key| &*key.issuing);
        IssuingKeys::new(&self.current.issuing, earlier, root)
    }

    /// The root that version 1 derived from the current key.
    pub(super) fn current_first_root(&self) -> Root {
        self.current.first_root.clone()
    }

    fn all(&self) -> impl Iterator<Item = &SealingKey> {
        std::iter::once(&self.current).chain(&self.earlier)
    }

    /// Seals `plaintext` with the current key. `context` names the kind and the owner of the secret. Sealed bytes open
    /// only in their own context, so nobody can pass one row off as another. The result is 37 bytes longer than
    /// `plaintext`.
    ///
    /// # Errors
    /// [`SealingError::Failed`] when the library fails.
    pub fn seal(&self, context: &str, plaintext: &[u8]) -> Result<Vec<u8>, SealingError> {
        let SealingKey { id, sealing, .. } = &self.current;
        let mut buffer = Zeroizing::new(plaintext.to_vec());
        let nonce = sealing
            .seal_in_place_append_tag(Aad::from(context), &mut *buffer)
            .map_err(|_| SealingError::Failed)?;
        Ok([
            &[NAMES_ITS_KEY],
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
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        self.all()
            .find_map(|key| key.opens(context, sealed))
            .ok_or(SealingError::Refused)
    }

    /// Id of the key that opens the sealed bytes, of version 1 or 2.
    #[must_use]
    pub fn opener(&self, context: &str, sealed: &[u8]) -> Option<KeyId> {
        let mut all = self.all();
        let key = all.find(|key| key.opens(context, sealed).is_some());
        key.map(|key| key.id)
    }

    /// True if the sealed bytes have the current version and key, as [`SealingKeys::seal`] makes them.
    #[must_use]
    pub fn is_up_to_date(&self, sealed: &[u8]) -> bool {
        split(sealed).is_some_and(|(id, _)| id == self.current.id)
    }

    /// Id of the key that the sealed bytes name, if that key is not available.
    #[must_use]
    pub fn missing(&self, sealed: &[u8]) -> Option<KeyId> {
        let (id, _) = split(sealed)?;
        self.ids().all(|known| known != id).then_some(id)
    }

    /// The root of a store that version 1 created; `sealed` is any sealed value of that store.
    #[must_use]
    pub fn first_root(&self, context: &str, sealed: &[u8]) -> Option<Root> {
        let mut all = self.all();
        let key = all.find(|key| key.opens(context, sealed).is_some());
        key.map(|key| key.first_root.clone())
    }
}
