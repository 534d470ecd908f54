//! What an identity provider says of a person: ID tokens (OpenID Connect Core 1.0 §3.1.3.7), and logout tokens (OpenID Connect
//! Back-Channel Logout 1.0 §2.6). Neither is accepted in place of the other, and an access token of the provider in place of none.

use std::time::Duration;

use claims::json::{numeric_date, present};
use claims::token::ASSERTION_TYPE;
use serde_json::{Map, Value};

use crate::Context;
use crate::identity_provider::{IdentityProvider, Unavailable};
use crate::oauth::assertion::provider::ProviderToken;
use crate::oauth::assertion::{AssertionError, Unverified};
use crate::oauth::message::printable;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Identity, ProviderSignOut};

/// The `typ` of logout tokens; `JWT` and no `typ` are allowed too (OpenID Connect Back-Channel Logout 1.0 §2.4).
const LOGOUT_TYPE: &str = "logout+jwt";

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
    #[error("its aud is not exactly this service's client_id")]
    Audience,
    #[error("its azp is another client")]
    AuthorizedParty,
    #[error("it has expired")]
    Expired,
    #[error("its iat or nbf is in the future")]
    NotYetValid,
    /// Such as milliseconds: any age that a request allows would count as kept.
    #[error("its auth_time is in the future; it must be in seconds since 1970")]
    SignedInAhead,
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

/// The time here, and how far the clock of a provider may differ.
#[derive(Debug, Clone, Copy)]
struct Clock {
    now: Timestamp,
    skew: Duration,
}

impl Clock {
    const fn of(context: &Context<'_>) -> Self {
        Self {
            now: context.now,
            skew: context.settings.lifetimes.clock_skew,
        }
    }
}

/// The claims of a token that this provider signed for this service, and that is valid now.
struct Verified<'a> {
    claims: Map<String, Value>,
    provider: &'a IdentityProvider,
    issued_at: Timestamp,
    expires_at: Timestamp,
}

/// A token that this provider signed.
///
/// # Errors
/// A [`TokenRefusal`] of a token that somebody else may have made.
async fn signed<'t>(
    context: &Context<'_>,
    provider: &IdentityProvider,
    token: &'t str,
) -> Result<Unverified<'t>, TokenRefusal> {
    let token = Unverified::parse(token)?;
    // Before the keys are asked for: a token of somebody else causes no fetch.
    if present(token.claims(), "iss").and_then(Value::as_str) != Some(&provider.issuer) {
        return Err(TokenRefusal::Issuer);
    }
    let of_provider = ProviderToken::find(&token, provider, context.provider_keys).await?;
    of_provider.signature()?;
    Ok(token)
}

impl<'a> Verified<'a> {
    /// Checks a [`signed`] token. The token may name the type `typ` or `JWT`, or no type.
    fn of(
        provider: &'a IdentityProvider,
        token: Unverified<'_>,
        typ: Option<&str>,
        clock: Clock,
    ) -> Result<Self, TokenRefusal> {
        let header = token.header();
        let is_known = header.type_among([ASSERTION_TYPE].into_iter().chain(typ));
        if let (Some(named), None) = (&header.typ, is_known) {
            let named: String = named.chars().take(MAX_ID).collect();
            return Err(TokenRefusal::Type(printable(&named)));
        }
        let claims = token.into_claims();
        let Clock { now, skew } = clock;
        let issued_at = date(&claims, "iat")?.ok_or(TokenRefusal::Claim("iat"))?;
        let expires_at = date(&claims, "exp")?.ok_or(TokenRefusal::Claim("exp"))?;
        if now >= expires_at + skew {
            return Err(TokenRefusal::Expired);
        }
        if issued_at.max(date(&claims, "nbf")?.unwrap_or_default()) > now + skew {
            return Err(TokenRefusal::NotYetValid);
        }
        check_audience(&claims, provider)?;
        Ok(Self {
            claims,
            provider,
            issued_at,
            expires_at,
        })
    }

    fn text(&self, claim: &'static str, longest: usize) -> Result<Option<String>, TokenRefusal> {
        match present(&self.claims, claim) {
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

/// One `aud`, and `azp` the same if it is there: nobody else may use the token (OpenID Connect Core 1.0 §3.1.3.7).
fn check_audience(
    claims: &Map<String, Value>,
    provider: &IdentityProvider,
) -> Result<(), TokenRefusal> {
    let own = provider.client_id.as_deref();
    let audience = match present(claims, "aud") {
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
    match present(claims, "azp") {
        Some(party) if party.as_str() != own => Err(TokenRefusal::AuthorizedParty),
        _ => Ok(()),
    }
}

fn date(
    claims: &Map<String, Value>,
    claim: &'static str,
) -> Result<Option<Timestamp>, TokenRefusal> {
    let read = |value| numeric_date(value).ok_or(TokenRefusal::Claim(claim));
    let seconds = present(claims, claim).map(read).transpose()?;
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
    pub issued_at: Timestamp,
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
        let token = signed(context, provider, token).await?;
        Self::of(provider, token, nonce, Clock::of(context))
    }

    fn of(
        provider: &IdentityProvider,
        token: Unverified<'_>,
        nonce: &str,
        clock: Clock,
    ) -> Result<Self, TokenRefusal> {
        let verified = Verified::of(provider, token, None, clock)?;
        let claims = &verified.claims;
        let sent = present(claims, "nonce").and_then(Value::as_str);
        let sent = sent.unwrap_or_default();
        if Digest::of(sent.as_bytes()) != Digest::of(nonce.as_bytes()) {
            return Err(TokenRefusal::Nonce);
        }
        if present(claims, "events").is_some() {
            return Err(TokenRefusal::Logout);
        }
        let signed_in_at = date(claims, "auth_time")?.ok_or(TokenRefusal::Claim("auth_time"))?;
        if signed_in_at > clock.now + clock.skew {
            return Err(TokenRefusal::SignedInAhead);
        }
        let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
        let email = claims.get("email").and_then(Value::as_str);
        let methods = claims.get("amr").and_then(Value::as_array);
        let methods = methods.into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            identity: verified.identity()?,
            sid: verified.text("sid", MAX_ID)?,
            verified_email: email.filter(|_| is_verified).map(str::to_owned),
            amr: methods.map(str::to_owned).collect(),
            issued_at: verified.issued_at,
            signed_in_at,
        })
    }
}

/// A verified logout token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutToken {
    pub sign_out: ProviderSignOut,
    pub jti: String,
    /// The store keeps the `jti` until this time.
    pub remembered_until: Timestamp,
}

/// Why a logout token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct LogoutRefusal {
    pub why: TokenRefusal,
    /// The provider signed the token for this service, or it is a logout token: a setting of the provider does not fit, and a session that
    /// should end continues. Many people have other tokens of the provider, so these write no log.
    pub is_reported: bool,
}

impl LogoutToken {
    /// Verifies a logout token of `provider`. Tokens without `sub` are refused: grants are found by the person.
    ///
    /// # Errors
    /// A [`LogoutRefusal`].
    pub async fn verify(
        context: &Context<'_>,
        provider: &IdentityProvider,
        token: &str,
    ) -> Result<Self, LogoutRefusal> {
        let refusal = |is_reported| move |why| LogoutRefusal { why, is_reported };
        let token = signed(context, provider, token).await;
        let token = token.map_err(refusal(false))?;
        let claims = token.claims();
        let is_reported =
            present(claims, "events").is_some() || check_audience(claims, provider).is_ok();
        Self::of(provider, token, Clock::of(context)).map_err(refusal(is_reported))
    }

    fn of(
        provider: &IdentityProvider,
        token: Unverified<'_>,
        clock: Clock,
    ) -> Result<Self, TokenRefusal> {
        let verified = Verified::of(provider, token, Some(LOGOUT_TYPE), clock)?;
        let claims = &verified.claims;
        let event = present(claims, "events").and_then(|events| events.get(LOGOUT_EVENT));
        if !event.is_some_and(Value::is_object) {
            return Err(TokenRefusal::NoLogout);
        }
        if present(claims, "nonce").is_some() {
            return Err(TokenRefusal::NonceInLogout);
        }
        let Clock { now, skew } = clock;
        if now.since(verified.issued_at).as_secs() > MAX_LOGOUT_AGE {
            return Err(TokenRefusal::TooOld);
        }
        let jti = verified
            .text("jti", MAX_ID)?
            .ok_or(TokenRefusal::Claim("jti"))?;
        let oldest = Duration::from_secs(MAX_LOGOUT_AGE);
        Ok(Self {
            sign_out: ProviderSignOut {
                identity: verified.identity()?,
                sid: verified.text("sid", MAX_ID)?,
                at: verified.issued_at,
            },
            jti,
            // Later, the token is too old.
            remembered_until: (verified.issued_at + oldest).min(verified.expires_at) + skew,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    const NOW: u64 = 1_800_000_000;
    const CLOCK: Clock = Clock {
        now: Timestamp::from_seconds(NOW),
        skew: Duration::from_secs(30),
    };

    fn provider() -> IdentityProvider {
        IdentityProvider {
            id: "sso".to_owned(),
            issuer: "https://sso.example.com".to_owned(),
            name: "SSO".to_owned(),
            algorithms: Default::default(),
            email_domains: Vec::new(),
            link_by_email: false,
            client_id: Some("gatepass".to_owned()),
        }
    }

    /// A token with this header and these claims, one of them changed.
    fn token(header: Value, mut claims: Value, (name, value): (&str, Value)) -> String {
        claims[name] = value;
        let parts = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        format!("{}.AA", parts.join("."))
    }

    fn id_token(header: Value, change: (&str, Value)) -> Result<IdToken, TokenRefusal> {
        let claims = json!({
            "sub": "1", "aud": "gatepass", "iat": NOW, "exp": NOW + 60, "nonce": "n", "auth_time": NOW,
            "email": "ada@example.com",
        });
        let token = token(header, claims, change);
        IdToken::of(&provider(), Unverified::parse(&token)?, "n", CLOCK)
    }

    fn logout_token(header: Value, change: (&str, Value)) -> Result<LogoutToken, TokenRefusal> {
        let claims = json!({
            "sub": "1", "aud": "gatepass", "iat": NOW, "exp": NOW + 60, "jti": "1", "events": {LOGOUT_EVENT: {}},
        });
        let token = token(header, claims, change);
        LogoutToken::of(&provider(), Unverified::parse(&token)?, CLOCK)
    }

    /// D-10: null is absent.
    #[test]
    fn each_claim_is_checked() {
        use TokenRefusal as E;
        let check = |claim, value: Value, expected: [Option<E>; 2]| {
            let found = [
                id_token(json!({}), (claim, value.clone())).err(),
                logout_token(json!({}), (claim, value.clone())).err(),
            ];
            assert_eq!(found, expected, "{claim} {value}");
        };
        let fits = |claim, value| check(claim, value, [None, None]);
        let fits_neither =
            |claim, value, why: E| check(claim, value, [Some(why.clone()), Some(why)]);
        let is_no_id_token = |claim, value, why| check(claim, value, [Some(why), None]);
        let is_no_logout_token = |claim, value, why| check(claim, value, [None, Some(why)]);
        let (earliest, latest) = (NOW - MAX_LOGOUT_AGE, NOW + 30);
        fits("iat", json!(latest));
        fits_neither("iat", json!(latest + 1), E::NotYetValid);
        fits("iat", json!(earliest));
        is_no_logout_token("iat", json!(earliest - 1), E::TooOld);
        fits_neither("iat", json!(null), E::Claim("iat"));
        fits("nbf", json!(latest));
        fits("nbf", json!(null));
        fits_neither("nbf", json!(latest + 1), E::NotYetValid);
        fits("exp", json!(NOW - 29));
        fits_neither("exp", json!(NOW - 30), E::Expired);
        fits_neither("exp", json!("never"), E::Claim("exp"));
        fits_neither("exp", json!(null), E::Claim("exp"));
        fits("auth_time", json!(latest));
        for ahead in [latest + 1, NOW * 1000, 1 << 63] {
            is_no_id_token("auth_time", json!(ahead), E::SignedInAhead);
        }
        is_no_id_token("auth_time", json!(null), E::Claim("auth_time"));
        fits("aud", json!(["gatepass"]));
        for other in [
            json!("another"),
            json!(["gatepass", "another"]),
            json!(null),
        ] {
            fits_neither("aud", other, E::Audience);
        }
        fits("azp", json!("gatepass"));
        fits("azp", json!(null));
        fits_neither("azp", json!("another"), E::AuthorizedParty);
        fits("sub", json!("s".repeat(255)));
        for wrong in [json!("s".repeat(256)), json!(""), json!("a\n"), json!(null)] {
            fits_neither("sub", wrong, E::Claim("sub"));
        }
        fits("sid", json!(null));
        fits_neither("sid", json!(7), E::Claim("sid"));
        is_no_logout_token("jti", json!(null), E::Claim("jti"));
        is_no_id_token("nonce", json!(null), E::Nonce);
        check(
            "nonce",
            json!("another"),
            [Some(E::Nonce), Some(E::NonceInLogout)],
        );
        is_no_id_token("events", json!({LOGOUT_EVENT: {}}), E::Logout);
        check("events", json!({}), [Some(E::Logout), Some(E::NoLogout)]);
        is_no_logout_token("events", json!(null), E::NoLogout);
    }

    /// D-67.
    #[test]
    fn typ_is_a_media_type() {
        let unchanged = || ("sub", json!("1"));
        for (typ, is_id_token, is_logout_token) in [
            (json!(null), true, true),
            (json!("JWT"), true, true),
            (json!("jwt"), true, true),
            (json!("application/JWT"), true, true),
            (json!("LOGOUT+JWT"), false, true),
            (json!("application/logout+jwt"), false, true),
            (json!("at+jwt"), false, false),
        ] {
            let header = || json!({"typ": typ, "kid": null, "x5t": null});
            let found = id_token(header(), unchanged());
            assert_eq!(found.is_ok(), is_id_token, "{typ}: {found:?}");
            let found = logout_token(header(), unchanged());
            assert_eq!(found.is_ok(), is_logout_token, "{typ}: {found:?}");
        }
    }

    #[test]
    fn an_address_counts_if_the_provider_has_verified_it() {
        for (verified, counts) in [
            (json!(true), true),
            (json!(false), false),
            (json!("true"), false),
            (json!(null), false),
        ] {
            let read = id_token(json!({}), ("email_verified", verified.clone())).unwrap();
            let expected = counts.then_some("ada@example.com");
            assert_eq!(read.verified_email.as_deref(), expected, "{verified}");
        }
    }

    /// As Keycloak and Entra document them. Entra sends `auth_time` if it is asked for as an optional claim.
    #[test]
    fn documented_tokens_are_read() {
        for text in [
            include_str!("../oauth/assertion/identity/keycloak.json"),
            include_str!("../oauth/assertion/identity/entra.json"),
        ] {
            let documented: Value = serde_json::from_str(text).unwrap();
            let part = |name: &str| {
                (
                    documented[name]["header"].clone(),
                    documented[name]["claims"].clone(),
                )
            };
            let (header, claims) = part("id_token");
            let text = |claim: &str| claims[claim].as_str().unwrap().to_owned();
            let provider = IdentityProvider {
                client_id: Some(text("aud")),
                ..provider()
            };
            let id_token = token(header, claims.clone(), ("auth_time", json!(NOW - 10)));
            let id_token = Unverified::parse(&id_token).unwrap();
            let read = IdToken::of(&provider, id_token, &text("nonce"), CLOCK).unwrap();
            assert_eq!(read.identity.subject, text("sub"));
            let (header, claims) = part("logout_token");
            if claims.is_object() {
                let logout_token = token(header, claims.clone(), ("nonce", Value::Null));
                let logout_token = Unverified::parse(&logout_token).unwrap();
                let read = LogoutToken::of(&provider, logout_token, CLOCK).unwrap();
                assert_eq!(read.sign_out.sid.as_deref(), claims["sid"].as_str());
            }
        }
    }
}
