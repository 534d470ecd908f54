//! The text of a `request_uri`: the URN of RFC 9126 §2.2 and the base64url of a sealed request.

use serde::{Deserialize, Serialize};

use crate::Context;
use domain::clock::Timestamp;
use domain::random::{self, RandomError};
use domain::{ClientId, GrantId};
use secrets::sealing::{SealingError, open_text, seal_text};
use store::row::{self, Row};

/// RFC 9126 §2.2 recommends this form.
const PREFIX: &str = "urn:ietf:params:oauth:request_uri:";

const PURPOSE: &str = "pushed authorization request";

/// A pushed request: what the browser must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushedRequest {
    /// The grant that its code will create. Names the request too, because a request yields one code.
    pub(super) id: GrantId,
    pub(super) client_id: ClientId,
    /// The parameters of the request; after the first visit, those that pages pass on.
    pub(super) query: String,
    pub(super) pushed_at: Timestamp,
    /// True if a browser came in time: the person may take longer than the browser.
    pub(super) is_visited: bool,
}

/// Not a row, but the content of a `request_uri`, which has the same form: replicas of two versions share the sign-ins.
impl Row for PushedRequest {
    const VERSION: u8 = 1;
}

/// As for codes: a service with a copy of the store and another issuer has the same keys. No issuer contains a space.
fn purpose(context: &Context<'_>) -> String {
    format!("{PURPOSE} {}", context.settings.issuer)
}

impl PushedRequest {
    pub(super) fn seal<E>(&self, context: &Context<'_>) -> Result<String, E>
    where
        E: From<RandomError> + From<SealingError>,
    {
        let nonce = random::bytes(context.random)?;
        let content = row::encode(self).map_err(|_| SealingError::Failed)?;
        let sealed = seal_text(&purpose(context), nonce, &content, context.encryption_key)?;
        Ok(format!("{PREFIX}{sealed}"))
    }

    /// `None` if this service did not seal the request.
    pub(super) fn open(context: &Context<'_>, request_uri: &str) -> Option<Self> {
        let sealed = request_uri.strip_prefix(PREFIX)?;
        let content = open_text(&purpose(context), sealed, context.encryption_key)?;
        row::decode(&content).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::client_id;

    /// If this fails, the layout has changed: see [`domain::Layout`].
    #[test]
    fn the_layout_is_known() {
        let pushed = PushedRequest {
            id: GrantId::from_bytes([5; 16]),
            client_id: client_id("web"),
            query: "a=b".to_owned(),
            pushed_at: Timestamp::from_seconds(1_800_000_000),
            is_visited: true,
        };
        let content = row::encode(&pushed).unwrap();
        let known = [
            &[1, 16][..],
            &[5; 16],
            b"\x03web\x03a=b",
            &[0x80, 0xa4, 0xa7, 0xda, 6, 1],
        ];
        assert_eq!(content, known.concat());
        assert_eq!(row::decode(&content), Ok(pushed));
    }
}
