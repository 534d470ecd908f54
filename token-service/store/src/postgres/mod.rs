//! A store that several replicas share: PostgreSQL, or what speaks its language (CockroachDB, YugabyteDB).
//!
//! Each operation is one guarded statement or one short transaction, so no replica decides on what another one is
//! changing; the decisions themselves are those of the domain types, as in every store. What the database undoes in
//! favour of another transaction is run again, a bounded number of times.

mod attempts;
mod audit;
mod client_secrets;
mod codes;
mod connection;
mod credentials;
mod fault;
mod grants;
mod once;
mod operation;
mod registry;
mod revocations;
mod schema;
mod sealed;
mod second_factors;
mod sessions;
mod settings;
mod signing_keys;
mod sweep;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Pool};

use self::fault::Fault;
use self::operation::{Operation, query_opt, snapshot, statement, transaction};
use self::schema::SchemaError;
use self::value::unsigned;
use crate::{BackupError, Begin, Claim, Counts, Store, StoreError, Swept};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::grant::RotationDecision;
use domain::random::{OsRandom, RandomError};
use domain::{
    Admission, AuditEvent, AuditRange, AuditRecord, Client, ClientId, CodeRecord, Credentials,
    CredentialsVersion, Extent, FeedId, FeedState, Grant, GrantFilter, GrantId, LegacyInstance,
    PacedKey, PresentedCode, Redemption, RefreshRotation, RefreshStep, RegistryChange,
    RegistryOutcome, Remembered, Revocation, Revoked, Rotation, RotationRefusal, SealedSigningKey,
    SealedValue, SecondFactor, SecretTimes, SecretUse, Session, TokenReference, User, Username,
};

pub use self::settings::{PostgresSettings, PostgresUrl};

/// How often a rotation looks again at a grant that others changed in between. Each loser of a race finds a spent
/// token at its second look, so more than two are rare.
const LOOKS: u32 = 10;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The certificates for TLS cannot be used.
    #[error("store.ca_file: {0}")]
    Tls(String),
    /// No connection, or the tables cannot be made.
    #[error("the PostgreSQL store at {place} cannot be opened: {reason}")]
    Database {
        /// Hosts, ports and database.
        place: String,
        /// What the driver or the server said.
        reason: String,
    },
    /// No randomness for the identity of the revocation feed.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: Pool,
    sweep_cursor: Mutex<sweep::Cursor>,
    /// Seconds that the tokens of this process live.
    configured_lifetime: u64,
    /// Seconds that the longest-lived token lives that may exist. Another replica with longer ones is noticed at the next
    /// sweep.
    longest_token: AtomicU64,
    /// The version of the tables, as it was when they were last looked at: every second.
    tables: AtomicI64,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresStore")
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, and brings the tables to this version; a database without them gets them.
    ///
    /// `access_token_lifetime` is how long a revocation stays in the feed.
    ///
    /// # Errors
    /// An [`OpenError`]: no connection, missing rights, or tables of a later version.
    pub async fn open(
        settings: &PostgresSettings,
        access_token_lifetime: Duration,
    ) -> Result<Self, OpenError> {
        let pool = connection::pool(settings)?;
        let failed = |error: SchemaError| OpenError::Database {
            place: settings.url.place(),
            reason: error.to_string(),
        };
        let mut client = pool
            .get()
            .await
            .map_err(|error| failed(Fault::from(error).into()))?;
        schema::migrate(&mut client).await.map_err(failed)?;
        drop(client);
        let failed = |error: StoreError| OpenError::Database {
            place: settings.url.place(),
            reason: error.to_string(),
        };
        let fresh = FeedId::generate(&OsRandom)?;
        statement(&pool, &revocations::Identify(fresh))
            .await
            .map_err(failed)?;
        let configured_lifetime = access_token_lifetime.as_secs();
        let note = revocations::NoteLifetime {
            configured: configured_lifetime,
            now: None,
        };
        let lifetime = transaction(&pool, &note).await.map_err(failed)?;
        Ok(Self {
            pool,
            sweep_cursor: Mutex::default(),
            configured_lifetime,
            longest_token: AtomicU64::new(lifetime.longest),
            tables: AtomicI64::new(schema::VERSION),
        })
    }

    /// Whether the tables are as this program knows them. They were when the store was opened; a later program may have
    /// changed them since, and what this one wrote there would be read wrong.
    fn knows_tables(&self) -> Result<(), StoreError> {
        let found = self.tables.load(Ordering::Acquire);
        if found > schema::VERSION {
            let error = SchemaError::Newer { found };
            return Err(StoreError::Failed(format!(
                "the tables were {error}: replace this replica by that version"
            )));
        }
        Ok(())
    }

    async fn statement<O: Operation>(&self, operation: O) -> Result<O::Outcome, StoreError> {
        self.knows_tables()?;
        statement(&self.pool, &operation).await
    }

    async fn transaction<O: Operation>(&self, operation: O) -> Result<O::Outcome, StoreError> {
        self.knows_tables()?;
        transaction(&self.pool, &operation).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn registry(&self) -> Result<(Vec<Client>, Vec<User>), StoreError> {
        snapshot(&self.pool, &registry::All).await
    }

    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError> {
        self.statement(registry::LegacyInstances).await
    }

    async fn registry_version(&self) -> Result<u64, StoreError> {
        let (registry, tables) = statement(&self.pool, &registry::Version).await?;
        self.tables.store(tables, Ordering::Release);
        self.knows_tables()?;
        Ok(registry)
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        self.transaction(registry::Change {
            change,
            now,
            access_token_lifetime: self.longest_token(),
        })
        .await
    }

    async fn remembered(&self) -> Result<Vec<Remembered>, StoreError> {
        snapshot(&self.pool, &registry::AllRemembered).await
    }

    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError> {
        self.transaction(registry::Rehash {
            username,
            hash,
            stronger,
        })
        .await
    }

    async fn secret_times(
        &self,
        client_ids: Vec<ClientId>,
    ) -> Result<Vec<SecretTimes>, StoreError> {
        self.statement(client_secrets::List(client_ids)).await
    }

    async fn note_secret_uses(&self, uses: Vec<SecretUse>) -> Result<(), StoreError> {
        self.transaction(client_secrets::Note(uses)).await
    }

    async fn signing_keys(&self) -> Result<Vec<SealedSigningKey>, StoreError> {
        self.statement(signing_keys::All).await
    }

    async fn add_signing_key(
        &self,
        key: SealedSigningKey,
        unless_after: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.transaction(signing_keys::Add { key, unless_after })
            .await
    }

    async fn retire_signing_key(
        &self,
        kid: String,
        retired_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.transaction(signing_keys::Retire { kid, retired_at })
            .await
    }

    async fn forget_signing_key(&self, kid: String) -> Result<bool, StoreError> {
        self.statement(signing_keys::Forget(kid)).await
    }

    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.statement(sealed::Root).await
    }

    async fn own_totp_secrets(&self) -> Result<Vec<(Username, Vec<u8>)>, StoreError> {
        self.statement(sealed::OwnTotpSecrets).await
    }

    async fn reseal(
        &self,
        value: SealedValue,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<bool, StoreError> {
        let operation = sealed::Reseal {
            value,
            before,
            after,
        };
        self.transaction(operation).await
    }

    async fn issue_code(&self, code: Digest, record: CodeRecord) -> Result<Begin, StoreError> {
        self.transaction(codes::Issue { code, record }).await
    }

    async fn redeem_code(
        &self,
        code: Digest,
        presented: PresentedCode,
        grant_id: GrantId,
        first: RefreshStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError> {
        self.transaction(codes::Redeem {
            code,
            presented,
            grant_id,
            first,
            now,
            access_token_lifetime: self.longest_token(),
        })
        .await
    }

    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError> {
        for _ in 0..LOOKS {
            let Some(before) = self.statement(grants::Get(rotation.grant_id)).await? else {
                return Ok(Rotation::Refused(RotationRefusal::Unknown));
            };
            if before.grant.client_id == rotation.client_id && !before.credentials_are_current {
                self.revoke_grant(rotation.grant_id, rotation.now).await?;
                return Ok(Rotation::Refused(RotationRefusal::Revoked));
            }
            let mut grant = before.grant.clone();
            match grant.rotate(&rotation) {
                RotationDecision::Rotate => {
                    let replace = grants::Replace {
                        before: &before,
                        after: &grant,
                        access_token_lifetime: self.longest_token(),
                    };
                    if self.statement(replace).await? {
                        return Ok(Rotation::Rotated(Box::new(grant)));
                    }
                }
                RotationDecision::Repeat(step) => {
                    let grant = Box::new(grant);
                    return Ok(Rotation::Repeated { grant, step });
                }
                RotationDecision::Revoke => {
                    if self.revoke_grant(rotation.grant_id, rotation.now).await? {
                        return Ok(Rotation::Reused(rotation.grant_id));
                    }
                }
                RotationDecision::Refuse(refusal) => return Ok(Rotation::Refused(refusal)),
            }
        }
        Err(Fault::Contended.into())
    }

    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError> {
        let stored = self.statement(grants::Get(grant_id)).await?;
        Ok(stored.map(|stored| stored.grant))
    }

    async fn grants(
        &self,
        filter: GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.statement(grants::List {
            filter,
            after,
            limit,
        })
        .await
    }

    async fn revoke_grant(&self, grant_id: GrantId, now: Timestamp) -> Result<bool, StoreError> {
        self.transaction(grants::Revoke {
            grant_id,
            now,
            access_token_lifetime: self.longest_token(),
        })
        .await
    }

    async fn announce(&self, revoked: Revoked, extent: Extent) -> Result<bool, StoreError> {
        self.transaction(revocations::Announce { revoked, extent })
            .await
    }

    async fn is_revoked(&self, token: TokenReference) -> Result<bool, StoreError> {
        self.statement(revocations::IsRevoked(token)).await
    }

    fn longest_token(&self) -> Duration {
        Duration::from_secs(self.longest_token.load(Ordering::Acquire))
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        self.statement(revocations::State).await
    }

    async fn renew_feed(&self, feed: FeedId) -> Result<(), StoreError> {
        self.statement(revocations::Renew(feed)).await
    }

    fn feed_changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }

    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError> {
        self.statement(revocations::Since { since, limit }).await
    }

    async fn claim_jti(
        &self,
        client_id: ClientId,
        jti: String,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        self.statement(once::ClaimJti {
            client_id,
            jti,
            expires_at,
            now,
        })
        .await
    }

    async fn is_jti_claimed(
        &self,
        client_id: ClientId,
        jti: String,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.statement(once::IsJtiClaimed {
            client_id,
            jti,
            now,
        })
        .await
    }

    async fn claim_totp_step(&self, username: Username, step: u64) -> Result<Claim, StoreError> {
        self.statement(once::ClaimTotpStep { username, step }).await
    }

    async fn credentials(&self, username: Username) -> Result<Option<Credentials>, StoreError> {
        self.statement(credentials::Get(username)).await
    }

    async fn second_factor(&self, username: Username) -> Result<Option<SecondFactor>, StoreError> {
        self.statement(second_factors::Get(username)).await
    }

    async fn set_second_factor(
        &self,
        username: Username,
        second_factor: Option<SecondFactor>,
        rests_on: Option<CredentialsVersion>,
        now: Timestamp,
    ) -> Result<Option<CredentialsVersion>, StoreError> {
        self.transaction(second_factors::Set {
            username,
            second_factor,
            rests_on,
            now,
            access_token_lifetime: self.longest_token(),
        })
        .await
    }

    async fn claim_recovery_code(
        &self,
        username: Username,
        code: Digest,
    ) -> Result<Claim, StoreError> {
        self.transaction(second_factors::ClaimRecoveryCode { username, code })
            .await
    }

    async fn admit_attempt(
        &self,
        keys: Vec<PacedKey>,
        now: Timestamp,
    ) -> Result<Admission, StoreError> {
        self.transaction(attempts::Admit { keys, now }).await
    }

    async fn forgive_attempt(
        &self,
        forget: Option<Digest>,
        take_back: Vec<Digest>,
    ) -> Result<(), StoreError> {
        self.transaction(attempts::Forgive { forget, take_back })
            .await
    }

    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<Begin, StoreError> {
        self.transaction(sessions::Start {
            id,
            session,
            replaces,
        })
        .await
    }

    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError> {
        self.statement(sessions::Get { id, now }).await
    }

    async fn extend_session(
        &self,
        id: Digest,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.transaction(sessions::Extend {
            id,
            expires_at,
            now,
        })
        .await
    }

    async fn end_session(&self, id: Digest) -> Result<(), StoreError> {
        self.statement(sessions::End(id)).await
    }

    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        self.transaction(audit::Append(events)).await
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.statement(audit::List { range, limit }).await
    }

    async fn forget_audit(&self, last: u64, limit: usize) -> Result<Swept, StoreError> {
        self.statement(audit::Forget { last, limit }).await
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<Swept, StoreError> {
        self.knows_tables()?;
        let note = revocations::NoteLifetime {
            configured: self.configured_lifetime,
            now: Some(now),
        };
        let lifetime = self.transaction(note).await?;
        self.longest_token
            .store(lifetime.longest, Ordering::Release);
        let cursor = *self
            .sweep_cursor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (swept, cursor) = sweep::sweep(&self.pool, cursor, now, limit).await?;
        *self
            .sweep_cursor
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = cursor;
        Ok(swept)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.statement(Count).await
    }

    async fn backup(&self, _: &Path) -> Result<(), BackupError> {
        Err(BackupError::Unsupported("pg_dump"))
    }

    fn register_metrics(&self, _: &mut prometheus_client::registry::Registry) {}

    async fn ready(&self) -> Result<(), StoreError> {
        self.registry_version().await?;
        self.statement(Writable).await
    }
}

/// How many rows there are.
struct Count;

impl Operation for Count {
    type Outcome = Counts;

    async fn run(&self, client: &impl GenericClient) -> Result<Counts, Fault> {
        let sql = "SELECT (SELECT count(*) FROM grants), (SELECT count(*) FROM sessions),
            (SELECT count(*) FROM revocations), (SELECT count(*) FROM audit_log)";
        let Some(row) = query_opt(client, sql, &[]).await? else {
            return Ok(Counts::default());
        };
        Ok(Counts {
            grants: unsigned(row.try_get(0)?),
            sessions: unsigned(row.try_get(1)?),
            revocations: unsigned(row.try_get(2)?),
            audit_entries: unsigned(row.try_get(3)?),
        })
    }
}

/// Fails on a server that only reads, such as one that has not been promoted yet.
struct Writable;

impl Operation for Writable {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let row = query_opt(client, "SHOW transaction_read_only", &[]).await?;
        let read_only: Option<&str> = row.as_ref().map(|row| row.try_get(0)).transpose()?;
        match read_only {
            Some("on") => Err(Fault::ReadOnly),
            _ => Ok(()),
        }
    }
}
