//! The paths of the service: used by routes, links and metadata alike.

/// `GET`: the authorization endpoint (protocol.md §4.1).
pub use protocol::flow::AUTHORIZE;
/// `POST`: the form with username and password.
pub const SIGN_IN: &str = "/auth/sign-in";
/// `POST`: the form with the one-time code.
pub const SECOND_FACTOR: &str = "/auth/second-factor";
/// `GET`, `POST`: sets up an authenticator app.
pub const AUTHENTICATOR: &str = "/auth/authenticator";
/// `POST`: the choice of a linked account.
pub const SELECT_ACCOUNT: &str = "/auth/select-account";
/// `POST`: the person confirms that a public native client may go on (D-34).
pub const CONTINUE: &str = "/auth/continue";
/// `POST`: ends the session of this browser.
pub const SIGN_OUT: &str = "/auth/sign-out";
/// `GET`: who is signed in with this browser.
pub const HOME: &str = "/auth/";
/// `POST`: the token endpoint (protocol.md §4.2).
pub const TOKEN: &str = "/auth/token";
/// `POST`: ends a token or an authorization (RFC 7009).
pub const REVOKE: &str = "/auth/revoke";
/// `POST`: what a token is worth (RFC 7662).
pub const INTROSPECT: &str = "/auth/introspect";
/// `GET`: the public signing keys.
pub const JWKS: &str = "/auth/jwks";
/// `GET`: authorization server metadata (RFC 8414 §3). An issuer with a path appends it.
pub const METADATA: &str = "/.well-known/oauth-authorization-server";
/// `GET`: the same, where clients of OpenID Connect look (D-30); ID tokens are not issued.
pub const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";
/// `GET`, internal listener: the feed of revocations for the filter.
pub const REVOCATIONS: &str = "/revocations";
/// `GET`, internal listener: what is counted, for Prometheus.
pub const METRICS: &str = "/metrics";
/// Internal listener: the administration.
pub const ADMIN: &str = "/admin";
/// `GET`, internal listener: the process lives.
pub const HEALTHZ: &str = "/healthz";
/// `GET`, internal listener: requests can be served.
pub const READYZ: &str = "/readyz";
