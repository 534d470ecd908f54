//! The paths of the service, for routes, links and metadata.

/// `GET`: the authorization endpoint (protocol.md §4.1).
pub(crate) use protocol::flow::AUTHORIZE;
pub(crate) use protocol::paths::{PUSHED, TOKEN};
/// `POST`: the form with username and password.
pub(crate) const SIGN_IN: &str = "/auth/sign-in";
/// `POST`: the form with the one-time code.
pub(crate) const SECOND_FACTOR: &str = "/auth/second-factor";
/// `GET`, `POST`: sets up an authenticator app.
pub(crate) const AUTHENTICATOR: &str = "/auth/authenticator";
/// `GET`, `POST`: makes new recovery codes.
pub(crate) const RECOVERY_CODES: &str = "/auth/recovery-codes";
/// `GET`, `POST`: changes the password of who is signed in.
pub(crate) const PASSWORD: &str = "/auth/password";
/// `GET`: where password managers look for [`PASSWORD`] (W3C, A Well-Known URL for Changing Passwords).
pub(crate) const CHANGE_PASSWORD: &str = "/.well-known/change-password";
/// `GET`, `POST`: sets a password with a link.
pub(crate) const NEW_PASSWORD: &str = "/auth/new-password";
/// `GET`, `POST`: asks for a link by mail with which a person sets a password.
pub(crate) const FORGOT_PASSWORD: &str = "/auth/forgot-password";
/// The parameter with the link's random bits, in base64url.
pub(crate) const LINK: &str = "link";
/// `POST`: the choice of a linked account.
pub(crate) const SELECT_ACCOUNT: &str = "/auth/select-account";
/// `POST`: the person confirms a client on the own device (D-34).
pub(crate) const CONTINUE: &str = "/auth/continue";
/// `POST`: ends the session of this browser.
pub(crate) const SIGN_OUT: &str = "/auth/sign-out";
/// `POST`: begins a sign-in at an identity provider.
pub(crate) const PROVIDER: &str = "/auth/provider";
/// `GET`: where this identity provider sends the browser back.
pub(crate) fn provider(id: &str) -> String {
    format!("{PROVIDER}/{id}")
}
/// `POST`: where this identity provider ends the sign-ins of a person (OpenID Connect Back-Channel Logout 1.0 §2.5).
pub(crate) fn provider_logout(id: &str) -> String {
    format!("{PROVIDER}/{id}/logout")
}
/// `GET`: shows the signed-in user of this browser.
pub(crate) const HOME: &str = "/auth/";
/// The parameter of [`HOME`] with the first client of the page.
pub(crate) const FROM: &str = "from";
/// `GET`, `POST`: asks for, and ends, the access of a client, or sessions.
pub(crate) const END: &str = "/auth/end";
/// `GET`: the stylesheet that shows a notice in a browser without cookies.
pub(crate) const COOKIE_NOTICE: &str = "/auth/static/cookies.css";
/// `POST`: revokes a token or a grant (RFC 7009).
pub(crate) const REVOKE: &str = "/auth/revoke";
/// `POST`: introspection (RFC 7662).
pub(crate) const INTROSPECT: &str = "/auth/introspect";
/// `GET`: the public signing keys.
pub(crate) const JWKS: &str = "/auth/jwks";
/// `GET`: the OpenAPI description of the public endpoints.
pub(crate) const OPENAPI: &str = "/auth/openapi.json";
/// `GET`: authorization server metadata (RFC 8414 §3).
pub(crate) const METADATA: &str = "/.well-known/oauth-authorization-server";
/// `GET`: the same metadata at the path of OpenID Connect Discovery (D-30). The service issues no ID tokens.
pub(crate) const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";
/// `GET`, internal listener: the revocation feed for the filter.
pub(crate) const REVOCATIONS: &str = "/revocations";
/// `GET`, internal listener: metrics for Prometheus.
pub(crate) const METRICS: &str = "/metrics";
/// Internal listener: the administration.
pub(crate) const ADMIN: &str = "/admin";
/// `GET`, internal listener: liveness.
pub(crate) const HEALTHZ: &str = "/healthz";
/// `GET`, internal listener: readiness.
pub(crate) const READYZ: &str = "/readyz";
