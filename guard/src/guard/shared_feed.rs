//! Revocation feeds that several issuers may share.

use crate::config::{Config, IssuerConfig, WhenStale};
use crate::feed::{Feed, FeedConfig};

/// A feed, with the index of the first issuer that uses this feed.
#[derive(Debug)]
pub(super) struct SharedFeed {
    pub(super) issuer: usize,
    pub(super) feed: Feed,
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
        feed: Feed::new(config),
    });
    (feeds.collect(), of_issuers)
}

/// True if the feed is fresh enough for tokens of this issuer, or if its configuration allows a stale feed.
pub(super) fn is_usable(feed: &Feed, issuer: &IssuerConfig, now: u64) -> bool {
    issuer.revocations.as_ref().is_none_or(|source| {
        source.when_stale == WhenStale::Allow || feed.is_fresh(source.max_staleness_seconds, now)
    })
}
