//! Counts for the host's metrics. The filter publishes them with each tick, so that requests need no calls for
//! metrics.
//!
//! A host has one metric for each name, to which the VMs of all workers contribute. Counters and [`Share`]s
//! show the sum, and ages show the [`Worst`].

use std::cell::{Cell, RefCell};

use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

use super::crypto::HostSignatures;
use guard::gauges::{Share, Worst};
use guard::verdict::Denial;

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
            id: hostcalls::define_metric(MetricType::Gauge, &full(name)).ok()?,
            state: T::default(),
        })
    }
}

impl Gauge<Share> {
    fn share(&mut self, number: u64) {
        let change = self.state.change(number);
        if change != 0 {
            let _ = hostcalls::increment_metric(self.id, change);
        }
    }
}

/// The number of VMs that run this version. Gateways can be configured to turn the part after `reason.` and
/// `version.` into a label.
const BUILD_INFO: &str = concat!("build_info.version.", env!("CARGO_PKG_VERSION"));
fn full(name: &str) -> String {
    format!("token_filter.{name}")
}

fn denied(reason: &str) -> String {
    format!("denied.reason.{reason}")
}

impl Metrics {
    /// Defines every metric, so that all exist from the start.
    pub(super) fn define() -> Self {
        let guards = guard::Metrics::default();
        let names = guards.counters.iter().map(|(name, _)| (*name).to_owned());
        let names = names.chain(Denial::names().map(denied));
        let sums = guards.sums.iter().map(|(name, _)| *name);
        let ages = guards.ages.iter().map(|(name, _)| *name);
        let metrics = Self {
            counters: names
                .filter_map(|name| {
                    let id = hostcalls::define_metric(MetricType::Counter, &full(&name)).ok()?;
                    Some((name, id))
                })
                .collect(),
            sums: RefCell::new(sums.chain([BUILD_INFO]).filter_map(Gauge::define).collect()),
            ages: RefCell::new(ages.filter_map(Gauge::define).collect()),
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
            gauge.share(number);
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
        for gauge in self.sums.borrow_mut().iter_mut() {
            gauge.share(0);
        }
        if let Some(vms) = running {
            self.running(vms);
        }
    }

    /// Publishes counts, sums and ages. `now`: seconds of the steady clock.
    pub(super) fn publish(&self, guards: &guard::Metrics, now: u64) {
        for (name, value) in &guards.counters {
            self.count(name, *value);
        }
        for (reason, value) in &guards.denied {
            self.count(&denied(reason), *value);
        }
        // There are several ticks in a second while requests wait, and while another VM reads the feed.
        if self.aged.replace(now) != now {
            for (name, seconds) in guards.ages {
                self.age(name, seconds);
            }
        }
        for (name, number) in guards.sums {
            self.share(name, number);
        }
    }
}
