//! Grants: what a user authorized (protocol.md §3).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::grant_id::GrantId;
use crate::token_id::TokenId;
use crate::{ClientId, CredentialsVersion, LinkedAccount, Scope, Username};

/// One step of a grant: the token pair of one token response. Only ids and times are kept. To repeat a response, the
/// service signs the tokens again from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshStep {
    /// `jti` of the refresh token.
    pub refresh_id: TokenId,
    /// `jti` of the access token.
    pub access_id: TokenId,
    /// Scope of the access token: the scope of the grant or a subset (RFC 6749 §6).
    pub scope: Scope,
    /// When both tokens were issued.
    pub issued_at: Timestamp,
    /// The refresh token is refused from this second on.
    pub refresh_expires_at: Timestamp,
}

/// A used refresh token whose response may still be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentStep {
    /// `jti` of the used refresh token.
    pub refresh_id: TokenId,
    /// Time of the first use. The grace period starts here and never restarts.
    pub first_used_at: Timestamp,
    /// The step in the response to the first use.
    pub successor: RefreshStep,
}

/// An authorization by a user for a client, and the state of its refresh tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The claim `grant_id`.
    pub grant_id: GrantId,
    pub client_id: ClientId,
    pub username: Username,
    pub account: LinkedAccount,
    /// Authorized scopes. A refresh may request fewer scopes, never more.
    pub scope: Scope,
    /// The authentication methods of the sign-in (D-11).
    pub amr: Vec<String>,
    pub authenticated_at: Timestamp,
    /// The step with the live refresh token.
    pub current: RefreshStep,
    /// Earlier steps within their grace period.
    pub spent: Vec<SpentStep>,
    /// When the grant was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The user's credentials at the sign-in.
    #[serde(deserialize_with = "crate::serde_form::added")]
    pub credentials_version: CredentialsVersion,
}

impl Grant {
    /// Revokes the grant; `false` if it was revoked before.
    pub fn revoke(&mut self, now: Timestamp) -> bool {
        if self.revoked_at.is_some() {
            return false;
        }
        self.revoked_at = Some(now);
        self.spent.clear();
        true
    }

    /// True if no token of this grant can still be valid, so that the grant may be removed: its access tokens have
    /// expired, and its refresh token has expired or was revoked.
    #[must_use]
    pub fn is_over(&self, now: Timestamp, access_token_lifetime: Duration) -> bool {
        let refresh_is_over = self.revoked_at.is_some() || self.current.refresh_expires_at < now;
        refresh_is_over && self.current.issued_at + access_token_lifetime < now
    }
}

/// Which grants to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantFilter {
    /// Only grants of this client.
    pub client_id: Option<ClientId>,
    /// Only grants of this user.
    pub username: Option<Username>,
}
