//! What the guard counts, and the ages and sizes of what it holds.

use std::collections::BTreeMap;

use super::Guard;

/// Counts since the last call of [`Guard::take_counts`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Requests that passed with a token.
    pub(crate) allowed: u64,
    /// Requests that passed on anonymous paths.
    pub(crate) anonymous: u64,
    /// Requests that passed only because of report-only mode.
    pub(crate) reported: u64,
    /// Requests that got a nonce for a proof, to repeat them with it.
    pub(crate) nonces_offered: u64,
    /// Lookups that found the token in the cache.
    pub(crate) cache_hits: u64,
    /// Lookups that did not find the token in the cache.
    pub(crate) cache_misses: u64,
    /// Entries of revocation feeds that were dropped to make room.
    pub(crate) revocations_folded: u64,
    /// Entries of revocation feeds that were skipped because their kind is unknown.
    pub(crate) revocations_skipped: u64,
    /// Fetches that ended.
    pub(crate) fetches: u64,
    /// Fetches that brought nothing usable.
    pub(crate) fetch_failures: u64,
    /// Refusals by the name of the denial.
    pub(crate) denied: BTreeMap<&'static str, u64>,
}

/// A metric and its value.
type Metric = (&'static str, u64);

/// The metrics of one VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Counts since the last call.
    pub counters: [Metric; 10],
    /// Denials since the last call, by reason.
    pub denied: BTreeMap<&'static str, u64>,
    /// Ages in seconds. Of several VMs, the largest counts.
    pub ages: [Metric; 2],
    /// Numbers that add up over all VMs.
    pub sums: [Metric; 6],
}

/// All names, with the value 0.
impl Default for Metrics {
    fn default() -> Self {
        Self::new(Counts::default(), [0; 2], [0; 6])
    }
}

impl Metrics {
    /// Adds the metrics of another guard of this process, which shares the keys and feeds.
    pub fn add_sibling(&mut self, other: &Self) {
        let added = self.counters.iter_mut().zip(other.counters);
        added.for_each(|((_, value), (_, more))| *value += more);
        for (reason, more) in &other.denied {
            *self.denied.entry(reason).or_default() += more;
        }
        let [.., waiting, cache_bytes] = &mut self.sums;
        let [.., more_waiting, more_bytes] = other.sums;
        waiting.1 += more_waiting.1;
        cache_bytes.1 += more_bytes.1;
    }

    fn new(counts: Counts, [keys_age, revocations_age]: [u64; 2], sums: [usize; 6]) -> Self {
        let [
            keys_missing,
            revocations_missing,
            revocation_entries,
            folding,
            waiting,
            cache_bytes,
        ] = sums.map(|number| number as u64);
        Self {
            counters: [
                ("allowed", counts.allowed),
                ("anonymous", counts.anonymous),
                ("reported", counts.reported),
                ("cache_hits", counts.cache_hits),
                ("cache_misses", counts.cache_misses),
                ("revocations_folded", counts.revocations_folded),
                ("revocations_skipped", counts.revocations_skipped),
                ("fetches", counts.fetches),
                ("fetch_failures", counts.fetch_failures),
                ("nonces_offered", counts.nonces_offered),
            ],
            denied: counts.denied,
            ages: [
                ("keys_age_seconds", keys_age),
                ("revocations_age_seconds", revocations_age),
            ],
            sums: [
                ("keys_missing", keys_missing),
                ("revocations_missing", revocations_missing),
                ("revocation_entries", revocation_entries),
                ("revocations_folding", folding),
                ("waiting", waiting),
                ("cache_bytes", cache_bytes),
            ],
        }
    }
}

impl Guard {
    /// Returns the counts since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        for shared in self.feeds.iter().filter(|shared| shared.is_own()) {
            let [folded, skipped] = shared.write().take_counts();
            self.counts.revocations_folded += folded;
            self.counts.revocations_skipped += skipped;
        }
        std::mem::take(&mut self.counts)
    }

    /// `waiting`: number of waiting requests. `now`: seconds of the steady clock.
    pub(crate) fn metrics(&mut self, waiting: usize, now: u64) -> Metrics {
        let ages = [self.keys_age(now), self.revocations_age(now)];
        let sums = [
            self.issuers_without_keys(),
            self.issuers_without_revocations(),
            self.revocation_entries(),
            self.folding_feeds(),
            waiting,
            self.cache_bytes(),
        ];
        Metrics::new(
            self.take_counts(),
            ages.map(Option::unwrap_or_default),
            sums,
        )
    }

    /// A fetch has ended.
    pub(crate) fn count_fetch(&mut self, is_usable: bool) {
        self.counts.fetches += 1;
        self.counts.fetch_failures += u64::from(!is_usable);
    }

    /// Seconds since the oldest key set was fetched. `None` if the keys of an issuer were never fetched, or if
    /// all keys are inline.
    pub(crate) fn keys_age(&self, now: u64) -> Option<u64> {
        let fetched = self
            .issuers
            .iter()
            .filter(|state| state.key_schedule.is_some());
        oldest(fetched.map(|state| state.keys_fetched_at), now)
    }

    /// Seconds since the oldest feed was complete. `None` if a feed was never complete, or if there are no
    /// feeds.
    pub(crate) fn revocations_age(&self, now: u64) -> Option<u64> {
        let feeds = self.feeds.iter();
        oldest(feeds.map(|shared| shared.read().completed_at()), now)
    }

    /// Number of issuers without known keys.
    pub(crate) fn issuers_without_keys(&self) -> usize {
        let without = self.issuers.iter().filter(|state| state.keys.is_empty());
        without.count()
    }

    /// Number of issuers with a feed that was never complete.
    pub(crate) fn issuers_without_revocations(&self) -> usize {
        let without = (0..self.issuers.len()).filter(|issuer| {
            let feed = self.feed(*issuer);
            feed.is_some_and(|shared| shared.read().completed_at().is_none())
        });
        without.count()
    }

    /// Bytes that the cached tokens take.
    pub(crate) const fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Number of entries in all revocation tables.
    pub(crate) fn revocation_entries(&self) -> usize {
        let feeds = self.feeds.iter();
        feeds.map(|shared| shared.read().revocations().len()).sum()
    }

    /// Number of feeds whose table is full, so that the guard refuses old tokens.
    pub(crate) fn folding_feeds(&self) -> usize {
        let feeds = self.feeds.iter();
        feeds
            .filter(|shared| shared.read().revocations().folded_until().is_some())
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
