//! User assertions: a non-interactive client signs a statement about a user (protocol.md §2.3, D-10, RFC 7523), or brings one that an
//! identity provider signed ([`identity`]). The assertions with which clients authenticate are in [`client`].

use std::borrow::Cow;

use claims::{CompactJws, JoseHeader, JwsError};
use serde_json::{Map, Value};

use super::account_selection::NamedAccount;
use crate::identity_provider::IdentityProvider;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Certificate, Client, ClientId, Identity, Scope};

mod case;
mod checks;
mod claim;
pub mod client;
mod error;
pub mod identity;
pub mod provider;

pub use case::{Case, Finding};
use case::{Check, text};
pub use claim::Claim;
pub use error::AssertionError;

/// An assertion of either kind that nobody has verified yet.
#[derive(Debug)]
pub struct Unverified<'a> {
    jws: CompactJws<'a>,
    claims: Map<String, Value>,
}

/// The expected issuer of an assertion that a client signs, in refusals.
const CLIENT_ID: &str = "the Client ID";

/// Whom an assertion is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Username(String),
    Identity(Identity),
}

impl Subject {
    /// The refusal of an assertion about nobody whom its client may name. It does not tell whether somebody else may.
    pub const fn unavailable(&self) -> AssertionError {
        match self {
            Self::Username(_) => AssertionError::Subject,
            Self::Identity(_) => AssertionError::Unlinked,
        }
    }
}

/// A verified assertion about a user. Only [`Case::verify`] makes assertions. The `jti` is not claimed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    pub subject: Subject,
    /// Id for single use.
    pub jti: String,
    /// The store keeps the `jti` until this time.
    pub remembered_until: Timestamp,
    pub user_id: Option<String>,
    pub user_site: Option<String>,
    /// The most that the assertion allows; `None` if it does not limit the scope.
    pub scope: Option<Scope>,
}

impl Assertion {
    /// The linked account that the assertion names, if any.
    pub fn named_account(&self) -> NamedAccount<'_> {
        NamedAccount {
            user_id: self.user_id.as_deref(),
            user_site: self.user_site.as_deref(),
        }
    }
}

/// The certificate is always an uploaded one (RFC 8725 §3.10).
const CHECKS: [Check<[Certificate]>; 13] = [
    ("typ", |case| case.typ()),
    ("alg", |case| case.algorithm()),
    ("certificate", |case| case.named_certificate()),
    ("certificate validity", |case| case.validity()),
    ("iss", |case| case.issuer(CLIENT_ID)),
    ("sub", |case| Ok(case.text(Claim::Subject)?.to_owned())),
    ("aud", |case| case.audience()),
    ("exp", |case| case.expiry()),
    ("iat", |case| case.issue_time()),
    ("nbf", |case| case.not_ahead(Claim::NotBefore)),
    ("jti", |case| case.id()),
    ("user_id, user_site", |case| case.account()),
    ("signature", |case| case.signature()),
];

impl<'a> Unverified<'a> {
    /// # Errors
    /// [`AssertionError::Malformed`].
    pub fn parse(assertion: &'a str) -> Result<Self, AssertionError> {
        let jws = CompactJws::parse(assertion);
        jws.and_then(Self::read).map_err(AssertionError::Malformed)
    }

    /// # Errors
    /// [`JwsError`] if the claims are malformed.
    pub fn read(jws: CompactJws<'a>) -> Result<Self, JwsError> {
        let claims = jws.claims()?;
        Ok(Self { jws, claims })
    }

    fn text(&self, claim: Claim) -> Result<&str, AssertionError> {
        text(&self.claims, claim)?.ok_or(AssertionError::Missing(claim))
    }

    pub(crate) const fn header(&self) -> &JoseHeader {
        &self.jws.header
    }

    pub(crate) fn into_claims(self) -> Map<String, Value> {
        self.claims
    }

    pub const fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// The provider that must have signed an assertion about a user, by `iss`; `None` for the authenticated `client` itself.
    ///
    /// # Errors
    /// [`AssertionError::Issuer`] if it can be none of them. For a client without identity providers, its own checks tell that, unless
    /// the configuration has the provider.
    pub fn provider<'s>(
        &self,
        client: &Client,
        settings: &'s Settings,
    ) -> Result<Option<&'s IdentityProvider>, AssertionError> {
        let named = client.identity_providers.iter();
        let accepted = named.filter_map(|issuer| settings.identity_provider(issuer));
        let accepted: Vec<&IdentityProvider> = accepted.collect();
        match text(&self.claims, Claim::Issuer) {
            Ok(Some(issuer))
                if issuer != client.client_id.as_str()
                    && (!accepted.is_empty() || settings.identity_provider(issuer).is_some()) =>
            {
                let mut providers = accepted.iter();
                let found = providers.find(|provider| provider.issuer == issuer);
                let issuers = accepted.iter().map(|provider| provider.issuer.as_str());
                let mut issuers: Vec<&str> = [CLIENT_ID].into_iter().chain(issuers).collect();
                if accepted.is_empty() {
                    issuers.push("an issuer in identity_providers of the client");
                }
                found
                    .copied()
                    .map(Some)
                    .ok_or_else(|| AssertionError::Issuer {
                        received: issuer.to_owned(),
                        accepted: issuers.join(" or "),
                    })
            }
            _ => Ok(None),
        }
    }

    /// For an assertion about a user, from the authenticated client `client_id` with these `certificates`.
    ///
    /// Limits: `exp` itself is already too late; `exp` may be at most `assertion_max` ahead; `iat` and `nbf` may be
    /// `clock_skew` ahead; the certificate is valid in its last second.
    pub fn of_user(
        &'a self,
        client_id: &'a ClientId,
        certificates: &'a [Certificate],
        settings: &'a Settings,
        now: Timestamp,
    ) -> Case<'a, [Certificate]> {
        Case {
            assertion: self,
            issuer: client_id.as_str(),
            signer: certificates,
            audiences: vec![Cow::Borrowed(&settings.identity_audience)],
            most: settings.lifetimes.assertion_max,
            settings,
            now,
            checks: &CHECKS,
        }
    }
}

impl Case<'_, [Certificate]> {
    /// Verifies the assertion.
    ///
    /// # Errors
    /// The [`AssertionError`] of the first failed check.
    pub fn verify(&self) -> Result<Assertion, AssertionError> {
        let remembered_until = self.remembered_until()?;
        let subject = Subject::Username(self.text(Claim::Subject)?.to_owned());
        self.read(remembered_until, subject, None)
    }
}

impl<S: ?Sized> Case<'_, S> {
    /// The content of an assertion about a user that passed all checks.
    fn read(
        &self,
        remembered_until: Timestamp,
        subject: Subject,
        scope: Option<Scope>,
    ) -> Result<Assertion, AssertionError> {
        let optional =
            |claim| text(&self.assertion.claims, claim).map(|text| text.map(str::to_owned));
        Ok(Assertion {
            subject,
            jti: self.id()?,
            remembered_until,
            user_id: optional(Claim::UserId)?,
            user_site: optional(Claim::UserSite)?,
            scope,
        })
    }
}

#[cfg(test)]
mod tests;
