//! Random values.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The operating system returned no random bytes. Without them, the service must not issue anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct RandomError;

/// A source of unpredictable bytes. The service uses the operating system; tests may pass a fixed sequence.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `buffer` with random bytes.
    ///
    /// # Errors
    /// [`RandomError`] if the source failed. Do not use the buffer then.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), RandomError>;
}

pub fn bytes<const N: usize>(random: &dyn Random) -> Result<[u8; N], RandomError> {
    let mut buffer = [0; N];
    random.fill(&mut buffer)?;
    Ok(buffer)
}

/// `N` random bytes as base64url without padding: 22 characters for 16 bytes, 43 characters for 32 bytes.
pub fn text<const N: usize>(random: &dyn Random) -> Result<String, RandomError> {
    bytes::<N>(random).map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}
