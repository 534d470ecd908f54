//! The revocation feed for gateways (`claims::revocation`). It keeps the newest entries in memory, writes each page
//! once for all readers at the same position, and holds requests until a revocation happens.
//!
//! A process reads the store once for all its readers: after it commits an entry to the feed itself, or, if several
//! replicas write to one database, every [`POLL_EVERY`] while a request is held.

mod entries;
mod tail;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::web::Bytes;
use claims::revocation::{MAX_PAGE_BYTES, MAX_PAGE_ENTRIES, MAX_WAIT_SECONDS, Page};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::telemetry::metrics::FeedMetrics;
use domain::FeedState;
use entries::published;
use store::{self, Store, StoreError};
use tail::{TAIL_ENTRIES, Tail, WrittenPage, changes};

/// Interval in which a process checks for revocations by other processes, while a request is held.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Pause after a failure of the store.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A reader's position in the feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reader {
    /// Identity of the feed that the reader has read; `None` if it has read none.
    pub feed: Option<String>,
    /// Position up to which the reader has read; 0 if it has read nothing.
    pub since: u64,
    /// Time to wait if the feed has no entry after `since`.
    pub wait: Duration,
}

/// Reason why the feed returns no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a page of the revocation feed cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// The feed, shared by all readers of a process.
pub(crate) struct RevocationFeed {
    store: Arc<dyn Store>,
    issuer: String,
    metrics: FeedMetrics,
    tail: Mutex<Tail>,
    /// The task that holds the lock reads the store; other tasks wait for its result.
    reading: tokio::sync::Mutex<()>,
    moved: watch::Sender<()>,
    /// Notified when a request is held.
    arrived: Notify,
    ended: AtomicBool,
}

/// Result of looking in memory for a reader.
enum Found {
    Page(Bytes),
    /// The entries are only in the store.
    InStore {
        state: FeedState,
        since: u64,
    },
    /// No new entries; contains the empty page.
    Nothing(Bytes),
}

/// Counts a held request until it is dropped.
struct Held<'a>(&'a Gauge);

impl<'a> Held<'a> {
    fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl RevocationFeed {
    /// The feed of `store`, for tokens of `issuer`.
    pub(crate) fn new(store: Arc<dyn Store>, issuer: String, metrics: FeedMetrics) -> Self {
        Self {
            store,
            issuer,
            metrics,
            tail: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            moved: watch::Sender::new(()),
            arrived: Notify::new(),
            ended: AtomicBool::new(false),
        }
    }

    /// The next page for `reader`, a [`Page`] as JSON. If the feed has no new entry, the response waits for the next
    /// entry, at most for the reader's `wait`.
    pub(crate) async fn page(&self, reader: &Reader) -> Result<Bytes, FeedError> {
        let mut moved = self.moved.subscribe();
        let now = Instant::now();
        let wait = reader.wait.min(Duration::from_secs(MAX_WAIT_SECONDS));
        let until = now + wait;
        if self.tail().is_due(&*self.store, reader, now) {
            self.look(now).await?;
        }
        let mut held = None;
        let mut in_time = !wait.is_zero();
        loop {
            moved.borrow_and_update();
            match self.find(reader)? {
                Found::Page(page) => return Ok(page),
                Found::InStore { state, since } => return self.read(state, since).await,
                Found::Nothing(page) if !in_time || self.has_ended() => return Ok(page),
                Found::Nothing(_) => {}
            }
            if held.is_none() {
                held = Some(Held::new(&self.metrics.held));
                self.arrived.notify_one();
            }
            in_time = timeout_at(until, moved.changed()).await.is_ok();
            let now = Instant::now();
            if !in_time && self.tail().is_due(&*self.store, reader, now) {
                self.look(now).await?;
            }
        }
    }

    /// Answers held requests when a revocation happens. Runs until aborted.
    pub(crate) async fn follow(&self) {
        let mut changes = self.store.feed_changes();
        let mut failing = false;
        loop {
            while self.metrics.held.get() == 0 || self.tail().has_seen(&*self.store) {
                match &mut changes {
                    Some(changes) => tokio::select! {
                        changed = changes.changed() => if changed.is_err() { return },
                        () = self.arrived.notified() => {}
                    },
                    None => self.arrived.notified().await,
                }
            }
            let due = self.tail().due(&*self.store);
            if let Some(due) = due {
                sleep_until(due).await;
            }
            match self.look(Instant::now()).await {
                Ok(()) => failing = false,
                Err(error) => {
                    // Log once per failure.
                    if !failing {
                        tracing::error!(%error, "the revocations cannot be read; gateways wait for them");
                    }
                    failing = true;
                    sleep_until(Instant::now() + AGAIN_AFTER).await;
                }
            }
        }
    }

    /// Answers all held requests and stops holding requests.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.tail().pages.clear();
        self.moved.send_replace(());
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads new entries, unless another task began to read after `asked_at`.
    async fn look(&self, asked_at: Instant) -> Result<(), StoreError> {
        let _turn = self.reading.lock().await;
        let (looked_at, before) = {
            let tail = self.tail();
            (tail.looked_at, tail.state)
        };
        if looked_at.is_some_and(|looked_at| looked_at > asked_at) {
            return Ok(());
        }
        let started = Instant::now();
        let changes = changes(&*self.store);
        let state = self.store.feed_state().await?;
        let known = before.filter(|before| before.feed == state.feed && before.last <= state.last);
        let entries = match known {
            Some(known) if known.last < state.last => {
                // One more than fits shows whether entries are missing.
                let limit = TAIL_ENTRIES + 1;
                self.store.revocations_since(known.last, limit).await?
            }
            _ => Vec::new(),
        };
        let held = u32::try_from(self.metrics.held.get()).unwrap_or_default();
        let moved = self.tail().take(known, state, entries, held);
        {
            let mut tail = self.tail();
            tail.looked_at = Some(started);
            tail.changes = changes;
        }
        if moved {
            if held > 0 {
                self.metrics.wake_ups.inc();
            }
            self.moved.send_replace(());
        }
        Ok(())
    }

    fn find(&self, reader: &Reader) -> Result<Found, FeedError> {
        let mut tail = self.tail();
        let Some(state) = tail.state else {
            return Err(StoreError::Failed("the feed was never read".to_owned()).into());
        };
        let feed = state.feed.to_string();
        let is_here = reader.feed.as_ref().is_none_or(|named| *named == feed);
        let since = if is_here && reader.since <= state.last {
            reader.since
        } else {
            0
        };
        let nothing = is_here && reader.since == state.last;
        if let Some(page) = tail.written(since) {
            return Ok(if nothing {
                Found::Nothing(page)
            } else {
                Found::Page(page)
            });
        }
        if since < tail.start {
            return Ok(Found::InStore { state, since });
        }
        let entries = tail.entries.iter();
        let entries: Vec<_> = entries.filter(|entry| since < entry.sequence).collect();
        let page = self.write(state, since, &entries, Some(state.last))?;
        let page = tail.keep(since, page);
        Ok(if nothing {
            Found::Nothing(page)
        } else {
            Found::Page(page)
        })
    }

    /// A page of entries that are only in the store.
    async fn read(&self, state: FeedState, since: u64) -> Result<Bytes, FeedError> {
        let _turn = self.reading.lock().await;
        if let Some(page) = self.tail().written(since) {
            return Ok(page);
        }
        // One more than a page shows whether further entries exist.
        let mut entries = self
            .store
            .revocations_since(since, MAX_PAGE_ENTRIES + 1)
            .await?;
        let more = entries.len() > MAX_PAGE_ENTRIES;
        entries.truncate(MAX_PAGE_ENTRIES);
        let entries: Vec<_> = entries.iter().collect();
        let reached = entries.last().map_or(since, |entry| entry.sequence);
        let end = (!more).then_some(reached.max(state.last));
        let page = self.write(state, since, &entries, end)?;
        let mut tail = self.tail();
        if tail.state == Some(state) {
            Ok(tail.keep(since, page))
        } else {
            Ok(page.text)
        }
    }

    /// Writes a page of the `entries` after `since`: all of them, or as many of the first as readers accept. `end`: the
    /// position after the last entry, if the feed has no more entries.
    fn write(
        &self,
        state: FeedState,
        since: u64,
        entries: &[&domain::Revocation],
        end: Option<u64>,
    ) -> Result<WrittenPage, FeedError> {
        let mut entries = entries;
        let mut end = end;
        loop {
            let reached = entries.last().map_or(since, |entry| entry.sequence);
            let page = Page {
                feed: state.feed.to_string(),
                since,
                position: end.unwrap_or(reached),
                more: end.is_none(),
                holds: !self.has_ended(),
                revocations: entries
                    .iter()
                    .map(|entry| published(entry, &self.issuer))
                    .collect(),
            };
            let text = serde_json::to_vec(&page)?;
            let (first, rest) = entries.split_at(entries.len().div_ceil(2));
            if text.len() <= MAX_PAGE_BYTES || rest.is_empty() {
                return Ok(WrittenPage::new(text.into(), page.more));
            }
            entries = first;
            end = None;
        }
    }
}

#[cfg(test)]
mod tests;
