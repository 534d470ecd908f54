//! Signing in with an identity provider: the authorization code flow with PKCE, `state` and `nonce` (OpenID Connect Core 1.0
//! §3.1, RFC 9700 §2.1). What the service must remember until the browser comes back is sealed in `state`, so that every replica can
//! receive the browser, and nothing is stored for people who do not come back.

pub mod id_token;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::Context;
use crate::identity_provider::IdentityProvider;
use crate::sign_in::session::Proven;
use crate::sign_in::throttle::{Attempt, Guess};
use crate::sign_in::{Place, SessionId, SignInError, SignInOutcome, after_first_factor, begin};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random::{self, RandomError};
use domain::{ProviderSignIn, User, amr};
use id_token::IdToken;
use secrets::sealing::{SealingError, open_text, seal_text};
use store::row::{self, Row};
use store::{OnceId, StoreError, Use};

/// Time that a person may take at the provider.
pub const TIME_AT_PROVIDER: Duration = Duration::from_mins(30);

/// Longest `state`, in bytes. Servers accept requests of 8 KiB, and the address has more than the `state`.
const MAX_STATE_BYTES: usize = 6 * 1024;

/// The `max_age` of a request that does not ask for a recent sign-in, in seconds: with it, the ID token must have `auth_time` (OpenID
/// Connect Core 1.0 §2).
const ANY_AGE: u64 = 30 * 24 * 60 * 60;

/// A sign-in that has to be this recent, in seconds, is asked for by `prompt=login`.
const ASKED_AGAIN: u64 = 60;

const SEALED_FOR: &str = "sign-in at a provider";

/// A sign-in that has begun: the content of `state`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// [`IdentityProvider::id`].
    pub provider: String,
    /// Path and query of the request for which the person signs in.
    pub continuation: String,
    pub nonce: String,
    pub code_verifier: String,
    /// Digest of the secret in the cookie of the browser that must come back (RFC 9700 §4.7).
    browser: Digest,
    /// The host of the legacy instance on which the person left: the browser has its cookie there, and the provider knows only
    /// the issuer.
    pub host: Option<String>,
    began_at: Timestamp,
    /// The person must have signed in at the provider at this time or later.
    oldest: Option<Timestamp>,
}

/// Not a row, but the content of `state`, which has the same form: replicas of two versions receive each other's browsers.
impl Row for Departure {
    const VERSION: u8 = 1;
}

/// As for codes: a service with a copy of the store and another issuer has the same keys. No issuer contains a space.
fn sealed_for(context: &Context<'_>) -> String {
    format!("{SEALED_FOR} {}", context.settings.issuer)
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DepartureError {
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Sealing(#[from] SealingError),
    #[error("the authorization request is too long to be carried to an identity provider")]
    TooLong,
}

/// What leads to the provider.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// [`Departure::continuation`].
    pub continuation: &'a str,
    /// [`Departure::oldest`](Departure).
    pub oldest: Option<Timestamp>,
    pub login_hint: Option<&'a str>,
    /// [`Departure::host`].
    pub host: Option<&'a str>,
    /// The secret in the cookie of the browser.
    pub browser: &'a str,
}

/// The address of the provider's authorization `endpoint` with the request (OpenID Connect Core 1.0 §3.1.2.1).
///
/// # Errors
/// A [`DepartureError`].
pub fn depart(
    context: &Context<'_>,
    provider: &IdentityProvider,
    endpoint: &Url,
    wish: Wish<'_>,
) -> Result<Url, DepartureError> {
    let departure = Departure {
        provider: provider.id.clone(),
        continuation: wish.continuation.to_owned(),
        nonce: random::text::<32>(context.random)?,
        code_verifier: random::text::<32>(context.random)?,
        browser: Digest::of(wish.browser.as_bytes()),
        host: wish.host.map(str::to_owned),
        began_at: context.now,
        oldest: wish.oldest,
    };
    let nonce = random::bytes(context.random)?;
    let content = row::encode(&departure).map_err(|_| SealingError::Failed)?;
    let state = seal_text(
        &sealed_for(context),
        nonce,
        &content,
        context.encryption_key,
    )?;
    if state.len() > MAX_STATE_BYTES {
        return Err(DepartureError::TooLong);
    }
    let asks_again = departure.asks_again();
    let max_age = departure.age().filter(|_| !asks_again);
    let max_age = max_age.unwrap_or(ANY_AGE);
    let scope = match provider.link_by_email {
        true => "openid email",
        false => "openid",
    };
    let mut address = endpoint.clone();
    address
        .query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair(
            "client_id",
            provider.client_id.as_deref().unwrap_or_default(),
        )
        .append_pair(
            "redirect_uri",
            &provider.redirect_uri(&context.settings.issuer),
        )
        .append_pair("scope", scope)
        .append_pair("state", &state)
        .append_pair("nonce", &departure.nonce)
        .append_pair(
            "code_challenge",
            &Digest::of(departure.code_verifier.as_bytes()).to_base64url(),
        )
        .append_pair("code_challenge_method", "S256")
        .append_pair("max_age", &max_age.to_string())
        .extend_pairs(asks_again.then_some(("prompt", "login")))
        .extend_pairs(wish.login_hint.map(|hint| ("login_hint", hint)));
    Ok(address)
}

impl Departure {
    /// Reads the `state` with which a browser comes back. `None` if this service did not make it, or if the person took too long.
    pub fn of(context: &Context<'_>, state: &str) -> Option<Self> {
        let content = open_text(&sealed_for(context), state, context.encryption_key)?;
        let departure: Self = row::decode(&content).ok()?;
        let is_in_time = context.now < departure.began_at + TIME_AT_PROVIDER;
        is_in_time.then_some(departure)
    }

    /// True if the browser with this secret left. No other may go on with this sign-in.
    pub fn is_of(&self, browser: &str) -> bool {
        self.browser == Digest::of(browser.as_bytes())
    }

    /// Marks the departure as come back from.
    ///
    /// # Errors
    /// [`StoreError`] if nobody knows whether it was before.
    pub async fn come_back(&self, context: &Context<'_>) -> Result<Use, StoreError> {
        let id = OnceId::of_provider_sign_in(&self.nonce);
        let until = self.began_at + TIME_AT_PROVIDER + context.settings.lifetimes.clock_skew;
        context.store.use_once(id, until, context.now).await
    }

    /// Longest age of a sign-in at the provider that counts, in seconds.
    fn age(&self) -> Option<u64> {
        let oldest = self.oldest?;
        Some(self.began_at.since(oldest).as_secs())
    }

    /// True if the provider was asked to sign in the person again.
    pub fn asks_again(&self) -> bool {
        self.age().is_some_and(|age| age < ASKED_AGAIN)
    }

    /// The sign-in that the provider answered with `token`. The request with the answer came at `came_at`, and the token at `token_at`.
    pub fn answered_by(
        &self,
        token: &IdToken,
        came_at: Timestamp,
        token_at: Timestamp,
        clock_skew: Duration,
    ) -> ProviderSignIn {
        // The time since the departure by this clock, and the age of the sign-in by the provider's: no difference of the clocks counts.
        let began_at = token.issued_at.before(token_at.since(self.began_at));
        let age = token.issued_at.since(token.signed_in_at);
        let proven_since = came_at.before(age).min(token.signed_in_at);
        ProviderSignIn {
            identity: token.identity.clone(),
            sid: token.sid.clone(),
            // Before its departure too, a person who signed in after a sign-out is not under way.
            began_at: began_at.max(token.signed_in_at),
            // The browser carries `prompt=login`, and could leave it out.
            proven_since: match self.asks_again()
                && self.is_followed_by(token.signed_in_at, clock_skew)
            {
                true => proven_since.max(self.began_at),
                false => proven_since,
            },
        }
    }

    /// True if the person signed in at the provider after this departure. The clocks of provider and service differ.
    fn is_followed_by(&self, auth_time: Timestamp, clock_skew: Duration) -> bool {
        auth_time + clock_skew >= self.began_at
    }

    /// When the person signed in, according to `auth_time` of the ID token. `None` if the provider was asked for a more recent
    /// sign-in.
    pub fn signed_in_at(
        &self,
        auth_time: Timestamp,
        now: Timestamp,
        clock_skew: Duration,
    ) -> Option<Timestamp> {
        if self.is_followed_by(auth_time, clock_skew) {
            return Some(now);
        }
        let any = Timestamp::from_seconds(self.began_at.seconds().saturating_sub(ANY_AGE));
        (auth_time >= self.oldest.unwrap_or(any)).then_some(auth_time)
    }
}

/// Counts what a browser at `place` brings from `provider` as failed, unless the attempt is [`forgiven`](Attempt::forgive) or
/// [`taken back`](Attempt::take_back). Otherwise returns the time to wait. A browser in which somebody has signed in does not wait for
/// others at its address.
///
/// # Errors
/// [`StoreError`] if nothing is counted.
pub async fn count_answer<'a>(
    context: &'a Context<'a>,
    provider: &IdentityProvider,
    place: &Place,
) -> Result<Result<Attempt<'a>, Duration>, StoreError> {
    let guess = Guess::ProviderAnswer(&provider.id);
    let device = place
        .devices
        .of_anybody(context.encryption_key, context.now);
    Attempt::admit(context, guess, place.address, device.as_ref()).await
}

/// A person whom a provider has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub sign_in: ProviderSignIn,
    /// `amr` of the ID token.
    pub amr: Vec<String>,
    pub signed_in_at: Timestamp,
}

/// Begins a session for `user`, to whom the identity of `arrival` is linked. The session in `replaces` ends. If the user has a second
/// factor here, the session owes it, whatever the provider has asked for.
///
/// # Errors
/// A [`SignInError`]; no session begins.
pub async fn arrive(
    context: &Context<'_>,
    user: &User,
    arrival: Arrival,
    replaces: Option<&SessionId>,
    place: &Place,
) -> Result<SignInOutcome, SignInError> {
    // The copy in memory may be older than a change.
    let credentials = context.store.credentials(user.username.clone()).await?;
    let Some(credentials) = credentials else {
        return Ok(SignInOutcome::Refused(Some(user.username.clone())));
    };
    let stage = after_first_factor(&credentials);
    let proven = Proven {
        username: credentials.username,
        amr: amr::of_provider(&arrival.amr),
        credentials_version: credentials.version,
        place: place.in_words(),
        provider: Some(arrival.sign_in),
        origin: None,
        as_old_as: arrival.signed_in_at,
    };
    begin(context, proven, stage, replaces, place).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    fn departure(oldest: Option<Timestamp>) -> Departure {
        Departure {
            provider: "sso".to_owned(),
            continuation: "/auth/".to_owned(),
            nonce: "n".to_owned(),
            code_verifier: "v".to_owned(),
            browser: Digest::from_bytes([5; 32]),
            host: None,
            began_at: at(1000),
            oldest,
        }
    }

    const SKEW: Duration = Duration::from_secs(30);

    #[test]
    fn a_sign_in_is_as_old_as_the_provider_says() {
        let now = at(1060);
        for (oldest, auth_time, expected) in [
            (None, 0, Some(at(0))),
            (None, 969, Some(at(969))),
            // On the way, by a clock that is up to 30 seconds behind or ahead.
            (None, 970, Some(now)),
            (None, 2000, Some(now)),
            (Some(1000), 969, None),
            (Some(1000), 970, Some(now)),
            (Some(500), 499, None),
            (Some(500), 500, Some(at(500))),
        ] {
            let departure = departure(oldest.map(at));
            let found = departure.signed_in_at(at(auth_time), now, SKEW);
            assert_eq!(found, expected, "{oldest:?} {auth_time}");
        }
    }

    /// D-65, D-66: by whichever clock.
    #[test]
    fn a_sign_in_is_dated_by_both_clocks() {
        let token = |issued_at, signed_in_at| IdToken {
            identity: domain::testing::identity("1"),
            sid: None,
            verified_email: None,
            amr: Vec::new(),
            issued_at: at(issued_at),
            signed_in_at: at(signed_in_at),
        };
        // The departure is at 1000, the return at 1060, and the token three seconds later.
        for (oldest, issued_at, auth_time, began_at, proven_since) in [
            // Signed in long before, there and here at the same time.
            (None, 1062, 200, 999, 198),
            // The clock of the provider is 20 seconds ahead, or behind.
            (None, 1082, 220, 1019, 198),
            (None, 1042, 180, 979, 180),
            // On the way.
            (None, 1062, 1010, 1010, 1008),
            (Some(500), 1062, 600, 999, 598),
            // Asked to sign in again, whatever the clock of the provider says.
            (Some(1000), 1062, 1010, 1010, 1008),
            (Some(1000), 1042, 990, 990, 1000),
            // Asked, and the browser left the question out.
            (Some(950), 1062, 955, 999, 953),
        ] {
            let departure = departure(oldest.map(at));
            let sign_in =
                departure.answered_by(&token(issued_at, auth_time), at(1060), at(1063), SKEW);
            let found = (sign_in.began_at, sign_in.proven_since);
            let expected = (at(began_at), at(proven_since));
            assert_eq!(found, expected, "{oldest:?} {issued_at} {auth_time}");
        }
    }

    /// If this fails, the layout has changed: see [`domain::Layout`].
    #[test]
    fn the_layout_is_known() {
        let content = row::encode(&departure(Some(at(5)))).unwrap();
        let known = [
            &b"\x01\x03sso\x06/auth/\x01n\x01v"[..],
            &[5; 32],
            &[0],
            &[0xe8, 0xab, 0xa7, 0xda, 6, 1, 0x85, 0xa4, 0xa7, 0xda, 6],
        ];
        assert_eq!(content, known.concat());
        assert_eq!(row::decode(&content), Ok(departure(Some(at(5)))));
    }
}
