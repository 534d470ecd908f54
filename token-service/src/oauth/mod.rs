//! The protocol of the current flows (spec §4.1, §4.2). Plain functions and types: no HTTP server, no
//! database, no wall clock.

pub mod account_selection;
pub mod assertion;
pub mod client_authentication;
pub mod error;
pub mod grants;
pub mod parameters;
pub mod token_endpoint;
pub mod token_response;

use crate::clock::Timestamp;
use crate::config::Config;
use crate::random::Random;
use crate::registry::Registry;
use crate::store::Store;
use crate::token::{KeyRing, Mint};

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
