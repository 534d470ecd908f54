//! The default store: one redb file with one writer.
//!
//! Writes go through [`writer`], which makes many operations durable in one transaction. Reads open their own snapshot and
//! never wait for the writer. Between two checkpoints, a second file, the [`journal`], has what the transactions wrote.

mod audit;
mod backup;
mod gathering;
mod journal;
mod open;
mod opened;
mod records;
mod revocations;
mod rows;
mod runs;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;
mod tx;
mod writer;
mod writer_metrics;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use redb::ReadableDatabase as _;
use tracing::Instrument as _;

use self::tables::Snapshot;
use self::writer::{Opener, Shared, Writer};
use crate::fault::Fault;
use crate::operations::{Runs as _, notices};
use crate::token_lifetime::note_swept;
use crate::tx::tables::{META, Name, SWEPT_AT};
use crate::{BackupError, Counts, FeedStore as _, Store, StoreError, Swept, span};
use domain::Layout;
use domain::clock::Timestamp;

pub use self::backup::{RestoreError, restore};
pub(crate) use self::open::Reader;
pub use self::open::{OpenError, look};
pub(crate) use self::records::FileRecords;

/// The database in traces (`db.system.name`).
const SYSTEM: &str = "redb";

/// A store in one file, and a journal while the file is open. Dropping it completes the queued operations and closes the
/// file.
pub struct RedbStore {
    writer: Writer,
    shared: Shared,
    sweep_cursor: Arc<Mutex<sweep::Cursor>>,
    lifetime: Arc<Lifetime>,
}

/// Lifetimes of access tokens, in seconds.
#[derive(Debug)]
struct Lifetime {
    /// Lifetime of the tokens that this process issues.
    configured: u64,
    /// Longest lifetime of tokens that may still be valid.
    longest: AtomicU64,
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

impl RedbStore {
    /// Opens the file at `path`, or creates it. Only the owner can read the file.
    ///
    /// Revocations stay in the feed for `access_token_lifetime`.
    ///
    /// # Errors
    /// An [`OpenError`]: no access, in use by another process, damaged, or written by a later version.
    pub fn open(path: &Path, access_token_lifetime: Duration) -> Result<Self, OpenError> {
        let path = path.to_owned();
        Self::open_with(Box::new(move || open::open(&path)), access_token_lifetime)
    }

    /// Opens a store on backends for the file and its journal, such as files on a slow disk. For measurements.
    pub fn open_on<B: redb::StorageBackend>(
        backends: impl Fn() -> std::io::Result<[B; 2]> + Send + 'static,
        access_token_lifetime: Duration,
    ) -> Result<Self, OpenError> {
        let opener = move || open::open_on(Path::new("the backend"), backends());
        Self::open_with(Box::new(opener), access_token_lifetime)
    }

    fn open_with(opener: Opener, access_token_lifetime: Duration) -> Result<Self, OpenError> {
        let opened = opener()?;
        let configured = access_token_lifetime.as_secs();
        let lifetime = open::note_lifetime(&opened.database, configured)
            .map_err(|fault| open::damaged(Path::new("the file"), &fault))?;
        let shared: Shared = Arc::new(RwLock::new(Some(opened)));
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

    /// Panics in the writer. For tests of the handling of a panic.
    #[cfg(any(test, feature = "testing"))]
    #[expect(clippy::panic, reason = "a test asks for it")]
    pub async fn panic_in_writer(&self) {
        let outcome: Result<(), StoreError> = self.owned(|_| panic!("on purpose")).await;
        debug_assert!(outcome.is_err());
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let lifetime = self.longest_token();
        span::of_operation(SYSTEM, &read).in_scope(|| read_from(&self.shared, lifetime, read))
    }

    /// Reads so many rows that the read would hold up the other tasks of the thread.
    async fn read_much<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (shared, lifetime) = (Arc::clone(&self.shared), self.longest_token());
        let span = span::of_operation(SYSTEM, &read);
        tokio::task::spawn_blocking(move || read_from(&shared, lifetime, read))
            .instrument(span)
            .await
            .map_err(|error| StoreError::Failed(error.to_string()))?
    }
}

fn read_from<T>(
    shared: &Shared,
    longest_token: Duration,
    read: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    let guard = shared.read().unwrap_or_else(PoisonError::into_inner);
    let opened = guard
        .as_ref()
        .ok_or_else(|| StoreError::Failed("the store is closed after a failure".into()))?;
    let transaction = opened.database.begin_read().map_err(Fault::from)?;
    let mut snapshot = Snapshot::new(&transaction, longest_token);
    let outcome = read(&mut snapshot);
    snapshot.report();
    Ok(outcome?)
}

#[async_trait]
impl Store for RedbStore {
    /// The start has changed the file to this layout.
    fn layout(&self) -> Layout {
        Layout::NEWEST
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.read(|snapshot| {
            Ok(Counts {
                clients: snapshot.count(Name::clients)?,
                users: snapshot.count(Name::users)?,
                grants: snapshot.count(Name::grants)?,
                sessions: snapshot.count(Name::sessions)?,
                revocations: snapshot.count(Name::revocations)?,
                audit_entries: audit::count(snapshot)?,
                owed_notices: snapshot.count(Name::owed_notices)?,
                owed_since: notices::oldest(snapshot)?,
            })
        })
    }

    /// Closes the file even if somebody still holds the store. A file that nobody has closed needs its journal.
    async fn close(&self) {
        let queued: Result<(), StoreError> = self.owned(|_| Ok(())).await;
        if let Err(error) = queued {
            tracing::warn!(%error, "the last operations of the store failed");
        }
        self.writer.close();
        let shared = Arc::clone(&self.shared);
        let close = move || *shared.write().unwrap_or_else(PoisonError::into_inner) = None;
        if let Err(error) = tokio::task::spawn_blocking(close).await {
            tracing::error!(%error, "the store was not closed");
        }
    }

    async fn backup(&self, to: &Path) -> Result<(), BackupError> {
        let (shared, to) = (Arc::clone(&self.shared), to.to_owned());
        tokio::task::spawn_blocking(move || {
            let guard = shared.read().unwrap_or_else(PoisonError::into_inner);
            match guard.as_ref() {
                Some(opened) => backup::write(&opened.database, &to),
                None => Err(BackupError::Failed(
                    "the store is closed after a failure".into(),
                )),
            }
        })
        .await
        .map_err(|error| BackupError::Failed(error.to_string()))?
    }

    async fn sweep(
        &self,
        due: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        let cursor = Arc::clone(&self.sweep_cursor);
        let lifetime = Arc::clone(&self.lifetime);
        self.owned(move |tables| {
            let next = note_swept(tables, lifetime.configured, due, now)?;
            // Set before the commit, because the value must not be outdated after it. If the batch fails, the file
            // keeps the longer lifetime until the next sweep.
            lifetime.longest.store(next.longest, Ordering::Release);
            let mut cursor = cursor.lock().unwrap_or_else(PoisonError::into_inner);
            sweep::sweep(tables, &mut cursor, due, limit)
        })
        .await
    }

    async fn swept_at(&self) -> Result<Timestamp, StoreError> {
        self.read(|snapshot| {
            let swept_at = META.get(snapshot, SWEPT_AT)?;
            Ok(Timestamp::from_seconds(swept_at.unwrap_or_default()))
        })
    }

    fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.writer.metrics().register(registry);
    }

    async fn failed(&self) -> String {
        self.writer.ended().await;
        "the store's writer has stopped after a panic".to_owned()
    }

    async fn ready(&self) -> Result<Option<Timestamp>, StoreError> {
        if self.writer.is_ready() {
            Ok(None)
        } else {
            Err(StoreError::Failed(
                "the store is closed after a failure".into(),
            ))
        }
    }
}
