//! Counts for the host's metrics. The filter publishes them with each tick, so that requests need no calls for
//! metrics.
//!
//! A host has one metric for each name, to which the VMs of all workers contribute. Counters and [`Share`]s
//! show the sum, and ages show the [`Worst`].

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
/// The number of VMs that run this version. Gateways can be configured to turn the part after `reason.` and
/// `version.` into a label.
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
    /// Defines every metric, so that all exist from the start.
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
        // Called at the start, because the SDK panics if the host cannot do it. Such a host then refuses the
        // plugin.
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

    /// Sets this VM's share in a sum over all VMs.
    fn share(&self, name: &str, number: u64) {
        let mut sums = self.sums.borrow_mut();
        if let Some(gauge) = sums.iter_mut().find(|gauge| gauge.name == name) {
            let change = gauge.state.change(number);
            if change != 0 {
                let _ = hostcalls::increment_metric(gauge.id, change);
            }
        }
    }

    /// Sets this VM's age. The metric shows the largest age of all VMs, or the last one written if the host
    /// cannot read metrics.
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

    /// Publishes which signatures the host verifies, the same in every VM.
    pub(super) fn host_signatures(signatures: &HostSignatures) {
        for (algorithm, offered) in signatures.offered() {
            let algorithm = algorithm.name().to_ascii_lowercase();
            let name = format!("token_filter.host_verifies_{algorithm}");
            if let Ok(id) = hostcalls::define_metric(MetricType::Gauge, &name) {
                let _ = hostcalls::record_metric(id, u64::from(*offered));
            }
        }
    }

    /// Sets the number of running VMs, which replaces the sum: a VM that crashed could not take itself off.
    pub(super) fn running(&self, vms: u64) {
        let sums = self.sums.borrow();
        if let Some(gauge) = sums.iter().find(|gauge| gauge.name == BUILD_INFO) {
            let _ = hostcalls::record_metric(gauge.id, vms);
        }
    }

    /// Removes this VM's shares from all sums, when the VM or this configuration ends. `running`: the number of VMs that
    /// still run, if it is known.
    pub(super) fn withdraw(&self, running: Option<u64>) {
        for name in SUMS {
            self.share(name, 0);
        }
        if let Some(vms) = running {
            self.running(vms);
        }
    }

    pub(super) fn fetch(&self, succeeded: bool) {
        let [fetches, failures] = FETCH_COUNTERS;
        self.count(fetches, 1);
        self.count(failures, u64::from(!succeeded));
    }

    /// Publishes counts and ages.
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
        // There are several ticks in a second while requests wait, and while another VM reads the feed.
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
