//! The state of one issuer, and the check of its tokens.

use keys::discovery::Discovery;
use keys::endpoint::Endpoint;
use keys::schedule::{Schedule, TIMEOUT_SECONDS};
use keys::signature::HostVerifier;
use keys::{KeySet, Skipped};

use super::effect::Patience;
use super::hand_over;
use super::shared_feed::{SharedFeed, is_usable};
use crate::cache::CachedToken;
use crate::clock::Time;
use crate::config::{Config, IssuerConfig, KeySource};
use crate::fetch::{FetchId, FetchKind};
use crate::introspection::{Asker, Introspection};
use crate::shared_data::SharedData;
use crate::verdict::{Denial, Verdict};
use crate::verify::{ParsedToken, Refusal, VerifiedToken};

#[derive(Debug)]
pub(super) struct IssuerState {
    pub(super) keys: KeySet,
    /// `None` for inline keys.
    pub(super) key_schedule: Option<Schedule>,
    pub(super) keys_fetched_at: Option<u64>,
    /// Address of the keys, from the metadata.
    pub(super) discovered: Option<Discovered>,
    /// Only used for issuers with an introspection endpoint.
    pub(super) introspection: Introspection,
    /// The unusable keys that the last remark described.
    skipped_keys: Skipped,
    /// Index of the feed, if the issuer has a feed.
    pub(super) feed: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Discovered {
    keys: Endpoint,
    /// Time of the next metadata fetch, in seconds of the steady clock.
    until: u64,
}

/// The time and the limits of one check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Time,
    /// Clock skew, in seconds.
    pub(super) skew: u64,
    pub(super) patience: Patience,
}

/// A verified token that is not revoked.
pub(super) struct Checked {
    pub(super) token: VerifiedToken,
    /// Time until which the token counts as active, in seconds of the steady clock.
    pub(super) active_until: u64,
    /// Generation of the revocations in which the token was not found; 0 without a feed.
    pub(super) not_revoked_at: u64,
}

impl IssuerState {
    /// Moves the inline keys out of the configuration.
    pub(super) fn new(config: &mut IssuerConfig, feed: Option<usize>) -> Self {
        let (keys, key_schedule) = match &mut config.keys {
            KeySource::Inline(keys) => (std::mem::take(keys), None),
            KeySource::Fetched {
                refresh_seconds, ..
            }
            | KeySource::Discovered(Discovery {
                refresh_seconds, ..
            }) => (KeySet::default(), Some(Schedule::new(*refresh_seconds))),
        };
        Self {
            keys,
            key_schedule,
            keys_fetched_at: None,
            discovered: None,
            introspection: Introspection::default(),
            skipped_keys: Skipped::default(),
            feed,
        }
    }

    /// The state of this issuer for another guard of this process.
    pub(super) fn sibling(&self) -> Self {
        let mut state = Self {
            keys: KeySet::default(),
            key_schedule: None,
            keys_fetched_at: None,
            discovered: None,
            introspection: Introspection::default(),
            skipped_keys: Skipped::default(),
            feed: self.feed,
        };
        state.adopt(self);
        state
    }

    /// Takes over the keys of another guard of this process, where they come from, and when they are fetched next.
    pub(super) fn adopt(&mut self, other: &Self) {
        self.keys = other.keys.clone();
        self.key_schedule = other.key_schedule.clone();
        self.keys_fetched_at = other.keys_fetched_at;
        self.discovered = other.discovered.clone();
        self.skipped_keys = other.skipped_keys.clone();
    }

    /// True if a cached token would still be accepted. `time`: of the last tick, at most a second ago.
    pub(super) fn still_good(
        &self,
        hit: &mut CachedToken,
        config: &Config,
        feeds: &[SharedFeed],
        time: Time,
    ) -> bool {
        let Some(issuer) = config.issuers.get(hit.issuer) else {
            return false;
        };
        let is_over = time.wall >= hit.refused_from || time.steady >= hit.active_until;
        if is_over || !self.keys.trusts(&hit.key) {
            return false;
        }
        let Some(shared) = self.feed.and_then(|feed| feeds.get(feed)) else {
            return true;
        };
        let (freshness, generation) = shared.published().read();
        if !is_usable(freshness, issuer, time.steady) {
            return false;
        }
        if hit.not_revoked_at == generation {
            return true;
        }
        let feed = shared.read();
        let revocations = feed.revocations();
        let since = std::mem::replace(&mut hit.not_revoked_at, revocations.generation());
        let refusal = revocations.refusal(&hit.reference, &issuer.issuer, since);
        refusal.is_none()
    }

    pub(super) fn check(
        &mut self,
        token: &str,
        parsed: ParsedToken<'_>,
        config: &IssuerConfig,
        feed: Option<&SharedFeed>,
        host: &dyn HostVerifier,
        Moment {
            now,
            skew,
            patience,
        }: Moment,
    ) -> Verdict<Checked, FetchId> {
        let index = parsed.issuer;
        let wait_for_keys_or = |schedule: &mut Option<Schedule>, denial| match schedule {
            Some(schedule) if patience.is_left_for(FetchKind::Keys) => {
                schedule.hurry(now.steady);
                Verdict::Wait((index, FetchKind::Keys))
            }
            _ => Verdict::Deny(denial, None),
        };
        if self.keys.is_empty() {
            return wait_for_keys_or(&mut self.key_schedule, Denial::KeysUnavailable);
        }
        let verified = match parsed.verify(&self.keys, config, host, now.wall, skew) {
            Ok(verified) => verified,
            Err(refusal @ (Refusal::KeyUnknown | Refusal::KeyAlgorithm)) => {
                // While the fetches fail, the key may exist and just not be known here.
                let failing = self.key_schedule.as_ref().is_some_and(Schedule::is_failing);
                let denial = if failing {
                    Denial::KeysUnavailable
                } else {
                    Denial::Token(refusal)
                };
                return wait_for_keys_or(&mut self.key_schedule, denial);
            }
            Err(refusal) => return Verdict::Deny(Denial::Token(refusal), None),
        };
        let accepted = |token, active_until, not_revoked_at| {
            Verdict::Accepted(Checked {
                token,
                active_until,
                not_revoked_at,
            })
        };
        if let Some(source) = &config.introspection {
            let asker = Asker {
                token,
                client: verified.reference.client(),
                may_wait: patience.is_left_for(FetchKind::Introspection(0)),
            };
            return match self.introspection.verdict(source, asker, now.steady) {
                Verdict::Accepted(until) => accepted(verified, until, 0),
                Verdict::Wait(question) => {
                    Verdict::Wait((index, FetchKind::Introspection(question)))
                }
                Verdict::Deny(denial, _) => Verdict::Deny(denial, Some(verified.reference)),
            };
        }
        let Some(shared) = feed else {
            return accepted(verified, u64::MAX, 0);
        };
        let feed = shared.read();
        let is_usable = is_usable(feed.freshness(), config, now.steady);
        // Also where a stale feed is allowed, the first requests wait for the first read.
        if (!is_usable || feed.is_starting()) && patience.is_left_for(FetchKind::Revocations) {
            drop(feed);
            shared.write().hurry(now.steady);
            return Verdict::Wait((shared.issuer, FetchKind::Revocations));
        }
        if !is_usable {
            return Verdict::Deny(Denial::RevocationsUnavailable, Some(verified.reference));
        }
        let revocations = feed.revocations();
        match revocations.refusal(&verified.reference, &config.issuer, 0) {
            Some(refusal) => Verdict::Deny(Denial::Token(refusal), Some(verified.reference)),
            None => accepted(verified, u64::MAX, revocations.generation()),
        }
    }

    /// Takes over the keys that an earlier VM has left. They are fetched all the same, and these serve until then.
    pub(super) fn inherit_keys(&mut self, config: &IssuerConfig, data: &dyn SharedData) {
        if let Some((keys, fetched_at)) = hand_over::inherited_keys(config, data) {
            self.keys = keys;
            self.keys_fetched_at = Some(fetched_at);
        }
    }

    /// Returns the due fetch of metadata or keys, if any, and counts it as started.
    pub(super) fn due_for_keys(
        &mut self,
        config: &IssuerConfig,
        now: u64,
    ) -> Option<(FetchKind, Endpoint)> {
        let schedule = self.key_schedule.as_mut()?;
        if !schedule.is_due(now) {
            return None;
        }
        let due = match (&config.keys, &self.discovered) {
            (KeySource::Inline(_), _) => return None,
            (KeySource::Fetched { endpoint, .. }, _) => (FetchKind::Keys, endpoint.clone()),
            (KeySource::Discovered(_), Some(found)) if now < found.until => {
                (FetchKind::Keys, found.keys.clone())
            }
            (KeySource::Discovered(discovery), _) => {
                (FetchKind::Metadata, discovery.endpoint.clone())
            }
        };
        schedule.started(now, TIMEOUT_SECONDS);
        Some(due)
    }

    /// Applies the metadata of the issuer. The keys are fetched next.
    pub(super) fn discovered(
        &mut self,
        body: &[u8],
        config: &IssuerConfig,
        now: u64,
    ) -> Result<(), String> {
        if let KeySource::Discovered(discovery) = &config.keys {
            let keys = discovery.keys_of(&config.issuer, body)?;
            let until = now + discovery.refresh_seconds;
            self.discovered = Some(Discovered { keys, until });
            if let Some(schedule) = &mut self.key_schedule {
                schedule.goes_on(now);
            }
        }
        Ok(())
    }

    /// A fetch of metadata or keys failed. If the metadata failed, the known address of the keys stays in use.
    pub(super) fn keys_failed(&mut self, kind: FetchKind, config: &IssuerConfig, now: u64) {
        let Some(schedule) = &mut self.key_schedule else {
            return;
        };
        match (kind, &mut self.discovered, &config.keys) {
            (FetchKind::Metadata, Some(found), KeySource::Discovered(discovery)) => {
                found.until = now + discovery.refresh_seconds;
                schedule.goes_on(now);
            }
            (FetchKind::Keys, Some(found), KeySource::Discovered(_)) => {
                // The keys may have moved: the metadata are read first at the next attempt.
                found.until = now;
                schedule.failed_at_a_replica(now);
            }
            _ => schedule.failed_at_a_replica(now),
        }
    }

    pub(super) fn replace_keys(
        &mut self,
        body: &[u8],
        config: &IssuerConfig,
        now: u64,
    ) -> Result<Vec<String>, String> {
        let (keys, skipped) = KeySet::parse(body, &config.algorithms, &self.keys)?;
        if keys.is_empty() {
            return Err(format!("it holds no usable key: {}", skipped.line()));
        }
        self.keys = keys;
        self.keys_fetched_at = Some(now);
        if let Some(schedule) = &mut self.key_schedule {
            schedule.succeeded(now);
        }
        // Clients with unknown keys can cause fetches, so the same remark is written only once.
        if skipped == self.skipped_keys {
            return Ok(Vec::new());
        }
        let remark = match skipped.count {
            0 => "all keys can be used now".to_owned(),
            1 => format!("1 key cannot be used: {}", skipped.line()),
            count => format!("{count} keys cannot be used: {}", skipped.line()),
        };
        self.skipped_keys = skipped;
        Ok(vec![remark])
    }
}
