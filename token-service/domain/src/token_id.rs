//! Token ids (claim `jti`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::random::{self, Random, RandomError};

const JTI_LENGTH: usize = 22;

/// Length of the `jti` of a legacy access token in characters: 66 random bits. It only has to be unique among the
/// tokens that can still be revoked.
pub const LEGACY_JTI_LENGTH: usize = 11;

/// The unique id of a token (`jti`): 128 random bits, written as 22 characters of base64url.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId([u8; 16]);

impl TokenId {
    pub fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::bytes(random).map(Self)
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Parses a `jti`; `None` if the text is not a `jti`.
    pub fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The `jti` that a legacy access token with this id contains.
    pub fn legacy(&self) -> String {
        let mut jti = self.to_string();
        jti.truncate(LEGACY_JTI_LENGTH);
        jti
    }

    /// Parses the `jti` of a legacy access token, and sets the missing bits to zero. `None` if the text is not such a
    /// `jti`.
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
