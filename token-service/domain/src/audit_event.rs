//! The audit log: who did what, when and from where. Append-only; no entry holds a secret.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// What happened. The names are those of the JSON form; the order is that of the rows in the store, so a new one goes
/// to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A person gave the right password, and the second factor where one is owed.
    SignIn,
    /// A password was refused, or its user is unknown or disabled.
    SignInRefused,
    /// A second factor was refused.
    SecondFactorRefused,
    /// A person signed out.
    SignOut,
    /// A person let a client act for a linked account: a code was issued.
    CodeIssued,
    /// Tokens were issued for a code, an assertion or a client's credentials.
    TokensIssued,
    /// Tokens were issued for a refresh token.
    TokensRefreshed,
    /// A token request was refused.
    TokenRequestRefused,
    /// A used refresh token came back after its grace: its grant is revoked (D-3).
    RefreshTokenReused,
    /// A used code came back: what it gave is revoked (D-2).
    CodeReplayed,
    /// A client revoked a token (RFC 7009).
    TokenRevoked,
    /// An administrator ended a grant.
    GrantRevoked,
    /// A client was registered.
    ClientCreated,
    /// A client's registration changed.
    ClientUpdated,
    /// A client was removed.
    ClientDeleted,
    /// A user was registered.
    UserCreated,
    /// A user's registration changed.
    UserUpdated,
    /// A user was removed.
    UserDeleted,
    /// Signing keys were rotated out of turn.
    KeysRotated,
    /// A signing key was removed before its tokens had expired.
    KeyDeleted,
    /// A copy of the store was taken.
    BackupTaken,
    /// Somebody called the administration without its token.
    AdministrationRefused,
    /// A host of the legacy flow was registered.
    LegacyInstanceCreated,
    /// A host of the legacy flow changed.
    LegacyInstanceUpdated,
    /// A host of the legacy flow was removed.
    LegacyInstanceDeleted,
    /// A person set up an authenticator app.
    SecondFactorSetUp,
    /// An administrator removed a user's second factor.
    SecondFactorRemoved,
    /// A client revokes too often; one entry a minute for each client.
    RevocationsLimited,
    /// An administrator ended every token of an issuer that was issued before a time.
    TokensCutOff,
    /// An administrator gave the revocation feed another identity.
    RevocationFeedRenewed,
    /// A registrations file says something else than a command before it: the registry stays as it is (D-27).
    RegistrationKept,
    /// A password or second factor was not looked at, because too many had been wrong.
    SignInThrottled,
    /// A used refresh token came back within its grace: its first answer was given again (D-3).
    TokensRepeated,
    /// An administrator had the store sealed under the current encryption key.
    StoreResealed,
}

impl AuditAction {
    /// All of them, in their order.
    pub const ALL: [Self; 34] = [
        Self::SignIn,
        Self::SignInRefused,
        Self::SecondFactorRefused,
        Self::SignOut,
        Self::CodeIssued,
        Self::TokensIssued,
        Self::TokensRefreshed,
        Self::TokenRequestRefused,
        Self::RefreshTokenReused,
        Self::CodeReplayed,
        Self::TokenRevoked,
        Self::GrantRevoked,
        Self::ClientCreated,
        Self::ClientUpdated,
        Self::ClientDeleted,
        Self::UserCreated,
        Self::UserUpdated,
        Self::UserDeleted,
        Self::KeysRotated,
        Self::KeyDeleted,
        Self::BackupTaken,
        Self::AdministrationRefused,
        Self::LegacyInstanceCreated,
        Self::LegacyInstanceUpdated,
        Self::LegacyInstanceDeleted,
        Self::SecondFactorSetUp,
        Self::SecondFactorRemoved,
        Self::RevocationsLimited,
        Self::TokensCutOff,
        Self::RevocationFeedRenewed,
        Self::RegistrationKept,
        Self::SignInThrottled,
        Self::TokensRepeated,
        Self::StoreResealed,
    ];

    /// The name in JSON, in metrics and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::SignInRefused => "sign_in_refused",
            Self::SecondFactorRefused => "second_factor_refused",
            Self::SignOut => "sign_out",
            Self::CodeIssued => "code_issued",
            Self::TokensIssued => "tokens_issued",
            Self::TokensRefreshed => "tokens_refreshed",
            Self::TokenRequestRefused => "token_request_refused",
            Self::RefreshTokenReused => "refresh_token_reused",
            Self::CodeReplayed => "code_replayed",
            Self::TokenRevoked => "token_revoked",
            Self::GrantRevoked => "grant_revoked",
            Self::ClientCreated => "client_created",
            Self::ClientUpdated => "client_updated",
            Self::ClientDeleted => "client_deleted",
            Self::UserCreated => "user_created",
            Self::UserUpdated => "user_updated",
            Self::UserDeleted => "user_deleted",
            Self::KeysRotated => "keys_rotated",
            Self::KeyDeleted => "key_deleted",
            Self::BackupTaken => "backup_taken",
            Self::AdministrationRefused => "administration_refused",
            Self::LegacyInstanceCreated => "legacy_instance_created",
            Self::LegacyInstanceUpdated => "legacy_instance_updated",
            Self::LegacyInstanceDeleted => "legacy_instance_deleted",
            Self::SecondFactorSetUp => "second_factor_set_up",
            Self::SecondFactorRemoved => "second_factor_removed",
            Self::RevocationsLimited => "revocations_limited",
            Self::TokensCutOff => "tokens_cut_off",
            Self::RevocationFeedRenewed => "revocation_feed_renewed",
            Self::RegistrationKept => "registration_kept",
            Self::SignInThrottled => "sign_in_throttled",
            Self::TokensRepeated => "tokens_repeated",
            Self::StoreResealed => "store_resealed",
        }
    }

    /// Whether anybody can cause it, without a secret, as often as they like.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::SignInRefused
                | Self::SecondFactorRefused
                | Self::TokenRequestRefused
                | Self::AdministrationRefused
                | Self::SignInThrottled
        )
    }
}

/// One entry, before it has its place in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// Time of the event.
    pub at: Timestamp,
    /// The action.
    pub action: AuditAction,
    /// Who did it: a username, `client:` and a Client ID, `administrator`, `file:` and the path of a registrations
    /// file that a start applied, or `configuration`.
    pub actor: Option<String>,
    /// The client that it concerns.
    pub client_id: Option<String>,
    /// The user that it concerns.
    pub username: Option<String>,
    /// The authorization that it concerns.
    pub grant_id: Option<String>,
    /// More, in words: a reason, the fields that changed.
    pub detail: Option<String>,
    /// The address of the client, as the outermost trusted proxy saw it.
    pub address: Option<String>,
    /// The request's id: `x-request-id` of the gateway.
    pub request_id: Option<String>,
    /// From then on the entry may be swept.
    pub expires_at: Timestamp,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Position in the log: strictly rising.
    pub sequence: u64,
    /// The event.
    pub event: AuditEvent,
}

/// A part of the log, by sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditRange {
    /// What came after this entry, oldest first; 0 for the start of the log.
    After(u64),
    /// What came before this entry, newest first; `None` for the end of the log.
    Before(Option<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_actions_are_listed_in_the_order_of_their_rows() {
        let of_row = |row: u8| postcard::from_bytes::<AuditAction>(&[row]);
        for (row, action) in (0..).zip(AuditAction::ALL) {
            assert_eq!(of_row(row), Ok(action));
        }
        let next = u8::try_from(AuditAction::ALL.len()).unwrap();
        assert!(of_row(next).is_err(), "ALL lacks an action");
    }
}
