//! What the administration shows: no secret, no hash.

use crate::event_view::EventView;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use domain::clock::Timestamp;
use domain::{AuditRecord, IntegrationType, SecretTimes};
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

/// A client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientView {
    /// The Client ID.
    pub client_id: String,
    /// The name that people see.
    pub name: String,
    /// The integration type: `web_server`, `installed`, `non_interactive`, `user_bound` or `legacy`.
    #[serde(rename = "type")]
    pub integration_type: String,
    /// Whether it may be used.
    pub enabled: bool,
    /// Scopes that it may ask for.
    pub scopes: Vec<String>,
    /// Redirect URIs; templates for legacy clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirect_uris: Vec<String>,
    /// Live client secrets: two during a rotation.
    pub secrets: usize,
    /// The same, each with its times, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_times: Vec<SecretView>,
    /// Certificates of a non-interactive client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateView>,
    /// The organization to whose users a non-interactive client is restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The user as whom a user-bound client acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_user: Option<String>,
    /// The one legacy instance that knows a legacy client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

impl ClientView {
    /// The client, at `now`. `times` has what is known of the secrets of this and other clients.
    #[must_use]
    pub fn new(client: &domain::Client, times: &[SecretTimes], now: Timestamp) -> Self {
        let mut view = Self {
            client_id: client.client_id.to_string(),
            name: client.name.clone(),
            integration_type: client.integration.name().to_owned(),
            enabled: client.enabled,
            scopes: client.scopes.tokens().map(str::to_owned).collect(),
            redirect_uris: client
                .redirect_uris()
                .iter()
                .map(ToString::to_string)
                .collect(),
            secrets: client.secrets().len(),
            secret_times: SecretView::of(client, times),
            certificates: Vec::new(),
            organization: None,
            bound_user: None,
            hostname: None,
        };
        match &client.integration {
            IntegrationType::WebServer { .. } | IntegrationType::Installed { .. } => {}
            IntegrationType::NonInteractive {
                certificates,
                organization,
                ..
            } => {
                view.certificates = certificates
                    .iter()
                    .map(|certificate| CertificateView::new(certificate, now))
                    .collect();
                view.organization.clone_from(organization);
            }
            IntegrationType::UserBound { bound_user, .. } => {
                view.bound_user = Some(bound_user.to_string());
            }
            IntegrationType::Legacy {
                redirect_templates,
                hostname,
                ..
            } => {
                view.redirect_uris.clone_from(redirect_templates);
                view.hostname.clone_from(hostname);
            }
        }
        view
    }
}

/// A client secret, by its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    /// When it was registered, RFC 3339; absent for a secret from before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<String>,
    /// When a request last proved it, RFC 3339, exact to five minutes; absent if none did since this is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

impl SecretView {
    fn of(client: &domain::Client, times: &[SecretTimes]) -> Vec<Self> {
        let of_this = |times: &&SecretTimes| times.client_id == client.client_id;
        let times: Vec<_> = times.iter().filter(of_this).collect();
        let secrets = client.secrets().iter();
        let views = secrets.map(|secret| {
            let known = times.iter().find(|times| times.secret == *secret);
            known.map_or_else(Self::default, |times| Self {
                added_at: times.added_at.map(Timestamp::rfc3339),
                last_used_at: times.last_used_at.map(Timestamp::rfc3339),
            })
        });
        views.collect()
    }
}

/// A certificate of a non-interactive client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CertificateView {
    /// The certificateAlias, compared with `kid`.
    pub alias: String,
    /// The SHA-1 thumbprint, base64url: compared with `x5t`.
    pub x5t: String,
    /// First second of validity, RFC 3339.
    pub not_before: String,
    /// Last second of validity, RFC 3339.
    pub not_after: String,
    /// `valid`, `expires_soon` (within 30 days), `expired` or `not_yet_valid`.
    pub state: String,
}

impl CertificateView {
    /// The certificate, at `now`.
    #[must_use]
    pub fn new(certificate: &domain::Certificate, now: Timestamp) -> Self {
        Self {
            alias: certificate.alias.clone(),
            x5t: certificate.x5t(),
            not_before: certificate.not_before.rfc3339(),
            not_after: certificate.not_after.rfc3339(),
            state: certificate.state(now).name().to_owned(),
        }
    }
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

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    /// The account's username.
    pub username: String,
    /// E-mail address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Whether the legacy flow may find the user by e-mail.
    pub single_sign_on: bool,
    /// Whether the user may sign in and be named.
    pub enabled: bool,
    /// Whether there is a password.
    pub has_password: bool,
    /// Whether a second factor is asked for.
    pub has_totp: bool,
    /// Linked project-information accounts.
    pub accounts: Vec<AccountView>,
}

impl From<&domain::User> for UserView {
    fn from(user: &domain::User) -> Self {
        Self {
            username: user.username.to_string(),
            email: user.email.clone(),
            organization: user.organization.clone(),
            single_sign_on: user.single_sign_on,
            enabled: user.enabled,
            has_password: user.password_hash.is_some(),
            has_totp: user.totp_secret_sealed.is_some(),
            accounts: user.accounts.iter().map(AccountView::from).collect(),
        }
    }
}

/// A linked account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountView {
    /// User ID of the account.
    pub user_id: String,
    /// Username of the account.
    pub username: String,
    /// URL of the instance on which it is located.
    pub site: String,
}

impl From<&domain::LinkedAccount> for AccountView {
    fn from(account: &domain::LinkedAccount) -> Self {
        Self {
            user_id: account.user_id.clone(),
            username: account.username.clone(),
            site: account.site.clone(),
        }
    }
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
            account: AccountView::from(&grant.account),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokedGrants {
    /// Grants that were live and are revoked now.
    pub revoked: usize,
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

/// A host of the legacy flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LegacyInstanceView {
    /// The host of `/OAuthStatus` and `/Logon`.
    pub hostname: String,
    /// The host of `/as/token.oauth2`.
    pub auth_server_hostname: String,
    /// Whether OAuth2 is enabled on the host.
    pub enabled: bool,
}

impl From<&domain::LegacyInstance> for LegacyInstanceView {
    fn from(instance: &domain::LegacyInstance) -> Self {
        Self {
            hostname: instance.hostname.clone(),
            auth_server_hostname: instance.auth_server_hostname.clone(),
            enabled: instance.enabled,
        }
    }
}

/// The encryption keys of a replica's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EncryptionKeysView {
    /// The keys, the current one first.
    pub keys: Vec<EncryptionKeyView>,
    /// Values that are sealed with an earlier key, or in an earlier form.
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
