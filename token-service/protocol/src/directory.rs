//! What requests look up: a bounded cache of clients and users in front of the store.
//!
//! An object leaves the cache when it changes: at once in the process that made the change, and within a second in
//! other processes. Names that the store does not know are not kept, so each look-up of such a name costs one read and
//! displaces nothing.

#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Serialize;
use tokio::sync::Mutex;

use domain::object::ObjectKind;
use domain::{
    Client, ClientId, Identity, IntegrationType, ObjectName, RegistryChanges, RegistrySummary,
    User, Username,
};
use store::{REGISTRATIONS_MAX_AGE, Store, StoreError};

/// Number of changes per read.
const PAGE: usize = 1000;

/// Number of origins in memory.
const ORIGINS: usize = 4096;

/// Memory that an object and its entry take beyond the length of the object's row, in bytes.
const OVERHEAD: u64 = 512;

/// Typical size of an object, in bytes, from which the cache derives its initial number of entries.
const TYPICAL: u64 = 1024;

/// Where requests look up the clients and users of a store.
#[derive(Debug)]
pub struct Directory {
    store: Arc<dyn Store>,
    clients: Objects<ClientId, Client>,
    users: Objects<Username, User>,
    /// Origins of enabled public clients.
    origins: Cache<String, ()>,
    summary: ArcSwap<RegistrySummary>,
    /// Number of times that objects were removed because they changed. An object that was read before such a time may
    /// be older than the change and is not kept.
    removals: RwLock<u64>,
    followed: Mutex<Followed>,
    confirmed: Confirmed,
    reads: Counter,
}

/// How far the cache follows the sequence of changes.
#[derive(Debug)]
struct Followed {
    /// The last change whose objects were removed.
    position: u64,
    /// True if the summary is older than the position.
    summary_is_old: bool,
}

impl Directory {
    /// Reads the summary of `store`. The cache takes about `capacity` bytes.
    pub async fn open(store: Arc<dyn Store>, capacity: u64) -> Result<Self, StoreError> {
        let asked = Instant::now();
        let summary = store.registry_summary().await?;
        let followed = Followed {
            position: summary.version,
            summary_is_old: false,
        };
        Ok(Self {
            store,
            clients: Objects::new(capacity / 2),
            users: Objects::new(capacity / 2),
            origins: Cache::new(ORIGINS),
            summary: ArcSwap::from_pointee(summary),
            removals: RwLock::default(),
            followed: Mutex::new(followed),
            confirmed: Confirmed::at(asked),
            reads: Counter::default(),
        })
    }

    /// What all registrations say together. Call this once per request, because a later call may return a newer
    /// summary.
    pub fn summary(&self) -> Arc<RegistrySummary> {
        self.summary.load_full()
    }

    /// The enabled client of the current flows with this id. Ignores legacy clients.
    pub async fn client(&self, client_id: &str) -> Result<Option<Arc<Client>>, StoreError> {
        let found = self.client_of_any_flow(client_id).await?;
        Ok(found.filter(|client| !matches!(client.integration, IntegrationType::Legacy { .. })))
    }

    /// The enabled client with this id, of the current flows or the legacy flow.
    pub async fn client_of_any_flow(
        &self,
        client_id: &str,
    ) -> Result<Option<Arc<Client>>, StoreError> {
        let found = self.registered_client(client_id).await?;
        Ok(found.filter(|client| client.enabled))
    }

    /// The client with this id, enabled or disabled.
    pub async fn registered_client(
        &self,
        client_id: &str,
    ) -> Result<Option<Arc<Client>>, StoreError> {
        let Some(client_id) = ClientId::parse(client_id) else {
            return Ok(None);
        };
        let read = |client_id| self.store.client_with_bound_user(client_id);
        let name = |client: &Client| client.client_id.clone();
        self.find(&self.clients, client_id, read, name).await
    }

    /// The enabled legacy client with this id, on this instance (protocol.md §4.5).
    pub async fn legacy_client(
        &self,
        client_id: &str,
        instance: &str,
    ) -> Result<Option<Arc<Client>>, StoreError> {
        let found = self.client_of_any_flow(client_id).await?;
        Ok(found.filter(|client| match &client.integration {
            IntegrationType::Legacy { hostname, .. } => {
                hostname.as_deref().is_none_or(|only| only == instance)
            }
            _ => false,
        }))
    }

    /// The enabled user with this name in any letter case (D-43). Another spelling than the registered one costs a read,
    /// because the cache knows users by their spelling.
    pub async fn user(&self, username: &str) -> Result<Option<Arc<User>>, StoreError> {
        let Some(username) = Username::parse(username) else {
            return Ok(None);
        };
        let read = async |username| {
            let user = self.store.user(username).await?;
            Ok(user.map(|user| (user, None)))
        };
        let name = |user: &User| user.username.clone();
        let found = self.find(&self.users, username, read, name).await?;
        Ok(found.filter(|user| user.enabled))
    }

    /// The enabled single-sign-on users with this e-mail address: see
    /// [`RegistrationStore::single_sign_on_users`](store::RegistrationStore::single_sign_on_users). Not cached.
    pub async fn single_sign_on_users(&self, email: &str) -> Result<Vec<Username>, StoreError> {
        self.reads.inc();
        self.store.single_sign_on_users(email.to_owned()).await
    }

    /// The enabled user with this identity. Finding the name costs a read.
    pub async fn user_of_identity(
        &self,
        identity: &Identity,
    ) -> Result<Option<Arc<User>>, StoreError> {
        self.reads.inc();
        let Some(username) = self.store.user_with_identity(identity.clone()).await? else {
            return Ok(None);
        };
        let found = self.user(username.as_str()).await?;
        // The user in memory may be older than the index.
        Ok(found.filter(|user| user.has_identity(identity)))
    }

    /// True if a page of this origin may call the token endpoint: see
    /// [`RegistrationStore::allows_origin`](store::RegistrationStore::allows_origin).
    pub async fn allows_origin(&self, origin: &str) -> Result<bool, StoreError> {
        if self.origins.get(origin).is_some() {
            return Ok(true);
        }
        let removals = self.removals();
        self.reads.inc();
        let allowed = self.store.allows_origin(origin.to_owned()).await?;
        if allowed {
            self.keep(removals, || self.origins.insert(origin.to_owned(), ()));
        }
        Ok(allowed)
    }

    /// The object from memory, or from `read`, kept under its registered name. Also keeps the user that `read` returns
    /// with the object, so that a token of a user-bound client costs at most one read.
    async fn find<K, T, F>(
        &self,
        objects: &Objects<K, T>,
        name: K,
        read: impl FnOnce(K) -> F,
        registered: impl FnOnce(&T) -> K,
    ) -> Result<Option<Arc<T>>, StoreError>
    where
        K: Eq + Hash + Clone,
        T: Serialize,
        F: Future<Output = Result<Option<(T, Option<User>)>, StoreError>>,
    {
        if let Some(kept) = objects.get(&name) {
            return Ok(Some(kept));
        }
        let removals = self.removals();
        self.reads.inc();
        let Some((object, bound_user)) = read(name).await? else {
            return Ok(None);
        };
        let object = Arc::new(object);
        self.keep(removals, || {
            if let Some(user) = bound_user {
                self.users.insert(user.username.clone(), Arc::new(user));
            }
            objects.insert(registered(&object), Arc::clone(&object));
        });
        Ok(Some(object))
    }

    fn removals(&self) -> u64 {
        *self.removals.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `insert`, unless objects were removed after `removals` was read.
    fn keep(&self, removals: u64, insert: impl FnOnce()) {
        let now = self.removals.read().unwrap_or_else(PoisonError::into_inner);
        if *now == removals {
            insert();
        }
    }

    fn remove(&self, remove: impl FnOnce()) {
        let mut removals = self
            .removals
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *removals += 1;
        remove();
    }

    /// Removes everything that changed in the store since the last call.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read; then nothing is confirmed.
    pub async fn follow(&self) -> Result<(), StoreError> {
        let mut followed = self.followed.lock().await;
        let mut asked = Instant::now();
        let version = self.store.registry_version().await?;
        while followed.position != version {
            let after = followed.position;
            asked = Instant::now();
            match self.store.registry_changes(after, PAGE).await? {
                RegistryChanges::Known(changes) => {
                    followed.position += changes.len() as u64;
                    followed.summary_is_old = true;
                    self.remove(|| self.remove_changed(&changes));
                    if changes.len() < PAGE {
                        break;
                    }
                }
                RegistryChanges::Forgotten => {
                    let summary = self.store.registry_summary().await?;
                    followed.position = summary.version;
                    followed.summary_is_old = false;
                    self.summary.store(Arc::new(summary));
                    self.remove(|| self.remove_all());
                    break;
                }
            }
        }
        if followed.summary_is_old {
            let summary = self.store.registry_summary().await?;
            followed.summary_is_old = false;
            self.summary.store(Arc::new(summary));
        }
        self.confirmed.confirm(asked);
        Ok(())
    }

    fn remove_changed(&self, changes: &[ObjectName]) {
        for object in changes {
            match object.kind {
                ObjectKind::Client => {
                    if let Some(client_id) = ClientId::parse(&object.name) {
                        self.clients.0.remove(&client_id);
                    }
                    self.origins.clear();
                }
                ObjectKind::User => {
                    if let Some(username) = Username::parse(&object.name) {
                        self.users.0.remove(&username);
                    }
                }
                ObjectKind::LegacyInstance => {}
            }
        }
    }

    fn remove_all(&self) {
        self.clients.0.clear();
        self.users.0.clear();
        self.origins.clear();
    }

    /// True if tokens may be issued: no cached object was older than [`REGISTRATIONS_MAX_AGE`] at `now`. The revocation
    /// of a client or user covers tokens issued up to that time after the revocation, and no later tokens. So the caller
    /// must have read the clock for `iat` before this call.
    pub fn are_recent(&self, now: Instant) -> bool {
        self.confirmed.age(now) <= REGISTRATIONS_MAX_AGE
    }

    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register(
            "registration_reads",
            "Reads of clients, users and origins that were not in memory",
            self.reads.clone(),
        );
    }
}

/// Cached objects, bounded by their size.
#[derive(Debug)]
struct Objects<K, T>(Cache<K, Kept<T>, BySize>);

impl<K: Eq + Hash, T: Serialize> Objects<K, T> {
    fn new(capacity: u64) -> Self {
        let entries = usize::try_from(capacity / TYPICAL).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(entries, capacity, BySize))
    }

    fn get(&self, name: &K) -> Option<Arc<T>> {
        self.0.get(name).map(|kept| kept.object)
    }

    fn insert(&self, name: K, object: Arc<T>) {
        self.0.insert(name, Kept::new(object));
    }
}

#[derive(Debug)]
struct Kept<T> {
    object: Arc<T>,
    /// Size of the object and its entry, in bytes.
    size: u64,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self {
            object: Arc::clone(&self.object),
            size: self.size,
        }
    }
}

impl<T: Serialize> Kept<T> {
    /// The length of the row stands for the length of the object's texts.
    fn new(object: Arc<T>) -> Self {
        let mut length = Length(0);
        let written = serde_json::to_writer(&mut length, &*object);
        let size = written.map_or(u64::MAX, |()| length.0.saturating_add(OVERHEAD));
        Self { object, size }
    }
}

/// Counts the bytes that are written.
struct Length(u64);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
struct BySize;

impl<K, T> Weighter<K, Kept<T>> for BySize {
    fn weight(&self, _: &K, kept: &Kept<T>) -> u64 {
        kept.size
    }
}

/// Time at which the cache was last known to equal the store, on a monotonic clock.
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

    /// Confirms that the cache equalled the store at `asked`.
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
