//! A store that several replicas share: PostgreSQL or a compatible database (CockroachDB, YugabyteDB).
//!
//! The [engine] runs the operations, which are the same functions as in every store, on tables of keys and rows. The domain types
//! decide. An operation locks what it decides about, or checks with its write that what it has read is as it was, so no replica
//! decides on data that another replica is changing. An operation that was overtaken runs again, a limited number of times.

mod attempt;
mod audit;
mod cause;
mod connection;
mod creation;
mod engine;
mod fault;
mod feed;
mod gathered;
mod lease;
mod limits;
mod measures;
mod operation;
mod outage;
#[cfg(test)]
mod owners;
mod pooler;
mod records;
mod replicas;
mod runs;
mod schema;
mod servers;
mod settings;
mod statements;
mod sweep;
#[cfg(test)]
mod tests;
mod together;
mod turns;
mod upgrade;
mod value;
mod view;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use self::connection::Pool;
use self::engine::Engine;
use self::fault::Fault;
use self::operation::{Connection, Isolation, run, traced};
use self::replicas::Replica;
use self::value::{timestamp, unsigned};
use crate::operations::Runs as _;
use crate::token_lifetime::{self, TokenLifetime};
use crate::tx::Form as _;
use crate::tx::tables::{META, SWEPT_AT};
use crate::{
    BackupError, Counts, Look, RegistrationStore as _, SealedStore as _, Store, StoreError, Swept,
};
use domain::clock::{Clock as _, Timestamp};
use domain::random::RandomError;
use domain::registry_index::NamedKind;
use domain::{FeedId, Layout};
use system::{OsRandom, SystemClock};

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
    #[error(
        "the PostgreSQL store at {place} is behind a pooler that gives each transaction another session of the server (PgBouncer: \
         pool_mode=transaction or statement): name the server itself in store.url, or set pool_mode=session for this database"
    )]
    Pooler {
        /// Hosts, ports and database.
        place: String,
    },
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Looks at the database before a start.
///
/// # Errors
/// The database cannot be reached, or this version cannot use its tables.
pub async fn look(settings: &PostgresSettings, identities: Vec<String>) -> Result<Look, OpenError> {
    let Some(store) = reader(settings).await? else {
        return Ok(Look::Absent);
    };
    let found = async {
        let mut holders = Vec::new();
        for (value, username) in store.users_with(NamedKind::Identity, identities).await? {
            let user = store.user(username).await?;
            holders.extend(user.map(|user| (value, user)));
        }
        let sealed_root = store.sealed_root().await?;
        Ok(Look::Found {
            sealed_root,
            holders,
        })
    };
    found
        .await
        .map_err(|error: StoreError| failed(settings, error))
}

/// Connects to a database, and changes nothing. `None` if no service has created the tables.
pub(crate) async fn reader(
    settings: &PostgresSettings,
) -> Result<Option<PostgresStore>, OpenError> {
    let (pool, client) = pooler::connect(settings).await?;
    let layout = schema::existing(&Connection::Plain(&client)).await;
    drop(client);
    let Some(layout) = layout.map_err(|error| failed(settings, error))? else {
        return Ok(None);
    };
    let replica = Replica::new()?;
    Ok(Some(PostgresStore::with(
        pool,
        layout,
        replica,
        Duration::ZERO,
    )))
}

fn failed(settings: &PostgresSettings, reason: impl fmt::Display) -> OpenError {
    OpenError::Database {
        place: settings.url.place(),
        reason: reason.to_string(),
    }
}

/// Why [`Store::backup`] fails.
pub const NO_BACKUP: BackupError = BackupError::Unsupported("pg_dump");

pub struct PostgresStore {
    pool: Pool,
    engine: Engine,
    sweep_cursor: Mutex<sweep::Cursor>,
    /// Lifetime of the access tokens that this process issues, in seconds.
    configured_lifetime: u64,
    /// Longest lifetime of tokens that may still be valid, in seconds. The next sweep detects a longer lifetime of
    /// another replica.
    longest_token: Arc<AtomicU64>,
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
        let (pool, mut client) = pooler::connect(settings).await?;
        let replica = Replica::new()?;
        let opened = schema::open(&mut client, Some(&replica)).await;
        let layout = opened.map_err(|error| failed(settings, error))?;
        drop(client);
        if layout < Layout::NEWEST {
            tracing::info!(
                %layout,
                newest = %Layout::NEWEST,
                "services of the earlier version can use this store too, until `token-service migrate --finish`"
            );
        }
        let failed = |error: StoreError| failed(settings, error);
        let store = Self::with(pool, layout, replica, access_token_lifetime);
        let fresh = FeedId::generate(&OsRandom)?;
        let identify = async move |client: &Connection<'_>| feed::identify(client, fresh).await;
        store.statement(identify).await.map_err(failed)?;
        store.note_opened(SystemClock.now()).await.map_err(failed)?;
        Ok(store)
    }

    fn with(pool: Pool, layout: Layout, replica: Replica, access_token_lifetime: Duration) -> Self {
        let longest_token = Arc::default();
        Self {
            engine: Engine::new(pool.clone(), Arc::clone(&longest_token)),
            pool,
            sweep_cursor: Mutex::default(),
            configured_lifetime: access_token_lifetime.as_secs(),
            longest_token,
            layout: AtomicI64::new(layout.number().into()),
            replica,
        }
    }

    async fn note_opened(&self, now: Timestamp) -> Result<(), StoreError> {
        let configured = self.configured_lifetime;
        let noted = self.owned(move |tx| token_lifetime::note_opened(tx, configured, now));
        self.know_longest(noted.await?);
        Ok(())
    }

    fn know_longest(&self, lifetime: TokenLifetime) {
        self.longest_token
            .store(lifetime.longest, Ordering::Release);
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
        let configured = self.configured_lifetime;
        let noted = self.owned(move |tx| token_lifetime::note_swept(tx, configured, due, now));
        self.know_longest(noted.await?);
        self.remove_expired(due, limit).await
    }

    async fn swept_at(&self) -> Result<Timestamp, StoreError> {
        let swept_at = self.read(|tx| META.get(tx, SWEPT_AT)).await?;
        Ok(Timestamp::from_seconds(swept_at.unwrap_or_default()))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT (SELECT count(*) FROM grants), (SELECT count(*) FROM sessions),
                (SELECT count(*) FROM revoked),
                (SELECT count(*) FROM audit_log) + (SELECT count(*) FROM audit_waiting),
                (SELECT count(*) FROM clients), (SELECT count(*) FROM users),
                (SELECT count(*) FROM owed_notices), (SELECT v FROM notices_due ORDER BY v LIMIT 1)";
            let Some(row) = client.query_opt(sql, &[]).await? else {
                return Ok(Counts::default());
            };
            let owed_since: Option<&[u8]> = row.try_get(7)?;
            Ok(Counts {
                grants: unsigned(row.try_get(0)?),
                sessions: unsigned(row.try_get(1)?),
                revocations: unsigned(row.try_get(2)?),
                audit_entries: unsigned(row.try_get(3)?),
                clients: unsigned(row.try_get(4)?),
                users: unsigned(row.try_get(5)?),
                owed_notices: unsigned(row.try_get(6)?),
                owed_since: owed_since.and_then(|since| Timestamp::decode(since).ok()),
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
        self.engine.register_metrics(registry);
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
