//! A store for tests of what a part of the service asks of the store.

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::*;
use domain::clock::{Clock as _, Timestamp};
use domain::digest::Digest;
use domain::registry_index::NamedKind;
use domain::{
    Admission, AuditEvent, AuditKind, AuditRange, AuditRecord, CertificateExpiry, ClaimedNotice,
    Client, ClientId, CodeRecord, Counted, Credentials, CredentialsVersion, EndedSignIns,
    EndingSessions, Excerpt, Extent, FeedId, FeedState, FirstStep, Grant, GrantFilter, GrantId,
    Layout, LegacyInstance, Notice, ObjectName, Owner, PacedKey, PresentedCode, ProviderSignOut,
    Redemption, RefreshRotation, RegistryChange, RegistryChanges, RegistryOutcome, RegistrySummary,
    Revocation, Revoked, Rotation, SealedSigningKey, SealedValue, SecondFactor, SecretTimes,
    SecretUse, SelfContainedCode, Session, SignIns, TokenReference, User, Username,
};
use system::SystemClock;

/// Passes operations on to a store, and records them.
#[derive(Debug)]
pub struct Watched {
    store: Arc<dyn Store>,
    calls: Mutex<Vec<String>>,
    overtaking: Mutex<Option<Overtaking>>,
    held: watch::Sender<Option<&'static str>>,
    failing: Mutex<&'static [&'static str]>,
}

/// A change that another replica makes.
#[derive(Debug)]
struct Overtaking {
    change: RegistryChange,
    operation: &'static str,
    /// Calls of the operation until the change.
    calls: usize,
}

impl Watched {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            calls: Mutex::default(),
            overtaking: Mutex::default(),
            held: watch::Sender::default(),
            failing: Mutex::default(),
        }
    }

    /// The operations since the last call of this function, with their arguments.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.calls))
    }

    /// Makes `change` before the call number `call` (from 1) of `operation`, as another replica would.
    pub fn change_before(&self, operation: &'static str, call: usize, change: RegistryChange) {
        *lock(&self.overtaking) = Some(Overtaking {
            change,
            operation,
            calls: call,
        });
    }

    /// From now on, calls of `operation` wait until the next call of this function.
    pub fn hold(&self, operation: Option<&'static str>) {
        self.held.send_replace(operation);
    }

    /// From now on, calls of these operations fail, until the next call of this function.
    pub fn fail(&self, operations: &'static [&'static str]) {
        *lock(&self.failing) = operations;
    }

    async fn note(&self, operation: &'static str, arguments: String) -> Result<(), StoreError> {
        lock(&self.calls).push(format!("{operation}({arguments})"));
        let due = {
            let mut overtaking = lock(&self.overtaking);
            if let Some(next) = overtaking.as_mut().filter(|one| one.operation == operation) {
                next.calls = next.calls.saturating_sub(1);
            }
            overtaking.take_if(|next| next.calls == 0)
        };
        if let Some(Overtaking { change, .. }) = due {
            let outcome = self.store.change_registry(change, SystemClock.now()).await;
            debug_assert_eq!(outcome, Ok(RegistryOutcome::Changed));
        }
        let mut held = self.held.subscribe();
        let released = held.wait_for(|held| *held != Some(operation)).await;
        debug_assert!(released.is_ok());
        match lock(&self.failing).contains(&operation) {
            true => Err(StoreError::Failed(operation.to_owned())),
            false => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! watched {
    ($($trait:ident {
        $($name:ident($($argument:ident: $type:ty),*) -> $outcome:ty;)*
        $({ $($other:tt)* })?
    })*) => {$(
        #[async_trait]
        impl $trait for Watched {
            $(async fn $name(&self, $($argument: $type),*) -> $outcome {
                let arguments: &[&(dyn Debug + Sync)] = &[$(&$argument),*];
                let arguments: Vec<String> =
                    arguments.iter().map(|argument| format!("{argument:?}")).collect();
                self.note(stringify!($name), arguments.join(", ")).await?;
                self.store.$name($($argument),*).await
            })*
            $($($other)*)?
        }
    )*};
}

watched! {
    RegistrationStore {
        client(client_id: ClientId) -> Result<Option<Client>, StoreError>;
        client_with_bound_user(client_id: ClientId) -> Result<Option<(Client, Option<User>)>, StoreError>;
        user(username: Username) -> Result<Option<User>, StoreError>;
        clients(after: String, limit: usize) -> Result<Vec<Client>, StoreError>;
        users(after: String, limit: usize) -> Result<Vec<User>, StoreError>;
        legacy_instances() -> Result<Vec<LegacyInstance>, StoreError>;
        registry_version() -> Result<u64, StoreError>;
        registry_changes(after: u64, limit: usize) -> Result<RegistryChanges, StoreError>;
        excerpt(names: Vec<ObjectName>) -> Result<Excerpt, StoreError>;
        registry_summary() -> Result<RegistrySummary, StoreError>;
        allows_origin(origin: String) -> Result<bool, StoreError>;
        users_with(kind: NamedKind, values: Vec<String>) -> Result<Vec<(String, Username)>, StoreError>;
        clients_bound_to(username: Username, limit: usize) -> Result<Vec<ClientId>, StoreError>;
        certificates_by_expiry(limit: usize) -> Result<Vec<CertificateExpiry>, StoreError>;
        applied_file() -> Result<Option<Digest>, StoreError>;
        change_registry(change: RegistryChange, now: Timestamp) -> Result<RegistryOutcome, StoreError>;
        rehash_password(username: Username, hash: String, stronger: String) -> Result<(), StoreError>;
    }
    ClientSecretStore {
        secret_times(client_ids: Vec<ClientId>) -> Result<Vec<SecretTimes>, StoreError>;
        note_secret_uses(uses: Vec<SecretUse>) -> Result<(), StoreError>;
    }
    SigningKeyStore {
        signing_keys() -> Result<Vec<SealedSigningKey>, StoreError>;
        add_signing_key(key: SealedSigningKey, unless_after: Option<Timestamp>, audit: Arc<[AuditEvent]>) -> Result<bool, StoreError>;
        retire_signing_key(kid: String, retired_at: Option<Timestamp>) -> Result<(), StoreError>;
        forget_signing_key(kid: String, audit: Arc<[AuditEvent]>) -> Result<bool, StoreError>;
    }
    SealedStore {
        sealed_root() -> Result<Option<Vec<u8>>, StoreError>;
        own_totp_secrets(after: String, limit: usize) -> Result<Vec<(Username, Vec<u8>)>, StoreError>;
        reseal(value: SealedValue, before: Option<Vec<u8>>, after: Vec<u8>) -> Result<bool, StoreError>;
    }
    CodeStore {
        redeem_code(code: SelfContainedCode, presented: PresentedCode, first: FirstStep, now: Timestamp) -> Result<Redemption, StoreError>;
        issue_legacy_code(code: Digest, record: CodeRecord) -> Result<Begin, StoreError>;
        redeem_legacy_code(code: Digest, presented: PresentedCode, grant_id: GrantId, first: FirstStep, now: Timestamp) -> Result<Redemption, StoreError>;
    }
    GrantStore {
        rotate_refresh(rotation: RefreshRotation) -> Result<Rotation, StoreError>;
        grant(grant_id: GrantId) -> Result<Option<Grant>, StoreError>;
        grants(filter: GrantFilter, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, StoreError>;
        live_grants(username: Username, from: Option<ClientId>, limit: usize) -> Result<Vec<Grant>, StoreError>;
        revoke_grant(grant_id: GrantId, audit: Arc<[AuditEvent]>, now: Timestamp) -> Result<bool, StoreError>;
        revoke_all(owner: Owner, audit: Arc<[AuditEvent]>, now: Timestamp) -> Result<u64, StoreError>;
    }
    RevocationStore {
        announce(revoked: Revoked, extent: Extent, audit: Arc<[AuditEvent]>) -> Result<bool, StoreError>;
        revoked_by(token: TokenReference) -> Result<Vec<(Revoked, Timestamp)>, StoreError>;
    }
    FeedStore {
        feed_state() -> Result<FeedState, StoreError>;
        renew_feed(feed: FeedId, audit: Arc<[AuditEvent]>) -> Result<(), StoreError>;
        revocations_since(since: u64, limit: usize) -> Result<Vec<Revocation>, StoreError>;
        {
            fn longest_token(&self) -> Duration {
                self.store.longest_token()
            }

            fn feed_changes(&self) -> Option<watch::Receiver<u64>> {
                self.store.feed_changes()
            }
        }
    }
    OnceStore {
        use_once(id: OnceId, expires_at: Timestamp, now: Timestamp) -> Result<Use, StoreError>;
        is_used(id: OnceId, now: Timestamp) -> Result<bool, StoreError>;
        use_totp_step(username: Username, step: u64) -> Result<Use, StoreError>;
    }
    CredentialStore {
        credentials(username: Username) -> Result<Option<Credentials>, StoreError>;
        second_factor(username: Username) -> Result<Option<SecondFactor>, StoreError>;
        sign_ins(usernames: Vec<Username>) -> Result<Vec<SignIns>, StoreError>;
        set_second_factor(username: Username, second_factor: Option<SecondFactor>, rests_on: Option<CredentialsVersion>, notice: Option<Notice>, audit: Arc<[AuditEvent]>, now: Timestamp) -> Result<Option<CredentialsVersion>, StoreError>;
        replace_recovery_codes(username: Username, codes: Vec<Digest>, rests_on: CredentialsVersion, notice: Option<Notice>, audit: Arc<[AuditEvent]>, now: Timestamp) -> Result<bool, StoreError>;
        use_recovery_code(username: Username, code: Digest) -> Result<Use, StoreError>;
    }
    NoticeStore {
        claim_notices(now: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError>;
        settle_notice(claimed: ClaimedNotice, again_at: Option<Timestamp>, audit: Arc<[AuditEvent]>, now: Timestamp) -> Result<bool, StoreError>;
    }
    AttemptStore {
        admit_attempt(keys: Vec<PacedKey>, now: Timestamp) -> Result<Admission, StoreError>;
        forgive_attempt(forget: Option<Digest>, take_back: Vec<Counted>) -> Result<(), StoreError>;
    }
    SessionStore {
        start_session(id: Digest, session: Session, replaces: Option<Digest>) -> Result<SessionBegin, StoreError>;
        session(id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError>;
        extend_session(id: Digest, expires_at: Timestamp, now: Timestamp) -> Result<(), StoreError>;
        sessions(username: Username, now: Timestamp) -> Result<Vec<(Digest, Session)>, StoreError>;
        end_session(id: Digest) -> Result<(), StoreError>;
        end_provider_sign_ins(sign_out: ProviderSignOut, audit: Arc<[AuditEvent]>, now: Timestamp) -> Result<EndedSignIns, StoreError>;
        end_sessions(username: Username, which: EndingSessions, audit: Arc<[AuditEvent]>, now: Timestamp) -> Result<u64, StoreError>;
    }
    AuditStore {
        append_audit(events: Arc<[AuditEvent]>) -> Result<(), StoreError>;
        audit(range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError>;
        forget_audit(kind: AuditKind, most: u64, limit: usize) -> Result<Swept, StoreError>;
    }
    Store {
        sweep(due: Timestamp, now: Timestamp, limit: usize) -> Result<Swept, StoreError>;
        swept_at() -> Result<Timestamp, StoreError>;
        counts() -> Result<Counts, StoreError>;
        ready() -> Result<Option<Timestamp>, StoreError>;
        {
            async fn failed(&self) -> String {
                self.store.failed().await
            }

            fn layout(&self) -> Layout {
                self.store.layout()
            }

            async fn backup(&self, to: &Path) -> Result<(), BackupError> {
                self.store.backup(to).await
            }

            fn register_metrics(&self, registry: &mut Registry) {
                self.store.register_metrics(registry);
            }
        }
    }
}
