//! The target of an authorization response.

use super::redirect_error::RedirectError;
use domain::RedirectUri;

/// A registered redirect URI of a known client, with the `state` to return. Only a validated request creates a
/// destination, so the service cannot redirect anywhere else (RFC 9700 §4.11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    redirect_uri: RedirectUri,
    state: Option<String>,
}

impl Destination {
    pub(super) fn new(redirect_uri: RedirectUri, state: Option<&str>) -> Self {
        Self {
            redirect_uri,
            state: state.map(ToOwned::to_owned),
        }
    }

    pub const fn redirect_uri(&self) -> &RedirectUri {
        &self.redirect_uri
    }

    /// The redirect URI with `code` (RFC 6749 §4.1.2; `iss`: RFC 9207 §2, D-13).
    pub fn with_code(&self, code: &str, issuer: &str) -> String {
        self.with(&[("code", code)], issuer)
    }

    /// The redirect URI with `error` (RFC 6749 §4.1.2.1; `iss`: RFC 9207 §2, D-13).
    pub fn with_error(&self, error: &RedirectError, issuer: &str) -> String {
        self.with(
            &[
                ("error", error.code()),
                ("error_description", &error.to_string()),
            ],
            issuer,
        )
    }

    fn with(&self, answer: &[(&str, &str)], issuer: &str) -> String {
        let state = self.state.as_deref().map(|state| ("state", state));
        self.redirect_uri
            .with_parameters(answer.iter().copied().chain(state).chain([("iss", issuer)]))
    }
}
