//! Revocation feeds that several issuers may share.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::config::{Config, IssuerConfig, WhenStale};
use crate::feed::{Feed, FeedConfig, Progress};

/// A feed, with the index of the first issuer that uses this feed. Guards beside each other have the feed in common, and one of
/// them reads it.
#[derive(Debug)]
pub(super) struct SharedFeed {
    pub(super) issuer: usize,
    feed: Arc<RwLock<Feed>>,
    /// `None` for the guard that reads the feed; else what this guard has seen of it.
    seen: Option<Progress>,
}

impl SharedFeed {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Feed> {
        self.feed.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Feed> {
        self.feed.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same feed for a guard beside this one.
    pub(super) fn beside(&self) -> Self {
        Self {
            issuer: self.issuer,
            feed: Arc::clone(&self.feed),
            seen: Some(Progress::default()),
        }
    }

    /// True for the guard that reads the feed.
    pub(super) const fn is_own(&self) -> bool {
        self.seen.is_none()
    }

    /// For guards that do not read the feed: true if there was news since the last call.
    pub(super) fn has_news(&mut self) -> bool {
        let progress = self.read().progress();
        let seen = self.seen.replace(progress);
        seen != Some(progress)
    }

    /// True if a panic interrupted a change of the feed.
    pub(super) fn is_damaged(&self) -> bool {
        self.feed.is_poisoned()
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
        seen: None,
    });
    (feeds.collect(), of_issuers)
}

/// True if the feed is fresh enough for tokens of this issuer, or if its configuration allows a stale feed.
pub(super) fn is_usable(feed: &Feed, issuer: &IssuerConfig, now: u64) -> bool {
    issuer.revocations.as_ref().is_none_or(|source| {
        source.when_stale == WhenStale::Allow || feed.is_fresh(source.max_staleness_seconds, now)
    })
}
