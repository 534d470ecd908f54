//! Identity providers: what the service is configured to believe of whom, and the keys that their tokens are verified with.
//!
//! Keys are read and chosen by the guard's code, which does the same for access tokens of foreign issuers. The crate
//! `openidconnect` would bring a second JSON Web Token library, without our bounds, our refusal of duplicate members and our one
//! bounded fetch for unknown keys.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use keys::algorithm::Algorithm;
use keys::{Key, KeySet};
use url::Host;

/// A provider of the configuration (`[[identity_providers]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    /// Name in addresses and metrics: lower-case letters, digits and hyphens.
    pub id: String,
    /// `iss` of its tokens, compared byte for byte.
    pub issuer: String,
    /// Name for people.
    pub name: String,
    /// Algorithms of its signatures.
    pub algorithms: BTreeSet<Algorithm>,
    /// Domains of its people's e-mail addresses, in lower case. A sign-in of such a person begins at the provider.
    pub email_domains: Vec<String>,
    /// The first sign-in of a person links the user who has the same verified e-mail address, in one of [`Self::email_domains`].
    pub link_by_email: bool,
    /// The service's Client ID at the provider; `None` if people cannot sign in with the provider.
    pub client_id: Option<String>,
}

impl IdentityProvider {
    /// Where the provider sends people back to the service `issuer`, as registered at the provider. A path for each provider: the
    /// service notices a provider that answers for another one (RFC 9700 §4.4.2).
    pub fn redirect_uri(&self, issuer: &str) -> String {
        format!("{issuer}/auth/provider/{}", self.id)
    }

    /// Where the provider tells the service `issuer` that a person was signed out, as registered at the provider.
    pub fn logout_uri(&self, issuer: &str) -> String {
        format!("{issuer}/auth/provider/{}/logout", self.id)
    }

    /// True if `email` is an address in one of the provider's domains.
    pub fn has_email(&self, email: &str) -> bool {
        self.domain_of(email).is_some()
    }

    /// The one of the provider's domains in which `email` is an address.
    pub fn domain_of(&self, email: &str) -> Option<&str> {
        let (_, domain) = email.trim().rsplit_once('@')?;
        let domain = match domain.is_ascii() {
            true => domain.to_ascii_lowercase(),
            // People type international domains in their own letters.
            false => Host::parse(domain).ok()?.to_string(),
        };
        let mut domains = self.email_domains.iter();
        let found = domains.find(|known| **known == domain);
        found.map(String::as_str)
    }
}

/// The keys of a provider cannot be had: it does not answer, or not usably.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the identity provider {provider} does not answer: {why}")]
pub struct Unavailable {
    /// [`IdentityProvider::id`].
    pub provider: String,
    pub why: String,
}

/// The keys of the providers.
#[async_trait]
pub trait ProviderKeys: fmt::Debug + Send + Sync {
    /// The key of `provider` for a token that names `kid` and `algorithm`; `None` if the provider has no such key, as far as the last
    /// fetch tells. If the key is not known, the keys are fetched once more, at most as often as for all other unknown keys together.
    ///
    /// # Errors
    /// [`Unavailable`] if no keys could be fetched.
    async fn key(
        &self,
        provider: &IdentityProvider,
        kid: &str,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<Key>>, Unavailable>;
}

/// Keys that never change, for providers whose keys stand in a file, and for tests.
#[async_trait]
impl ProviderKeys for KeySet {
    async fn key(
        &self,
        _: &IdentityProvider,
        kid: &str,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<Key>>, Unavailable> {
        Ok(self.get(kid, algorithm).cloned())
    }
}
