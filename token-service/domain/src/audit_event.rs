//! The audit log: who did what, when and from which address. Append-only. No entry contains a secret.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::clock::Timestamp;

/// What happened. The JSON form uses these names, and rows store the number of the variant, so add new variants at the
/// end.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AuditAction {
    /// A user gave the correct password, or an identity provider signed the user in; and the second factor, if required, was right.
    SignIn,
    /// The password was wrong, or the user is unknown or disabled.
    SignInRefused,
    SecondFactorRefused,
    SignOut,
    /// A user authorized a client for a linked account, and the service issued a code.
    CodeIssued,
    /// The service issued tokens for a code, an assertion or client credentials.
    TokensIssued,
    /// The service issued tokens for a refresh token.
    TokensRefreshed,
    TokenRequestRefused,
    /// A used refresh token was used again after its grace period. The grant is revoked (D-3).
    RefreshTokenReused,
    /// A used code was used again. The grant is revoked (D-2).
    CodeReplayed,
    /// A client revoked a token (RFC 7009).
    TokenRevoked,
    GrantRevoked,
    ClientCreated,
    ClientUpdated,
    ClientDeleted,
    UserCreated,
    UserUpdated,
    UserDeleted,
    /// An administrator rotated the signing keys ahead of schedule.
    KeysRotated,
    /// An administrator removed a signing key before its tokens had expired.
    KeyDeleted,
    /// An administrator made a backup of the store.
    BackupTaken,
    /// The administration API was called without a valid token.
    AdministrationRefused,
    LegacyInstanceCreated,
    LegacyInstanceUpdated,
    LegacyInstanceDeleted,
    /// A user set up an authenticator app.
    SecondFactorSetUp,
    /// An administrator removed a user's second factor.
    SecondFactorRemoved,
    /// A client exceeded the limit of revocations. At most one entry per minute and client.
    RevocationsLimited,
    /// An administrator revoked all tokens of an issuer that were issued before a time.
    TokensCutOff,
    /// An administrator gave the revocation feed a new identity.
    RevocationFeedRenewed,
    /// A password or second factor was not checked, because too many attempts had failed.
    SignInThrottled,
    /// A used refresh token was used again within its grace period. The service repeated its first response (D-3).
    TokensRepeated,
    /// An administrator sealed the store with the current encryption key.
    StoreResealed,
    /// A user gave the correct password, or an identity provider signed the user in; the second factor is missing.
    /// `sign_in` follows if the user gives it.
    SecondFactorRequired,
    /// An operator finished an upgrade: `token-service migrate --finish`.
    UpgradeFinished,
    /// An administrator made a link with which a user sets a password.
    PasswordLinkMade,
    /// A user set a password, with a link or with the present one. The user's sessions and grants ended.
    PasswordSet,
    /// Somebody asked for a link by mail, for a name that may be unregistered. `password_link_sent` follows if the mail server took a
    /// message.
    PasswordForgotten,
    /// The service sent a user a link with which the user sets a password.
    PasswordLinkSent,
    /// A user ended the access of a client.
    AccessEnded,
    /// A user ended sessions of other browsers.
    SessionsEnded,
    /// The first sign-in of an identity linked the identity to the user with its verified e-mail address.
    IdentityLinked,
    /// An identity provider signed a user out: the sessions and grants from this sign-in there ended.
    ProviderSignOut,
    /// A user may set a password, and chose one that the rules refuse.
    PasswordRefused,
    /// The service gave up telling a user by mail of a change of the password, the second factor or an identity (D-64).
    NoticeGivenUp,
    /// The service refused a logout token that an identity provider signed. Nothing ended.
    ProviderSignOutRefused,
    /// A user unlinked an identity: the sessions and grants from sign-ins with it ended.
    IdentityUnlinked,
    /// A user made new recovery codes. The earlier ones ended.
    RecoveryCodesMade,
}

impl AuditAction {
    /// All actions, in the order of the enum.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The name in JSON, in metrics and on the command line.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    pub const fn kind(self) -> AuditKind {
        match self {
            Self::GrantRevoked
            | Self::ClientCreated
            | Self::ClientUpdated
            | Self::ClientDeleted
            | Self::UserCreated
            | Self::UserUpdated
            | Self::UserDeleted
            | Self::KeysRotated
            | Self::KeyDeleted
            | Self::BackupTaken
            | Self::LegacyInstanceCreated
            | Self::LegacyInstanceUpdated
            | Self::LegacyInstanceDeleted
            | Self::SecondFactorRemoved
            | Self::TokensCutOff
            | Self::RevocationFeedRenewed
            | Self::StoreResealed
            | Self::UpgradeFinished
            | Self::PasswordLinkMade
            | Self::NoticeGivenUp => AuditKind::Operation,
            Self::SignInRefused
            | Self::SecondFactorRefused
            | Self::TokenRequestRefused
            | Self::RefreshTokenReused
            | Self::CodeReplayed
            | Self::AdministrationRefused
            | Self::RevocationsLimited
            | Self::SignInThrottled
            | Self::PasswordRefused
            | Self::ProviderSignOutRefused => AuditKind::Refusal,
            Self::SignIn
            | Self::SignOut
            | Self::SecondFactorSetUp
            | Self::SecondFactorRequired
            | Self::PasswordSet
            | Self::RecoveryCodesMade
            | Self::PasswordForgotten
            | Self::PasswordLinkSent
            | Self::AccessEnded
            | Self::SessionsEnded
            | Self::IdentityLinked
            | Self::IdentityUnlinked
            | Self::ProviderSignOut => AuditKind::SignIn,
            Self::CodeIssued
            | Self::TokensIssued
            | Self::TokensRefreshed
            | Self::TokensRepeated
            | Self::TokenRevoked => AuditKind::Token,
        }
    }

    /// True if anybody, or who has one link, password or logout token, can cause the event as often as they like.
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::SignInRefused
                | Self::SecondFactorRefused
                | Self::TokenRequestRefused
                | Self::AdministrationRefused
                | Self::SignInThrottled
                | Self::PasswordForgotten
                | Self::PasswordRefused
                | Self::ProviderSignOutRefused
        )
    }
}

/// Kind of an action. The store bounds the entries of each kind on their own, so that one kind never displaces another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AuditKind {
    /// Operators: changes of the registry, revocations, keys, backups.
    Operation = 1,
    /// Refusals, limits, and revocations because of them.
    Refusal = 2,
    /// Users who sign in and out.
    SignIn = 3,
    /// Codes and tokens that the service issued, and tokens that clients revoked.
    Token = 4,
}

impl AuditKind {
    pub const ALL: [Self; 4] = [Self::Operation, Self::Refusal, Self::SignIn, Self::Token];

    /// The number in rows of the store.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// An entry without its position in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    pub at: Timestamp,
    pub action: AuditAction,
    /// Who did it: a username, `client:` and a Client ID, `administrator`, `configuration`, `file:` and the path of a
    /// registrations file that was applied at a start, or `command:USER@HOST` for a command that needs no service.
    pub actor: Option<String>,
    pub client_id: Option<String>,
    pub username: Option<String>,
    pub grant_id: Option<String>,
    /// Details in words, such as a reason or the changed fields.
    pub detail: Option<String>,
    /// The client's address, as the outermost trusted proxy reports it.
    pub address: Option<String>,
    /// The request id: the gateway's `x-request-id`.
    pub request_id: Option<String>,
    /// The entry may be swept from this time on.
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Position in the log. Positions rise strictly.
    pub sequence: u64,
    pub event: AuditEvent,
}

/// A range of the log, by sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditRange {
    /// Entries after this sequence, oldest first; 0 for the start of the log.
    After(u64),
    /// Entries before this sequence, newest first; `None` for the end of the log.
    Before(Option<u64>),
}
