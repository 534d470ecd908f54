//! Users of the authorization server and their linked project-information accounts (protocol.md §1).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use crate::digest::Digest;

/// The username of an authorization-server account: 1 to 255 bytes in Unicode's normal form C, without control
/// characters and without white space at its ends (D-33). Keyboards and libraries compose accents in different ways.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Username(String);

impl Username {
    /// Reads a username, and brings it into its normal form; `None` when it is empty, too long or has control
    /// characters.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = match is_nfc_quick(text.chars()) {
            IsNormalized::Yes => text.to_owned(),
            IsNormalized::No | IsNormalized::Maybe => text.nfc().collect(),
        };
        let legal = !text.is_empty() && text.len() <= 255 && !text.chars().any(char::is_control);
        legal.then_some(Self(text))
    }

    /// The username with this text: printable ASCII without spaces is in its normal form.
    pub(crate) fn of_printable_ascii(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with accents as letters of their own (normal form D), if that is another text: what many keyboards
    /// type, and what was stored before names had a normal form.
    #[must_use]
    pub fn decomposed(&self) -> Option<String> {
        let decomposed: String = self.0.nfd().collect();
        (decomposed != self.0).then_some(decomposed)
    }
}

impl TryFrom<String> for Username {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a username has 1 to 255 characters and no control characters")
    }
}

impl From<Username> for String {
    fn from(username: Username) -> Self {
        username.0
    }
}

impl fmt::Display for Username {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A linked project-information account.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinkedAccount {
    /// User ID of the account; becomes the claim `user_id`.
    pub user_id: String,
    /// Username of the account; becomes the claim `user_hat`.
    pub username: String,
    /// URL of the instance on which the account is located; becomes the claim `user_site`.
    pub site: String,
}

/// The state of a user's credentials: another number after each change of password or second factor, and after the user
/// was disabled or removed. No number is used twice, not even for a user who is removed and registered again; rows from
/// before there were numbers have 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CredentialsVersion(u64);

impl CredentialsVersion {
    /// The version with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A user of the authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The account's username: the `sub` of tokens and assertions.
    pub username: Username,
    /// E-mail address; used by legacy single sign-on, need not be unique.
    pub email: Option<String>,
    /// The password as an argon2id PHC string; `None` when the user cannot sign in with one.
    pub password_hash: Option<String>,
    /// The SHA-256 digest of the registered hash, where `password_hash` is a stronger one of the same password: it
    /// tells that hash when a file has it again. The hash itself is not kept, because it is the one that is guessed at
    /// quickly. Nobody guesses at it by its digest: that covers the salt too, which is random and nowhere else in the
    /// store.
    #[serde(
        default,
        alias = "registered_password_hash",
        deserialize_with = "registered_password"
    )]
    pub registered_password_digest: Option<Digest>,
    /// The TOTP secret, sealed with the encryption key; `None` without a second factor.
    pub totp_secret_sealed: Option<Vec<u8>>,
    /// Organization, compared with a non-interactive client's (D-19).
    pub organization: Option<String>,
    /// Legacy: may be found by e-mail.
    pub single_sign_on: bool,
    /// Linked accounts, in the order of registration.
    pub accounts: Vec<LinkedAccount>,
    /// A disabled user can neither sign in nor be named.
    pub enabled: bool,
    /// What codes, sessions and grants were made with (D-35). The store alone sets it: in a change of the registry it
    /// does not count.
    #[serde(default)]
    pub credentials_version: CredentialsVersion,
}

/// Reads the digest, or makes it of the hash that rows of earlier versions have in its place.
fn registered_password<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Digest>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Registered {
        Digest(Digest),
        Hash(String),
    }
    let registered: Option<Registered> = Option::deserialize(deserializer)?;
    Ok(registered.map(|registered| match registered {
        Registered::Digest(digest) => digest,
        Registered::Hash(hash) => Digest::of(hash.as_bytes()),
    }))
}

impl User {
    /// A user of whom only the username is known yet: enabled, without password, second factor and linked accounts.
    #[must_use]
    pub const fn new(username: Username) -> Self {
        Self {
            username,
            email: None,
            password_hash: None,
            registered_password_digest: None,
            totp_secret_sealed: None,
            organization: None,
            single_sign_on: false,
            accounts: Vec::new(),
            enabled: true,
            credentials_version: CredentialsVersion::new(0),
        }
    }

    /// Accounts that are linked to this user and no longer to `next`, the same user after a change.
    pub fn unlinked_by<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = &'a LinkedAccount> {
        let accounts = self.accounts.iter();
        accounts.filter(|account| !next.accounts.contains(account))
    }

    /// Takes `stronger` as the hash of the password that `hash` is of; says whether `hash` was the current one.
    pub fn rehash(&mut self, hash: &str, stronger: String) -> bool {
        if self.password_hash.as_deref() != Some(hash) {
            return false;
        }
        self.password_hash = Some(stronger);
        let registered = &mut self.registered_password_digest;
        registered.get_or_insert_with(|| Digest::of(hash.as_bytes()));
        true
    }

    /// Whether a sign-in with credentials of this version still counts: nothing about them has changed since.
    #[must_use]
    pub fn still_has(&self, credentials: CredentialsVersion) -> bool {
        self.enabled && self.credentials_version == credentials
    }

    /// Whether what rests on `before` ends now that the user is as `self`: another password, another registered second
    /// factor, or disabled. A stronger hash of the same password is no other password ([`Self::rehash`]).
    #[must_use]
    pub fn ends_what_rests_on(&self, before: &Self) -> bool {
        self.has_other_credentials_than(before) || (before.enabled && !self.enabled)
    }

    /// Whether password or registered second factor differ.
    #[must_use]
    pub fn has_other_credentials_than(&self, before: &Self) -> bool {
        before.password_hash != self.password_hash
            || before.totp_secret_sealed != self.totp_secret_sealed
    }
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("User")
            .field("username", &self.username)
            .field("accounts", &self.accounts)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D-33.
    #[test]
    fn usernames_are_one_however_they_are_typed() {
        let composed = Username::parse("zo\u{eb}@example.com").unwrap();
        for typed in ["zoe\u{308}@example.com", " zo\u{eb}@example.com\u{a0}"] {
            assert_eq!(Username::parse(typed).as_ref(), Some(&composed), "{typed}");
        }
        for other in ["zoe@example.com", "Zo\u{eb}@example.com"] {
            assert_ne!(Username::parse(other).as_ref(), Some(&composed), "{other}");
        }
        for bad in ["", "  ", "a\u{7}b", &"\u{eb}".repeat(128)] {
            assert_eq!(Username::parse(bad), None, "{bad}");
        }
    }
}
