//! What an identity provider says of a person: ID tokens (OpenID Connect Core 1.0 §3.1.3.7), and logout tokens (OpenID Connect
//! Back-Channel Logout 1.0 §2.6). Neither is accepted in place of the other, and an access token of the provider in place of none.

use claims::json::numeric_date;
use serde_json::{Map, Value};

use crate::Context;
use crate::identity_provider::{IdentityProvider, Unavailable};
use crate::oauth::assertion::provider::ProviderToken;
use crate::oauth::assertion::{AssertionError, Unverified};
use crate::oauth::message::printable;
use domain::Identity;
use domain::clock::Timestamp;
use domain::digest::Digest;

/// The member of `events` that makes a token a logout token.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Oldest logout token that is accepted, in seconds since `iat`, and the longest time to its `exp`.
const MAX_LOGOUT_AGE: u64 = 5 * 60;

/// Longest `sid` and `jti`, in bytes.
const MAX_ID: usize = 255;

/// Why a token of a provider is refused, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Form, algorithm, key or signature.
    #[error(transparent)]
    Signed(#[from] AssertionError),
    #[error("its typ is {0}")]
    Type(String),
    #[error("{0} is missing or has the wrong type")]
    Claim(&'static str),
    #[error("its iss is another one")]
    Issuer,
    #[error("its aud is not this service's client_id alone")]
    Audience,
    #[error("its azp is another client")]
    AuthorizedParty,
    #[error("it has expired")]
    Expired,
    #[error("its iat or nbf is in the future")]
    NotYetValid,
    #[error("it is older than {MAX_LOGOUT_AGE} s")]
    TooOld,
    #[error("its nonce is not that of this sign-in")]
    Nonce,
    #[error("it has a nonce, which logout tokens may not have")]
    NonceInLogout,
    #[error("its events do not contain {LOGOUT_EVENT}")]
    NoLogout,
    #[error("it has events: a logout token is no ID token")]
    Logout,
}

/// The claims of a token that this provider signed for this service, and that is valid now.
struct Verified<'a> {
    claims: Map<String, Value>,
    provider: &'a IdentityProvider,
    issued_at: Timestamp,
    expires_at: Timestamp,
}

impl<'a> Verified<'a> {
    /// `typ` is the type that the token may name, beside `JWT` and none.
    async fn of(
        context: &Context<'_>,
        provider: &'a IdentityProvider,
        token: &str,
        typ: Option<&str>,
    ) -> Result<Self, TokenRefusal> {
        let token = Unverified::parse(token)?;
        match token.typ() {
            Some(named) if named != "JWT" && Some(named) != typ => {
                let named: String = named.chars().take(MAX_ID).collect();
                return Err(TokenRefusal::Type(printable(&named)));
            }
            _ => {}
        }
        // Before the keys are asked for: a token of somebody else causes no fetch.
        if token.claims().get("iss").and_then(Value::as_str) != Some(&provider.issuer) {
            return Err(TokenRefusal::Issuer);
        }
        let signed = ProviderToken::find(&token, provider, context.provider_keys).await?;
        signed.signature()?;
        let claims = token.into_claims();
        let (now, skew) = (context.now, context.settings.lifetimes.clock_skew);
        let issued_at = date(&claims, "iat")?.ok_or(TokenRefusal::Claim("iat"))?;
        let expires_at = date(&claims, "exp")?.ok_or(TokenRefusal::Claim("exp"))?;
        if now >= expires_at + skew {
            return Err(TokenRefusal::Expired);
        }
        if issued_at.max(date(&claims, "nbf")?.unwrap_or_default()) > now + skew {
            return Err(TokenRefusal::NotYetValid);
        }
        let verified = Self {
            claims,
            provider,
            issued_at,
            expires_at,
        };
        verified.check_audience()?;
        Ok(verified)
    }

    /// One `aud`, and `azp` the same if it is there: nobody else may use the token (OpenID Connect Core 1.0 §3.1.3.7).
    fn check_audience(&self) -> Result<(), TokenRefusal> {
        let own = self.provider.client_id.as_deref();
        let audience = match self.claims.get("aud") {
            Some(Value::String(audience)) => Some(audience.as_str()),
            Some(Value::Array(list)) => match list.as_slice() {
                [Value::String(only)] => Some(only.as_str()),
                _ => None,
            },
            _ => None,
        };
        if own.is_none() || audience != own {
            return Err(TokenRefusal::Audience);
        }
        match self.claims.get("azp") {
            Some(party) if party.as_str() != own => Err(TokenRefusal::AuthorizedParty),
            _ => Ok(()),
        }
    }

    fn text(&self, claim: &'static str, longest: usize) -> Result<Option<String>, TokenRefusal> {
        match self.claims.get(claim) {
            None => Ok(None),
            Some(Value::String(text)) if (1..=longest).contains(&text.len()) => {
                Ok(Some(text.clone()))
            }
            Some(_) => Err(TokenRefusal::Claim(claim)),
        }
    }

    fn identity(&self) -> Result<Identity, TokenRefusal> {
        let subject = self.text("sub", Identity::MAX_SUBJECT)?;
        Ok(Identity {
            issuer: self.provider.issuer.clone(),
            subject: subject
                .filter(|subject| !subject.chars().any(char::is_control))
                .ok_or(TokenRefusal::Claim("sub"))?,
        })
    }
}

fn date(
    claims: &Map<String, Value>,
    claim: &'static str,
) -> Result<Option<Timestamp>, TokenRefusal> {
    let read = |value| numeric_date(value).ok_or(TokenRefusal::Claim(claim));
    let seconds = claims.get(claim).map(read).transpose()?;
    Ok(seconds.map(Timestamp::from_seconds))
}

/// A verified ID token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdToken {
    pub identity: Identity,
    pub sid: Option<String>,
    /// `email`, if `email_verified` is true in the same token.
    pub verified_email: Option<String>,
    pub amr: Vec<String>,
    /// `auth_time`: when the person signed in at the provider.
    pub signed_in_at: Timestamp,
}

impl IdToken {
    /// Verifies an ID token from the token endpoint of `provider`, for the sign-in with this `nonce`.
    ///
    /// # Errors
    /// A [`TokenRefusal`].
    pub async fn verify(
        context: &Context<'_>,
        provider: &IdentityProvider,
        token: &str,
        nonce: &str,
    ) -> Result<Self, TokenRefusal> {
        let verified = Verified::of(context, provider, token, None).await?;
        let claims = &verified.claims;
        let sent = claims
            .get("nonce")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if Digest::of(sent.as_bytes()) != Digest::of(nonce.as_bytes()) {
            return Err(TokenRefusal::Nonce);
        }
        if claims.contains_key("events") {
            return Err(TokenRefusal::Logout);
        }
        let signed_in_at = date(claims, "auth_time")?.ok_or(TokenRefusal::Claim("auth_time"))?;
        let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
        let email = claims.get("email").and_then(Value::as_str);
        let methods = claims.get("amr").and_then(Value::as_array);
        let methods = methods.into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            identity: verified.identity()?,
            sid: verified.text("sid", MAX_ID)?,
            verified_email: email.filter(|_| is_verified).map(str::to_owned),
            amr: methods.map(str::to_owned).collect(),
            signed_in_at,
        })
    }
}

/// A verified logout token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutToken {
    pub identity: Identity,
    /// The session at the provider that ended; `None` if all of the person ended.
    pub sid: Option<String>,
    pub jti: String,
    /// The store keeps the `jti` until this time.
    pub remembered_until: Timestamp,
}

impl LogoutToken {
    /// Verifies a logout token of `provider`. Tokens without `sub` are refused: grants are found by the person.
    ///
    /// # Errors
    /// A [`TokenRefusal`].
    pub async fn verify(
        context: &Context<'_>,
        provider: &IdentityProvider,
        token: &str,
    ) -> Result<Self, TokenRefusal> {
        let verified = Verified::of(context, provider, token, Some("logout+jwt")).await?;
        let claims = &verified.claims;
        let event = claims
            .get("events")
            .and_then(|events| events.get(LOGOUT_EVENT));
        if !event.is_some_and(Value::is_object) {
            return Err(TokenRefusal::NoLogout);
        }
        if claims.contains_key("nonce") {
            return Err(TokenRefusal::NonceInLogout);
        }
        let (now, skew) = (context.now, context.settings.lifetimes.clock_skew);
        if now.since(verified.issued_at).as_secs() > MAX_LOGOUT_AGE {
            return Err(TokenRefusal::TooOld);
        }
        let jti = verified
            .text("jti", MAX_ID)?
            .ok_or(TokenRefusal::Claim("jti"))?;
        let oldest = std::time::Duration::from_secs(MAX_LOGOUT_AGE);
        Ok(Self {
            identity: verified.identity()?,
            sid: verified.text("sid", MAX_ID)?,
            jti,
            // Later, the token is too old.
            remembered_until: (verified.issued_at + oldest).min(verified.expires_at) + skew,
        })
    }
}
