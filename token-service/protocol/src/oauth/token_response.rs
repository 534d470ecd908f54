//! The response of the token endpoint (protocol.md §2.1).

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::token::Binding;
use domain::{AuditAction, ClientId, Grant, GrantId, Scope, Username};

/// A successful response, with exactly these members.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TokenResponse {
    /// The access token, a signed JWT.
    pub access_token: String,
    /// `Bearer`, or `DPoP` for an access token that is bound to a key (RFC 9449 §5).
    pub token_type: &'static str,
    /// Time from this response until the access token expires, in seconds.
    pub expires_in: u64,
    /// The refresh token, a signed JWT; only for the authorization code grant and its refreshes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// The scope of the access token; only if it differs from the requested scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub scope: Option<Scope>,
    /// For the audit log; not part of the response.
    #[serde(skip)]
    pub authorization: Authorization,
}

/// Client, user and grant of issued tokens, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    pub client_id: ClientId,
    pub username: Username,
    /// The claim `grant_id` of the tokens.
    pub grant_id: GrantId,
    pub issuance: Issuance,
    /// The binding of the access token.
    pub binding: Binding,
}

/// Reason why tokens were issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issuance {
    /// For a code, an assertion or a client's credentials.
    First,
    /// For the first use of a refresh token.
    Refreshed,
    /// For a reused refresh token within its grace period: the tokens of the first use again (D-3). The request comes
    /// from a client that lost the response, or from an attacker who stole the token.
    Repeated,
}

impl Issuance {
    pub const fn action(self) -> AuditAction {
        match self {
            Self::First => AuditAction::TokensIssued,
            Self::Refreshed => AuditAction::TokensRefreshed,
            Self::Repeated => AuditAction::TokensRepeated,
        }
    }
}

impl Authorization {
    pub fn of(grant: &Grant, issuance: Issuance, binding: Binding) -> Self {
        Self {
            client_id: grant.client_id.clone(),
            username: grant.username.clone(),
            grant_id: grant.grant_id,
            issuance,
            binding,
        }
    }
}

impl TokenResponse {
    /// A response with these tokens; `expires_in` is the time until the access token expires.
    pub fn new(
        access_token: String,
        expires_in: Duration,
        refresh_token: Option<String>,
        scope: Option<Scope>,
        authorization: Authorization,
    ) -> Self {
        Self {
            access_token,
            token_type: authorization.binding.token_type(),
            expires_in: expires_in.as_secs(),
            refresh_token,
            scope,
            authorization,
        }
    }
}

/// Hides the tokens from logs.
impl fmt::Debug for TokenResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokenResponse")
            .finish_non_exhaustive()
    }
}
