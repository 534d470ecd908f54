//! Identity service tokens, which access tokens contain (protocol.md §2.2). Each is signed once and reused while fresh.
//!
//! The claims of an identity token depend only on the user. If a client requests many access tokens for one user within
//! a short time, all of them contain the same identity token, which halves the number of signatures.

use std::sync::Arc;
use std::time::Duration;

use claims::token::{IDENTITY_TOKEN_TYPE, IdentityTokenClaims};
use quick_cache::sync::Cache;

use super::jwt::sign;
use super::key::{KeyError, SigningKey};
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Client, ClientId, TokenId, User, Username};

/// Maximum number of cached tokens, at about 600 bytes each.
const CACHED: usize = 4096;

/// An identity token is reused for this part (one sixtieth) of the access token's lifetime.
const FRESH_PART: u32 = 60;

/// Time for which an identity token is reused: one minute if access tokens are valid for one hour.
pub(super) fn fresh_for(settings: &Settings) -> Duration {
    Duration::from_secs((settings.lifetimes.access_token / FRESH_PART).as_secs())
}

/// Lifetime of an identity token. An identity token never expires before an access token that contains it.
pub(super) fn lifetime(settings: &Settings) -> Duration {
    settings.lifetimes.access_token + fresh_for(settings)
}

/// A token and the objects that it was signed for. These are compared by identity, not by equality: a changed client,
/// user or key is another object, which invalidates all earlier tokens.
#[derive(Debug, Clone)]
struct Fresh {
    client: Arc<Client>,
    user: Arc<User>,
    key: Arc<SigningKey>,
    issued_at: Timestamp,
    token: Arc<str>,
}

/// Cache of recent identity tokens. A token that is not in the cache is signed again when needed.
#[derive(Debug)]
pub struct IdentityTokens(Cache<(ClientId, Username), Fresh>);

impl Default for IdentityTokens {
    fn default() -> Self {
        Self(Cache::new(CACHED))
    }
}

impl IdentityTokens {
    /// An identity token of `user` for `client` at `now`. A new token is signed with `key` and has `id` as its `jti`.
    pub fn token(
        &self,
        settings: &Settings,
        key: &Arc<SigningKey>,
        client: &Arc<Client>,
        user: &Arc<User>,
        id: TokenId,
        now: Timestamp,
    ) -> Result<Arc<str>, KeyError> {
        let names = (client.client_id.clone(), user.username.clone());
        if let Some(fresh) = self.0.get(&names)
            && Arc::ptr_eq(&fresh.client, client)
            && Arc::ptr_eq(&fresh.user, user)
            && Arc::ptr_eq(&fresh.key, key)
            && (fresh.issued_at..=fresh.issued_at + fresh_for(settings)).contains(&now)
        {
            return Ok(fresh.token);
        }
        let token: Arc<str> =
            identity_token(settings, key, &user.username, id, now, lifetime(settings))?.into();
        let fresh = Fresh {
            client: Arc::clone(client),
            user: Arc::clone(user),
            key: Arc::clone(key),
            issued_at: now,
            token: Arc::clone(&token),
        };
        self.0.insert(names, fresh);
        Ok(token)
    }

    /// Removes the token of this user and client, because an access token that contains the token was revoked.
    pub fn forget(&self, client: &ClientId, user: &Username) {
        self.0.remove(&(client.clone(), user.clone()));
    }
}

pub(super) fn identity_token(
    settings: &Settings,
    key: &SigningKey,
    user: &Username,
    id: TokenId,
    issued_at: Timestamp,
    lifetime: Duration,
) -> Result<String, KeyError> {
    let claims = IdentityTokenClaims {
        iss: settings.identity_audience.as_str(),
        aud: &settings.identity_audience,
        sub: user.as_str(),
        iat: issued_at.seconds(),
        exp: (issued_at + lifetime).seconds(),
        jti: &id.to_string(),
    };
    sign(key, IDENTITY_TOKEN_TYPE, &claims)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use claims::Algorithm;

    use super::*;
    use domain::IntegrationKind;
    use system::OsRandom;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    struct Parties {
        settings: Settings,
        key: Arc<SigningKey>,
        client: Arc<Client>,
        user: Arc<User>,
        tokens: IdentityTokens,
    }

    fn key() -> Arc<SigningKey> {
        let pkcs8 = SigningKey::generate_pkcs8(Algorithm::EdDsa).unwrap();
        Arc::new(SigningKey::from_pkcs8(Algorithm::EdDsa, &pkcs8).unwrap())
    }

    impl Parties {
        fn new() -> Self {
            let username = Username::parse("ada@example.com").unwrap();
            let client_id = ClientId::parse("client").unwrap();
            Self {
                settings: Settings::default(),
                key: key(),
                client: Arc::new(Client::new(client_id, IntegrationKind::UserBound)),
                user: Arc::new(User::new(username)),
                tokens: IdentityTokens::default(),
            }
        }

        fn at(&self, seconds: u64) -> Arc<str> {
            let id = TokenId::generate(&OsRandom).unwrap();
            let now = NOW + Duration::from_secs(seconds);
            self.tokens
                .token(&self.settings, &self.key, &self.client, &self.user, id, now)
                .unwrap()
        }
    }

    #[test]
    fn one_is_embedded_while_it_is_fresh_and_outlives_what_it_is_in() {
        let parties = Parties::new();
        let first = parties.at(0);
        assert_eq!(parties.at(60), first);
        assert_ne!(parties.at(61), first);
        let body = first.split('.').nth(1).unwrap();
        let claims: IdentityTokenClaims =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap();
        let last_access_token =
            NOW + Duration::from_secs(60) + parties.settings.lifetimes.access_token;
        assert_eq!(claims.iat, NOW.seconds());
        assert_eq!(claims.exp, last_access_token.seconds());
    }

    #[test]
    fn a_clock_that_was_set_back_finds_none() {
        let parties = Parties::new();
        let later = parties.at(30);
        assert_ne!(parties.at(29), later);
    }

    /// Equality is not enough: the user may have been disabled between two equal registrations.
    #[test]
    fn none_outlives_its_registry_its_key_or_a_revocation() {
        let mut parties = Parties::new();
        let mut last = parties.at(0);
        let mut differs = |parties: &Parties, why: &str| {
            let next = parties.at(0);
            assert_ne!(next, last, "{why}");
            assert_eq!(parties.at(0), next, "{why}");
            last = next;
        };
        parties.client = Arc::new((*parties.client).clone());
        differs(&parties, "the client was registered anew");
        parties.user = Arc::new((*parties.user).clone());
        differs(&parties, "the user was registered anew");
        parties.key = key();
        differs(&parties, "the keys were rotated");
        parties
            .tokens
            .forget(&parties.client.client_id, &parties.user.username);
        differs(&parties, "a token was revoked");
    }
}
