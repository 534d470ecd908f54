//! A store that several replicas share: PostgreSQL or a compatible database (CockroachDB, YugabyteDB).
//!
//! Each operation is one guarded statement or one short transaction, so no replica decides on data that another replica
//! is changing. As in every store, the domain types decide. If the database rolls back an operation in favour of
//! another transaction, the operation is retried a limited number of times.

mod attempts;
mod audit;
mod change_log;
mod changing;
mod client_secrets;
mod codes;
mod connection;
mod credentials;
mod fault;
mod gathered;
mod grants;
mod names;
mod once;
mod operation;
mod positions;
mod records;
mod registry;
mod registry_index;
mod remembered;
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
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;

use self::fault::Fault;
use self::gathered::Gathered;
use self::operation::{Connection, Isolation, traced};
use self::revocations::Ending;
use self::schema::SchemaError;
use self::value::unsigned;
use crate::{BackupError, Counts, RegistrationStore as _, Store, StoreError, Swept};
use domain::clock::Timestamp;
use domain::random::RandomError;
use domain::{FeedId, Grant, GrantId, TokenReference};
use system::OsRandom;

pub(crate) use self::records::DatabaseRecords;
pub use self::settings::{PostgresSettings, PostgresUrl};

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
    /// The schema version of the tables, read every second.
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
    /// Connects to the database, and creates or upgrades the tables.
    ///
    /// Revocations stay in the feed for `access_token_lifetime`.
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
        let store = Self {
            pool,
            endings: Gathered::default(),
            look_ups: Gathered::default(),
            grants: Gathered::default(),
            sweep_cursor: Mutex::default(),
            configured_lifetime: access_token_lifetime.as_secs(),
            longest_token: AtomicU64::default(),
            tables: AtomicI64::new(schema::VERSION),
        };
        let fresh = FeedId::generate(&OsRandom)?;
        store.identify_feed(fresh).await.map_err(failed)?;
        store.note_lifetime(None).await.map_err(failed)?;
        Ok(store)
    }

    /// Returns an error if a later version of the program has changed the tables since the store was opened, because
    /// that version would misread the rows of this program.
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
        self.knows_tables()?;
        traced(self.pool.clone(), isolation, operation).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<Swept, StoreError> {
        self.knows_tables()?;
        self.note_lifetime(Some(now)).await?;
        let cursor = || {
            self.sweep_cursor
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let before = *cursor();
        let (swept, after) = self.remove_expired(before, now, limit).await?;
        *cursor() = after;
        Ok(swept)
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
        Err(BackupError::Unsupported("pg_dump"))
    }

    fn register_metrics(&self, _: &mut prometheus_client::registry::Registry) {}

    async fn ready(&self) -> Result<(), StoreError> {
        self.registry_version().await?;
        self.statement(async move |client| {
            let row = client.query_opt("SHOW transaction_read_only", &[]).await?;
            let read_only: Option<&str> = row.as_ref().map(|row| row.try_get(0)).transpose()?;
            match read_only {
                // For example, a standby server before its promotion.
                Some("on") => Err(Fault::ReadOnly),
                _ => Ok(()),
            }
        })
        .await
    }
}
