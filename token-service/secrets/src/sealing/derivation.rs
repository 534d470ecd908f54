//! Keys that HKDF derives from an encryption key (RFC 5869).

use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use super::error::SealingError;

/// Length of an encryption key and of the root, in bytes.
pub(super) const LENGTH: usize = 32;

/// The secret of the store from which the keys for tags and for issued values are derived.
pub(crate) type Root = Zeroizing<[u8; LENGTH]>;

/// Output length for HKDF, in bytes.
struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// `N` bytes for the purpose `info`.
pub(super) fn derived<const N: usize>(
    secret: &hkdf::Prk,
    info: &[u8],
) -> Result<[u8; N], SealingError> {
    let mut bytes = [0; N];
    secret
        .expand(&[info], Bytes(N))
        .and_then(|derived| derived.fill(&mut bytes))
        .map_err(|_| SealingError::Failed)?;
    Ok(bytes)
}

/// `N` bytes that are derived from the root of the store for the purpose `info`.
pub(super) fn from_root<const N: usize>(root: &Root, info: &[u8]) -> Result<[u8; N], SealingError> {
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, b"token-service root").extract(&**root);
    derived(&secret, info)
}

/// Copies the bytes of a value whose length the library's type does not tell.
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
