//! Revocations, and their entries in the feed to the gateways (`claims::revocation`).

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::{Confirmation, Thumbprint};
use serde::{Deserialize, Serialize};

use super::{GrantId, TokenId};
use crate::clock::Timestamp;
use crate::random::{self, Random, RandomError};
use crate::{ClientId, LinkedAccount, User, Username};

/// Time for which the feed keeps an entry after its expiry: the largest clock skew with which a gateway accepts tokens. A
/// gateway that starts within this time would otherwise accept a revoked token.
pub const READERS_CLOCK_SKEW: Duration = Duration::from_mins(5);

/// Identity of the feed of a store: 128 random bits, written as 22 characters of base64url. A position is valid only in
/// the feed that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedId([u8; 16]);

impl FeedId {
    pub fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::bytes(random).map(Self)
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for FeedId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedState {
    pub feed: FeedId,
    /// The highest position that the feed ever used; 0 before the first entry.
    pub last: u64,
}

/// What a feed entry revokes. Rows store the number of the variant, so add new variants at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Revoked {
    Grant(GrantId),
    /// One access token of the current flows.
    Token(TokenId),
    /// All tokens of one client with an `iat` up to the entry's time.
    Client(ClientId),
    /// All tokens of the current flows for one user with an `iat` up to the entry's time. Legacy tokens do not contain
    /// the username; use [`Revoked::Grant`] for them.
    User(Username),
    /// Like [`Revoked::User`], for one linked account of the user.
    Account {
        username: Username,
        user_id: String,
        site: String,
    },
    /// All tokens with this `iss` and an `iat` up to the entry's time.
    Issuer(String),
    /// One legacy access token, by its [`TokenId::parse_legacy`].
    LegacyToken(TokenId),
    /// Like [`Revoked::User`], for one client.
    UserAtClient {
        username: Username,
        client_id: ClientId,
    },
    /// All tokens that are bound to this key or certificate and have an `iat` up to the entry's time.
    Key(Thumbprint),
}

/// Whose grants and tokens an administrator revokes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    Client(ClientId),
    User(Username),
    UserAtClient {
        username: Username,
        client_id: ClientId,
    },
    /// Everything that is bound to this key or certificate, for every client and user.
    Key(Thumbprint),
}

impl Owner {
    /// `None` if neither is named.
    pub fn of(client_id: Option<ClientId>, username: Option<Username>) -> Option<Self> {
        Some(match (client_id, username) {
            (Some(client_id), None) => Self::Client(client_id),
            (None, Some(username)) => Self::User(username),
            (Some(client_id), Some(username)) => Self::UserAtClient {
                username,
                client_id,
            },
            (None, None) => return None,
        })
    }

    /// The feed entry for the access tokens of the current flows.
    pub fn revoked(&self) -> Revoked {
        match self.clone() {
            Self::Client(client_id) => Revoked::Client(client_id),
            Self::User(username) => Revoked::User(username),
            Self::UserAtClient {
                username,
                client_id,
            } => Revoked::UserAtClient {
                username,
                client_id,
            },
            Self::Key(key) => Revoked::Key(key),
        }
    }
}

impl Revoked {
    pub fn account(username: &Username, account: &LinkedAccount) -> Self {
        Self::Account {
            username: username.clone(),
            user_id: account.user_id.clone(),
            site: account.site.clone(),
        }
    }

    /// The entries that revoke tokens of the user and of the linked accounts up to a time.
    pub fn of_user(user: &User) -> impl Iterator<Item = Self> {
        let accounts = user.accounts.iter();
        let accounts = accounts.map(|account| Self::account(&user.username, account));
        std::iter::once(Self::User(user.username.clone())).chain(accounts)
    }

    /// True if the entry revokes tokens by their `iat`.
    pub const fn is_up_to_a_time(&self) -> bool {
        match self {
            Self::Grant(_) | Self::Token(_) | Self::LegacyToken(_) => false,
            Self::Client(_)
            | Self::User(_)
            | Self::Account { .. }
            | Self::Issuer(_)
            | Self::UserAtClient { .. }
            | Self::Key(_) => true,
        }
    }

    /// Kind and id as bytes: the key of an index. Only equal values have equal keys.
    pub fn key(&self) -> Vec<u8> {
        let (kind, id) = match self {
            Self::Grant(id) => (b'g', id.as_bytes().as_slice()),
            Self::Token(id) => (b't', id.as_bytes().as_slice()),
            Self::LegacyToken(id) => (b'l', id.as_bytes().as_slice()),
            Self::Client(id) => (b'c', id.as_str().as_bytes()),
            Self::User(name) => (b'u', name.as_str().as_bytes()),
            Self::Issuer(issuer) => (b'i', issuer.as_bytes()),
            Self::Key(key) => (b'k', key.as_bytes().as_slice()),
            Self::Account {
                username,
                user_id,
                site,
            } => return key_of(b'a', &[username.as_str(), user_id, site]),
            Self::UserAtClient {
                username,
                client_id,
            } => return key_of(b'b', &[username.as_str(), client_id.as_str()]),
        };
        [&[kind], id].concat()
    }
}

/// Lengths before texts, so that no two lists of texts have the same key.
fn key_of(kind: u8, texts: &[&str]) -> Vec<u8> {
    let mut key = vec![kind];
    for text in texts {
        key.extend_from_slice(&(text.len() as u64).to_be_bytes());
        key.extend_from_slice(text.as_bytes());
    }
    key
}

/// The two times of a feed entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Time of the revocation. For entries that revoke by `iat`: the latest revoked `iat`.
    pub at: Timestamp,
    /// Time when every access token that the entry revokes has expired.
    pub expires_at: Timestamp,
}

impl Extent {
    /// The extent of a revocation at `at`, if the longest-lived access token lives for `longest_token`.
    pub fn of(at: Timestamp, longest_token: Duration) -> Self {
        Self {
            at,
            expires_at: at + longest_token,
        }
    }

    /// The extent to write for `revoked`, if the existing entry has the extent `existing`. `None` if the existing entry
    /// already covers this extent.
    pub fn after(self, existing: Option<Self>, revoked: &Revoked) -> Option<Self> {
        let Some(existing) = existing else {
            return Some(self);
        };
        let merged = Self {
            at: self.at.max(existing.at),
            expires_at: self.expires_at.max(existing.expires_at),
        };
        let later = revoked.is_up_to_a_time() && merged.at > existing.at;
        (later || merged.expires_at > existing.expires_at).then_some(merged)
    }
}

/// The properties of a token by which a feed entry can revoke it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenReference {
    /// Claim `iss`.
    pub issuer: String,
    /// Claim `jti`.
    pub token_id: TokenId,
    pub grant_id: GrantId,
    pub client_id: ClientId,
    /// The user or account of the token.
    pub subject: TokenSubject,
    /// The claim `cnf`; empty for an unbound token.
    pub bound_to: Confirmation,
    pub issued_at: Timestamp,
}

/// The user or account of a token, as far as the claims contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSubject {
    /// A user, and the linked account if the token contains it: tokens of the current flows.
    User {
        /// Claim `sub`.
        username: Username,
        /// Claims `user_id` and `user_site`; `None` for refresh tokens.
        account: Option<(String, String)>,
    },
    /// A linked account: access tokens of the legacy flow. Only the grant contains the user.
    Account {
        /// Claim `sub`.
        user_id: String,
    },
}

impl TokenReference {
    /// The entries that revoke the token regardless of its `iat`.
    pub fn ended_by(&self) -> [Revoked; 2] {
        let itself = match self.subject {
            TokenSubject::User { .. } => Revoked::Token(self.token_id),
            TokenSubject::Account { .. } => Revoked::LegacyToken(self.token_id),
        };
        [Revoked::Grant(self.grant_id), itself]
    }

    /// The entries that revoke the token, each with the earliest [`Extent::at`] that does.
    pub fn revoked_by(&self) -> impl Iterator<Item = (Revoked, Timestamp)> {
        let at_once = self.ended_by().into_iter();
        let at_once = at_once.map(|revoked| (revoked, Timestamp::default()));
        let up_to_a_time = self.ended_up_to_a_time_by().into_iter();
        at_once.chain(up_to_a_time.map(|revoked| (revoked, self.issued_at)))
    }

    /// The entries that revoke the token if its `iat` is not after the entry's time.
    fn ended_up_to_a_time_by(&self) -> Vec<Revoked> {
        let mut all = vec![
            Revoked::Client(self.client_id.clone()),
            Revoked::Issuer(self.issuer.clone()),
        ];
        all.extend(self.bound_to.thumbprints().map(Revoked::Key));
        if let TokenSubject::User { username, account } = &self.subject {
            all.push(Revoked::User(username.clone()));
            all.push(Revoked::UserAtClient {
                username: username.clone(),
                client_id: self.client_id.clone(),
            });
            if let Some((user_id, site)) = account {
                all.push(Revoked::Account {
                    username: username.clone(),
                    user_id: user_id.clone(),
                    site: site.clone(),
                });
            }
        }
        all
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Position in the feed. Positions rise strictly and are never reused.
    pub sequence: u64,
    pub revoked: Revoked,
    /// See [`Extent::at`].
    pub at: Timestamp,
    /// Time when every access token that the entry revokes has expired. The entry is swept [`READERS_CLOCK_SKEW`] later.
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    fn extent(from: u64, to: u64) -> Extent {
        Extent {
            at: at(from),
            expires_at: at(to),
        }
    }

    #[test]
    fn only_what_says_more_than_the_entry_before_is_written() {
        let grant = Revoked::Grant(GrantId::from_bytes([1; 16]));
        let issuer = Revoked::Issuer("https://lobby.example".into());
        for revoked in [&grant, &issuer] {
            assert_eq!(extent(5, 9).after(None, revoked), Some(extent(5, 9)));
            let existing = Some(extent(5, 9));
            assert_eq!(extent(5, 9).after(existing, revoked), None);
            assert_eq!(extent(4, 8).after(existing, revoked), None);
            assert_eq!(extent(4, 10).after(existing, revoked), Some(extent(5, 10)));
        }
        let existing = Some(extent(5, 9));
        assert_eq!(extent(6, 9).after(existing, &grant), None);
        assert_eq!(extent(6, 8).after(existing, &issuer), Some(extent(6, 9)));
    }

    #[test]
    fn no_two_accounts_have_the_same_key() {
        let account = |username: &str, user_id: &str, site: &str| Revoked::Account {
            username: Username::parse(username).unwrap(),
            user_id: user_id.into(),
            site: site.into(),
        };
        assert_ne!(account("a", "bc", "d").key(), account("ab", "c", "d").key());
        assert_ne!(account("a", "b", "cd").key(), account("a", "bc", "d").key());
        assert_eq!(account("a", "b", "c").key(), account("a", "b", "c").key());
    }
}
