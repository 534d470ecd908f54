//! The feed of revocations as gateways read it (`claims::revocation`): the newest entries in memory, each page written once
//! for all readers of the same position, and requests that are held until something is revoked.
//!
//! A process reads the store once for all its readers: when it commits something to the feed itself, or, where several
//! replicas write to one database, every [`POLL_EVERY`] while a request is held.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::web::Bytes;
use claims::revocation::{
    Entry, EntryKind, Feed, MAX_PAGE, MAX_PAGE_ENTRIES, MAX_WAIT_SECONDS, Page, Revocation,
    RevocationKind,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use domain::{FeedState, Revoked};
use store::{self, Store, StoreError};

/// How often a process looks whether another one revoked something, while a request is held.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Least time between two wake-ups of held requests, for each request held: 50 ms for 1,000 of them and 0.5 s for 10,000. It
/// bounds what the answers cost, however much is revoked. A revocation after a longer pause is told at once.
const PAUSE_PER_HELD: Duration = Duration::from_micros(50);

/// Newest entries kept in memory.
const TAIL_ENTRIES: usize = MAX_PAGE_ENTRIES;

/// Written pages kept in memory, at some 600 kB for a full one.
const MAX_PAGES: usize = 32;

/// How long a full page is kept: many gateways that start together read the same ones.
const KEEP_FULL_PAGE_FOR: Duration = Duration::from_secs(10);

/// How long the feed counts as read without another look at the store: an answer must not hide for longer that the store
/// cannot be read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the store is left alone after it failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Where a reader is in the feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reader {
    /// The feed that it has read; `None` if it has read none.
    pub feed: Option<String>,
    /// The position up to which it has read; 0 if it has read nothing.
    pub since: u64,
    /// How long it waits if there is nothing behind `since`.
    pub wait: Duration,
}

/// What is counted about the feed.
#[derive(Debug, Clone, Default)]
pub struct FeedMetrics {
    /// Requests that are held.
    held: Gauge,
    /// How often held requests were answered because something was revoked.
    wake_ups: Counter,
}

impl FeedMetrics {
    /// Adds them to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "revocation_feed_held_requests",
            "Requests of gateways that wait for the next revocation",
            self.held.clone(),
        );
        registry.register(
            "revocation_feed_wake_ups",
            "How often waiting gateways were told of revocations, all at once",
            self.wake_ups.clone(),
        );
    }
}

/// The feed, shared by all readers of a process.
pub struct RevocationFeed {
    store: Arc<dyn Store>,
    issuer: String,
    metrics: FeedMetrics,
    tail: Mutex<Tail>,
    /// Who holds it reads the store; the others wait for what that gives.
    reading: tokio::sync::Mutex<()>,
    moved: watch::Sender<()>,
    /// A request is held.
    arrived: Notify,
    ended: AtomicBool,
}

impl fmt::Debug for RevocationFeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RevocationFeed")
            .finish_non_exhaustive()
    }
}

/// The newest part of the feed.
#[derive(Default)]
struct Tail {
    /// The feed when it was last read; `None` before the first time.
    state: Option<FeedState>,
    /// When the last look at the store began.
    looked_at: Option<Instant>,
    /// The changes of the store that the last look has seen.
    changes: Option<u64>,
    /// Every entry behind `start`.
    entries: VecDeque<domain::Revocation>,
    start: u64,
    /// When the position last moved.
    moved_at: Option<Instant>,
    /// About how many requests are held between wake-ups: as many as at the last one, or an eighth less than thought then.
    crowd: u32,
    /// By the position behind which they start.
    pages: HashMap<u64, WrittenPage>,
}

struct WrittenPage {
    text: Bytes,
    /// Whether it stays right when entries are added.
    full: bool,
    written_at: Instant,
}

/// What there is for a reader.
enum Found {
    /// A page.
    Page(Bytes),
    /// Entries that only the store has.
    InStore { state: FeedState, since: u64 },
    /// Nothing new; the page that says so.
    Nothing(Bytes),
}

/// Counts a held request, for as long as it lives.
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
    #[must_use]
    pub fn new(store: Arc<dyn Store>, issuer: String, metrics: FeedMetrics) -> Self {
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

    /// The next page for `reader` as JSON, a [`Page`]. If there is nothing new, the answer comes with the next entry, or
    /// after the time that the reader waits.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn page(&self, reader: &Reader) -> Result<Bytes, StoreError> {
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

    /// The next page behind `since` for readers of version 1: kinds that it does not know are told in coarser ones or left
    /// out.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn first_version(&self, since: u64) -> Result<Feed, StoreError> {
        // Read first: an entry that is added meanwhile comes with the next page, and never seems to be lost.
        let mut last = self.store.feed_state().await?.last;
        let mut revocations = Vec::new();
        let mut behind = since;
        // A page that is not full tells the reader that it is the last one.
        while revocations.len() < MAX_PAGE {
            let missing = MAX_PAGE - revocations.len();
            let entries = self.store.revocations_since(behind, missing).await?;
            let complete = entries.len() < missing;
            if let Some(entry) = entries.last() {
                behind = entry.sequence;
                last = last.max(behind);
            }
            revocations.extend(entries.into_iter().filter_map(in_first_version));
            if complete {
                break;
            }
        }
        Ok(Feed { revocations, last })
    }

    /// Tells held requests of what is revoked; runs until it is aborted.
    pub async fn follow(&self) {
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
                    // Once per failure.
                    if !failing {
                        tracing::error!(%error, "the revocations cannot be read; gateways wait for them");
                    }
                    failing = true;
                    sleep_until(Instant::now() + AGAIN_AFTER).await;
                }
            }
        }
    }

    /// Answers held requests, and holds none from now on.
    pub fn end(&self) {
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

    /// Reads what is new, unless somebody else began to after `asked_at`.
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
                // One more tells whether some are missing.
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

    fn find(&self, reader: &Reader) -> Result<Found, StoreError> {
        let mut tail = self.tail();
        let Some(state) = tail.state else {
            return Err(StoreError::Failed("the feed was never read".to_owned()));
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
        let page = Page {
            feed,
            since,
            position: state.last,
            more: false,
            holds: !self.has_ended(),
            revocations: entries
                .filter(|entry| since < entry.sequence)
                .map(|entry| published(entry, &self.issuer))
                .collect(),
        };
        let page = tail.keep(&page)?;
        Ok(if nothing {
            Found::Nothing(page)
        } else {
            Found::Page(page)
        })
    }

    /// A page of entries that only the store has.
    async fn read(&self, state: FeedState, since: u64) -> Result<Bytes, StoreError> {
        let _turn = self.reading.lock().await;
        if let Some(page) = self.tail().written(since) {
            return Ok(page);
        }
        // One more tells whether there are more.
        let mut entries = self
            .store
            .revocations_since(since, MAX_PAGE_ENTRIES + 1)
            .await?;
        let more = entries.len() > MAX_PAGE_ENTRIES;
        entries.truncate(MAX_PAGE_ENTRIES);
        let reached = entries.last().map_or(since, |entry| entry.sequence);
        let page = Page {
            feed: state.feed.to_string(),
            since,
            position: if more {
                reached
            } else {
                reached.max(state.last)
            },
            more,
            holds: !self.has_ended(),
            revocations: entries
                .iter()
                .map(|entry| published(entry, &self.issuer))
                .collect(),
        };
        let mut tail = self.tail();
        if tail.state == Some(state) {
            tail.keep(&page)
        } else {
            written(&page)
        }
    }
}

/// The number of changes of a store that is this process's alone.
fn changes(store: &dyn Store) -> Option<u64> {
    store.feed_changes().map(|changes| *changes.borrow())
}

impl Tail {
    /// Whether nothing was committed since the last look at the store; a store that others write to is never known to be
    /// unchanged.
    fn has_seen(&self, store: &dyn Store) -> bool {
        changes(store).is_some_and(|changes| self.changes == Some(changes))
    }

    /// From when on a look at the store for something new is due; `None` for at once.
    fn due(&self, store: &dyn Store) -> Option<Instant> {
        let pause_ends = self.moved_at.map(|at| at + PAUSE_PER_HELD * self.crowd);
        let poll = match store.feed_changes() {
            Some(_) => None,
            None => self.looked_at.map(|at| at + POLL_EVERY),
        };
        pause_ends.max(poll)
    }

    /// Whether a request must look at the store before it is answered.
    fn is_due(&self, store: &dyn Store, reader: &Reader, now: Instant) -> bool {
        let (Some(state), Some(looked_at)) = (self.state, self.looked_at) else {
            return true;
        };
        if looked_at + LOOK_EVERY <= now {
            return true;
        }
        if self.has_seen(store) {
            return false;
        }
        // Another replica may know a later position.
        state.last < reader.since || self.due(store).is_none_or(|due| due <= now)
    }

    /// Takes up what a look at the store gave: `entries` behind those of `known`. Whether anything is new.
    fn take(
        &mut self,
        known: Option<FeedState>,
        mut state: FeedState,
        entries: Vec<domain::Revocation>,
        held: u32,
    ) -> bool {
        let complete = known.is_some() && entries.len() <= TAIL_ENTRIES;
        if complete {
            if let Some(entry) = entries.last() {
                state.last = state.last.max(entry.sequence);
            }
            self.entries.extend(entries);
            while self.entries.len() > TAIL_ENTRIES {
                if let Some(entry) = self.entries.pop_front() {
                    self.start = entry.sequence;
                }
            }
        } else {
            self.entries.clear();
            self.start = state.last;
        }
        if self.state == Some(state) {
            return false;
        }
        let same_feed = self.state.is_some_and(|before| before.feed == state.feed);
        self.pages.retain(|_, page| same_feed && page.full);
        self.state = Some(state);
        // Some that were told last may still be on their way back.
        self.crowd = held.max(self.crowd - self.crowd / 8);
        self.moved_at = Some(Instant::now());
        true
    }

    /// The page behind `since`, if it is written.
    fn written(&self, since: u64) -> Option<Bytes> {
        let page = self.pages.get(&since)?;
        let fresh = !page.full || page.written_at.elapsed() < KEEP_FULL_PAGE_FOR;
        fresh.then(|| page.text.clone())
    }

    /// Writes a page and keeps it, if there is room.
    fn keep(&mut self, page: &Page) -> Result<Bytes, StoreError> {
        let text = written(page)?;
        self.pages
            .retain(|_, page| !page.full || page.written_at.elapsed() < KEEP_FULL_PAGE_FOR);
        if self.pages.len() < MAX_PAGES {
            let kept = WrittenPage {
                text: text.clone(),
                full: page.more,
                written_at: Instant::now(),
            };
            self.pages.insert(page.since, kept);
        }
        Ok(text)
    }
}

fn written(page: &Page) -> Result<Bytes, StoreError> {
    let text = serde_json::to_vec(page).map_err(|error| StoreError::Failed(error.to_string()))?;
    Ok(text.into())
}

/// An entry as gateways read it; `issuer` is that of the tokens of the current flows.
fn published(entry: &domain::Revocation, issuer: &str) -> Entry {
    let (mut iss, mut user_id, mut user_site) = (None, None, None);
    let (kind, id) = match &entry.revoked {
        Revoked::Grant(id) => (EntryKind::Grant, id.to_string()),
        Revoked::Token(id) => (EntryKind::Token, id.to_string()),
        Revoked::LegacyToken(id) => (EntryKind::Token, id.legacy()),
        Revoked::Client(id) => (EntryKind::Client, id.to_string()),
        Revoked::User(name) => {
            iss = Some(issuer.to_owned());
            (EntryKind::User, name.to_string())
        }
        Revoked::Account {
            username,
            user_id: id,
            site,
        } => {
            iss = Some(issuer.to_owned());
            user_id = Some(id.clone());
            user_site = Some(site.clone());
            (EntryKind::Account, username.to_string())
        }
        Revoked::Issuer(of) => {
            iss = Some(of.clone());
            (EntryKind::Issuer, of.clone())
        }
    };
    Entry {
        kind,
        id,
        iss,
        user_id,
        user_site,
        at: entry.at.seconds(),
        exp: entry.expires_at.seconds(),
    }
}

/// An entry for readers of version 1. An account becomes its user, which ends more tokens; there is nothing for an
/// issuer.
fn in_first_version(entry: domain::Revocation) -> Option<Revocation> {
    let (kind, id) = match entry.revoked {
        Revoked::Grant(id) => (RevocationKind::Grant, id.to_string()),
        Revoked::Token(id) => (RevocationKind::Token, id.to_string()),
        Revoked::LegacyToken(id) => (RevocationKind::Token, id.legacy()),
        Revoked::Client(id) => (RevocationKind::Client, id.to_string()),
        Revoked::User(name) | Revoked::Account { username: name, .. } => {
            (RevocationKind::User, name.to_string())
        }
        Revoked::Issuer(_) => return None,
    };
    Some(Revocation {
        sequence: entry.sequence,
        kind,
        id,
        at: entry.at.seconds(),
        exp: entry.expires_at.seconds(),
    })
}

#[cfg(test)]
mod tests;
