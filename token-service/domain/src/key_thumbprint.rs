//! Thumbprints of the keys of clients.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The SHA-256 thumbprint of a public key (RFC 7638), which RFC 9449 calls `jkt`. Displayed as base64url without
/// padding, 43 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyThumbprint([u8; 32]);

impl KeyThumbprint {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses base64url without padding.
    pub fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }
}

impl fmt::Display for KeyThumbprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc7638_s3_1_a_thumbprint_is_base64url_without_padding() {
        let text = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs";
        assert_eq!(KeyThumbprint::parse(text).unwrap().to_string(), text);
        assert_eq!(KeyThumbprint::parse(&format!("{text}=")), None);
        assert_eq!(KeyThumbprint::parse(&text[1..]), None);
    }
}
