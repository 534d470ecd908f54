//! What a request needs: configuration, registry, store, clock, randomness, keys.

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
    /// What happened, for auditors.
    pub audit: AuditLog,
    /// How often, for operators.
    pub metrics: Metrics,
    /// How often clients may revoke.
    pub revocation_limit: RevocationLimit,
    /// What gateways read of revocations.
    pub feed: RevocationFeed,
    /// For which clients and addresses a secret was wrong lately.
    pub suspects: Suspects,
    /// Client secrets that were proved lately.
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
    /// Puts the parts together and opens the signing keys (the first one is made here).
    ///
    /// # Errors
    /// [`KeyRingError`] when the keys cannot be read.
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

    /// The signing keys as they are now.
    #[must_use]
    pub fn keys(&self) -> Arc<KeyRing> {
        self.keys.load_full()
    }

    fn key_policy(&self) -> Policy {
        Policy::of(&self.config.protocol, &self.registry())
    }

    /// Does what is due about the signing keys, and takes up those that changed.
    ///
    /// # Errors
    /// A [`KeyRingError`]; the keys stay as they are.
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

    /// Rotates the signing keys out of turn: see [`rotation::on_demand`].
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

    /// The registry as it is now. Take it once per request: a later call may see a later one.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// The registry, to issue tokens by: an older one than its bound is refused, because the revocation of a client or user
    /// reaches no further ([`REGISTRATIONS_MAX_AGE`]). What issues a token reads the clock after this.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked for longer whether the registry has changed.
    pub fn issuing_registry(&self) -> Result<Arc<Registry>, StoreError> {
        if self.registry_confirmed.age(Instant::now()) > REGISTRATIONS_MAX_AGE {
            let reason = "the registrations cannot be compared with those in the store";
            return Err(StoreError::Failed(reason.to_owned()));
        }
        Ok(self.registry())
    }

    /// Whose bearer token of the administration this is, as the file of admin tokens says now; compared in constant time.
    #[must_use]
    pub fn administrator(&self, presented: &[u8]) -> Option<Holder> {
        self.admin_tokens.holder(presented)
    }

    /// Takes an entry for the audit log.
    pub fn record(&self, origin: &Origin, entry: Entry) {
        self.metrics.event(entry.action());
        self.audit.record(origin, entry, self.clock.now());
    }

    /// Waits for the turn to read the registry and change it, so that no change of this process overwrites another.
    pub async fn registry_turn(&self) -> MutexGuard<'_, ()> {
        self.registry_turn.lock().await
    }

    /// From now on the service says that it is not ready, and asks clients to use another connection next time.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
        self.feed.end();
    }

    /// Whether the service is about to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// What there is at this moment.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.moment_with(self.registry())
    }

    /// What there is at this moment, to issue tokens by: see [`Self::issuing_registry`].
    ///
    /// # Errors
    /// [`StoreError`] when the registrations may be too old for that.
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

    /// What the protocol decides with at this moment.
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

    /// Takes up what changed in the store's registry.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; the old one stays.
    pub async fn reload_registry(&self) -> Result<(), StoreError> {
        let StoredRegistry { registry, asked } =
            StoredRegistry::after(&self.registry(), &*self.store).await?;
        self.registry.store(Arc::new(registry));
        self.registry_confirmed.confirm(asked);
        Ok(())
    }

    /// Takes up what another replica changed in the registry.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; the old one stays.
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

/// Registrations, signing keys and time as one request sees them from its beginning to its end.
#[derive(Debug)]
pub struct Moment {
    /// The registrations.
    pub registry: Arc<Registry>,
    /// The signing keys.
    pub keys: Arc<KeyRing>,
    /// The time.
    pub now: Timestamp,
}

/// When something in memory was last known to be what the store has, on a clock that only goes forward.
#[derive(Debug)]
struct Confirmed {
    first: Instant,
    /// Milliseconds from `first` to the last time.
    last: AtomicU64,
}

impl Confirmed {
    const fn at(first: Instant) -> Self {
        Self {
            first,
            last: AtomicU64::new(0),
        }
    }

    /// It was what the store had at `asked`.
    fn confirm(&self, asked: Instant) {
        let since = asked.saturating_duration_since(self.first).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.last.fetch_max(since, Ordering::AcqRel);
    }

    /// The time since.
    fn age(&self, now: Instant) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Acquire));
        now.saturating_duration_since(self.first)
            .saturating_sub(last)
    }
}

/// Registrations or changes read at once.
const PAGE: usize = 1000;

/// What a store has registered.
#[derive(Debug)]
pub struct StoredRegistry {
    /// When the store was asked.
    asked: Instant,
    /// What there is.
    pub registry: Registry,
}

impl StoredRegistry {
    /// Reads it: seconds where there are a million registrations.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub async fn read(store: &dyn Store) -> Result<Self, StoreError> {
        // Before the registry itself: a change in between is taken up by the next look, rather than never.
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
    /// [`StoreError`] when it cannot be read.
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
        // Each object as it is by now, which may be later than the position: then it changes once more.
        let (mut clients, mut users) = (Vec::new(), Vec::new());
        let mut legacy_instances = registry.legacy_instances().to_vec();
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
                ObjectKind::LegacyInstance => legacy_instances = store.legacy_instances().await?,
            }
        }
        let registry = registry
            .updated(clients, users)
            .with_legacy_instances(legacy_instances)
            .with_version(version);
        Ok(Self { asked, registry })
    }

    /// Whether the store still has the same.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be asked.
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
