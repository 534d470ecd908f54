//! The newest part of the feed in memory, and the pages written of it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use actix_web::web::Bytes;
use claims::revocation::{MAX_PAGE_ENTRIES, Page};
use tokio::time::Instant;

use super::{FeedError, POLL_EVERY, Reader};
use domain::FeedState;
use store::Store;

/// Least time between two wake-ups of held requests, for each request held: 50 ms for 1,000 of them and 0.5 s for 10,000. It
/// bounds what the answers cost, however much is revoked. A revocation after a longer pause is told at once.
const PAUSE_PER_HELD: Duration = Duration::from_micros(50);

/// Newest entries kept in memory.
pub(super) const TAIL_ENTRIES: usize = MAX_PAGE_ENTRIES;

/// Written pages kept in memory, at some 600 kB for a full one.
const MAX_PAGES: usize = 32;

/// How long a full page is kept: many gateways that start together read the same ones.
const KEEP_FULL_PAGE_FOR: Duration = Duration::from_secs(10);

/// How long the feed counts as read without another look at the store: an answer must not hide for longer that the store
/// cannot be read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The newest part of the feed.
#[derive(Default)]
pub(super) struct Tail {
    /// The feed when it was last read; `None` before the first time.
    pub(super) state: Option<FeedState>,
    /// When the last look at the store began.
    pub(super) looked_at: Option<Instant>,
    /// The changes of the store that the last look has seen.
    pub(super) changes: Option<u64>,
    /// Every entry behind `start`.
    pub(super) entries: VecDeque<domain::Revocation>,
    pub(super) start: u64,
    /// When the position last moved.
    pub(super) moved_at: Option<Instant>,
    /// About how many requests are held between wake-ups: as many as at the last one, or an eighth less than thought then.
    pub(super) crowd: u32,
    /// By the position behind which they start.
    pub(super) pages: HashMap<u64, WrittenPage>,
}

pub(super) struct WrittenPage {
    text: Bytes,
    /// Whether it stays right when entries are added.
    full: bool,
    written_at: Instant,
}

/// The number of changes of a store that is this process's alone.
pub(super) fn changes(store: &dyn Store) -> Option<u64> {
    store.feed_changes().map(|changes| *changes.borrow())
}

impl Tail {
    /// Whether nothing was committed since the last look at the store; a store that others write to is never known to be
    /// unchanged.
    pub(super) fn has_seen(&self, store: &dyn Store) -> bool {
        changes(store).is_some_and(|changes| self.changes == Some(changes))
    }

    /// From when on a look at the store for something new is due; `None` for at once.
    pub(super) fn due(&self, store: &dyn Store) -> Option<Instant> {
        let pause_ends = self.moved_at.map(|at| at + PAUSE_PER_HELD * self.crowd);
        let poll = match store.feed_changes() {
            Some(_) => None,
            None => self.looked_at.map(|at| at + POLL_EVERY),
        };
        pause_ends.max(poll)
    }

    /// Whether a request must look at the store before it is answered.
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
        // Another replica may know a later position.
        state.last < reader.since || self.due(store).is_none_or(|due| due <= now)
    }

    /// Takes up what a look at the store gave: `entries` behind those of `known`. Whether anything is new.
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
        // Some that were told last may still be on their way back.
        self.crowd = held.max(self.crowd - self.crowd / 8);
        self.moved_at = Some(Instant::now());
        true
    }

    /// The page behind `since`, if it is written.
    pub(super) fn written(&self, since: u64) -> Option<Bytes> {
        let page = self.pages.get(&since)?;
        let fresh = !page.full || page.written_at.elapsed() < KEEP_FULL_PAGE_FOR;
        fresh.then(|| page.text.clone())
    }

    /// Writes a page and keeps it, if there is room.
    pub(super) fn keep(&mut self, page: &Page) -> Result<Bytes, FeedError> {
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

pub(super) fn written(page: &Page) -> Result<Bytes, FeedError> {
    Ok(serde_json::to_vec(page)?.into())
}
