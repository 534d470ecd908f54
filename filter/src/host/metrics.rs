//! Counts in the host's metrics, brought there with each tick: the way of a request calls none.
//!
//! A host has one metric of a name, to which the VMs of all workers contribute: counters and [`Share`]s add up, of ages the
//! [`Worst`] shows.

use std::cell::{Cell, RefCell};

use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

use super::crypto::HostSignatures;
use guard::answers::Denial;
use guard::gauges::{Share, Worst};
use guard::guard::{Counts, Guard};

/// The metrics by name.
#[derive(Debug)]
pub(super) struct Metrics {
    counters: Vec<(String, u32)>,
    sums: RefCell<Vec<Gauge<Share>>>,
    ages: RefCell<Vec<Gauge<Worst>>>,
    /// The second in which ages were last published.
    aged: Cell<u64>,
}

#[derive(Debug)]
struct Gauge<T> {
    name: &'static str,
    id: u32,
    state: T,
}

impl<T: Default> Gauge<T> {
    fn define(name: &'static str) -> Option<Self> {
        Some(Self {
            name,
            id: hostcalls::define_metric(MetricType::Gauge, name).ok()?,
            state: T::default(),
        })
    }
}

const COUNTERS: [&str; 7] = [
    "token_filter.allowed",
    "token_filter.anonymous",
    "token_filter.reported",
    "token_filter.cache_hits",
    "token_filter.cache_misses",
    "token_filter.revocations_folded",
    "token_filter.revocations_skipped",
];
const FETCH_COUNTERS: [&str; 2] = ["token_filter.fetches", "token_filter.fetch_failures"];
const KEYS_AGE: &str = "token_filter.keys_age_seconds";
const KEYS_MISSING: &str = "token_filter.keys_missing";
const REVOCATIONS_AGE: &str = "token_filter.revocations_age_seconds";
const REVOCATIONS_MISSING: &str = "token_filter.revocations_missing";
const REVOCATION_ENTRIES: &str = "token_filter.revocation_entries";
const FOLDING: &str = "token_filter.revocations_folding";
const WAITING: &str = "token_filter.waiting";
const CACHE_BYTES: &str = "token_filter.cache_bytes";
/// The number of VMs that run this version. Gateways make labels of the part after `reason.` and `version.`, where they are told to.
const BUILD_INFO: &str = concat!(
    "token_filter.build_info.version.",
    env!("CARGO_PKG_VERSION")
);
const AGES: [&str; 2] = [KEYS_AGE, REVOCATIONS_AGE];
const SUMS: [&str; 7] = [
    BUILD_INFO,
    KEYS_MISSING,
    REVOCATIONS_MISSING,
    REVOCATION_ENTRIES,
    FOLDING,
    WAITING,
    CACHE_BYTES,
];

fn denied(name: &str) -> String {
    format!("token_filter.denied.reason.{name}")
}

impl Metrics {
    /// Defines every metric, so that each is there from the start.
    pub(super) fn define() -> Self {
        let names = COUNTERS
            .into_iter()
            .chain(FETCH_COUNTERS)
            .map(str::to_owned)
            .chain(Denial::names().into_iter().map(denied));
        let metrics = Self {
            counters: names
                .filter_map(|name| {
                    let id = hostcalls::define_metric(MetricType::Counter, &name).ok()?;
                    Some((name, id))
                })
                .collect(),
            sums: RefCell::new(SUMS.into_iter().filter_map(Gauge::define).collect()),
            ages: RefCell::new(AGES.into_iter().filter_map(Gauge::define).collect()),
            aged: Cell::default(),
        };
        // At the start, like the definition, so that a host that cannot do it refuses the plugin: the SDK panics.
        metrics.share(BUILD_INFO, 1);
        for gauge in metrics.ages.borrow().iter() {
            let _ = hostcalls::get_metric(gauge.id);
        }
        metrics
    }

    fn count(&self, name: &str, by: u64) {
        let by = i64::try_from(by).unwrap_or(i64::MAX);
        if by > 0
            && let Some((_, id)) = self.counters.iter().find(|(known, _)| known == name)
        {
            let _ = hostcalls::increment_metric(*id, by);
        }
    }

    /// This VM's share in a sum over all VMs.
    fn share(&self, name: &str, number: u64) {
        let mut sums = self.sums.borrow_mut();
        if let Some(gauge) = sums.iter_mut().find(|gauge| gauge.name == name) {
            let change = gauge.state.change(number);
            if change != 0 {
                let _ = hostcalls::increment_metric(gauge.id, change);
            }
        }
    }

    /// This VM's age; the oldest of all VMs shows. A host that does not tell what shows gets every VM's own.
    fn age(&self, name: &str, seconds: u64) {
        let mut ages = self.ages.borrow_mut();
        if let Some(gauge) = ages.iter_mut().find(|gauge| gauge.name == name) {
            let to_record = match hostcalls::get_metric(gauge.id) {
                Ok(shown) => gauge.state.record(seconds, shown),
                Err(_) => Some(seconds),
            };
            if let Some(age) = to_record {
                let _ = hostcalls::record_metric(gauge.id, age);
            }
        }
    }

    /// Which signatures the host verifies: the same in every VM.
    pub(super) fn host_signatures(signatures: &HostSignatures) {
        for (algorithm, offered) in signatures.offered() {
            let algorithm = algorithm.name().to_ascii_lowercase();
            let name = format!("token_filter.host_verifies_{algorithm}");
            if let Ok(id) = hostcalls::define_metric(MetricType::Gauge, &name) {
                let _ = hostcalls::record_metric(id, u64::from(*offered));
            }
        }
    }

    /// The VM ends, or this configuration of it: what it has contributed to sums goes with it.
    pub(super) fn withdraw(&self) {
        for name in SUMS {
            self.share(name, 0);
        }
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
            revocations_folded,
            revocations_skipped,
            denied: refusals,
        } = guard.take_counts();
        let values = [
            allowed,
            anonymous,
            reported,
            cache_hits,
            cache_misses,
            revocations_folded,
            revocations_skipped,
        ];
        for (name, value) in COUNTERS.into_iter().zip(values) {
            self.count(name, value);
        }
        for (name, value) in refusals {
            self.count(&denied(name), value);
        }
        let (keys, revocations) = (guard.keys_age(now), guard.revocations_age(now));
        // Ticks come thicker while requests wait, and where another VM reads the feed.
        if self.aged.replace(now) != now {
            self.age(KEYS_AGE, keys.unwrap_or(0));
            self.age(REVOCATIONS_AGE, revocations.unwrap_or(0));
        }
        for (name, number) in [
            (KEYS_MISSING, guard.issuers_without_keys()),
            (REVOCATIONS_MISSING, guard.issuers_without_revocations()),
            (REVOCATION_ENTRIES, guard.revocation_entries()),
            (FOLDING, guard.folding_feeds()),
            (WAITING, waiting),
            (CACHE_BYTES, guard.cache_bytes()),
        ] {
            self.share(name, number as u64);
        }
    }
}
