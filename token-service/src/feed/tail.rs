//! The newest part of the feed, kept in memory, and the pages written from it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use actix_web::web::Bytes;
use claims::revocation::MAX_PAGE_ENTRIES;
use tokio::time::Instant;

use super::{POLL_EVERY, Reader};
use domain::FeedState;
use store::Store;

/// Minimum time between two wake-ups of held requests, per held request: 50 ms for 1,000 requests and 0.5 s for 10,000.
/// This limits the cost of responses when there are many revocations. A revocation after a longer pause wakes the
/// requests at once.
const PAUSE_PER_HELD: Duration = Duration::from_micros(50);

/// Number of newest entries kept in memory.
pub(super) const TAIL_ENTRIES: usize = MAX_PAGE_ENTRIES;

/// Maximum number of written pages kept in memory. A full page has about 600 kB, and 4 MiB at most.
const MAX_PAGES: usize = 32;

/// Time for which a full page is kept, because many gateways that start together read the same pages.
const KEEP_FULL_PAGE_FOR: Duration = Duration::from_secs(10);

/// Time after which the service reads the store again, so that a response does not hide a failing store for longer.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The newest part of the feed.
#[derive(Default)]
pub(super) struct Tail {
    /// State of the feed at the last read; `None` before the first read.
    pub(super) state: Option<FeedState>,
    /// Start time of the last read of the store.
    pub(super) looked_at: Option<Instant>,
    /// Number of changes to the store that the last read covered.
    pub(super) changes: Option<u64>,
    /// All entries after `start`.
    pub(super) entries: VecDeque<domain::Revocation>,
    pub(super) start: u64,
    /// Time of the last new entry.
    pub(super) moved_at: Option<Instant>,
    /// Estimate of the requests held between wake-ups: the number at the last wake-up, or the previous estimate minus
    /// one eighth if that is larger.
    pub(super) crowd: u32,
    /// Keyed by the position after which they start.
    pub(super) pages: HashMap<u64, WrittenPage>,
}

pub(super) struct WrittenPage {
    pub(super) text: Bytes,
    /// True if the page stays valid when entries are added.
    full: bool,
    written_at: Instant,
}

impl WrittenPage {
    pub(super) fn new(text: Bytes, full: bool) -> Self {
        Self {
            text,
            full,
            written_at: Instant::now(),
        }
    }
}

/// Number of changes to a store that only this process writes to.
pub(super) fn changes(store: &dyn Store) -> Option<u64> {
    store.feed_changes().map(|changes| *changes.borrow())
}

impl Tail {
    /// True if nothing was committed since the last read of the store. Always false for a store that other processes
    /// also write to.
    pub(super) fn has_seen(&self, store: &dyn Store) -> bool {
        changes(store).is_some_and(|changes| self.changes == Some(changes))
    }

    /// Time from which the next read of the store is due; `None` for immediately.
    pub(super) fn due(&self, store: &dyn Store) -> Option<Instant> {
        let pause_ends = self.moved_at.map(|at| at + PAUSE_PER_HELD * self.crowd);
        let poll = match store.feed_changes() {
            Some(_) => None,
            None => self.looked_at.map(|at| at + POLL_EVERY),
        };
        pause_ends.max(poll)
    }

    /// True if a request must read the store before it is answered.
    pub(super) fn is_due(&self, store: &dyn Store, reader: &Reader, now: Instant) -> bool {
        let (Some(state), Some(looked_at)) = (self.state, self.looked_at) else {
            return true;
        };
        if looked_at + LOOK_EVERY <= now {
            return true;
        }
        if self.has_seen(store) {
            return false;
        }
        // The reader may have got a later position from another replica.
        state.last < reader.since || self.due(store).is_none_or(|due| due <= now)
    }

    /// Adds the result of a read: the `entries` after `known`. Returns whether anything is new.
    pub(super) fn take(
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
        // Some requests of the last wake-up may not have returned yet.
        self.crowd = held.max(self.crowd - self.crowd / 8);
        self.moved_at = Some(Instant::now());
        true
    }

    /// The written page after `since`, if any.
    pub(super) fn written(&self, since: u64) -> Option<Bytes> {
        let page = self.pages.get(&since)?;
        let fresh = !page.full || page.written_at.elapsed() < KEEP_FULL_PAGE_FOR;
        fresh.then(|| page.text.clone())
    }

    /// Caches the page after `since` if there is room. Returns its text.
    pub(super) fn keep(&mut self, since: u64, page: WrittenPage) -> Bytes {
        let text = page.text.clone();
        self.pages
            .retain(|_, page| !page.full || page.written_at.elapsed() < KEEP_FULL_PAGE_FOR);
        if self.pages.len() < MAX_PAGES {
            self.pages.insert(since, page);
        }
        text
    }
}
