//! The paths of endpoints that the protocol itself names.

/// `POST`: the token endpoint (protocol.md §4.2).
pub const TOKEN: &str = "/auth/token";
