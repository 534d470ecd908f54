//! What tells the flows apart: where a request begins, and the tokens that come out of it.

use std::time::Duration;

use serde_json::Value;

use crate::Context;
use crate::oauth::authorize::{AuthorizationRequest, AuthorizeError, CodeRequest, UnsafeRequest};
use crate::settings::Settings;
use crate::token::IssuedToken;
use claims::AccessTokenClaims;
use domain::{Client, ClientId, GrantId, IntegrationType, LegacyInstance, Registry, TokenId};

/// A flow: the pages, the endpoints and the tools of operators ask each of [`FLOWS`](crate::flows::FLOWS) for what is its
/// own.
pub trait Flow: Sync {
    /// Path of the page where a person begins.
    fn begins_at(&self) -> &'static str;

    /// Reads the query (without `?`) of a request to [`Self::begins_at`] on `host`.
    ///
    /// # Errors
    /// A [`BeginError`].
    fn begin(
        &self,
        query: &[u8],
        host: &str,
        settings: &Settings,
        registry: &Registry,
    ) -> Result<Box<dyn CodeRequest>, BeginError>;

    /// Method and path of the flow's other endpoints, for hints at a path that was probably meant.
    fn endpoints(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What access tokens have as `iss`.
    fn issuers(&self, settings: &Settings, registry: &Registry) -> Vec<String>;

    /// Reads the claims of an access token with one of [`Self::issuers`]. `None` if they are no such claims.
    fn access_token(&self, claims: Value) -> Option<IssuedToken>;

    /// Reads a refresh token that is no JWT. `None` if this flow did not issue it.
    fn opaque_refresh_token<'a>(
        &self,
        _context: &Context<'a>,
        _token: &str,
    ) -> Option<OpaqueRefreshToken<'a>> {
        None
    }

    /// Whether `client` may use the flow on `host`.
    fn serves(&self, client: &Client, host: &str) -> bool;

    /// Why access tokens of `client` have no room for names: registration refuses those. `user_id` is the longest.
    fn misfits(
        &self,
        _client: &Client,
        _instances: &[&LegacyInstance],
        _api_audience: &str,
        _user_id: &str,
    ) -> Vec<Misfit> {
        Vec::new()
    }
}

/// Why nobody may sign in for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginError {
    /// There is no safe destination for an error (RFC 6749 §4.1.2.1, D-5).
    Unsafe(UnsafeRequest),
    /// The client is told at this address.
    Redirect(String),
    /// The flow is not on this host; the text says what is where.
    WrongHost(String),
}

/// A refresh token that is no JWT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueRefreshToken<'a> {
    /// What people call it.
    pub kind: &'static str,
    /// The host that the token is for.
    pub host: &'a str,
    /// Whether the flow is enabled on that host.
    pub is_enabled: bool,
    /// The grant of the token.
    pub grant_id: GrantId,
    /// The id of the token, among those of its grant.
    pub refresh_id: TokenId,
    /// How long a used token gets the same answer again.
    pub reuse_grace: Duration,
}

/// A client whose access tokens have no room for names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Misfit {
    /// The client.
    pub client_id: ClientId,
    /// The names, and the arithmetic.
    pub reason: String,
}

/// Length of a text in JSON, without its quotes: some characters are escaped.
#[must_use]
pub fn json_length(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |json| json.len().saturating_sub(2))
}

/// The path of the authorization endpoint.
pub const AUTHORIZE: &str = "/auth/authorize";

/// The flows of the authorization endpoint (protocol.md §4.1, §4.2).
#[derive(Debug)]
pub struct Current;

impl Flow for Current {
    fn begins_at(&self) -> &'static str {
        AUTHORIZE
    }

    fn begin(
        &self,
        query: &[u8],
        _host: &str,
        settings: &Settings,
        registry: &Registry,
    ) -> Result<Box<dyn CodeRequest>, BeginError> {
        match AuthorizationRequest::validate(query, registry) {
            Ok(request) => Ok(Box::new(request)),
            Err(AuthorizeError::Unsafe(reason)) => Err(BeginError::Unsafe(reason)),
            Err(AuthorizeError::Redirect(destination, error)) => Err(BeginError::Redirect(
                destination.with_error(&error, &settings.issuer),
            )),
        }
    }

    fn issuers(&self, settings: &Settings, _registry: &Registry) -> Vec<String> {
        vec![settings.issuer.clone()]
    }

    fn access_token(&self, claims: Value) -> Option<IssuedToken> {
        let claims: AccessTokenClaims = serde_json::from_value(claims).ok()?;
        IssuedToken::access(claims)
    }

    fn serves(&self, client: &Client, _host: &str) -> bool {
        !matches!(client.integration, IntegrationType::Legacy { .. })
    }
}
