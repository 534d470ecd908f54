//! Users of the authorization server and their linked project-information accounts (protocol.md §1).

use std::borrow::{Borrow, Cow};
use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_case_mapping::case_folded;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::identity::{Identity, LinkedIdentity, ProviderSignIn};
use crate::managed::Managed;
use crate::text::text;

/// The username of an authorization-server account: 1 to 255 bytes in Unicode's normal form C, without control
/// characters and without leading or trailing white space (D-33). Normalized because keyboards and libraries compose
/// accents in different ways. Two names are equal if they have the same [spelling](Self::as_str); look-ups of people also
/// find a name whose [folded](Self::folded) form is the same (D-43).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Username(String);

impl Username {
    /// Parses and normalizes a username; `None` if the text is empty, too long or has control characters.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = match is_nfc_quick(text.chars()) {
            IsNormalized::Yes => text.to_owned(),
            IsNormalized::No | IsNormalized::Maybe => text.nfc().collect(),
        };
        let legal = !text.is_empty() && text.len() <= 255 && !text.chars().any(char::is_control);
        legal.then_some(Self(text))
    }

    /// A username from printable ASCII without spaces, which is already normalized.
    pub(crate) fn of_printable_ascii(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The name after simple case folding, by which people are found (D-43). Borrowed if it is the name itself.
    pub fn folded(&self) -> Cow<'_, str> {
        let fold = |c: char| {
            if c.is_ascii() {
                c.to_ascii_lowercase()
            } else {
                case_folded(c)
                    .and_then(|folded| char::from_u32(folded.get()))
                    .unwrap_or(c)
            }
        };
        if self.0.chars().all(|c| fold(c) == c) {
            Cow::Borrowed(&self.0)
        } else {
            Cow::Owned(self.0.chars().map(fold).collect())
        }
    }
}

impl TryFrom<String> for Username {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a username has 1 to 255 characters and no control characters")
    }
}

text!(Username);

impl Borrow<str> for Username {
    fn borrow(&self) -> &str {
        &self.0
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

/// Length of a text in JSON without the quotes, in bytes; escapes count.
pub fn json_length(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |json| json.len().saturating_sub(2))
}

/// The version of a user's credentials. Each change of the password or second factor gives it a new number, and so does
/// disabling or removing the user. No number is used twice, not even for a user who is removed and registered again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CredentialsVersion(u64);

impl CredentialsVersion {
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A link with which a person sets a password, once: an operator's invitation, or a new start for a forgotten password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordLink {
    /// The digest of the 256 random bits in the link.
    pub digest: Digest,
    /// The link works until then.
    pub expires_at: Timestamp,
    /// The link works only with these credentials: another password, or being disabled, ends it.
    pub rests_on: CredentialsVersion,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The username: the `sub` of tokens and assertions.
    pub username: Username,
    /// E-mail address. Receives links for forgotten passwords, and legacy single sign-on finds the user by it. Need not be unique.
    pub email: Option<String>,
    /// The hash of the password, as a PHC string; `None` if the user cannot sign in with a password.
    pub password_hash: Option<String>,
    /// The SHA-256 digest of the registered hash, if `password_hash` is a stronger hash of the same password. It
    /// identifies the registered hash in a file. The store does not keep the weaker hash, because it would be faster to
    /// guess. The digest does not help with guessing, because it covers the random salt, which is nowhere else in the
    /// store.
    pub registered_password_digest: Option<Digest>,
    /// The TOTP secret, sealed with the encryption key; `None` without a second factor.
    pub totp_secret_sealed: Option<Vec<u8>>,
    /// Organization, compared with the organization of a non-interactive client (D-19).
    pub organization: Option<String>,
    /// Legacy flow: the user may be found by e-mail address.
    pub single_sign_on: bool,
    /// Linked accounts, in the order of registration.
    pub accounts: Vec<LinkedAccount>,
    /// Linked identities at identity providers, in the order of registration. No other user has one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<LinkedIdentity>,
    /// A disabled user can neither sign in nor be named in a request.
    pub enabled: bool,
    /// The file that defines the user; `None` if commands define the user (D-27).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Managed>,
    /// The latest link with which the user may set a password, expired or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_link: Option<PasswordLink>,
    /// The user must set another password before a code is issued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_change_password: bool,
    /// The version on which codes, sessions and grants depend (D-35). Only the store sets it; registry changes ignore
    /// it.
    pub credentials_version: CredentialsVersion,
    /// The first `iat` that no revocation of the whole user covers. Only the store sets this; registry changes ignore it.
    pub tokens_from: Timestamp,
    /// The same for each account that a revocation covers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts_from: Vec<(LinkedAccount, Timestamp)>,
    /// A sign-in at an identity provider counts if the person gave proof there at this time or later (D-65). Only the store sets this;
    /// registry changes ignore it.
    #[serde(default)]
    pub sign_ins_from: Timestamp,
}

impl User {
    /// An enabled user without password, second factor and linked accounts.
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
            identities: Vec::new(),
            enabled: true,
            managed: None,
            password_link: None,
            must_change_password: false,
            credentials_version: CredentialsVersion::new(0),
            tokens_from: Timestamp::from_seconds(0),
            accounts_from: Vec::new(),
            sign_ins_from: Timestamp::from_seconds(0),
        }
    }

    /// Replaces the password hash `hash` by `stronger`. Returns `false` if `hash` is not the current hash.
    pub fn rehash(&mut self, hash: &str, stronger: String) -> bool {
        if self.password_hash.as_deref() != Some(hash) {
            return false;
        }
        self.password_hash = Some(stronger);
        let registered = &mut self.registered_password_digest;
        registered.get_or_insert_with(|| Digest::of(hash.as_bytes()));
        true
    }

    /// True if this link may set the user's password.
    pub fn takes(&self, link: &Digest, now: Timestamp) -> bool {
        self.password_link.as_ref().is_some_and(|known| {
            known.digest == *link && now < known.expires_at && self.still_has(known.rests_on)
        })
    }

    /// True if a sign-in with credentials of this version is still valid.
    pub fn still_has(&self, credentials: CredentialsVersion) -> bool {
        self.enabled && self.credentials_version == credentials
    }

    /// True if a sign-in with credentials of this version, or at this provider, is still valid.
    pub fn still_signs_in(
        &self,
        credentials: CredentialsVersion,
        provider: Option<&ProviderSignIn>,
    ) -> bool {
        self.still_has(credentials)
            && provider.is_none_or(|provider| self.has_identity(&provider.identity))
    }

    /// True if a first sign-in linked the identity by its verified e-mail address.
    pub fn is_linked_by_email(&self, identity: &Identity) -> bool {
        let mut identities = self.identities.iter();
        identities.any(|linked| linked.by_email && linked.identity == *identity)
    }

    pub fn has_identity(&self, identity: &Identity) -> bool {
        let mut identities = self.identities.iter();
        identities.any(|linked| linked.identity == *identity)
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

    /// D-43.
    #[test]
    fn names_are_folded_character_by_character() {
        for (name, folded) in [
            ("ada@example.com", "ada@example.com"),
            ("Ada@EXAMPLE.com", "ada@example.com"),
            ("ZO\u{cb}", "zo\u{eb}"),
            ("ZOE\u{308}", "zo\u{eb}"),
            (
                "\u{39f}\u{394}\u{3a5}\u{3a3}\u{3a3}\u{395}\u{3a5}\u{3a3}",
                "\u{3bf}\u{3b4}\u{3c5}\u{3c3}\u{3c3}\u{3b5}\u{3c5}\u{3c3}",
            ),
            // The last letter has its own form.
            (
                "\u{3bf}\u{3b4}\u{3c5}\u{3c3}\u{3c3}\u{3b5}\u{3c5}\u{3c2}",
                "\u{3bf}\u{3b4}\u{3c5}\u{3c3}\u{3c3}\u{3b5}\u{3c5}\u{3c3}",
            ),
            // Simple folding keeps the number of characters and knows no languages.
            ("Stra\u{df}e", "stra\u{df}e"),
            ("\u{130}I\u{131}", "\u{130}i\u{131}"),
        ] {
            let name = Username::parse(name).unwrap();
            assert_eq!(name.folded(), folded);
            assert_eq!(
                matches!(name.folded(), Cow::Borrowed(_)),
                name.as_str() == folded
            );
        }
    }

    #[test]
    fn a_link_works_for_its_time_and_credentials() {
        let at = Timestamp::from_seconds;
        let link = Digest::of(b"link");
        let mut user = User::new(Username::parse("ada").unwrap());
        assert!(!user.takes(&link, at(1)));
        user.password_link = Some(PasswordLink {
            digest: link,
            expires_at: at(10),
            rests_on: user.credentials_version,
        });
        assert!(user.takes(&link, at(9)));
        assert!(!user.takes(&link, at(10)));
        assert!(!user.takes(&Digest::of(b"other"), at(9)));
        let enabled = false;
        let disabled = User {
            enabled,
            ..user.clone()
        };
        assert!(!disabled.takes(&link, at(9)));
        user.credentials_version = CredentialsVersion::new(7);
        assert!(!user.takes(&link, at(9)));
    }
}
