//! Client assertions: a client authenticates with a signature in place of a secret (protocol.md §5.12, D-46, RFC 7523
//! §2.2).

use std::time::Duration;

use claims::{CompactJws, JoseHeader};
use serde_json::{Map, Value};

use super::AssertionError;
use super::checks::{
    check_audience, check_expiry, check_id, check_issuer, check_not_ahead, parse, required_text,
    text,
};
use super::claim::Claim;
use super::explanation::{Check, common};
use crate::paths::TOKEN;
use crate::settings::Settings;
use domain::client_key::AssertionAudience;
use domain::clock::Timestamp;
use domain::{Client, ClientKey};

/// The value of `client_assertion_type` (RFC 7523 §2.2).
pub const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Longest time from now to `exp`.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// The `typ` that the successor of RFC 7523 requires. Libraries send `JWT` or nothing.
const OWN_TYPE: &str = "client-authentication+jwt";

const TYPES: [&str; 2] = ["JWT", OWN_TYPE];

/// A client assertion that nobody has verified yet.
#[derive(Debug)]
pub struct Unverified<'a> {
    jws: CompactJws<'a>,
    claims: Map<String, Value>,
}

/// A verified client assertion. The `jti` is not claimed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAssertion {
    /// Id for single use.
    pub jti: String,
    /// The store keeps the `jti` until this time: `exp` plus the clock skew (RFC 7523 §3).
    pub remembered_until: Timestamp,
}

impl<'a> Unverified<'a> {
    /// # Errors
    /// [`AssertionError::Malformed`].
    pub fn parse(assertion: &'a str) -> Result<Self, AssertionError> {
        let jws = parse(assertion)?;
        let claims = jws.claims().map_err(AssertionError::Malformed)?;
        Ok(Self { jws, claims })
    }

    /// The client that the assertion claims to come from.
    ///
    /// # Errors
    /// [`AssertionError`] if the assertion names no client, or two.
    pub fn client_id(&self) -> Result<&str, AssertionError> {
        let issuer = required_text(&self.claims, Claim::Issuer)?;
        let subject = required_text(&self.claims, Claim::Subject)?;
        if subject == issuer {
            Ok(issuer)
        } else {
            Err(AssertionError::SubjectDiffers(subject.to_owned()))
        }
    }

    /// Verifies the assertion against the keys of `client`, whose Client ID is [`Self::client_id`].
    ///
    /// Limits: `exp` itself is already too late, and may be at most ten minutes ahead; `iat` and `nbf` may be absent, and may
    /// be `clock_skew` ahead. The key is always a registered key and verifies only its own algorithm (RFC 8725 §3.1, §3.10).
    ///
    /// # Errors
    /// The [`AssertionError`] of the first failed check.
    pub fn verify(
        &self,
        client: &Client,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<ClientAssertion, AssertionError> {
        let Self { jws, claims } = self;
        check_type(&jws.header)?;
        let key = find_key(&jws.header, &client.key_authentication.keys)?;
        check_algorithm(&jws.header, key)?;
        check_issuer(claims, &client.client_id)?;
        self.client_id()?;
        check_audience(claims, &expected_audience(client, settings))?;
        let expires_at = check_expiry(claims, LONGEST, now)?;
        check_not_ahead(claims, Claim::IssuedAt, settings, now)?;
        check_not_ahead(claims, Claim::NotBefore, settings, now)?;
        let jti = check_id(claims)?;
        check_signature(jws, key)?;
        Ok(ClientAssertion {
            jti: jti.to_owned(),
            remembered_until: expires_at + settings.lifetimes.clock_skew,
        })
    }

    /// True if this looks like a client assertion rather than a user assertion: by its `typ`, because it is about the
    /// client itself (no Client ID is a username), or by its audience.
    pub fn is_likely(&self, settings: &Settings) -> bool {
        let text = |claim| text(&self.claims, claim).ok().flatten();
        let endpoint = token_endpoint(settings);
        let audiences = [settings.issuer.as_str(), &endpoint];
        self.jws.header.typ.as_deref() == Some(OWN_TYPE)
            || text(Claim::Issuer).is_some_and(|issuer| text(Claim::Subject) == Some(issuer))
            || audiences
                .iter()
                .any(|audience| check_audience(&self.claims, audience).is_ok())
    }

    /// Runs all checks of [`Self::verify`] with the same functions.
    pub fn explain(&self, client: &Client, settings: &Settings, now: Timestamp) -> Vec<Check> {
        let Self { jws, claims } = self;
        let typ = jws.header.typ.as_deref().unwrap_or("absent");
        let key = find_key(&jws.header, &client.key_authentication.keys);
        let mut checks = vec![
            Check::of("typ", check_type(&jws.header).map(|()| typ)),
            Check::of("key", key.clone().map(|key| &key.kid)),
        ];
        // Without a key these checks have no input; the missing key is the cause.
        if let Ok(key) = key {
            let algorithm = check_algorithm(&jws.header, key);
            let algorithm = algorithm.map(|()| key.public_key.algorithm().name());
            let signature = check_signature(jws, key).map(|()| "the key's");
            checks.push(Check::of("alg", algorithm));
            checks.push(Check::of("signature", signature));
        }
        let issued_at = check_not_ahead(claims, Claim::IssuedAt, settings, now);
        let issued_at = issued_at.map(|()| "has come, or is absent");
        checks.push(Check::of("sub", self.client_id()));
        checks.push(Check::of("iat", issued_at));
        let audience = expected_audience(client, settings);
        let client_id = &client.client_id;
        checks.extend(common(claims, client_id, &audience, LONGEST, settings, now));
        checks
    }
}

/// The one accepted audience, never a list (D-46).
fn expected_audience(client: &Client, settings: &Settings) -> String {
    match client.key_authentication.client_assertion_audience {
        None => settings.issuer.clone(),
        Some(AssertionAudience::TokenEndpoint) => token_endpoint(settings),
    }
}

fn token_endpoint(settings: &Settings) -> String {
    format!("{}{TOKEN}", settings.issuer)
}

fn check_type(header: &JoseHeader) -> Result<(), AssertionError> {
    match header.typ.as_deref() {
        Some(typ) if !TYPES.contains(&typ) => Err(AssertionError::ClientTypWrong),
        _ => Ok(()),
    }
}

/// The key that the header names, or the only key; never any key that happens to fit.
fn find_key<'a>(
    header: &JoseHeader,
    keys: &'a [ClientKey],
) -> Result<&'a ClientKey, AssertionError> {
    match (header.kid.as_deref(), keys) {
        (_, []) => Err(AssertionError::UnknownClient),
        (Some(kid), keys) => {
            let mut keys = keys.iter();
            keys.find(|key| key.kid == kid)
                .ok_or(AssertionError::UnknownKid)
        }
        (None, [key]) => Ok(key),
        (None, _) => Err(AssertionError::NoKid),
    }
}

fn check_algorithm(header: &JoseHeader, key: &ClientKey) -> Result<(), AssertionError> {
    let own = &key.public_key;
    let is_own = header.alg.as_deref().is_some_and(|alg| own.is_of(alg));
    is_own
        .then_some(())
        .ok_or(AssertionError::KeyAlgorithm(own.algorithm()))
}

fn check_signature(jws: &CompactJws<'_>, key: &ClientKey) -> Result<(), AssertionError> {
    let (signed, signature) = (jws.signing_input.as_bytes(), &jws.signature);
    let is_signed = key.public_key.verifies(signed, signature);
    is_signed.then_some(()).ok_or(AssertionError::Signature)
}

#[cfg(test)]
mod tests;
