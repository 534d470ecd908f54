//! The differences between the flows: where a request begins, and which tokens the flow issues.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::Context;
use crate::oauth::authorize::{AuthorizeError, CodeRequest, UnidentifiedRequest, UnsafeRequest};
use crate::settings::Settings;
use crate::token::IssuedToken;
use claims::AccessTokenClaims;
use domain::user::json_length;
use domain::{Client, ClientId, GrantId, IntegrationType, LegacyInstance, TokenId, User};
use store::StoreError;

/// A flow. Pages, endpoints and operator tools go through [`FLOWS`](crate::flows::FLOWS) for everything that differs
/// between flows.
#[async_trait(?Send)]
pub trait Flow: Sync {
    /// Path of the page where the browser enters the flow.
    fn begins_at(&self) -> &'static str;

    /// Reads the query (without `?`) of a request to [`Self::begins_at`] on `host`.
    ///
    /// # Errors
    /// A [`BeginError`].
    async fn begin(
        &self,
        context: &Context<'_>,
        query: &[u8],
        host: &str,
    ) -> Result<Box<dyn CodeRequest>, BeginError>;

    /// Method and path of the flow's other endpoints, for hints in responses to unknown paths.
    fn endpoints(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The values of `iss` in access tokens.
    fn issuers(&self, settings: &Settings, instances: &[LegacyInstance]) -> Vec<String>;

    /// Reads the claims of an access token with one of [`Self::issuers`]. `None` if the claims are not those of an
    /// access token.
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

    /// The reasons why names do not fit into access tokens of `client`. Registration refuses such names.
    fn misfits(
        &self,
        _client: &Client,
        _instances: &[&LegacyInstance],
        _api_audience: &str,
        _user_id: LongestUserId<'_>,
    ) -> Vec<Misfit> {
        Vec::new()
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
}

impl From<StoreError> for BeginError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A refresh token that is not a JWT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueRefreshToken<'a> {
    /// Name for people.
    pub kind: &'static str,
    pub host: &'a str,
    pub is_enabled: bool,
    pub grant_id: GrantId,
    /// The token's id within its grant.
    pub refresh_id: TokenId,
    /// Time for which a used token gets the same response again.
    pub reuse_grace: Duration,
}

/// A client with names that do not fit into its access tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Misfit {
    pub client_id: ClientId,
    /// The names and the lengths.
    pub reason: String,
}

/// The longest User ID, for which access tokens of every client must have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongestUserId<'a> {
    /// The User ID of a user in a file or in a change.
    Named(&'a str),
    /// The [`json_length`] of the longest User ID in the store, which does not tell the User ID itself.
    Measured(usize),
}

impl<'a> LongestUserId<'a> {
    /// The longest User ID of the linked accounts of `users` and of the store, whose longest User ID has the
    /// [`json_length`] `stored`.
    #[must_use]
    pub fn among(users: impl IntoIterator<Item = &'a User>, stored: usize) -> Self {
        let accounts = users.into_iter().flat_map(|user| &user.accounts);
        let longest = accounts
            .map(|account| account.user_id.as_str())
            .max_by_key(|user_id| json_length(user_id))
            .unwrap_or_default();
        if json_length(longest) >= stored {
            Self::Named(longest)
        } else {
            Self::Measured(stored)
        }
    }

    /// The [`json_length`].
    #[must_use]
    pub fn length(self) -> usize {
        match self {
            Self::Named(user_id) => json_length(user_id),
            Self::Measured(length) => length,
        }
    }
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
        let client = context.registrations.client(client_id).await?;
        match request.validate(client) {
            Ok(request) => Ok(Box::new(request)),
            Err(AuthorizeError::Unsafe(reason)) => Err(BeginError::Unsafe(reason)),
            Err(AuthorizeError::Redirect(destination, error)) => Err(BeginError::Redirect(
                destination.with_error(&error, &context.settings.issuer),
            )),
        }
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
