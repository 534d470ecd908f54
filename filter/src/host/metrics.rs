//! Counts in the host's metrics, brought there with each tick: the way of a request calls none.

use abi::host::{self, MetricType};

use super::crypto::HostSignatures;
use crate::answers::Denial;
use crate::guard::{Counts, Guard};

/// The metrics by name. A host that refuses one does without it.
#[derive(Debug)]
pub(super) struct Metrics {
    counters: Vec<(String, u32)>,
    gauges: Vec<(&'static str, u32)>,
}

const COUNTERS: [&str; 5] = [
    "filter.allowed",
    "filter.anonymous",
    "filter.reported",
    "filter.cache_hits",
    "filter.cache_misses",
];
const FETCH_COUNTERS: [&str; 2] = ["filter.fetches", "filter.fetch_failures"];
const KEYS_AGE: &str = "filter.keys_age_seconds";
const KEYS_MISSING: &str = "filter.keys_missing";
const REVOCATIONS_AGE: &str = "filter.revocations_age_seconds";
const REVOCATIONS_MISSING: &str = "filter.revocations_missing";
const REVOCATION_ENTRIES: &str = "filter.revocation_entries";
const WAITING: &str = "filter.waiting";
const HOST_RS256: &str = "filter.host_verifies_rs256";
const HOST_ES256: &str = "filter.host_verifies_es256";
const GAUGES: [&str; 8] = [
    KEYS_AGE,
    KEYS_MISSING,
    REVOCATIONS_AGE,
    REVOCATIONS_MISSING,
    REVOCATION_ENTRIES,
    WAITING,
    HOST_RS256,
    HOST_ES256,
];

fn denied(name: &str) -> String {
    format!("filter.denied.{name}")
}

impl Metrics {
    /// Defines every metric, so that each is there from the start.
    pub(super) fn define() -> Self {
        let names = COUNTERS
            .into_iter()
            .chain(FETCH_COUNTERS)
            .map(str::to_owned)
            .chain(Denial::names().into_iter().map(denied));
        Self {
            counters: names
                .filter_map(|name| {
                    let id = host::define_metric(MetricType::Counter, &name).ok()?;
                    Some((name, id))
                })
                .collect(),
            gauges: GAUGES
                .into_iter()
                .filter_map(|name| {
                    let id = host::define_metric(MetricType::Gauge, name).ok()?;
                    Some((name, id))
                })
                .collect(),
        }
    }

    fn count(&self, name: &str, by: u64) {
        if by > 0
            && let Some((_, id)) = self.counters.iter().find(|(known, _)| known == name)
        {
            let _ = host::increment_metric(*id, by);
        }
    }

    fn set(&self, name: &'static str, value: u64) {
        if let Some((_, id)) = self.gauges.iter().find(|(known, _)| *known == name) {
            let _ = host::record_metric(*id, value);
        }
    }

    /// Which signatures the host checks.
    pub(super) fn host_signatures(&self, signatures: HostSignatures) {
        self.set(HOST_RS256, u64::from(signatures.rs256));
        self.set(HOST_ES256, u64::from(signatures.es256));
    }

    /// A fetch came to its end.
    pub(super) fn fetch(&self, succeeded: bool) {
        let [fetches, failures] = FETCH_COUNTERS;
        self.count(fetches, 1);
        self.count(failures, u64::from(!succeeded));
    }

    /// Brings counts and ages to the host.
    pub(super) fn publish(&self, guard: &mut Guard, waiting: usize, now: u64) {
        let Counts {
            allowed,
            anonymous,
            reported,
            cache_hits,
            cache_misses,
            denied: refusals,
        } = guard.take_counts();
        let values = [allowed, anonymous, reported, cache_hits, cache_misses];
        for (name, value) in COUNTERS.into_iter().zip(values) {
            self.count(name, value);
        }
        for (name, value) in refusals {
            self.count(&denied(name), value);
        }
        let (keys, revocations) = (guard.keys_age(now), guard.revocations_age(now));
        self.set(KEYS_AGE, keys.unwrap_or(0));
        self.set(KEYS_MISSING, guard.issuers_without_keys() as u64);
        self.set(REVOCATIONS_AGE, revocations.unwrap_or(0));
        self.set(
            REVOCATIONS_MISSING,
            guard.issuers_without_revocations() as u64,
        );
        self.set(REVOCATION_ENTRIES, guard.revocation_entries() as u64);
        self.set(WAITING, waiting as u64);
    }
}
