//! The protocol of the current flows (spec §4.1, §4.2). Plain functions and types: no HTTP server, no
//! database, no wall clock.

pub mod account_selection;
pub mod assertion;
pub mod authorize;
pub mod client_authentication;
pub mod endpoint_request;
pub mod error;
pub mod grants;
pub mod introspection;
pub mod issued_token;
pub mod parameters;
pub mod revocation;
pub mod token_endpoint;
pub mod token_response;

use crate::clock::Timestamp;
use crate::config::Config;
use crate::random::Random;
use crate::registry::Registry;
use crate::sealing::EncryptionKey;
use crate::store::Store;
use crate::token::{IdentityTokens, KeyRing, Mint};

/// What a grant decides with. `now` was read once, at the door.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Clients and users.
    pub registry: &'a Registry,
    /// Durable state.
    pub store: &'a dyn Store,
    /// Signing keys.
    pub keys: &'a KeyRing,
    /// Identity tokens that were signed lately.
    pub identity_tokens: &'a IdentityTokens,
    /// Makes and proves legacy refresh tokens.
    pub encryption_key: &'a EncryptionKey,
    /// Random bytes.
    pub random: &'a dyn Random,
    /// The time of the request.
    pub now: Timestamp,
}

impl Context<'_> {
    /// Signs tokens with the context's keys.
    #[must_use]
    pub const fn mint(&self) -> Mint<'_> {
        Mint::new(self.config, self.keys)
    }
}
