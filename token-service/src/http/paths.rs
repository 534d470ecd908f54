//! The paths of the service: used by routes, links and metadata alike (design section 3.3).

/// `GET`: the authorization endpoint (spec §4.1).
pub const AUTHORIZE: &str = "/auth/authorize";
/// `POST`: the token endpoint (spec §4.2).
pub const TOKEN: &str = "/auth/token";
/// `GET`: the public signing keys.
pub const JWKS: &str = "/auth/jwks";
/// `GET`: authorization server metadata (RFC 8414 §3). An issuer with a path appends it.
pub const METADATA: &str = "/.well-known/oauth-authorization-server";
/// `GET`, internal listener: the process lives.
pub const HEALTHZ: &str = "/healthz";
/// `GET`, internal listener: requests can be served.
pub const READYZ: &str = "/readyz";
