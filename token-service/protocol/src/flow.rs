//! The differences between the flows: where a request begins, and which tokens the flow issues.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::Context;
use crate::oauth::authorize::{
    AuthorizeError, CodeRequest, IssueError, UnidentifiedRequest, UnsafeRequest,
};
use crate::oauth::pushed::Visit;
use crate::settings::Settings;
use crate::token::IssuedToken;
use claims::AccessTokenClaims;
use domain::{Client, GrantId, IntegrationType, LegacyInstance, TokenId};
use store::StoreError;

/// A flow. Pages, endpoints and operator tools go through [`FLOWS`](crate::flows::FLOWS) for everything that differs
/// between flows.
#[async_trait(?Send)]
pub trait Flow: Sync {
    /// Path of the page where the browser enters the flow.
    fn begins_at(&self) -> &'static str;

    /// Reads the query (without `?`) of a request to [`Self::begins_at`] on `host`.
    async fn begin(
        &self,
        context: &Context<'_>,
        query: &[u8],
        host: &str,
    ) -> Result<Box<dyn CodeRequest>, BeginError>;

    /// True if each redirect to the redirect URI is a 302 (protocol.md §4.5). Otherwise that after a form is a 303 (RFC 9700 §4.12).
    fn redirects_with_302(&self) -> bool {
        false
    }

    /// Method and path of the flow's other endpoints, for hints in responses to unknown paths.
    fn endpoints(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The values of `iss` in access tokens.
    fn issuers(&self, settings: &Settings, instances: &[LegacyInstance]) -> Vec<String>;

    /// Reads the claims of an access token with one of [`Self::issuers`]. `None` if they are not the claims of
    /// an access token.
    fn access_token(&self, claims: Value) -> Option<IssuedToken>;

    /// Reads a refresh token that is not a JWT. `None` if this flow did not issue the token.
    fn opaque_refresh_token<'a>(
        &self,
        _context: &Context<'a>,
        _token: &str,
    ) -> Option<OpaqueRefreshToken<'a>> {
        None
    }

    /// True if `client` may use the flow on `host`.
    fn serves(&self, client: &Client, host: &str) -> bool;

    /// Why access tokens have no room for a name. Registration refuses such a name.
    fn misfit(&self, _name: TokenName<'_>, _settings: &Settings) -> Option<String> {
        None
    }
}

/// Reason why a request does not lead to a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginError {
    /// The request has no safe redirect URI for an error (RFC 6749 §4.1.2.1, D-5).
    Unsafe(UnsafeRequest),
    /// The browser is redirected to this URL, which tells the client the error.
    Redirect(String),
    /// This host does not serve the flow; the text names the right host.
    WrongHost(String),
    /// The registrations cannot be read.
    Store(StoreError),
    /// The service failed.
    Failed(IssueError),
}

impl From<StoreError> for BeginError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueRefreshToken<'a> {
    /// Name for people.
    pub kind: &'static str,
    pub host: &'a str,
    pub is_enabled: bool,
    pub grant_id: GrantId,
    /// The token's id within its grant.
    pub refresh_id: TokenId,
    /// Time for which a used token gets the same tokens again.
    pub reuse_grace: Duration,
}

/// A name that access tokens contain, where the name is registered.
#[derive(Debug, Clone, Copy)]
pub enum TokenName<'a> {
    Client(&'a Client),
    /// The User ID of a linked account.
    UserId(&'a str),
    /// The host of a legacy instance.
    Hostname(&'a str),
}

/// The path of the authorization endpoint.
pub const AUTHORIZE: &str = "/auth/authorize";

/// The flows of the authorization endpoint (protocol.md §4.1, §4.2).
#[derive(Debug)]
pub struct Current;

#[async_trait(?Send)]
impl Flow for Current {
    fn begins_at(&self) -> &'static str {
        AUTHORIZE
    }

    async fn begin(
        &self,
        context: &Context<'_>,
        query: &[u8],
        _host: &str,
    ) -> Result<Box<dyn CodeRequest>, BeginError> {
        let request = UnidentifiedRequest::read(query).map_err(BeginError::Unsafe)?;
        let client_id = request.client_id().map_err(BeginError::Unsafe)?;
        let client = context.directory.client(client_id).await?;
        let refused = |error| match error {
            AuthorizeError::Unsafe(reason) => BeginError::Unsafe(reason),
            AuthorizeError::Redirect(destination, error) => {
                BeginError::Redirect(destination.with_error(&error, &context.settings.issuer))
            }
        };
        // RFC 9126 §4: nothing but `client_id` and `request_uri` counts.
        if let Some(request_uri) = request.request_uri() {
            let visit = Visit::of(context, client_id, request_uri).map_err(BeginError::Unsafe)?;
            let request = visit.validate(context, client).map_err(refused)?;
            let request = visit.carry_on(context, request);
            return Ok(Box::new(request.map_err(BeginError::Failed)?));
        }
        let request = request.validate(client, context.now);
        Ok(Box::new(request.map_err(refused)?))
    }

    fn issuers(&self, settings: &Settings, _instances: &[LegacyInstance]) -> Vec<String> {
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
