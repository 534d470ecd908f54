use crate::Directory;
use claims::dpop::UsedProofs;
use domain::RegistrySummary;
use domain::clock::Timestamp;
use domain::random::Random;
use store::Store;

use crate::identity_provider::ProviderKeys;
use crate::secret_uses::SecretUses;
use crate::settings::Settings;
use crate::token::{IdentityTokens, KeyRing, Mint};
use secrets::sealing::EncryptionKey;

/// Everything that decides about a request. `now` is read once, at the start of the request.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Issuer, audiences, lifetimes.
    pub settings: &'a Settings,
    pub directory: &'a Directory,
    /// What all registrations say together, the same for the whole request.
    pub summary: &'a RegistrySummary,
    pub store: &'a dyn Store,
    pub keys: &'a KeyRing,
    pub identity_tokens: &'a IdentityTokens,
    /// Seals secrets, and makes tags for values that the service issues and must recognise later.
    pub encryption_key: &'a EncryptionKey,
    pub secret_uses: &'a SecretUses,
    /// DPoP proofs that the token endpoint has accepted.
    pub used_proofs: &'a UsedProofs,
    /// DPoP proofs of pushed requests, which anybody can send: they take no room of the others.
    pub pushed_proofs: &'a UsedProofs,
    pub provider_keys: &'a dyn ProviderKeys,
    pub random: &'a dyn Random,
    pub now: Timestamp,
}

impl Context<'_> {
    pub const fn mint(&self) -> Mint<'_> {
        Mint::new(self.settings, self.keys)
    }
}
