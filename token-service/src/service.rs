//! What a request needs: configuration, registry, store, clock, randomness, keys.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::clock::Clock;
use crate::config::Config;
use crate::random::Random;
use crate::registry::Registry;
use crate::sealing::EncryptionKey;
use crate::store::{Store, StoreError};

/// The running service, shared by all requests.
#[derive(Debug)]
pub struct Service {
    /// The configuration.
    pub config: Config,
    /// Durable state.
    pub store: Arc<dyn Store>,
    /// Tells the time; read once per request.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub random: Arc<dyn Random>,
    /// Opens what is sealed at rest.
    pub encryption_key: EncryptionKey,
    registry: ArcSwap<Registry>,
}

impl Service {
    /// Puts the parts together and loads the registry.
    ///
    /// # Errors
    /// [`StoreError`] when the registry cannot be read.
    pub async fn new(
        config: Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        encryption_key: EncryptionKey,
    ) -> Result<Self, StoreError> {
        let service = Self {
            config,
            store,
            clock,
            random,
            encryption_key,
            registry: ArcSwap::default(),
        };
        service.reload_registry().await?;
        Ok(service)
    }

    /// The registry as it is now. Take it once per request: a later call may see a later one.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// Reads the registry anew, after it changed.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; the old one stays.
    pub async fn reload_registry(&self) -> Result<(), StoreError> {
        let (clients, users) = self.store.registry().await?;
        self.registry.store(Arc::new(Registry::new(clients, users)));
        Ok(())
    }
}
