//! Configuration of the protocol.

use std::sync::Arc;
use std::time::Duration;

use claims::Algorithm;

use crate::identity_provider::IdentityProvider;
use crate::lifetimes::Lifetimes;
use domain::SecondFactorRules;

/// The part of the configuration that controls what the service issues and accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name of the service, shown on pages and in authenticator apps.
    pub name: String,
    /// {lobby_url}: the base address of this authorization server, without a trailing slash.
    pub issuer: String,
    /// {api_url}: the audience of access tokens.
    pub api_audience: String,
    /// {identity_audience_url}: the audience of assertions, compared byte for byte.
    pub identity_audience: String,
    /// Longest User ID, in bytes of JSON: legacy access tokens contain the User ID, and have a fixed length (D-36).
    pub legacy_user_id_max: u8,
    /// Longest host name of a legacy instance, in bytes, likewise.
    pub legacy_hostname_max: u8,
    pub signing: Signing,
    pub dpop: Dpop,
    pub lifetimes: Lifetimes,
    /// Who must use a second factor.
    pub second_factor: Arc<SecondFactorRules>,
    /// Identity providers that the service trusts, in the order of the configuration.
    pub identity_providers: Arc<[IdentityProvider]>,
}

impl Settings {
    pub fn identity_provider(&self, issuer: &str) -> Option<&IdentityProvider> {
        let mut providers = self.identity_providers.iter();
        providers.find(|provider| provider.issuer == issuer)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "Gatepass".to_owned(),
            issuer: "http://127.0.0.1:8081".to_owned(),
            api_audience: "http://127.0.0.1:8080".to_owned(),
            identity_audience: "https://identity.example.com/".to_owned(),
            legacy_user_id_max: 24,
            legacy_hostname_max: 24,
            signing: Signing {
                algorithm: Algorithm::EdDsa,
                rotate_every: Duration::from_hours(30 * 24),
                announce_for: Duration::from_mins(10),
            },
            dpop: Dpop {
                nonce: NoncePolicy::Optional,
                single_use: SingleUse::Process,
            },
            lifetimes: Lifetimes::default(),
            second_factor: Arc::default(),
            identity_providers: Arc::default(),
        }
    }
}

/// `[dpop]`: DPoP proofs (RFC 9449).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dpop {
    pub nonce: NoncePolicy,
    pub single_use: SingleUse,
}

/// Whether proofs must contain a nonce of the service (RFC 9449 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoncePolicy {
    /// A proof without a nonce is accepted by its `iat`.
    Optional,
    Required,
}

/// Where a used proof is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleUse {
    /// In each process: a proof is accepted once by each replica.
    Process,
    /// In the store too: a proof is accepted once by all replicas together. One write for each proof.
    Store,
}

/// `[signing]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signing {
    /// The algorithm of access, refresh and identity tokens (D-1).
    pub algorithm: Algorithm,
    /// Time from a key's first signature to that of its successor.
    pub rotate_every: Duration,
    /// Time for which a new key is published before it signs. Must be at least the time for which gateways cache the
    /// keys.
    pub announce_for: Duration,
}
