//! What the administration shows: no secret, no hash.

use crate::event_view::EventView;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema::{AccountView, ClientView};
use domain::AuditRecord;
use domain::clock::Timestamp;
use protocol::token::rotation::{KeyState, Signers};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Pass it as `after` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A client that was just made, or got a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientWithSecret {
    /// The client.
    pub client: ClientView,
    /// Its new client secret, shown this once: 256 random bits behind the prefix `tscs_`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
}

/// An authorization by a user for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    /// The claim `grant_id` of its tokens.
    pub grant_id: String,
    /// The client.
    pub client_id: String,
    /// The user.
    pub username: String,
    /// The linked account.
    pub account: AccountView,
    /// What was authorized.
    pub scope: String,
    /// When the user signed in for it, RFC 3339.
    pub authenticated_at: String,
    /// When its live tokens were issued, RFC 3339.
    pub last_issued_at: String,
    /// When its live refresh token expires, RFC 3339.
    pub expires_at: String,
    /// When it was revoked, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

impl From<&domain::Grant> for GrantView {
    fn from(grant: &domain::Grant) -> Self {
        Self {
            grant_id: grant.grant_id.to_string(),
            client_id: grant.client_id.to_string(),
            username: grant.username.to_string(),
            account: AccountView(grant.account.clone()),
            scope: grant.scope.to_string(),
            authenticated_at: grant.authenticated_at.rfc3339(),
            last_issued_at: grant.current.issued_at.rfc3339(),
            expires_at: grant.current.refresh_expires_at.rfc3339(),
            revoked_at: grant.revoked_at.map(Timestamp::rfc3339),
        }
    }
}

/// The tokens that a cut-off ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CutOffView {
    /// Their `iss`.
    pub issuer: String,
    /// The latest `iat` among them, RFC 3339.
    pub issued_up_to: String,
}

/// The revocation feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FeedView {
    /// Identity of the feed.
    pub feed: String,
}

/// What revoking several grants did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokedGrants {
    /// Grants that were live and are revoked now.
    pub revoked: u64,
    /// The latest `iat` of the access tokens that are revoked.
    pub issued_up_to: String,
}

/// A signing key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// The key identifier.
    pub kid: String,
    /// The algorithm: `EdDSA`, `ES256` or `RS256`.
    pub algorithm: String,
    /// `announced`, `signing` or `retired`.
    pub state: String,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// From when on it signs, RFC 3339.
    pub signs_from: String,
    /// When it was seen to sign no more, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<String>,
    /// When a retired key is removed: its last token has expired then. RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<String>,
}

impl KeyView {
    /// The key, at `now`. `longest_token` is how long the last token of a retired one lives.
    #[must_use]
    pub fn new(
        key: &domain::SealedSigningKey,
        signers: &Signers<'_>,
        longest_token: Duration,
        now: Timestamp,
    ) -> Self {
        let state = match signers.state(key, now) {
            KeyState::Announced => "announced",
            KeyState::Signing => "signing",
            KeyState::Retired => "retired",
        };
        Self {
            kid: key.kid.clone(),
            algorithm: key.algorithm.name().to_owned(),
            state: state.to_owned(),
            created_at: key.created_at.rfc3339(),
            signs_from: key.signs_from.rfc3339(),
            retired_at: key.retired_at.map(Timestamp::rfc3339),
            forgotten_at: key.retired_at.map(|at| (at + longest_token).rfc3339()),
        }
    }
}

/// The encryption keys of a replica's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EncryptionKeysView {
    /// The keys, the current one first.
    pub keys: Vec<EncryptionKeyView>,
    /// Values that are sealed with an earlier key.
    pub outdated: u64,
    /// Values that none of the keys opens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// Values that were sealed anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resealed: Option<u64>,
}

/// An encryption key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EncryptionKeyView {
    /// Its name, which tells nothing of the key.
    pub id: String,
    /// Whether it seals.
    pub current: bool,
    /// Values of the store that are sealed with it.
    pub sealed_values: u64,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditView {
    /// Position in the log.
    pub sequence: u64,
    /// The recorded event.
    #[serde(flatten)]
    pub event: EventView,
}

impl From<AuditRecord> for AuditView {
    fn from(record: AuditRecord) -> Self {
        Self {
            sequence: record.sequence,
            event: EventView::from(record.event),
        }
    }
}

/// What applying registrations did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// One text per client and user that changes: `+` new, `~` changed with its fields, `-` removed. A changed one goes
    /// on with a line for each field, which has the old and the new value unless they are secret.
    pub differences: Vec<String>,
    /// One line per field, each with `!`, in which the registry stays as it is although the file says something else: a
    /// command changed it after a file was last applied, or no file was applied to the object before (D-27).
    #[serde(default)]
    pub kept: Vec<String>,
    /// What is allowed but unwise.
    pub warnings: Vec<String>,
    /// Whether it was only looked at.
    pub dry_run: bool,
}
