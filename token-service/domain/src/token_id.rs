//! Ids of tokens: the claim `jti`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::random::{self, Random, RandomError};

/// Characters of a `jti`.
const JTI_LENGTH: usize = 22;

/// Characters of the `jti` of a legacy access token: 66 random bits. It only has to differ from those of the other
/// tokens that may be revoked.
pub const LEGACY_JTI_LENGTH: usize = 11;

/// The unique id of a token (`jti`): 128 random bits, written as 22 characters of base64url.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId([u8; 16]);

impl TokenId {
    /// A fresh id.
    ///
    /// # Errors
    /// [`RandomError`] when there are no random bytes.
    pub fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::bytes(random).map(Self)
    }

    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads the `jti` form; `None` when it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The `jti` of a legacy access token with this id.
    #[must_use]
    pub fn legacy(&self) -> String {
        let mut jti = self.to_string();
        jti.truncate(LEGACY_JTI_LENGTH);
        jti
    }

    /// Reads the `jti` of a legacy access token: the bits that it leaves out are zero. `None` when it is not one.
    #[must_use]
    pub fn parse_legacy(text: &str) -> Option<Self> {
        if text.len() != LEGACY_JTI_LENGTH {
            return None;
        }
        let rest = "A".repeat(JTI_LENGTH - LEGACY_JTI_LENGTH);
        Self::parse(&format!("{text}{rest}"))
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jti_of_a_legacy_token_is_the_beginning_of_its_id() {
        let id = TokenId::from_bytes([0xab; 16]);
        let legacy = id.legacy();
        assert_eq!(legacy.len(), LEGACY_JTI_LENGTH);
        let read = TokenId::parse_legacy(&legacy).unwrap();
        assert_eq!(read.legacy(), legacy);
        assert_ne!(read, id);
        assert_eq!(TokenId::parse_legacy(&id.to_string()), None);
        assert_eq!(TokenId::parse_legacy("ééééé+"), None);
    }
}
