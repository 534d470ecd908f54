//! Assertions about a person of an identity provider, which signs them: a JWT like a user assertion of the client (protocol.md §2.6),
//! or an Identity Assertion JWT Authorization Grant, "ID-JAG" (draft-ietf-oauth-identity-assertion-authz-grant).
//!
//! The provider signs other tokens with the same keys. None of them is an assertion: see [`OF_OTHER_TOKENS`].

use std::borrow::Cow;

use claims::json;
use claims::token::ASSERTION_TYPE;
use serde_json::Value;

use super::case::{Check, present, text};
use super::claim::Claim;
use super::provider::ProviderToken;
use super::{Assertion, AssertionError, Case, Finding, Subject};
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Client, Identity, Scope};

/// The `typ` of an ID-JAG.
pub const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";

/// The name of the grant in the metadata (draft-ietf-oauth-identity-assertion-authz-grant).
pub const ID_JAG_PROFILE: &str = "urn:ietf:params:oauth:grant-profile:id-jag";

/// Claims of ID tokens, access tokens and logout tokens. The `typ` of an ID-JAG tells it from all of them (RFC 8725 §3.11). The `typ`
/// `JWT` does not: many providers give it to every token, and an operator there can add the audience and `client_id` of an assertion
/// to an access token.
///
/// | token | claims |
/// |---|---|
/// | ID token | `nonce`, `at_hash`, `c_hash`, `azp` (OpenID Connect Core 1.0 §2) |
/// | access token | `scope`, `scp`, and the client: `azp`, `appid` (Entra), `cid` (Okta) |
/// | logout token | `events` (OpenID Connect Back-Channel Logout 1.0 §2.4) |
/// | every token of Keycloak | `typ` |
const OF_OTHER_TOKENS: [&str; 10] = [
    "nonce", "at_hash", "c_hash", "azp", "scope", "scp", "appid", "cid", "events", "typ",
];

/// Claims that limit an assertion in a way that the service cannot carry out: to parts of a scope (RFC 9396), to the holder of a key
/// (RFC 7800), and to one of several tenants under one issuer, where only `sub` and the tenant together name a user.
const UNSUPPORTED: [&str; 3] = ["authorization_details", "cnf", "tenant"];

/// An assertion of an identity provider, and the client that brings it.
#[derive(Debug)]
pub struct IdentityAssertion<'a> {
    pub token: ProviderToken<'a>,
    pub client: &'a Client,
}

impl<'a> IdentityAssertion<'a> {
    const CHECKS: &'a [Check<Self>] = &[
        ("typ", |case| case.typ()),
        ("kind of token", |case| case.kind()),
        ("alg", |case| case.signer.token.algorithm()),
        ("key", |case| case.signer.token.named_key()),
        ("iss", |case| case.issuer(case.issuer)),
        ("sub", |case| Ok(case.text(Claim::Subject)?.to_owned())),
        ("aud", |case| case.audience()),
        ("client_id", |case| case.client()),
        ("exp", |case| case.expiry()),
        ("iat", |case| case.issue_time()),
        ("nbf", |case| case.not_ahead(Claim::NotBefore)),
        ("jti", |case| case.id()),
        ("user_id, user_site", |case| case.account()),
        ("resource", |case| case.resource()),
        ("scope", |case| {
            Ok(case.scope()?.map_or_else(absent, |scope| scope.to_string()))
        }),
        ("limits", |case| case.limits()),
        ("signature", |case| case.signer.token.signature()),
    ];

    /// Limits of the times: as for an assertion of the client. An ID-JAG is for the issuer; another assertion may also be for the
    /// audience of the identity service, as assertions of clients may.
    pub fn case(&'a self, settings: &'a Settings, now: Timestamp) -> Case<'a, Self> {
        let mut audiences = vec![Cow::Borrowed(settings.issuer.as_str())];
        if !self.is_id_jag() {
            audiences.push(Cow::Borrowed(&settings.identity_audience));
        }
        Case {
            assertion: self.token.token,
            issuer: &self.token.provider.issuer,
            signer: self,
            audiences,
            most: settings.lifetimes.assertion_max,
            settings,
            now,
            checks: Self::CHECKS,
        }
    }

    fn is_id_jag(&self) -> bool {
        self.token.token.jws.header.has_type(ID_JAG_TYPE)
    }
}

impl Case<'_, IdentityAssertion<'_>> {
    /// Verifies the assertion.
    ///
    /// # Errors
    /// The [`AssertionError`] of the first failed check.
    pub fn verify(&self) -> Result<Assertion, AssertionError> {
        let remembered_until = self.remembered_until()?;
        let subject = Subject::Identity(Identity {
            issuer: self.text(Claim::Issuer)?.to_owned(),
            subject: self.text(Claim::Subject)?.to_owned(),
        });
        self.read(remembered_until, subject, self.scope()?)
    }

    fn typ(&self) -> Finding {
        let header = &self.assertion.jws.header;
        let is_known = header.type_among([ASSERTION_TYPE, ID_JAG_TYPE]).is_some();
        match &header.typ {
            None => Err(AssertionError::TypMissing),
            Some(typ) if is_known => Ok(typ.clone()),
            Some(typ) => Err(AssertionError::ProviderTypWrong(typ.clone())),
        }
    }

    fn kind(&self) -> Finding {
        if self.signer.is_id_jag() {
            return Ok("an ID-JAG, by its typ".to_owned());
        }
        let found = self.first_of(&OF_OTHER_TOKENS);
        let assertion = || Ok("no ID token, access token or logout token".to_owned());
        found.map_or_else(assertion, |claim| Err(AssertionError::OtherToken(claim)))
    }

    fn client(&self) -> Finding {
        let client_id = self.text(Claim::ClientId)?.to_owned();
        let expected = self.signer.client.client_id.as_str();
        if client_id == expected {
            Ok(client_id)
        } else {
            Err(AssertionError::OtherClient {
                received: client_id,
                expected: expected.to_owned(),
            })
        }
    }

    /// The token will be only for the API, so the assertion must allow the API (RFC 8707 §2).
    fn resource(&self) -> Finding {
        let api = &self.settings.api_audience;
        let wrong = AssertionError::WrongType(Claim::Resource);
        let resources: Option<Vec<&str>> = match present(&self.assertion.claims, Claim::Resource) {
            None => return Ok(absent()),
            Some(Value::String(resource)) => Some(vec![resource]),
            Some(Value::Array(resources)) => resources.iter().map(Value::as_str).collect(),
            Some(_) => None,
        };
        let resources = resources.ok_or(wrong)?;
        match resources.contains(&api.as_str()) {
            true => Ok(api.clone()),
            false => Err(AssertionError::Resource {
                received: resources.join(" "),
                expected: api.clone(),
            }),
        }
    }

    /// A client without scopes gets none, whatever the assertion allows.
    fn scope(&self) -> Result<Option<Scope>, AssertionError> {
        let Some(text) = text(&self.assertion.claims, Claim::Scope)? else {
            return Ok(None);
        };
        let claimed = Scope::parse(text).ok_or(AssertionError::WrongType(Claim::Scope))?;
        let registered = &self.signer.client.scopes;
        if !registered.is_empty() && registered.intersection(&claimed).is_empty() {
            let registered = registered.clone();
            return Err(AssertionError::ScopeNotRegistered {
                claimed,
                registered,
            });
        }
        Ok(Some(claimed))
    }

    fn limits(&self) -> Finding {
        let found = self.first_of(&UNSUPPORTED);
        let none = || Ok("none that the service cannot carry out".to_owned());
        found.map_or_else(none, |claim| Err(AssertionError::Unsupported(claim)))
    }

    fn first_of(&self, names: &[&'static str]) -> Option<&'static str> {
        let claims = &self.assertion.claims;
        let is_present = |name: &&str| json::present(claims, name).is_some();
        names.iter().copied().find(is_present)
    }
}

fn absent() -> String {
    "absent".to_owned()
}

#[cfg(test)]
mod tests;
