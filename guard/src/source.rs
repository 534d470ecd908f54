//! Where something is fetched from, and what happens without it.

/// Something that is fetched through the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The gateway's name for the upstream.
    pub cluster: String,
    /// `:authority` of the request.
    pub authority: String,
    /// `:path` of the request.
    pub path: String,
}

/// What happens to tokens whose revocation cannot be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenStale {
    /// They are refused (503) until the feed is back.
    Deny,
    /// They are accepted as if nothing were revoked since.
    Allow,
}
