//! Encryption of secrets at rest with AES-256-GCM. The encryption key never enters the store. Values that the service
//! issues and must recognise later carry tags (HMAC-SHA-256), or are sealed with AES-256-GCM-SIV if clients must not read
//! them.
//!
//! The key file holds the current key and earlier keys. The current key seals, every key opens, so an operator can
//! replace the key. Tags do not use these keys but a root, which the store keeps sealed: tags stay the same when the
//! encryption key changes. Issued values are sealed with keys derived from both: forging them takes an encryption key of the
//! file and the root.

use std::fmt;

use aws_lc_rs::aead::{
    AES_256_GCM, AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, RandomizedNonceKey,
    UnboundKey,
};
use aws_lc_rs::{hkdf, hmac};
use zeroize::Zeroizing;

/// Contains no detail, deliberately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealingError {
    /// The bytes were sealed with another key or for another context, or were changed.
    #[error("sealed with another encryption key, or damaged")]
    Refused,
    /// The cryptographic library failed.
    #[error("sealing failed")]
    Failed,
}

/// Length of an encryption key and of the root, in bytes.
const LENGTH: usize = 32;

/// The secret of the store from which the keys for tags and for issued values are derived.
pub type Root = Zeroizing<[u8; LENGTH]>;

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
const ISSUED_INFO: &[u8] = b"token-service issued values v1";
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

/// Output length for HKDF, in bytes.
struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
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

fn derived<const N: usize>(secret: &hkdf::Prk, info: &[u8]) -> Result<[u8; N], SealingError> {
    let mut bytes = [0; N];
    secret
        .expand(&[info], Bytes(N))
        .and_then(|derived| derived.fill(&mut bytes))
        .map_err(|_| SealingError::Failed)?;
    Ok(bytes)
}

fn copy(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
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

/// Seals signing keys and TOTP secrets, and seals or tags values that the service issues.
pub struct EncryptionKey {
    sealing: SealingKeys,
    tagging: hmac::Key,
    issuing: IssuingKeys,
}

/// One key for each encryption key. The first seals, all open.
struct IssuingKeys {
    current: LessSafeKey,
    earlier: Vec<LessSafeKey>,
}

impl IssuingKeys {
    fn new(sealing: &SealingKeys, root: &Root) -> Result<Self, SealingError> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &**root);
        let key = |key: &SealingKey| {
            let secret = salt.extract(&*key.issuing);
            let bytes: Zeroizing<[u8; LENGTH]> = Zeroizing::new(derived(&secret, ISSUED_INFO)?);
            let key = UnboundKey::new(&AES_256_GCM_SIV, &*bytes);
            Ok(LessSafeKey::new(key.map_err(|_| SealingError::Failed)?))
        };
        Ok(Self {
            current: key(&sealing.current)?,
            earlier: sealing.earlier.iter().map(key).collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EncryptionKey(..)")
    }
}

impl EncryptionKey {
    /// A single key, with the root that version 1 derived from the key.
    ///
    /// # Errors
    /// [`SealingError::Failed`] if the library refuses the key.
    pub fn new(bytes: &[u8; LENGTH]) -> Result<Self, SealingError> {
        let sealing = SealingKeys::new(bytes, [])?;
        let root = sealing.current.first_root.clone();
        Self::with_root(sealing, &root)
    }

    /// The given keys, with the root of the store.
    ///
    /// # Errors
    /// [`SealingError::Failed`] if the library refuses a key.
    pub fn with_root(sealing: SealingKeys, root: &Root) -> Result<Self, SealingError> {
        Ok(Self {
            issuing: IssuingKeys::new(&sealing, root)?,
            sealing,
            tagging: hmac::Key::new(hmac::HMAC_SHA256, &**root),
        })
    }

    #[must_use]
    pub const fn sealing(&self) -> &SealingKeys {
        &self.sealing
    }

    /// A tag for `parts` (HMAC-SHA-256, 32 bytes), which nobody can forge without the root. The input includes the
    /// length of each part, so parts cannot be shifted. The first part names the purpose.
    #[must_use]
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
    ///
    /// # Errors
    /// [`SealingError::Failed`] if the library fails.
    pub fn seal_issued(
        &self,
        purpose: &str,
        nonce: [u8; NONCE_LEN],
        plaintext: &[u8],
    ) -> Result<Vec<u8>, SealingError> {
        let mut ciphertext = Zeroizing::new(plaintext.to_vec());
        let (to, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(purpose));
        let tag = self
            .issuing
            .current
            .seal_in_place_separate_tag(to, aad, &mut ciphertext)
            .map_err(|_| SealingError::Failed)?;
        Ok([&nonce, ciphertext.as_slice(), tag.as_ref()].concat())
    }

    /// Opens a value that [`Self::seal_issued`] sealed.
    ///
    /// # Errors
    /// [`SealingError::Refused`] if this service did not seal the bytes for this purpose.
    pub fn open_issued(
        &self,
        purpose: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        let (nonce, ciphertext) = sealed
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(SealingError::Refused)?;
        let keys = std::iter::once(&self.issuing.current).chain(&self.issuing.earlier);
        for key in keys {
            let mut buffer = Zeroizing::new(ciphertext.to_vec());
            let (nonce, aad) = (Nonce::assume_unique_for_key(*nonce), Aad::from(purpose));
            if let Ok(opened) = key.open_in_place(nonce, aad, &mut buffer) {
                let length = opened.len();
                buffer.truncate(length);
                return Ok(buffer);
            }
        }
        Err(SealingError::Refused)
    }

    /// See [`SealingKeys::seal`].
    ///
    /// # Errors
    /// [`SealingError::Failed`] when the library fails.
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
        assert_eq!(sealed.len(), b"secret".len() + 37);
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

    /// AES-256-GCM and HMAC-SHA-256 as another implementation computes them, with a key of 32 bytes of value 7.
    const FIRST_SEALED: &str =
        "000102030405060708090a0b6be48a02787dae4748c41c21f123f25e12ea0cd6a345";
    const FIRST_TAG: &str = "ed4058c353fd97c09fe47051531582694e89486660797a5ee55a0c2efa95e4ed";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }

    #[test]
    fn what_the_first_version_sealed_and_tagged_is_known() {
        let key = EncryptionKey::new(&[7; 32]).unwrap();
        let sealed = bytes(FIRST_SEALED);
        assert_eq!(key.open("totp:ada", &sealed).unwrap().as_slice(), b"secret");
        assert_eq!(hex(&key.tag(&[b"ab", b"c"])), FIRST_TAG);
        assert!(!key.sealing().is_up_to_date(&sealed));
        let root = key.sealing().first_root("totp:ada", &sealed).unwrap();
        let renewed = SealingKeys::new(&[8; 32], [&[7; 32]]).unwrap();
        let renewed = EncryptionKey::with_root(renewed, &root).unwrap();
        assert_eq!(hex(&renewed.tag(&[b"ab", b"c"])), FIRST_TAG);
    }

    #[test]
    fn issued_values_open_for_their_purpose_alone() {
        let key = EncryptionKey::new(&[7; 32]).unwrap();
        let sealed = key.seal_issued("code", [5; NONCE_LEN], b"content").unwrap();
        assert_eq!(sealed.len(), b"content".len() + 28);
        let opened = key.open_issued("code", &sealed).unwrap();
        assert_eq!(opened.as_slice(), b"content");
        let refused = Err(SealingError::Refused);
        assert_eq!(key.open_issued("other", &sealed), refused);
        for position in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[position] ^= 1;
            assert_eq!(key.open_issued("code", &damaged), refused);
            assert_eq!(key.open_issued("code", &sealed[..position]), refused);
        }
    }

    #[test]
    fn issued_values_need_their_encryption_key_and_the_root() {
        let with = |current: u8, earlier: &[u8], root: u8| {
            let earlier: Vec<[u8; LENGTH]> = earlier.iter().map(|byte| [*byte; LENGTH]).collect();
            let sealing = SealingKeys::new(&[current; LENGTH], &earlier).unwrap();
            EncryptionKey::with_root(sealing, &Zeroizing::new([root; LENGTH])).unwrap()
        };
        let sealed = with(1, &[], 9).seal_issued("code", [5; NONCE_LEN], b"content");
        let opens = |key: EncryptionKey| key.open_issued("code", sealed.as_ref().unwrap()).is_ok();
        assert!(opens(with(1, &[], 9)));
        assert!(opens(with(2, &[3, 1], 9)), "an earlier key opens");
        assert!(!opens(with(2, &[], 9)), "the encryption key is gone");
        assert!(!opens(with(1, &[], 8)), "another store has another root");
    }

    #[test]
    fn earlier_keys_open_and_the_current_one_seals() {
        let old = SealingKeys::new(&[1; 32], []).unwrap();
        let both = SealingKeys::new(&[2; 32], [&[1; 32]]).unwrap();
        let new = SealingKeys::new(&[2; 32], []).unwrap();
        let [old_id, new_id] = [&old, &new].map(|keys| keys.ids().next().unwrap());
        assert_ne!(old_id, new_id);
        let before = old.seal("c", b"secret").unwrap();
        assert_eq!(both.open("c", &before).unwrap().as_slice(), b"secret");
        assert_eq!(both.opener("c", &before), Some(old_id));
        assert!(!both.is_up_to_date(&before));
        assert_eq!(new.open("c", &before), Err(SealingError::Refused));
        assert_eq!(
            (new.missing(&before), both.missing(&before)),
            (Some(old_id), None)
        );
        let after = both.seal("c", b"secret").unwrap();
        assert!(new.is_up_to_date(&after));
        assert_eq!(new.open("c", &after).unwrap().as_slice(), b"secret");
        assert_eq!(old.open("c", &after), Err(SealingError::Refused));
    }
}
