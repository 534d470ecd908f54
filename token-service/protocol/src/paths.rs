//! The paths of endpoints that the protocol itself names.

/// `POST`: the token endpoint (protocol.md §4.2).
pub const TOKEN: &str = "/auth/token";
/// `POST`: pushed authorization requests (protocol.md §4.13, RFC 9126).
pub const PUSHED: &str = "/auth/par";
