//! A store that several replicas share: PostgreSQL or a compatible database (CockroachDB, YugabyteDB).
//!
//! Each operation is one guarded statement or one short transaction, so no replica decides on data that another replica
//! is changing. As in every store, the domain types decide. If the database rolls back an operation in favour of
//! another transaction, the operation is retried a limited number of times.

mod applied_file;
mod attempts;
mod audit;
mod cause;
mod change_log;
mod changing;
mod client_secrets;
mod codes;
mod connection;
mod credentials;
mod fault;
mod gathered;
mod grants;
mod limits;
mod names;
mod once;
mod operation;
mod outage;
mod positions;
mod records;
mod registry;
mod registry_index;
mod replicas;
mod revocations;
mod schema;
mod sealed;
mod second_factors;
mod servers;
mod sessions;
mod settings;
mod signing_keys;
mod sweep;
#[cfg(test)]
mod tests;
mod upgrade;
mod value;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use self::connection::Pool;
use self::fault::Fault;
use self::gathered::Gathered;
use self::operation::{Connection, Isolation, run, traced};
use self::replicas::Replica;
use self::revocations::{Ending, counter};
use self::schema::SchemaError;
use self::value::{seconds, timestamp, unsigned};
use crate::{BackupError, Counts, RegistrationStore as _, Store, StoreError, Swept};
use domain::clock::Timestamp;
use domain::random::RandomError;
use domain::{FeedId, Grant, GrantId, Layout, TokenReference};
use system::OsRandom;

pub(crate) use self::records::DatabaseRecords;
pub use self::replicas::RunningReplica;
pub use self::settings::{PostgresSettings, PostgresUrl};
pub use self::upgrade::{FinishError, Upgrade, finish_upgrade, upgrade};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("store.ca_file: {0}")]
    Tls(String),
    #[error("the PostgreSQL store at {place} cannot be opened: {reason}")]
    Database {
        /// Hosts, ports and database.
        place: String,
        reason: String,
    },
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Why [`Store::backup`] fails.
pub const NO_BACKUP: BackupError = BackupError::Unsupported("pg_dump");

/// The counter with the time of the last sweep.
const SWEPT_AT: &str = "swept_at";

pub struct PostgresStore {
    pool: Pool,
    endings: Gathered<Ending, bool>,
    look_ups: Gathered<TokenReference, bool>,
    grants: Gathered<GrantId, Option<Result<Grant, StoreError>>>,
    sweep_cursor: Mutex<sweep::Cursor>,
    /// Lifetime of the access tokens that this process issues, in seconds.
    configured_lifetime: u64,
    /// Longest lifetime of tokens that may still be valid, in seconds. The next sweep detects a longer lifetime of
    /// another replica.
    longest_token: AtomicU64,
    /// The number of the layout in use, read every second.
    layout: AtomicI64,
    replica: Replica,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresStore")
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects to the database, and creates the tables or adds what they lack.
    ///
    /// Revocations stay in the feed for `access_token_lifetime`.
    ///
    /// # Errors
    /// An [`OpenError`]: no connection, missing rights, or a layout of a later version.
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
        let replica = Replica::new()?;
        let opened = schema::open(&mut client, Some(&replica));
        let layout = opened.await.map_err(failed)?;
        drop(client);
        if layout < Layout::NEWEST {
            tracing::info!(
                %layout,
                newest = %Layout::NEWEST,
                "services of the earlier version can use this store too, until `token-service migrate --finish`"
            );
        }
        let failed = |error: StoreError| OpenError::Database {
            place: settings.url.place(),
            reason: error.to_string(),
        };
        let store = Self {
            pool,
            endings: Gathered::default(),
            look_ups: Gathered::default(),
            grants: Gathered::default(),
            sweep_cursor: Mutex::default(),
            configured_lifetime: access_token_lifetime.as_secs(),
            longest_token: AtomicU64::default(),
            layout: AtomicI64::new(layout.number().into()),
            replica,
        };
        let fresh = FeedId::generate(&OsRandom)?;
        store.identify_feed(fresh).await.map_err(failed)?;
        store.note_lifetime(None).await.map_err(failed)?;
        Ok(store)
    }

    /// Returns an error if the upgrade to a later version was finished since the store was opened, because this program
    /// cannot read all rows of that version.
    fn knows_layout(&self) -> Result<(), StoreError> {
        let known = schema::known(self.layout.load(Ordering::Acquire));
        known.map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(())
    }

    /// Runs an operation with a single statement.
    async fn statement<T>(
        &self,
        operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.run(Isolation::Statement, operation).await
    }

    /// Runs an operation with several statements in one transaction.
    async fn transaction<T>(
        &self,
        operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.run(Isolation::Transaction, operation).await
    }

    /// Runs a read-only operation with several statements on one snapshot.
    async fn snapshot<T>(
        &self,
        operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.run(Isolation::Snapshot, operation).await
    }

    async fn run<T>(
        &self,
        isolation: Isolation,
        operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.knows_layout()?;
        traced(self.pool.clone(), isolation, operation).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn layout(&self) -> Layout {
        // Under an unknown layout, no operation takes place.
        Layout::known(self.layout.load(Ordering::Acquire)).unwrap_or(Layout::NEWEST)
    }

    async fn sweep(
        &self,
        due: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        self.statement(async move |client| self.replica.note(client).await)
            .await?;
        self.note_lifetime(Some((due, now))).await?;
        let cursor = || {
            self.sweep_cursor
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let before = *cursor();
        let (swept, after) = self.remove_expired(before, due, limit).await?;
        *cursor() = after;
        let note = async move |client: &Connection<'_>| {
            schema::set_counter(client, SWEPT_AT, seconds(due)).await
        };
        self.statement(note).await?;
        Ok(swept)
    }

    async fn swept_at(&self) -> Result<Timestamp, StoreError> {
        let read = async move |client: &Connection<'_>| counter(client, SWEPT_AT).await;
        Ok(Timestamp::from_seconds(self.statement(read).await?))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT (SELECT count(*) FROM grants), (SELECT count(*) FROM sessions),
                (SELECT count(*) FROM revocations),
                (SELECT count(*) FROM audit_log) + (SELECT count(*) FROM audit_waiting),
                (SELECT count(*) FROM clients), (SELECT count(*) FROM users)";
            let Some(row) = client.query_opt(sql, &[]).await? else {
                return Ok(Counts::default());
            };
            Ok(Counts {
                grants: unsigned(row.try_get(0)?),
                sessions: unsigned(row.try_get(1)?),
                revocations: unsigned(row.try_get(2)?),
                audit_entries: unsigned(row.try_get(3)?),
                clients: unsigned(row.try_get(4)?),
                users: unsigned(row.try_get(5)?),
            })
        })
        .await
    }

    async fn backup(&self, _: &Path) -> Result<(), BackupError> {
        Err(NO_BACKUP)
    }

    fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        registry.register(
            "failed_transactions",
            "Operations that failed because of the database",
            self.pool.manager().outage.failed.clone(),
        );
    }

    async fn ready(&self) -> Result<Option<Timestamp>, StoreError> {
        let ready = async {
            self.registry_version().await?;
            self.can_write().await
        };
        ready.await.map_err(|error| match error {
            // Operations that wait for the database occupy all connections.
            StoreError::Overloaded => match self.pool.manager().outage.cause() {
                Some(cause) => StoreError::Failed(cause),
                None => error,
            },
            error => error,
        })
    }

    async fn close(&self) {
        let stop = async move |client: &Connection<'_>| self.replica.stop(client).await;
        if let Err(error) = run(&self.pool, Isolation::Statement, stop).await {
            tracing::warn!(%error, "the store still counts this service as running");
        }
    }
}

impl PostgresStore {
    /// The time by the clock of the server. An error if the server accepts no writes.
    async fn can_write(&self) -> Result<Option<Timestamp>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT current_setting('transaction_read_only'),
                floor(extract(epoch FROM statement_timestamp()))::BIGINT";
            let Some(row) = client.query_opt(sql, &[]).await? else {
                return Ok(None);
            };
            match row.try_get(0)? {
                // For example, a standby server before its promotion.
                "on" => Err(Fault::ReadOnly),
                _ => Ok(Some(timestamp(row.try_get(1)?))),
            }
        })
        .await
    }
}
