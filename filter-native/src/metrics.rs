//! The metrics, under the names of the filter in WebAssembly. The main thread publishes them with each tick, so that requests
//! need no calls for metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use guard::Metrics as Values;
use guard::verdict::Denial;

use crate::abi::{Counter, EnvoyConfig, Gauge};

/// The number of workers that run this version. Gateways can be configured to turn the part after `reason.` and `version.`
/// into a label.
const BUILD_INFO: &str = concat!("build_info.version.", env!("CARGO_PKG_VERSION"));

/// Numbers of all configurations in this process: each gauge shows their sum, or the largest age.
static OF_ALL: Mutex<BTreeMap<u64, Vec<(&str, u64)>>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
pub(crate) struct Metrics {
    /// The key of this configuration in [`OF_ALL`].
    number: u64,
    workers: u64,
    counters: Vec<(String, Counter)>,
    gauges: Vec<(&'static str, Gauge)>,
}

fn full(name: &str) -> String {
    format!("token_filter.{name}")
}

fn denied(reason: &str) -> String {
    format!("denied.reason.{reason}")
}

impl Metrics {
    /// Defines every metric, so that all exist from the start.
    pub(crate) fn define(config: &EnvoyConfig, workers: usize) -> Self {
        let values = Values::default();
        let names = values.counters.iter().map(|(name, _)| (*name).to_owned());
        let names = names
            .chain(Denial::names().map(denied))
            .chain(["panics".to_owned()]);
        let gauges = values
            .sums
            .iter()
            .chain(&values.ages)
            .map(|(name, _)| *name);
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            workers: workers as u64,
            counters: names
                .filter_map(|name| {
                    let counter = config.define_counter(&full(&name))?;
                    Some((name, counter))
                })
                .collect(),
            gauges: gauges
                .chain([BUILD_INFO])
                .filter_map(|name| Some((name, config.define_gauge(&full(name))?)))
                .collect(),
        }
    }

    fn count(&self, config: &EnvoyConfig, name: &str, by: u64) {
        if by > 0
            && let Some((_, counter)) = self.counters.iter().find(|(known, _)| known == name)
        {
            config.increment(*counter, by);
        }
    }

    /// `panics`: since the last call.
    pub(crate) fn publish(&self, config: &EnvoyConfig, values: &Values, panics: u64) {
        for (name, value) in &values.counters {
            self.count(config, name, *value);
        }
        for (reason, value) in &values.denied {
            self.count(config, &denied(reason), *value);
        }
        self.count(config, "panics", panics);
        let mut of_all = OF_ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = vec![(BUILD_INFO, self.workers)];
        own.extend(values.sums.iter().chain(&values.ages));
        of_all.insert(self.number, own);
        for (name, gauge) in &self.gauges {
            let numbers = of_all.values().flatten();
            let numbers = numbers.filter_map(|(other, number)| (other == name).then_some(*number));
            let shown = match values.ages.iter().any(|(age, _)| age == name) {
                true => numbers.max().unwrap_or_default(),
                false => numbers.sum(),
            };
            config.set_gauge(*gauge, shown);
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        let mut of_all = OF_ALL.lock().unwrap_or_else(PoisonError::into_inner);
        of_all.remove(&self.number);
    }
}
