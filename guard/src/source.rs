//! Where the guard fetches from, and what it does without an answer.

use keys::endpoint::Endpoint;

use crate::secret::Secret;

/// What happens to tokens while the guard cannot know whether they are revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenStale {
    /// The guard refuses the tokens (503) until it can know.
    Deny,
    /// The guard accepts the tokens, unless it knows that they are revoked.
    Allow,
}

/// The configuration of an introspection endpoint.
#[derive(Debug)]
pub struct IntrospectionSource {
    pub endpoint: Endpoint,
    /// Value of `Authorization` with which the gateway authenticates at the endpoint.
    pub authorization: Secret,
    /// Time for which an answer is used, in seconds since its question.
    pub cache_seconds: u64,
    /// Most questions that one VM has sent and that are not answered yet. One client gets a quarter of them.
    pub max_concurrent: usize,
    /// What happens to a token while the issuer does not answer.
    pub when_unavailable: WhenStale,
}
