//! Where something is fetched.

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
    pub fn texts(&self) -> [&str; 3] {
        [&self.cluster, &self.authority, &self.path]
    }
}
