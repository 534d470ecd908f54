//! The default store: one redb file, one writer.
//!
//! Writes go through [`writer`], which commits many operations in one durable transaction. Reads open a
//! snapshot of their own and never wait for the writer.

mod attempts;
mod audit;
mod backup;
mod client_secrets;
mod codes;
mod credentials;
mod fault;
mod grants;
mod once;
mod open;
mod registry;
mod revocations;
mod sealed;
mod second_factors;
mod sessions;
mod signing_keys;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;
mod upgrade;
mod usernames;
mod writer;
mod writer_metrics;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use redb::{
    Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    ReadableTableMetadata as _,
};
use tokio::sync::watch;

use self::codes::Attempt;
use self::fault::{Fault, readable};
use self::tables::{
    CLIENTS, GRANTS, LEGACY_INSTANCES, REMEMBERED, REVOCATIONS, SECOND_FACTORS, SESSIONS,
    SIGNING_KEYS, Tables, USERS, decode, decode_json,
};
use self::writer::{Opener, Shared, Writer};
use crate::{BackupError, Begin, Claim, Counts, Store, StoreError, Swept};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    Admission, AuditEvent, AuditRange, AuditRecord, Client, ClientId, CodeRecord, Credentials,
    CredentialsVersion, Extent, FeedId, FeedState, Grant, GrantFilter, GrantId, LegacyInstance,
    PacedKey, PresentedCode, Redemption, RefreshRotation, RefreshStep, RegistryChange,
    RegistryOutcome, Remembered, Revocation, Revoked, Rotation, SealedSigningKey, SealedValue,
    SecondFactor, SecretTimes, SecretUse, Session, TokenReference, User, Username,
};

pub use self::backup::{RestoreError, restore};
pub use self::open::OpenError;

/// A store in one file. Dropping it finishes what is queued and closes the file.
pub struct RedbStore {
    writer: Writer,
    shared: Shared,
    sweep_cursor: Arc<Mutex<sweep::Cursor>>,
    lifetime: Arc<Lifetime>,
}

/// The lifetime of tokens, in seconds.
#[derive(Debug)]
struct Lifetime {
    /// Of those that this process issues.
    configured: u64,
    /// Of the longest-lived ones that may exist.
    longest: AtomicU64,
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

impl RedbStore {
    /// Opens the file at `path`, readable by its owner alone, and creates it when it is missing.
    ///
    /// `access_token_lifetime` is how long a revocation stays in the feed.
    ///
    /// # Errors
    /// An [`OpenError`]: no access, in use by another process, damaged, or written by a later version.
    pub fn open(path: &Path, access_token_lifetime: Duration) -> Result<Self, OpenError> {
        let path = path.to_owned();
        Self::open_with(Box::new(move || open::open(&path)), access_token_lifetime)
    }

    /// Opens a store on what `backend` gives, such as a file whose disk is slow: for measurements.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on<B: redb::StorageBackend>(
        backend: impl Fn() -> std::io::Result<B> + Send + 'static,
        access_token_lifetime: Duration,
    ) -> Result<Self, OpenError> {
        let opener = move || open::open_on(Path::new("the backend"), backend());
        Self::open_with(Box::new(opener), access_token_lifetime)
    }

    fn open_with(opener: Opener, access_token_lifetime: Duration) -> Result<Self, OpenError> {
        let database = opener()?;
        let configured = access_token_lifetime.as_secs();
        let lifetime = open::note_lifetime(&database, configured)
            .map_err(|fault| open::damaged(Path::new("the file"), &fault))?;
        let shared: Shared = Arc::new(RwLock::new(Some(database)));
        let writer = Writer::start(Arc::clone(&shared), opener).map_err(OpenError::Thread)?;
        Ok(Self {
            writer,
            shared,
            sweep_cursor: Arc::default(),
            lifetime: Arc::new(Lifetime {
                configured,
                longest: AtomicU64::new(lifetime.longest),
            }),
        })
    }

    /// What no operation should do: for tests of what follows.
    #[cfg(any(test, feature = "testing"))]
    #[expect(clippy::panic, reason = "a test asks for it")]
    pub async fn panic_in_writer(&self) {
        let outcome: Result<(), StoreError> = self.write(|_, _| panic!("on purpose")).await;
        debug_assert!(outcome.is_err());
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let guard = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let database: &Database = guard
            .as_ref()
            .ok_or_else(|| StoreError::Failed("the store is closed after a failure".into()))?;
        let transaction = database.begin_read().map_err(Fault::from)?;
        Ok(read(&transaction)?)
    }

    async fn write<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tables<'_>, Duration) -> Result<T, Fault> + Send + 'static,
    {
        let lifetime = self.longest_token();
        self.writer
            .write(move |tables| operation(tables, lifetime))
            .await
    }
}

#[async_trait]
impl Store for RedbStore {
    async fn registry(&self) -> Result<(Vec<Client>, Vec<User>), StoreError> {
        self.read(|transaction| {
            Ok((
                readable_json("client", transaction, CLIENTS)?,
                readable_json("user", transaction, USERS)?,
            ))
        })
    }

    async fn registry_version(&self) -> Result<u64, StoreError> {
        self.read(registry::version)
    }

    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError> {
        self.read(|transaction| all_json(transaction, LEGACY_INSTANCES))
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        self.write(move |tables, lifetime| registry::change(tables, &change, now, lifetime))
            .await
    }

    async fn remembered(&self) -> Result<Vec<Remembered>, StoreError> {
        self.read(|transaction| all_json(transaction, REMEMBERED))
    }

    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| registry::rehash(tables, &username, &hash, &stronger))
            .await
    }

    async fn secret_times(
        &self,
        client_ids: Vec<ClientId>,
    ) -> Result<Vec<SecretTimes>, StoreError> {
        self.read(|transaction| client_secrets::list(transaction, &client_ids))
    }

    async fn note_secret_uses(&self, uses: Vec<SecretUse>) -> Result<(), StoreError> {
        self.write(move |tables, _| client_secrets::note(tables, &uses))
            .await
    }

    async fn signing_keys(&self) -> Result<Vec<SealedSigningKey>, StoreError> {
        self.read(|transaction| {
            Ok(SealedSigningKey::oldest_first(all_json(
                transaction,
                SIGNING_KEYS,
            )?))
        })
    }

    async fn add_signing_key(
        &self,
        key: SealedSigningKey,
        unless_after: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.write(move |tables, _| signing_keys::add(tables, &key, unless_after))
            .await
    }

    async fn retire_signing_key(
        &self,
        kid: String,
        retired_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| signing_keys::retire(tables, &kid, retired_at))
            .await
    }

    async fn forget_signing_key(&self, kid: String) -> Result<bool, StoreError> {
        self.write(move |tables, _| signing_keys::forget(tables, &kid))
            .await
    }

    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(sealed::root)
    }

    async fn own_totp_secrets(&self) -> Result<Vec<(Username, Vec<u8>)>, StoreError> {
        self.read(sealed::own_totp_secrets)
    }

    async fn reseal(
        &self,
        value: SealedValue,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<bool, StoreError> {
        self.write(move |tables, _| sealed::reseal(tables, &value, before.as_deref(), &after))
            .await
    }

    async fn issue_code(&self, code: Digest, record: CodeRecord) -> Result<Begin, StoreError> {
        self.write(move |tables, _| codes::issue(tables, &code, &record))
            .await
    }

    async fn redeem_code(
        &self,
        code: Digest,
        presented: PresentedCode,
        grant_id: GrantId,
        first: RefreshStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError> {
        let attempt = Attempt {
            code,
            presented,
            grant_id,
            first,
            now,
        };
        self.write(move |tables, lifetime| codes::redeem(tables, attempt, lifetime))
            .await
    }

    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError> {
        self.write(move |tables, lifetime| grants::rotate(tables, &rotation, lifetime))
            .await
    }

    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.read(
            |transaction| match transaction.open_table(GRANTS)?.get(grant_id.as_bytes())? {
                Some(row) => decode(row.value()).map(Some),
                None => Ok(None),
            },
        )
    }

    async fn grants(
        &self,
        filter: GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.read(|transaction| grants::list(transaction, &filter, after, limit))
    }

    async fn revoke_grant(&self, grant_id: GrantId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |tables, lifetime| grants::revoke(tables, grant_id, now, lifetime))
            .await
    }

    async fn announce(&self, revoked: Revoked, extent: Extent) -> Result<bool, StoreError> {
        self.write(move |tables, _| revocations::announce(tables, revoked, extent))
            .await
    }

    async fn is_revoked(&self, token: TokenReference) -> Result<bool, StoreError> {
        self.read(|transaction| revocations::is_revoked(transaction, &token))
    }

    fn longest_token(&self) -> Duration {
        Duration::from_secs(self.lifetime.longest.load(Ordering::Acquire))
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        self.read(revocations::state)
    }

    async fn renew_feed(&self, feed: FeedId) -> Result<(), StoreError> {
        self.write(move |tables, _| revocations::set_feed(tables, feed))
            .await
    }

    fn feed_changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.writer.feed_changes())
    }

    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError> {
        self.read(|transaction| {
            transaction
                .open_table(REVOCATIONS)?
                .range(since.saturating_add(1)..)?
                .take(limit)
                .map(|entry| decode(entry?.1.value()))
                .collect()
        })
    }

    async fn claim_jti(
        &self,
        client_id: ClientId,
        jti: String,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        self.write(move |tables, _| once::claim_jti(tables, &client_id, &jti, expires_at, now))
            .await
    }

    async fn is_jti_claimed(
        &self,
        client_id: ClientId,
        jti: String,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.read(|transaction| once::is_jti_claimed(transaction, &client_id, &jti, now))
    }

    async fn claim_totp_step(&self, username: Username, step: u64) -> Result<Claim, StoreError> {
        self.write(move |tables, _| once::claim_totp_step(tables, &username, step))
            .await
    }

    async fn credentials(&self, username: Username) -> Result<Option<Credentials>, StoreError> {
        self.read(|transaction| credentials::get(transaction, &username))
    }

    async fn second_factor(&self, username: Username) -> Result<Option<SecondFactor>, StoreError> {
        self.read(|transaction| {
            match transaction
                .open_table(SECOND_FACTORS)?
                .get(username.as_str())?
            {
                Some(row) => decode(row.value()).map(Some),
                None => Ok(None),
            }
        })
    }

    async fn set_second_factor(
        &self,
        username: Username,
        second_factor: Option<SecondFactor>,
        rests_on: Option<CredentialsVersion>,
        now: Timestamp,
    ) -> Result<Option<CredentialsVersion>, StoreError> {
        self.write(move |tables, lifetime| {
            let second_factor = second_factor.as_ref();
            second_factors::set(tables, &username, second_factor, rests_on, now, lifetime)
        })
        .await
    }

    async fn claim_recovery_code(
        &self,
        username: Username,
        code: Digest,
    ) -> Result<Claim, StoreError> {
        self.write(move |tables, _| {
            second_factors::claim_recovery_code(tables, username.as_str(), &code)
        })
        .await
    }

    async fn admit_attempt(
        &self,
        keys: Vec<PacedKey>,
        now: Timestamp,
    ) -> Result<Admission, StoreError> {
        self.write(move |tables, _| attempts::admit(tables, &keys, now))
            .await
    }

    async fn forgive_attempt(
        &self,
        forget: Option<Digest>,
        take_back: Vec<Digest>,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| attempts::forgive(tables, forget.as_ref(), &take_back))
            .await
    }

    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<Begin, StoreError> {
        self.write(move |tables, _| {
            sessions::start(
                tables,
                id.as_bytes(),
                &session,
                replaces.as_ref().map(Digest::as_bytes),
            )
        })
        .await
    }

    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let session: Option<Session> = self.read(|transaction| {
            match transaction.open_table(SESSIONS)?.get(id.as_bytes())? {
                Some(row) => decode(row.value()).map(Some),
                None => Ok(None),
            }
        })?;
        Ok(session.filter(|session| now < session.expires_at))
    }

    async fn extend_session(
        &self,
        id: Digest,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| sessions::extend(tables, id.as_bytes(), expires_at, now))
            .await
    }

    async fn end_session(&self, id: Digest) -> Result<(), StoreError> {
        self.write(move |tables, _| sessions::end(tables, id.as_bytes()))
            .await
    }

    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        // Not in the writer's thread, which others wait for.
        let rows = tokio::task::spawn_blocking(move || audit::rows(&events))
            .await
            .map_err(|error| StoreError::Failed(error.to_string()))??;
        self.write(move |tables, _| audit::append(tables, &rows))
            .await
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.read(|transaction| audit::list(transaction, range, limit))
    }

    async fn forget_audit(&self, last: u64, limit: usize) -> Result<Swept, StoreError> {
        self.write(move |tables, _| audit::forget(tables, last, limit))
            .await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.read(|transaction| {
            Ok(Counts {
                grants: transaction.open_table(GRANTS)?.len()?,
                sessions: transaction.open_table(SESSIONS)?.len()?,
                revocations: transaction.open_table(REVOCATIONS)?.len()?,
                audit_entries: audit::count(transaction)?,
            })
        })
    }

    async fn backup(&self, to: &Path) -> Result<(), BackupError> {
        let (shared, to) = (Arc::clone(&self.shared), to.to_owned());
        tokio::task::spawn_blocking(move || {
            let guard = shared.read().unwrap_or_else(PoisonError::into_inner);
            match guard.as_ref() {
                Some(database) => backup::write(database, &to),
                None => Err(BackupError::Failed(
                    "the store is closed after a failure".into(),
                )),
            }
        })
        .await
        .map_err(|error| BackupError::Failed(error.to_string()))?
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<Swept, StoreError> {
        let cursor = Arc::clone(&self.sweep_cursor);
        let lifetime = Arc::clone(&self.lifetime);
        self.write(move |tables, longest| {
            let remembered = revocations::token_lifetime(tables)?;
            let next = remembered.at(lifetime.configured, now);
            if next != remembered {
                revocations::set_token_lifetime(tables, next)?;
            }
            // Later than durable it may not be: a batch that fails leaves the longer one in the file, for the next sweep.
            lifetime.longest.store(next.longest, Ordering::Release);
            let mut cursor = cursor.lock().unwrap_or_else(PoisonError::into_inner);
            sweep::sweep(tables, &mut cursor, now, limit, longest)
        })
        .await
    }

    fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.writer.metrics().register(registry);
    }

    async fn failed(&self) -> String {
        self.writer.ended().await;
        "the store's writer has stopped after a panic".to_owned()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if self.writer.is_ready() {
            Ok(())
        } else {
            Err(StoreError::Failed(
                "the store is closed after a failure".into(),
            ))
        }
    }
}

/// All rows but those that cannot be read: who is not registered is refused, and the others go on.
fn readable_json<T: serde::de::DeserializeOwned>(
    what: &'static str,
    transaction: &ReadTransaction,
    definition: redb::TableDefinition<'_, &'static str, &'static [u8]>,
) -> Result<Vec<T>, Fault> {
    let table = transaction.open_table(definition)?;
    let rows = table.iter()?.filter_map(|entry| match entry {
        Ok((_, row)) => readable(what, decode_json(row.value())).transpose(),
        Err(error) => Some(Err(error.into())),
    });
    rows.collect()
}

fn all_json<T: serde::de::DeserializeOwned>(
    transaction: &ReadTransaction,
    definition: redb::TableDefinition<'_, &'static str, &'static [u8]>,
) -> Result<Vec<T>, Fault> {
    transaction
        .open_table(definition)?
        .iter()?
        .map(|entry| decode_json(entry?.1.value()))
        .collect()
}
