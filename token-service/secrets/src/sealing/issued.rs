//! Values that the service issues, gets back, and that clients must not read: sealed with AES-256-GCM-SIV.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use super::derivation::{LENGTH, Root, derived};
use super::error::SealingError;

/// Separates the keys for issued values from other derived keys (RFC 5869 §3.2).
pub(super) const ISSUED_INFO: &[u8] = b"token-service issued values v1";

/// One key for each encryption key. The first seals, all open.
pub(super) struct IssuingKeys {
    current: LessSafeKey,
    earlier: Vec<LessSafeKey>,
}

impl IssuingKeys {
    /// `current` and `earlier` are derived from the encryption keys, `root` is the root of the store.
    pub(super) fn new<'a>(
        current: &[u8; LENGTH],
        earlier: impl Iterator<Item = &'a [u8; LENGTH]>,
        root: &Root,
    ) -> Result<Self, SealingError> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &**root);
        let key = |secret: &[u8; LENGTH]| {
            let secret = salt.extract(secret);
            let bytes: Zeroizing<[u8; LENGTH]> = Zeroizing::new(derived(&secret, ISSUED_INFO)?);
            let key = UnboundKey::new(&AES_256_GCM_SIV, &*bytes);
            Ok(LessSafeKey::new(key.map_err(|_| SealingError::Failed)?))
        };
        Ok(Self {
            current: key(current)?,
            earlier: earlier.map(key).collect::<Result<_, _>>()?,
        })
    }

    /// See [`EncryptionKey::seal_issued`](super::EncryptionKey::seal_issued).
    pub(super) fn seal(
        &self,
        purpose: &str,
        nonce: [u8; NONCE_LEN],
        plaintext: &[u8],
    ) -> Result<Vec<u8>, SealingError> {
        let mut ciphertext = Zeroizing::new(plaintext.to_vec());
        let (to, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(purpose));
        let tag = self
            .current
            .seal_in_place_separate_tag(to, aad, &mut ciphertext)
            .map_err(|_| SealingError::Failed)?;
        Ok([&nonce, ciphertext.as_slice(), tag.as_ref()].concat())
    }

    /// See [`EncryptionKey::open_issued`](super::EncryptionKey::open_issued).
    pub(super) fn open(
        &self,
        purpose: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        let (nonce, ciphertext) = sealed
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(SealingError::Refused)?;
        let keys = std::iter::once(&self.current).chain(&self.earlier);
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
}
