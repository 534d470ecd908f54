//! What the guard counts, and the ages and sizes of what it holds.

use std::collections::BTreeMap;

use super::Guard;
use crate::feed::Feed;

/// Counts since the last call of [`Guard::take_counts`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Requests that passed with a token.
    pub allowed: u64,
    /// Requests that passed on anonymous paths.
    pub anonymous: u64,
    /// Requests that passed only because of report-only mode.
    pub reported: u64,
    /// Lookups that found the token in the cache.
    pub cache_hits: u64,
    /// Lookups that did not find the token in the cache.
    pub cache_misses: u64,
    /// Entries of revocation feeds that were dropped to make room.
    pub revocations_folded: u64,
    /// Entries of revocation feeds that were skipped because their kind is unknown.
    pub revocations_skipped: u64,
    /// Refusals by the name of the denial.
    pub denied: BTreeMap<&'static str, u64>,
}

impl Guard {
    /// Returns the counts since the last call.
    pub fn take_counts(&mut self) -> Counts {
        let feeds = || self.feeds.iter().map(|shared| &shared.feed);
        let folded = feeds().map(|feed| feed.revocations().folded()).sum();
        let skipped = feeds().map(Feed::skipped).sum();
        self.counts.revocations_folded = folded - std::mem::replace(&mut self.folded, folded);
        self.counts.revocations_skipped = skipped - std::mem::replace(&mut self.skipped, skipped);
        std::mem::take(&mut self.counts)
    }

    /// Seconds since the oldest key set was fetched. `None` if the keys of an issuer were never fetched, or if
    /// all keys are inline.
    #[must_use]
    pub fn keys_age(&self, now: u64) -> Option<u64> {
        let fetched = self
            .issuers
            .iter()
            .filter(|state| state.key_schedule.is_some());
        oldest(fetched.map(|state| state.keys_fetched_at), now)
    }

    /// Seconds since the oldest feed was complete. `None` if a feed was never complete, or if there are no
    /// feeds.
    #[must_use]
    pub fn revocations_age(&self, now: u64) -> Option<u64> {
        let feeds = self.feeds.iter();
        oldest(feeds.map(|shared| shared.feed.completed_at()), now)
    }

    /// Number of issuers without known keys.
    #[must_use]
    pub fn issuers_without_keys(&self) -> usize {
        let without = self.issuers.iter().filter(|state| state.keys.is_empty());
        without.count()
    }

    /// Number of issuers with a feed that was never complete.
    #[must_use]
    pub fn issuers_without_revocations(&self) -> usize {
        let without = (0..self.issuers.len()).filter(|issuer| {
            let feed = self.feed(*issuer);
            feed.is_some_and(|feed| feed.completed_at().is_none())
        });
        without.count()
    }

    /// Bytes that the cached tokens take.
    #[must_use]
    pub const fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Number of entries in all revocation tables.
    #[must_use]
    pub fn revocation_entries(&self) -> usize {
        let feeds = self.feeds.iter();
        feeds.map(|shared| shared.feed.revocations().len()).sum()
    }

    /// Number of feeds whose table is full, so that the guard refuses old tokens.
    #[must_use]
    pub fn folding_feeds(&self) -> usize {
        let feeds = self.feeds.iter();
        feeds
            .filter(|shared| shared.feed.revocations().folded_until().is_some())
            .count()
    }
}

fn oldest(times: impl Iterator<Item = Option<u64>>, now: u64) -> Option<u64> {
    let times: Option<Vec<u64>> = times.collect();
    times?
        .into_iter()
        .min()
        .map(|time| now.saturating_sub(time))
}
