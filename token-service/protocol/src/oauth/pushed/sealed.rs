//! The text of a `request_uri`: the URN of RFC 9126 §2.2 and the base64url of a sealed request.

use serde::{Deserialize, Serialize};

use crate::Context;
use crate::oauth::authorize::IssueError;
use crate::sealing::{SealingError, open_text, seal_text};
use domain::clock::Timestamp;
use domain::{ClientId, GrantId, random};

/// RFC 9126 §2.2 recommends this form.
const PREFIX: &str = "urn:ietf:params:oauth:request_uri:";

/// Names the layout too: raise the number when [`PushedRequest`] changes.
const PURPOSE: &str = "pushed authorization request 1";

/// A pushed request: what the browser must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushedRequest {
    /// The grant that its code will create. Names the request too, because a request yields one code.
    pub(super) id: GrantId,
    pub(super) client_id: ClientId,
    /// The parameters of the request.
    pub(super) query: String,
    pub(super) pushed_at: Timestamp,
    /// True if a browser came in time: the person may take longer than the browser.
    pub(super) is_visited: bool,
}

/// As for codes: a service with a copy of the store and another issuer has the same keys. No issuer contains a space.
fn purpose(context: &Context<'_>) -> String {
    format!("{PURPOSE} {}", context.settings.issuer)
}

impl PushedRequest {
    pub(super) fn seal(&self, context: &Context<'_>) -> Result<String, IssueError> {
        let nonce = random::bytes(context.random)?;
        let content = postcard::to_stdvec(self).map_err(|_| SealingError::Failed)?;
        let sealed = seal_text(&purpose(context), nonce, &content, context.encryption_key)?;
        Ok(format!("{PREFIX}{sealed}"))
    }

    /// `None` if this service did not seal the request.
    pub(super) fn open(context: &Context<'_>, request_uri: &str) -> Option<Self> {
        let sealed = request_uri.strip_prefix(PREFIX)?;
        let content = open_text(&purpose(context), sealed, context.encryption_key)?;
        postcard::from_bytes(&content).ok()
    }
}
