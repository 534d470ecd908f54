//! Revocation feeds that several issuers may share.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Guard;
use crate::config::{Config, IssuerConfig};
use crate::feed::{Feed, FeedConfig, Freshness, Progress};
use crate::source::WhenStale;

/// A feed, with the index of the first issuer that uses this feed. The guards of one process share the feed, and one of
/// them reads it.
#[derive(Debug)]
pub(super) struct SharedFeed {
    pub(super) issuer: usize,
    feed: Arc<RwLock<Feed>>,
    published: Arc<Published>,
    /// `None` for the guard that reads the feed; else what this guard has seen of it.
    seen: Option<Progress>,
}

impl SharedFeed {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Feed> {
        self.feed.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> Writing<'_> {
        Writing {
            feed: self.feed.write().unwrap_or_else(PoisonError::into_inner),
            published: &self.published,
        }
    }

    pub(super) fn published(&self) -> &Published {
        &self.published
    }

    /// The same feed for another guard of this process.
    pub(super) fn sibling(&self) -> Self {
        Self {
            issuer: self.issuer,
            feed: Arc::clone(&self.feed),
            published: Arc::clone(&self.published),
            seen: Some(Progress::default()),
        }
    }

    /// True for the guard that reads the feed.
    pub(super) const fn is_own(&self) -> bool {
        self.seen.is_none()
    }

    /// For guards that do not read the feed: true if there was news since the last call. Pages that follow each other are one
    /// piece of news, which comes with the last one.
    pub(super) fn has_news(&mut self) -> bool {
        let feed = self.read();
        if feed.is_catching_up() {
            return false;
        }
        let progress = feed.progress();
        drop(feed);
        let seen = self.seen.replace(progress);
        seen != Some(progress)
    }

    /// True if a panic interrupted a change of the feed.
    pub(super) fn is_damaged(&self) -> bool {
        self.published.is_damaged.load(Ordering::Relaxed)
    }
}

/// The part of a feed that requests with a known token read, without the lock of the feed: otherwise threads would wait for each
/// other, and while one of them applies a page.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// One more than the time; 0 for none.
    completed_at: AtomicU64,
    /// In the same form.
    progressed_at: AtomicU64,
    generation: AtomicU64,
    is_damaged: AtomicBool,
}

impl Published {
    fn publish(&self, feed: &Feed) {
        let Freshness {
            completed_at,
            progressed_at,
        } = feed.freshness();
        let form = |time: Option<u64>| time.map_or(0, |time| time.saturating_add(1));
        // The generation first, and readers read it last: who sees that the feed is fresh also sees what made it so.
        let generation = feed.revocations().generation();
        self.generation.store(generation, Ordering::Release);
        self.progressed_at
            .store(form(progressed_at), Ordering::Release);
        self.completed_at
            .store(form(completed_at), Ordering::Release);
    }

    /// Freshness, and the generation of the revocations.
    pub(super) fn read(&self) -> (Freshness, u64) {
        let time = |form: &AtomicU64| form.load(Ordering::Acquire).checked_sub(1);
        let freshness = Freshness {
            completed_at: time(&self.completed_at),
            progressed_at: time(&self.progressed_at),
        };
        (freshness, self.generation.load(Ordering::Acquire))
    }
}

/// A change of a feed. Its end publishes the feed, or that a panic interrupted the change.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    feed: RwLockWriteGuard<'a, Feed>,
    published: &'a Published,
}

impl Deref for Writing<'_> {
    type Target = Feed;

    fn deref(&self) -> &Feed {
        &self.feed
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Feed {
        &mut self.feed
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        match std::thread::panicking() {
            true => self.published.is_damaged.store(true, Ordering::Relaxed),
            false => self.published.publish(&self.feed),
        }
    }
}

/// The feeds, one for each endpoint, and for each issuer the index of its feed.
pub(super) fn feeds(config: &Config) -> (Vec<SharedFeed>, Vec<Option<usize>>) {
    let mut configs: Vec<(usize, FeedConfig)> = Vec::new();
    let mut of_issuers = Vec::new();
    for (index, issuer) in config.issuers.iter().enumerate() {
        let Some(source) = &issuer.revocations else {
            of_issuers.push(None);
            continue;
        };
        let known = configs
            .iter_mut()
            .position(|(_, feed)| feed.endpoint == source.endpoint);
        of_issuers.push(Some(known.unwrap_or(configs.len())));
        match known.and_then(|known| configs.get_mut(known)) {
            Some((_, feed)) => {
                feed.issuers.push(issuer.issuer.clone());
                feed.poll_seconds = feed.poll_seconds.min(source.poll_seconds);
                let staleness = source.max_staleness_seconds;
                feed.max_staleness_seconds = feed.max_staleness_seconds.min(staleness);
                feed.max_entries = feed.max_entries.max(source.max_entries);
            }
            None => configs.push((
                index,
                FeedConfig {
                    endpoint: source.endpoint.clone(),
                    issuers: vec![issuer.issuer.clone()],
                    poll_seconds: source.poll_seconds,
                    max_staleness_seconds: source.max_staleness_seconds,
                    max_entries: source.max_entries,
                    skew: config.clock_skew_seconds,
                },
            )),
        }
    }
    let feeds = configs.into_iter().map(|(issuer, config)| SharedFeed {
        issuer,
        feed: Arc::new(RwLock::new(Feed::new(config))),
        published: Arc::default(),
        seen: None,
    });
    (feeds.collect(), of_issuers)
}

/// True if the feed is fresh enough for tokens of this issuer, or if its configuration allows a stale feed.
pub(super) fn is_usable(freshness: Freshness, issuer: &IssuerConfig, now: u64) -> bool {
    issuer.revocations.as_ref().is_none_or(|source| {
        source.when_stale == WhenStale::Allow
            || freshness.suffices(source.max_staleness_seconds, now)
    })
}

impl Guard {
    /// True if a panic interrupted a change of a feed, so that no guard may use it any longer.
    pub(crate) fn is_damaged(&self) -> bool {
        self.feeds.iter().any(SharedFeed::is_damaged)
    }

    /// The wall clock stepped. The guard reads the feeds again, because it may have dropped revocations as
    /// expired too early.
    pub(crate) fn doubt(&mut self) {
        for shared in self.own_feeds() {
            shared.write().doubt(self.time.steady);
        }
    }

    /// Removes expired revocations from a part of each table. The host calls this once a second.
    pub(crate) fn sweep(&mut self) {
        for shared in self.own_feeds() {
            shared.write().sweep(self.time.wall);
        }
    }

    /// Exchanges feed pages with the gateway's other VMs. Returns the first issuer of each feed that had news.
    pub(crate) fn keep_in_step(&mut self) -> Vec<usize> {
        let mut news = Vec::new();
        for shared in &mut self.feeds {
            let has_news = match shared.is_own() {
                true => {
                    let mut feed = shared.write();
                    feed.keep_in_step(&*self.host.shared_data, self.time)
                }
                // The requests wait for the last page.
                false => shared.has_news(),
            };
            if has_news {
                news.push(shared.issuer);
            }
        }
        news
    }

    /// This VM ends. Another VM may read the feeds at once.
    pub(crate) fn resign(&mut self) {
        for shared in self.own_feeds() {
            shared.write().resign(&*self.host.shared_data);
        }
    }

    /// True if the host should call [`Guard::keep_in_step`] twenty times a second.
    pub(crate) fn follows(&self) -> bool {
        self.own_feeds().any(|shared| shared.read().follows())
    }

    /// True while the guard reads the issuer's feed and has not reached the end.
    pub(crate) fn is_catching_up(&self, issuer: usize) -> bool {
        let shared = self.feed(issuer);
        shared.is_some_and(|shared| shared.read().is_catching_up())
    }

    /// Takes the remarks about feeds for the log, each with the index of the issuer.
    pub(crate) fn take_remarks(&mut self) -> Vec<(usize, String)> {
        let mut remarks = Vec::new();
        for shared in self.own_feeds() {
            let issuer = shared.issuer;
            let new = shared.write().take_remarks().into_iter();
            remarks.extend(new.map(|remark| (issuer, remark)));
        }
        remarks
    }

    /// The feeds that this guard reads.
    pub(super) fn own_feeds(&self) -> impl Iterator<Item = &SharedFeed> {
        self.feeds.iter().filter(|shared| shared.is_own())
    }

    pub(super) fn feed(&self, issuer: usize) -> Option<&SharedFeed> {
        let index = self.issuers.get(issuer)?.feed?;
        self.feeds.get(index)
    }
}
