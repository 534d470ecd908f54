//! Tokens that an identity provider signed. The list of checks of each kind of them takes the checks of header, key and issuer from
//! here.

use std::sync::Arc;

use keys::Key;
use keys::algorithm::Algorithm;
use keys_native::NativeSignatures;

use super::case::Finding;
use super::{AssertionError, Unverified};
use crate::identity_provider::{IdentityProvider, ProviderKeys, Unavailable};

/// A token that says to come from `provider`, with the key of the provider that its header names.
#[derive(Debug)]
pub struct ProviderToken<'a> {
    pub(super) token: &'a Unverified<'a>,
    pub(super) provider: &'a IdentityProvider,
    /// `None` if the provider has no such key, or does not use the algorithm of the header.
    key: Option<Arc<Key>>,
}

impl<'a> ProviderToken<'a> {
    /// Finds the key. Asks for no key if the header names none, or an algorithm that the provider does not use.
    ///
    /// # Errors
    /// [`Unavailable`] if the provider's keys cannot be had.
    pub async fn find(
        token: &'a Unverified<'a>,
        provider: &'a IdentityProvider,
        keys: &dyn ProviderKeys,
    ) -> Result<Self, Unavailable> {
        let named = token.jws.header.kid.as_deref();
        let key = match named.zip(algorithm(token, provider)) {
            Some((kid, algorithm)) => keys.key(provider, kid, algorithm).await?,
            None => None,
        };
        Ok(Self {
            token,
            provider,
            key,
        })
    }

    pub(super) fn algorithm(&self) -> Finding {
        let found = algorithm(self.token, self.provider);
        let found = found.map(|algorithm| algorithm.name().to_owned());
        found.ok_or_else(|| {
            let allowed = self.provider.algorithms.iter();
            AssertionError::ProviderAlgorithm {
                received: self.token.jws.header.alg.clone(),
                allowed: allowed.copied().map(Algorithm::name).collect(),
            }
        })
    }

    pub(super) fn named_key(&self) -> Finding {
        Ok(self.key()?.kid.clone())
    }

    /// Checks algorithm, key and signature.
    pub(crate) fn signature(&self) -> Finding {
        let (key, jws) = (&self.key()?.signature_key, &self.token.jws);
        let input = jws.signing_input.as_bytes();
        let is_signed = key.signed(&NativeSignatures, input, &jws.signature);
        let found = is_signed.then(|| "the identity provider's".to_owned());
        found.ok_or(AssertionError::Signature)
    }

    /// The key that the header names; never a key in the header, and never any key that happens to fit (RFC 8725 §3.10).
    fn key(&self) -> Result<&Key, AssertionError> {
        // Otherwise the missing key would follow from the algorithm.
        self.algorithm()?;
        let algorithm = algorithm(self.token, self.provider).map_or("", Algorithm::name);
        match (&self.key, &self.token.jws.header.kid) {
            (Some(key), _) => Ok(key),
            (None, Some(kid)) => Err(AssertionError::UnknownProviderKey {
                kid: kid.clone(),
                algorithm,
            }),
            (None, None) => Err(AssertionError::NoProviderKeyNamed),
        }
    }
}

/// The algorithm in the header, if the provider uses it. Symmetric algorithms and `none` do not exist here (RFC 8725 §3.1).
fn algorithm(token: &Unverified<'_>, provider: &IdentityProvider) -> Option<Algorithm> {
    let named = token.jws.header.alg.as_deref();
    let named = named.and_then(Algorithm::from_name);
    named.filter(|algorithm| provider.algorithms.contains(algorithm))
}
