//! What a request is decided with.

use domain::Registry;
use domain::clock::Timestamp;
use domain::random::Random;
use store::Store;

use crate::sealing::EncryptionKey;
use crate::secret_uses::SecretUses;
use crate::settings::Settings;
use crate::token::{IdentityTokens, KeyRing, Mint};

/// What a request is decided with. `now` was read once, at the door.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Issuer, audiences, lifetimes.
    pub settings: &'a Settings,
    /// Clients and users.
    pub registry: &'a Registry,
    /// Durable state.
    pub store: &'a dyn Store,
    /// Signing keys.
    pub keys: &'a KeyRing,
    /// Identity tokens that were signed lately.
    pub identity_tokens: &'a IdentityTokens,
    /// Seals secrets, and authenticates what the service hands out and must recognise again.
    pub encryption_key: &'a EncryptionKey,
    /// Client secrets that were proved lately.
    pub secret_uses: &'a SecretUses,
    /// Random bytes.
    pub random: &'a dyn Random,
    /// The time of the request.
    pub now: Timestamp,
}

impl Context<'_> {
    /// Signs tokens with the context's keys.
    #[must_use]
    pub const fn mint(&self) -> Mint<'_> {
        Mint::new(self.settings, self.keys)
    }
}
