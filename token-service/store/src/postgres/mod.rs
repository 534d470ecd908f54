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
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;

use self::fault::Fault;
use self::operation::{Connection, Isolation, run};
use self::schema::SchemaError;
use self::value::unsigned;
use crate::{BackupError, Counts, RegistrationStore as _, Store, StoreError, Swept};
use domain::FeedId;
use domain::clock::Timestamp;
use domain::random::{OsRandom, RandomError};

pub use self::settings::{PostgresSettings, PostgresUrl};

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
        let store = Self {
            pool,
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

    /// Runs an operation of one statement.
    async fn statement<T>(
        &self,
        operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.knows_tables()?;
        run(&self.pool, Isolation::Statement, operation).await
    }

    /// Runs an operation of several statements in one transaction.
    async fn transaction<T>(
        &self,
        operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.knows_tables()?;
        run(&self.pool, Isolation::Transaction, operation).await
    }

    /// Runs an operation of several statements that only read, all of them what was there at one moment.
    async fn snapshot<T>(
        &self,
        operation: impl Clone + AsyncFnOnce(&Connection<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.knows_tables()?;
        run(&self.pool, Isolation::Snapshot, operation).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<Swept, StoreError> {
        self.knows_tables()?;
        self.note_lifetime(Some(now)).await?;
        let cursor = *self
            .sweep_cursor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (swept, cursor) = self.remove_expired(cursor, now, limit).await?;
        *self
            .sweep_cursor
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = cursor;
        Ok(swept)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT (SELECT count(*) FROM grants), (SELECT count(*) FROM sessions),
                (SELECT count(*) FROM revocations), (SELECT count(*) FROM audit_log)";
            let Some(row) = client.query_opt(sql, &[]).await? else {
                return Ok(Counts::default());
            };
            Ok(Counts {
                grants: unsigned(row.try_get(0)?),
                sessions: unsigned(row.try_get(1)?),
                revocations: unsigned(row.try_get(2)?),
                audit_entries: unsigned(row.try_get(3)?),
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
                // Such as one that has not been promoted yet.
                Some("on") => Err(Fault::ReadOnly),
                _ => Ok(()),
            }
        })
        .await
    }
}
