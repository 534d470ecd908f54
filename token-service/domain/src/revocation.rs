//! What is revoked, and its entries in the feed to the gateways (`claims::revocation`).

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::{GrantId, TokenId};
use crate::clock::Timestamp;
use crate::random::{self, Random, RandomError};
use crate::{ClientId, LinkedAccount, Username};

/// Identity of the feed of one store: 128 random bits, written as 22 characters of base64url. Positions mean nothing in
/// another feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedId([u8; 16]);

impl FeedId {
    /// A fresh identity.
    ///
    /// # Errors
    /// [`RandomError`] when there are no random bytes.
    pub fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::bytes(random).map(Self)
    }

    /// The identity with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for FeedId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// The feed at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedState {
    /// Identity of the feed.
    pub feed: FeedId,
    /// The highest position that the feed ever had; 0 before the first entry.
    pub last: u64,
}

/// What an entry of the feed revokes. Rows hold the variants by their order, so a new one goes to the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Revoked {
    /// All tokens of one authorization.
    Grant(GrantId),
    /// One access token of the current flows.
    Token(TokenId),
    /// All tokens of one client that were issued up to the entry's time.
    Client(ClientId),
    /// All tokens of the current flows for one user that were issued up to the entry's time. Legacy tokens name the
    /// user in another way: [`Revoked::Grant`] ends them.
    User(Username),
    /// Like [`Revoked::User`], for one linked account of the user.
    Account {
        /// The user.
        username: Username,
        /// `user_id` of the account.
        user_id: String,
        /// `site` of the account.
        site: String,
    },
    /// All tokens with this `iss` that were issued up to the entry's time.
    Issuer(String),
    /// One legacy access token, by [`TokenId::parse_legacy`].
    LegacyToken(TokenId),
}

impl Revoked {
    /// The linked account of a user.
    #[must_use]
    pub fn account(username: &Username, account: &LinkedAccount) -> Self {
        Self::Account {
            username: username.clone(),
            user_id: account.user_id.clone(),
            site: account.site.clone(),
        }
    }

    /// True if the entry concerns tokens by their `iat`.
    #[must_use]
    pub const fn is_up_to_a_time(&self) -> bool {
        match self {
            Self::Grant(_) | Self::Token(_) | Self::LegacyToken(_) => false,
            Self::Client(_) | Self::User(_) | Self::Account { .. } | Self::Issuer(_) => true,
        }
    }

    /// Kind and id in bytes: the key of an index. Equal keys mean equal values.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let (kind, id) = match self {
            Self::Grant(id) => (b'g', id.as_bytes().as_slice()),
            Self::Token(id) => (b't', id.as_bytes().as_slice()),
            Self::LegacyToken(id) => (b'l', id.as_bytes().as_slice()),
            Self::Client(id) => (b'c', id.as_str().as_bytes()),
            Self::User(name) => (b'u', name.as_str().as_bytes()),
            Self::Issuer(issuer) => (b'i', issuer.as_bytes()),
            Self::Account {
                username,
                user_id,
                site,
            } => {
                // Lengths before texts: no two accounts have the same key.
                let mut key = vec![b'a'];
                for text in [username.as_str(), user_id, site] {
                    key.extend_from_slice(&(text.len() as u64).to_be_bytes());
                    key.extend_from_slice(text.as_bytes());
                }
                return key;
            }
        };
        [&[kind], id].concat()
    }
}

/// How long an entry means something: two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// When it was revoked: the latest `iat` of tokens that the entry concerns, if it concerns tokens by their `iat`.
    pub at: Timestamp,
    /// When every access token that the entry concerns has expired.
    pub expires_at: Timestamp,
}

impl Extent {
    /// The extent of a revocation at `at`, where the longest-lived token lives for `longest_token`.
    #[must_use]
    pub fn of(at: Timestamp, longest_token: Duration) -> Self {
        Self {
            at,
            expires_at: at + longest_token,
        }
    }

    /// The extent of the entry that is to be written for `revoked`, whose entry has the extent `existing` so far.
    /// `None` if that one says as much already.
    #[must_use]
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

/// A token, by everything that an entry of the feed may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenReference {
    /// `iss`.
    pub issuer: String,
    /// The token itself.
    pub token_id: TokenId,
    /// Claim `grant_id` of the token.
    pub grant_id: GrantId,
    /// Claim `client_id` of the token.
    pub client_id: ClientId,
    /// Whom it speaks for.
    pub subject: TokenSubject,
    /// When it was issued.
    pub issued_at: Timestamp,
}

/// Whom a token speaks for, as far as its claims say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSubject {
    /// A user, with the linked account if the token names it: tokens of the current flows.
    User {
        /// `sub`.
        username: Username,
        /// `user_id` and `user_site`; refresh tokens have none.
        account: Option<(String, String)>,
    },
    /// A linked account, whose user only the grant knows: access tokens of the legacy flow.
    Account {
        /// `sub`.
        user_id: String,
    },
}

impl TokenReference {
    /// What ends the token whenever it was issued.
    #[must_use]
    pub fn ended_by(&self) -> [Revoked; 2] {
        let itself = match self.subject {
            TokenSubject::User { .. } => Revoked::Token(self.token_id),
            TokenSubject::Account { .. } => Revoked::LegacyToken(self.token_id),
        };
        [Revoked::Grant(self.grant_id), itself]
    }

    /// What ends the token if it was issued up to the time of the entry.
    #[must_use]
    pub fn ended_up_to_a_time_by(&self) -> Vec<Revoked> {
        let mut all = vec![
            Revoked::Client(self.client_id.clone()),
            Revoked::Issuer(self.issuer.clone()),
        ];
        if let TokenSubject::User { username, account } = &self.subject {
            all.push(Revoked::User(username.clone()));
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

/// One entry of the revocation feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Position in the feed: strictly rising, never reused.
    pub sequence: u64,
    /// What is revoked.
    pub revoked: Revoked,
    /// When it was revoked.
    pub at: Timestamp,
    /// When every access token that it concerns has expired; the entry is swept after it.
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
