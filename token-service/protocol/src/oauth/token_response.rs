//! The answer of the token endpoint (protocol.md §2.1).

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use domain::{AuditAction, ClientId, Grant, GrantId, Username};

/// A successful answer, with exactly the fields of protocol.md §2.1.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct TokenResponse {
    /// The access token, a signed JWT.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: &'static str,
    /// Lifetime of the access token from its issue, in seconds.
    pub expires_in: u64,
    /// The refresh token, a signed JWT; only for the authorization code grant and its refreshes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Whom the tokens speak for; not part of the answer.
    #[serde(skip)]
    pub authorization: Authorization,
}

/// Whom tokens speak for, as the audit log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// The client.
    pub client_id: ClientId,
    /// The user.
    pub username: Username,
    /// The claim `grant_id` of the tokens.
    pub grant_id: GrantId,
    /// For what the tokens were issued.
    pub issuance: Issuance,
}

/// For what tokens were issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issuance {
    /// For a code, an assertion or a client's credentials.
    First,
    /// For the first use of a refresh token.
    Refreshed,
    /// For a refresh token that was used before, within its grace: the answer of the first use once more (D-3). A
    /// client that lost the answer asks so, and whoever stole the token might.
    Repeated,
}

impl Issuance {
    /// What the audit log calls it.
    #[must_use]
    pub const fn action(self) -> AuditAction {
        match self {
            Self::First => AuditAction::TokensIssued,
            Self::Refreshed => AuditAction::TokensRefreshed,
            Self::Repeated => AuditAction::TokensRepeated,
        }
    }
}

impl Authorization {
    /// That of a grant.
    #[must_use]
    pub fn of(grant: &Grant, issuance: Issuance) -> Self {
        Self {
            client_id: grant.client_id.clone(),
            username: grant.username.clone(),
            grant_id: grant.grant_id,
            issuance,
        }
    }
}

impl TokenResponse {
    /// An answer with these tokens; `lifetime` is the access token's.
    #[must_use]
    pub const fn new(
        access_token: String,
        lifetime: Duration,
        refresh_token: Option<String>,
        authorization: Authorization,
    ) -> Self {
        Self {
            access_token,
            token_type: "Bearer",
            expires_in: lifetime.as_secs(),
            refresh_token,
            authorization,
        }
    }
}

/// Tokens stay out of logs.
impl fmt::Debug for TokenResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokenResponse")
            .finish_non_exhaustive()
    }
}
