//! Sealed values as text for clients.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::{EncryptionKey, SealingError};

/// `content` as base64url of sealed bytes: see [`EncryptionKey::seal_issued`]. `nonce` must be random.
///
/// # Errors
/// [`SealingError::Failed`] if the library fails.
pub fn seal_text(
    purpose: &str,
    nonce: [u8; 12],
    content: &[u8],
    key: &EncryptionKey,
) -> Result<String, SealingError> {
    let sealed = key.seal_issued(purpose, nonce, content)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed))
}

/// The content of [`seal_text`]; `None` if this service did not seal the text for this purpose.
pub fn open_text(purpose: &str, text: &str, key: &EncryptionKey) -> Option<Zeroizing<Vec<u8>>> {
    let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
    key.open_issued(purpose, &sealed).ok()
}
