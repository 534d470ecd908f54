//! The running service: configuration, registry, store, clock, randomness, keys.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, MutexGuard};

use crate::admin_tokens::{AdminTokens, Holder};
use crate::audit_log::{AuditLog, Entry, Origin, StandardOutput};
use crate::config::Config;
use crate::feed::RevocationFeed;
use crate::limits::RevocationLimit;
use crate::metrics::Metrics;
use domain::clock::{Clock, Timestamp};
use domain::random::Random;
use domain::remembered::ObjectKind;
use domain::{Client, ClientId, ObjectName, Registry, RegistryChanges, User, Username};
use protocol::Context;
use protocol::oauth::secret_guesses::Suspects;
use protocol::sealing::EncryptionKey;
use protocol::secret_uses::SecretUses;
use protocol::token::rotation::{self, Policy};
use protocol::token::{IdentityTokens, KeyRing, KeyRingError, carry_out};
use store::{REGISTRATIONS_MAX_AGE, Store, StoreError};

/// The running service, shared by all requests.
#[derive(Debug)]
pub struct Service {
    pub config: Config,
    /// Durable state.
    pub store: Arc<dyn Store>,
    /// Read once per request.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub random: Arc<dyn Random>,
    /// Seals and opens secrets at rest.
    pub encryption_key: EncryptionKey,
    pub audit: AuditLog,
    pub metrics: Metrics,
    pub revocation_limit: RevocationLimit,
    pub feed: RevocationFeed,
    /// Clients and addresses that recently sent a wrong secret.
    pub suspects: Suspects,
    /// Recently used client secrets.
    pub secret_uses: SecretUses,
    admin_tokens: AdminTokens,
    registry: ArcSwap<Registry>,
    registry_confirmed: Confirmed,
    registry_turn: Mutex<()>,
    keys: ArcSwap<KeyRing>,
    identity_tokens: IdentityTokens,
    draining: AtomicBool,
}

impl Service {
    /// Assembles the service and opens the signing keys. The first start creates the first key.
    ///
    /// # Errors
    /// [`KeyRingError`] if the keys cannot be read.
    pub async fn new(
        config: Config,
        store: Arc<dyn Store>,
        StoredRegistry { registry, asked }: StoredRegistry,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        encryption_key: EncryptionKey,
        admin_tokens: AdminTokens,
    ) -> Result<Self, KeyRingError> {
        let policy = Policy::of(&config.protocol, &registry);
        let keys = KeyRing::open(&*store, &encryption_key, &policy, clock.now()).await?;
        let is_terminal = std::io::stdout().is_terminal();
        let output =
            StandardOutput::of(config.audit.standard_output, config.log_format, is_terminal);
        let audit = AuditLog::new(config.audit.keep_for, output);
        let metrics = Metrics::new(&*store, clock.now());
        let feed = RevocationFeed::new(
            Arc::clone(&store),
            config.protocol.issuer.clone(),
            metrics.feed().clone(),
        );
        Ok(Self {
            revocation_limit: RevocationLimit::new(&config.limits),
            config,
            feed,
            audit,
            metrics,
            suspects: Suspects::default(),
            secret_uses: SecretUses::default(),
            admin_tokens,
            registry_turn: Mutex::default(),
            draining: AtomicBool::new(false),
            store,
            clock,
            random,
            encryption_key,
            registry: ArcSwap::from_pointee(registry),
            registry_confirmed: Confirmed::at(asked),
            keys: ArcSwap::from_pointee(keys),
            identity_tokens: IdentityTokens::default(),
        })
    }

    /// The current signing keys.
    #[must_use]
    pub fn keys(&self) -> Arc<KeyRing> {
        self.keys.load_full()
    }

    fn key_policy(&self) -> Policy {
        Policy::of(&self.config.protocol, &self.registry())
    }

    /// Carries out the due steps for the signing keys and loads changed keys.
    ///
    /// # Errors
    /// A [`KeyRingError`]; the loaded keys stay unchanged.
    pub async fn maintain_keys(&self) -> Result<(), KeyRingError> {
        let (policy, now) = (self.key_policy(), self.clock.now());
        let keys = self.keys();
        if let Some(keys) = keys
            .refreshed(&*self.store, &self.encryption_key, &policy, now)
            .await?
        {
            self.keys.store(Arc::new(keys));
        }
        Ok(())
    }

    /// Rotates the signing keys on demand: see [`rotation::on_demand`].
    ///
    /// # Errors
    /// A [`KeyRingError`].
    pub async fn rotate_keys(&self, announced: bool) -> Result<(), KeyRingError> {
        let (policy, now) = (self.key_policy(), self.clock.now());
        let keys = self.store.signing_keys().await?;
        let steps = rotation::on_demand(&keys, &policy, announced, now);
        carry_out(steps, &*self.store, &self.encryption_key, now).await?;
        self.maintain_keys().await
    }

    /// The current registry. Call this once per request, because a later call may return a newer registry.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// The registry for issuing tokens. Refuses a registry older than [`REGISTRATIONS_MAX_AGE`], because the revocation
    /// of a client or user covers tokens issued up to that time after the revocation, and no later tokens. The caller
    /// must read the clock after this call.
    ///
    /// # Errors
    /// [`StoreError`] if the last successful check of the registry is older than that.
    pub fn issuing_registry(&self) -> Result<Arc<Registry>, StoreError> {
        if self.registry_confirmed.age(Instant::now()) > REGISTRATIONS_MAX_AGE {
            let reason = "the registrations cannot be compared with those in the store";
            return Err(StoreError::Failed(reason.to_owned()));
        }
        Ok(self.registry())
    }

    /// The holder of this admin token, according to the current file of admin tokens; compared in constant time.
    #[must_use]
    pub fn administrator(&self, presented: &[u8]) -> Option<Holder> {
        self.admin_tokens.holder(presented)
    }

    /// Adds an entry to the audit log.
    pub fn record(&self, origin: &Origin, entry: Entry) {
        self.metrics.event(entry.action());
        self.audit.record(origin, entry, self.clock.now());
    }

    /// Locks the registry for reading and changing it, so that changes within this process do not overwrite each other.
    pub async fn registry_turn(&self) -> MutexGuard<'_, ()> {
        self.registry_turn.lock().await
    }

    /// From now on the service reports that it is not ready and asks clients to open a new connection.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
        self.feed.end();
    }

    /// True if the service is about to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The current registry, keys and time.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.moment_with(self.registry())
    }

    /// Like [`Self::moment`], for issuing tokens: see [`Self::issuing_registry`].
    ///
    /// # Errors
    /// [`StoreError`] if the registrations may be too old.
    pub fn issuing_moment(&self) -> Result<Moment, StoreError> {
        Ok(self.moment_with(self.issuing_registry()?))
    }

    fn moment_with(&self, registry: Arc<Registry>) -> Moment {
        Moment {
            registry,
            keys: self.keys(),
            now: self.clock.now(),
        }
    }

    #[must_use]
    pub fn context<'a>(&'a self, moment: &'a Moment) -> Context<'a> {
        Context {
            settings: &self.config.protocol,
            registry: &moment.registry,
            store: &*self.store,
            keys: &moment.keys,
            identity_tokens: &self.identity_tokens,
            encryption_key: &self.encryption_key,
            secret_uses: &self.secret_uses,
            random: &*self.random,
            now: moment.now,
        }
    }

    /// Loads changes of the registry from the store.
    ///
    /// # Errors
    /// [`StoreError`] if the registry cannot be read; the old registry stays.
    pub async fn reload_registry(&self) -> Result<(), StoreError> {
        let StoredRegistry { registry, asked } =
            StoredRegistry::after(&self.registry(), &*self.store).await?;
        self.registry.store(Arc::new(registry));
        self.registry_confirmed.confirm(asked);
        Ok(())
    }

    /// Loads changes of the registry that other replicas made.
    ///
    /// # Errors
    /// [`StoreError`] if the registry cannot be read; the old registry stays.
    pub async fn follow_registry(&self) -> Result<(), StoreError> {
        let asked = Instant::now();
        if Some(self.store.registry_version().await?) == self.registry().version() {
            self.registry_confirmed.confirm(asked);
            return Ok(());
        }
        let _turn = self.registry_turn().await;
        self.reload_registry().await
    }
}

/// Registrations, signing keys and time, the same for the whole request.
#[derive(Debug)]
pub struct Moment {
    pub registry: Arc<Registry>,
    pub keys: Arc<KeyRing>,
    pub now: Timestamp,
}

/// Time at which a copy in memory was last known to equal the store, on a monotonic clock.
#[derive(Debug)]
struct Confirmed {
    first: Instant,
    /// Milliseconds from `first` to the last confirmation.
    last: AtomicU64,
}

impl Confirmed {
    const fn at(first: Instant) -> Self {
        Self {
            first,
            last: AtomicU64::new(0),
        }
    }

    /// Confirms that the copy equalled the store at `asked`.
    fn confirm(&self, asked: Instant) {
        let since = asked.saturating_duration_since(self.first).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.last.fetch_max(since, Ordering::AcqRel);
    }

    /// Time since the last confirmation.
    fn age(&self, now: Instant) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Acquire));
        now.saturating_duration_since(self.first)
            .saturating_sub(last)
    }
}

/// Number of registrations or changes per read.
const PAGE: usize = 1000;

/// The registry of a store.
#[derive(Debug)]
pub struct StoredRegistry {
    /// Time of the question to the store.
    asked: Instant,
    pub registry: Registry,
}

impl StoredRegistry {
    /// Reads the whole registry. Takes seconds for a million registrations.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read(store: &dyn Store) -> Result<Self, StoreError> {
        // The version is read before the registry, so the next check finds a change that happens in between.
        let asked = Instant::now();
        let version = store.registry_version().await?;
        let name = |client: &Client| client.client_id.to_string();
        let clients = all(|after| store.clients(after, PAGE), name).await?;
        let name = |user: &User| user.username.to_string();
        let users = all(|after| store.users(after, PAGE), name).await?;
        let legacy_instances = store.legacy_instances().await?;
        let registry = Registry::new(clients, users)
            .with_legacy_instances(legacy_instances)
            .with_version(version);
        Ok(Self { asked, registry })
    }

    /// Reads what changed after `registry` was read.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn after(registry: &Registry, store: &dyn Store) -> Result<Self, StoreError> {
        let Some(mut version) = registry.version() else {
            return Self::read(store).await;
        };
        let mut touched = BTreeSet::new();
        let asked = loop {
            let asked = Instant::now();
            let RegistryChanges::Known(changes) = store.registry_changes(version, PAGE).await?
            else {
                return Self::read(store).await;
            };
            version += changes.len() as u64;
            let is_last = changes.len() < PAGE;
            touched.extend(changes.into_iter().map(|touched| touched.object));
            if is_last {
                break asked;
            }
        };
        // An object may already be newer than this position. Then it is read once more later.
        let (mut clients, mut users) = (Vec::new(), Vec::new());
        let is_instance = |object: &ObjectName| object.kind == ObjectKind::LegacyInstance;
        let legacy_instances = if touched.iter().any(is_instance) {
            store.legacy_instances().await?
        } else {
            registry.legacy_instances().to_vec()
        };
        for ObjectName { kind, name } in touched {
            match kind {
                ObjectKind::Client => {
                    if let Some(client_id) = ClientId::parse(&name) {
                        let client = store.client(client_id.clone()).await?;
                        clients.push((client_id, client));
                    }
                }
                ObjectKind::User => {
                    if let Some(username) = Username::parse(&name) {
                        let user = store.user(username.clone()).await?;
                        users.push((username, user));
                    }
                }
                ObjectKind::LegacyInstance => {}
            }
        }
        let registry = registry
            .updated(clients, users)
            .with_legacy_instances(legacy_instances)
            .with_version(version);
        Ok(Self { asked, registry })
    }

    /// True if the store still has this registry.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer.
    pub async fn is_current(&self, store: &dyn Store) -> Result<bool, StoreError> {
        Ok(Some(store.registry_version().await?) == self.registry.version())
    }
}

/// All pages of a list.
async fn all<T, F>(
    page: impl Fn(String) -> F,
    name: impl Fn(&T) -> String,
) -> Result<Vec<T>, StoreError>
where
    F: Future<Output = Result<Vec<T>, StoreError>>,
{
    let mut all = Vec::new();
    loop {
        let found = page(all.last().map(&name).unwrap_or_default()).await?;
        let is_last = found.len() < PAGE;
        all.extend(found);
        if is_last {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_the_last_time_that_the_store_answered() {
        let first = Instant::now();
        let after = |seconds| first + Duration::from_secs(seconds);
        let confirmed = Confirmed::at(first);
        assert_eq!(confirmed.age(after(7)), Duration::from_secs(7));
        confirmed.confirm(after(5));
        confirmed.confirm(after(3));
        assert_eq!(confirmed.age(after(7)), Duration::from_secs(2));
        assert_eq!(confirmed.age(after(4)), Duration::ZERO);
    }
}
