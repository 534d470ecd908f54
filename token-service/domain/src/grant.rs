//! Grants: what a user authorized (protocol.md §3).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::grant_id::GrantId;
use crate::token_id::TokenId;
use crate::{ClientId, CredentialsVersion, LinkedAccount, Scope, Username};

/// One step of a grant: the pair of tokens that one answer of the token endpoint carried. Only ids and
/// times are kept; the tokens are signed again from them when the same answer must be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshStep {
    /// `jti` of the refresh token.
    pub refresh_id: TokenId,
    /// `jti` of the access token.
    pub access_id: TokenId,
    /// Scope of the access token: the grant's, or less (RFC 6749 §6).
    pub scope: Scope,
    /// When both were issued.
    pub issued_at: Timestamp,
    /// From this second on the refresh token is refused.
    pub refresh_expires_at: Timestamp,
}

/// A refresh token that was used, while its answer may still be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentStep {
    /// `jti` of the used refresh token.
    pub refresh_id: TokenId,
    /// When it was first used. The grace counts from here and never restarts.
    pub first_used_at: Timestamp,
    /// What the first use answered.
    pub successor: RefreshStep,
}

/// An authorization by a user for a client, with the state of its one line of refresh tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id: the claim `grant_id`.
    pub grant_id: GrantId,
    /// The client.
    pub client_id: ClientId,
    /// The user.
    pub username: Username,
    /// The linked account.
    pub account: LinkedAccount,
    /// Authorized scopes; a refresh may ask for fewer, never for more.
    pub scope: Scope,
    /// How the user signed in.
    pub amr: Vec<String>,
    /// When the user signed in.
    pub authenticated_at: Timestamp,
    /// The step whose refresh token is live.
    pub current: RefreshStep,
    /// Earlier steps within their grace.
    pub spent: Vec<SpentStep>,
    /// When the grant was ended early.
    pub revoked_at: Option<Timestamp>,
    /// What the user signed in with.
    #[serde(deserialize_with = "crate::serde_form::added")]
    pub credentials_version: CredentialsVersion,
}

impl Grant {
    /// Ends the grant; `false` when it had ended before.
    pub fn revoke(&mut self, now: Timestamp) -> bool {
        if self.revoked_at.is_some() {
            return false;
        }
        self.revoked_at = Some(now);
        self.spent.clear();
        true
    }

    /// Whether nothing that stems from this grant can be alive, so that it may be forgotten: its access tokens
    /// have expired, and its refresh token has expired or was revoked.
    #[must_use]
    pub fn is_over(&self, now: Timestamp, access_token_lifetime: Duration) -> bool {
        let refresh_is_over = self.revoked_at.is_some() || self.current.refresh_expires_at < now;
        refresh_is_over && self.current.issued_at + access_token_lifetime < now
    }
}

/// Which grants to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantFilter {
    /// Only those of this client.
    pub client_id: Option<ClientId>,
    /// Only those of this user.
    pub username: Option<Username>,
}
