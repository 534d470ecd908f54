//! Client assertions: a client authenticates with a signature in place of a secret (protocol.md §5.12, D-46, RFC 7523
//! §2.2).

use std::borrow::Cow;
use std::time::Duration;

use super::case::{Check, audience, text};
use super::claim::Claim;
use super::{AssertionError, CLIENT_ID, Case, Finding, Unverified};
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

/// A verified client assertion. The `jti` is not claimed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAssertion {
    /// Id for single use.
    pub jti: String,
    /// The store keeps the `jti` until this time: `exp` plus the clock skew (RFC 7523 §3).
    pub remembered_until: Timestamp,
}

/// The key is always a registered key and verifies only its own algorithm (RFC 8725 §3.1, §3.10).
const CHECKS: [Check<[ClientKey]>; 11] = [
    ("typ", |case| case.typ()),
    ("key", |case| Ok(case.key()?.kid.clone())),
    ("alg", |case| case.algorithm()),
    ("iss", |case| case.issuer(CLIENT_ID)),
    ("sub", |case| Ok(case.assertion.client_id()?.to_owned())),
    ("aud", |case| case.audience()),
    ("exp", |case| case.expiry()),
    ("iat", |case| case.not_ahead(Claim::IssuedAt)),
    ("nbf", |case| case.not_ahead(Claim::NotBefore)),
    ("jti", |case| case.id()),
    ("signature", |case| case.signature()),
];

impl<'a> Unverified<'a> {
    /// The client that the assertion claims to come from.
    ///
    /// # Errors
    /// [`AssertionError`] if the assertion names no client, or two.
    pub fn client_id(&self) -> Result<&str, AssertionError> {
        let issuer = self.text(Claim::Issuer)?;
        let subject = self.text(Claim::Subject)?;
        if subject == issuer {
            Ok(issuer)
        } else {
            Err(AssertionError::SubjectDiffers(subject.to_owned()))
        }
    }

    /// For the keys of `client`, whose Client ID is [`Self::client_id`].
    ///
    /// Limits: `exp` itself is already too late, and may be at most ten minutes ahead; `iat` and `nbf` may be absent, and may
    /// be `clock_skew` ahead.
    pub fn of_client(
        &'a self,
        client: &'a Client,
        settings: &'a Settings,
        now: Timestamp,
    ) -> Case<'a, [ClientKey]> {
        Case {
            assertion: self,
            issuer: client.client_id.as_str(),
            signer: client.key_authentication.keys.as_slice(),
            audiences: vec![expected_audience(client, settings)],
            most: LONGEST,
            settings,
            now,
            checks: &CHECKS,
        }
    }

    /// True if this looks like a client assertion rather than a user assertion: by its `typ`, because it is about the
    /// client itself (no Client ID is a username), or by its audience.
    pub fn is_likely(&self, settings: &Settings) -> bool {
        let text = |claim| text(&self.claims, claim).ok().flatten();
        let endpoint = token_endpoint(settings);
        let audiences = [settings.issuer.as_str(), &endpoint];
        self.jws.header.has_type(OWN_TYPE)
            || text(Claim::Issuer).is_some_and(|issuer| text(Claim::Subject) == Some(issuer))
            || audience(&self.claims)
                .is_ok_and(|received| received.is_some_and(|it| audiences.contains(&it)))
    }
}

impl Case<'_, [ClientKey]> {
    /// Verifies the assertion.
    ///
    /// # Errors
    /// The [`AssertionError`] of the first failed check.
    pub fn verify(&self) -> Result<ClientAssertion, AssertionError> {
        let remembered_until = self.remembered_until()?;
        Ok(ClientAssertion {
            jti: self.id()?,
            remembered_until,
        })
    }

    fn typ(&self) -> Finding {
        let header = &self.assertion.jws.header;
        match &header.typ {
            None => Ok("absent".to_owned()),
            Some(typ) if header.type_among(TYPES).is_some() => Ok(typ.clone()),
            Some(_) => Err(AssertionError::ClientTypWrong),
        }
    }

    fn algorithm(&self) -> Finding {
        let own = &self.key()?.public_key;
        match self.assertion.jws.header.alg.as_deref() {
            Some(alg) if own.is_of(alg) => Ok(own.algorithm().name().to_owned()),
            _ => Err(AssertionError::KeyAlgorithm(own.algorithm())),
        }
    }

    fn signature(&self) -> Finding {
        let (jws, key) = (&self.assertion.jws, &self.key()?.public_key);
        let is_signed = key.verifies(jws.signing_input.as_bytes(), &jws.signature);
        let found = is_signed.then(|| "the key's".to_owned());
        found.ok_or(AssertionError::Signature)
    }

    /// The key that the header names, or the only key; never any key that happens to fit.
    fn key(&self) -> Result<&ClientKey, AssertionError> {
        match (self.assertion.jws.header.kid.as_deref(), self.signer) {
            (_, []) => Err(AssertionError::UnknownClient),
            (Some(kid), keys) => {
                let found = keys.iter().find(|key| key.kid == kid);
                found.ok_or(AssertionError::UnknownKid)
            }
            (None, [key]) => Ok(key),
            (None, _) => Err(AssertionError::NoKid),
        }
    }
}

/// The one accepted audience, never a list (D-46).
fn expected_audience<'a>(client: &Client, settings: &'a Settings) -> Cow<'a, str> {
    match client.key_authentication.client_assertion_audience {
        None => Cow::Borrowed(&settings.issuer),
        Some(AssertionAudience::TokenEndpoint) => Cow::Owned(token_endpoint(settings)),
    }
}

fn token_endpoint(settings: &Settings) -> String {
    format!("{}{TOKEN}", settings.issuer)
}

#[cfg(test)]
mod tests;
