//! The paths of the service, for routes, links and metadata.

/// `GET`: the authorization endpoint (protocol.md §4.1).
pub use protocol::flow::AUTHORIZE;
pub use protocol::paths::{PUSHED, TOKEN};
/// `POST`: the form with username and password.
pub const SIGN_IN: &str = "/auth/sign-in";
/// `POST`: the form with the one-time code.
pub const SECOND_FACTOR: &str = "/auth/second-factor";
/// `GET`, `POST`: sets up an authenticator app.
pub const AUTHENTICATOR: &str = "/auth/authenticator";
/// `POST`: the choice of a linked account.
pub const SELECT_ACCOUNT: &str = "/auth/select-account";
/// `POST`: the person confirms a client on the own device (D-34).
pub const CONTINUE: &str = "/auth/continue";
/// `POST`: ends the session of this browser.
pub const SIGN_OUT: &str = "/auth/sign-out";
/// `GET`: shows the signed-in user of this browser.
pub const HOME: &str = "/auth/";
/// `GET`: the stylesheet that shows a notice in a browser without cookies.
pub const COOKIE_NOTICE: &str = "/auth/static/cookies.css";
/// `POST`: revokes a token or a grant (RFC 7009).
pub const REVOKE: &str = "/auth/revoke";
/// `POST`: introspection (RFC 7662).
pub const INTROSPECT: &str = "/auth/introspect";
/// `GET`: the public signing keys.
pub const JWKS: &str = "/auth/jwks";
/// `GET`: authorization server metadata (RFC 8414 §3).
pub const METADATA: &str = "/.well-known/oauth-authorization-server";
/// `GET`: the same metadata at the path of OpenID Connect Discovery (D-30). The service issues no ID tokens.
pub const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";
/// `GET`, internal listener: the revocation feed for the filter.
pub const REVOCATIONS: &str = "/revocations";
/// `GET`, internal listener: metrics for Prometheus.
pub const METRICS: &str = "/metrics";
/// Internal listener: the administration.
pub const ADMIN: &str = "/admin";
/// `GET`, internal listener: liveness.
pub const HEALTHZ: &str = "/healthz";
/// `GET`, internal listener: readiness.
pub const READYZ: &str = "/readyz";
