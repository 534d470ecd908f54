//! Where the guard fetches from, and what it does without an answer.

/// The address of a fetch through the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The gateway's name of the upstream.
    pub cluster: String,
    /// `:authority` of the request.
    pub authority: String,
    /// `:path` of the request.
    pub path: String,
}

impl Endpoint {
    /// All parts.
    pub(crate) fn texts(&self) -> [&str; 3] {
        [&self.cluster, &self.authority, &self.path]
    }
}

/// What happens to tokens while the guard cannot know whether they are revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenStale {
    /// The guard refuses the tokens (503) until it can know.
    Deny,
    /// The guard accepts the tokens, unless it knows that they are revoked.
    Allow,
}
