//! Counts and gauges of all workers. The filter has the same names, so that dashboards and alerts fit both.
//! Only the busy time of the workers has no counterpart in the filter, because a gateway measures it for the
//! filter.
//!
//! Each worker publishes once a second. This module writes the text format itself, because the available
//! libraries add `_total` to the names of counters, and the filter's metrics in Envoy have no such suffix.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guard::verdict::Denial;
use strum::{IntoStaticStr, VariantNames};

/// Content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why token-guard denies a request for a decision before the guard sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum OwnDenial {
    /// The original request cannot be read.
    Handover,
    /// The address does not belong to a gateway.
    Peer,
}

/// What one worker has published: sums of its counters, and its gauges.
#[derive(Debug, Default)]
struct Snapshot {
    metrics: guard::Metrics,
    busy: Duration,
    is_running: bool,
    is_ready: bool,
}

/// The metrics of one worker. Dropping it removes the worker's gauges, but its counts stay.
#[derive(Debug)]
pub(crate) struct WorkerMetrics(Arc<Mutex<Snapshot>>);

impl WorkerMetrics {
    fn published(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds counts and sets gauges. `busy` is the time since the worker's start in which the worker did not
    /// wait for work.
    pub(crate) fn publish(&self, metrics: guard::Metrics, busy: Duration, is_ready: bool) {
        let mut published = self.published();
        let earlier = std::mem::replace(&mut published.metrics, metrics);
        let counters = published.metrics.counters.iter_mut();
        for ((_, count), (_, earlier)) in counters.zip(earlier.counters) {
            *count += earlier;
        }
        add(&mut published.metrics.denied, &earlier.denied);
        published.busy = busy;
        published.is_running = true;
        published.is_ready = is_ready;
    }

    /// Counts a request that token-guard refused before the guard saw it.
    pub(crate) fn denied(&self, denial: OwnDenial) {
        add(
            &mut self.published().metrics.denied,
            &BTreeMap::from([(denial.into(), 1)]),
        );
    }
}

impl Drop for WorkerMetrics {
    fn drop(&mut self) {
        let mut published = self.published();
        let guard::Metrics { ages, sums, .. } = &mut published.metrics;
        for (_, gauge) in ages.iter_mut().chain(sums) {
            *gauge = 0;
        }
        published.is_running = false;
        published.is_ready = false;
    }
}

fn add(sum: &mut BTreeMap<&'static str, u64>, counts: &BTreeMap<&'static str, u64>) {
    for (name, count) in counts {
        *sum.entry(name).or_default() += count;
    }
}

/// The metrics of all workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(Arc<Mutex<Vec<Arc<Mutex<Snapshot>>>>>);

impl Metrics {
    /// Adds a worker.
    pub(crate) fn worker(&self) -> WorkerMetrics {
        let published = Arc::<Mutex<Snapshot>>::default();
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&published));
        WorkerMetrics(published)
    }

    fn each(&self, mut look: impl FnMut(&Snapshot)) {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in workers.iter() {
            look(&worker.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Number of workers that can decide.
    pub(crate) fn ready_workers(&self) -> usize {
        let mut ready = 0;
        self.each(|worker| ready += usize::from(worker.is_ready));
        ready
    }

    /// All metrics in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let names = Denial::names().chain(OwnDenial::VARIANTS.iter().copied());
        let mut denied: BTreeMap<&str, u64> = names.map(|name| (name, 0)).collect();
        let mut counters = BTreeMap::<&str, u64>::new();
        let mut gauges = BTreeMap::<&str, u64>::new();
        let mut busy = Duration::ZERO;
        self.each(|worker| {
            let metrics = &worker.metrics;
            add(&mut denied, &metrics.denied);
            busy += worker.busy;
            for (name, count) in metrics.counters {
                *counters.entry(name).or_default() += count;
            }
            for (name, age) in metrics.ages {
                let worst = gauges.entry(name).or_default();
                *worst = age.max(*worst);
            }
            let running = (BUILD_INFO, u64::from(worker.is_running));
            for (name, share) in metrics.sums.into_iter().chain([running]) {
                *gauges.entry(name).or_default() += share;
            }
        });
        let mut text = String::new();
        for (name, count) in counters {
            put(&mut text, name, "counter", [("", count)]);
        }
        let denied: Vec<(String, u64)> = denied
            .iter()
            .map(|(reason, count)| (format!("{{reason=\"{reason}\"}}"), *count))
            .collect();
        let denied = denied.iter().map(|(label, count)| (label.as_str(), *count));
        put(&mut text, "denied", "counter", denied);
        for (name, value) in gauges {
            let label = if name == BUILD_INFO { VERSION } else { "" };
            put(&mut text, name, "gauge", [(label, value)]);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {BUSY} counter\n{BUSY} {}", busy.as_secs_f64());
        text
    }
}

const BUILD_INFO: &str = "build_info";
const BUSY: &str = "token_guard_busy_seconds_total";
const VERSION: &str = concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}");

/// Writes a metric with its values by label. Names and labels need no escapes, because all of them are
/// constants.
fn put<'a>(
    text: &mut String,
    name: &str,
    kind: &str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# TYPE token_filter_{name} {kind}");
    for (label, value) in values {
        let _ = writeln!(text, "token_filter_{name}{label} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_of_ages_the_worst_shows() {
        let metrics = Metrics::default();
        let workers = [metrics.worker(), metrics.worker()];
        for (worker, age) in workers.iter().zip([7, 3]) {
            let mut published = guard::Metrics {
                denied: BTreeMap::from([("expired", 1)]),
                ..Default::default()
            };
            published.counters[0] = ("allowed", 2);
            published.ages[0] = ("keys_age_seconds", age);
            published.sums[0] = ("waiting", 1);
            let busy = Duration::from_millis(250);
            for _ in 0..2 {
                worker.publish(published.clone(), busy, true);
            }
            worker.denied(OwnDenial::Peer);
        }
        let has = |line: &str| metrics.text().lines().any(|other| other == line);
        for line in [
            "# TYPE token_filter_allowed counter",
            "token_filter_allowed 8",
            "token_filter_denied{reason=\"expired\"} 4",
            "token_filter_denied{reason=\"peer\"} 2",
            "token_filter_denied{reason=\"scope\"} 0",
            "# TYPE token_filter_keys_age_seconds gauge",
            "token_filter_keys_age_seconds 7",
            "token_filter_waiting 2",
            "# TYPE token_guard_busy_seconds_total counter",
            "token_guard_busy_seconds_total 0.5",
            &format!("token_filter_build_info{VERSION} 2"),
        ] {
            assert!(has(line), "{line} is not in {}", metrics.text());
        }
        let [first, _second] = workers;
        drop(first);
        assert!(has("token_filter_keys_age_seconds 3"));
        assert!(has("token_filter_waiting 1"));
        assert!(has("token_filter_allowed 8"), "counters never fall");
        assert!(has("token_guard_busy_seconds_total 0.5"));
    }

    /// The names of the filter's metrics, and one more.
    #[test]
    fn every_metric_is_documented() {
        let metrics = Metrics::default();
        let _worker = metrics.worker();
        let guide = concat!(
            include_str!("../../README.md"),
            include_str!("../../docs/gateways.md")
        );
        for line in metrics.text().lines() {
            let Some(named) = line.strip_prefix("# TYPE ") else {
                continue;
            };
            let (name, _) = named.split_once(' ').unwrap();
            let name = name.strip_prefix("token_filter_").unwrap_or(name);
            let listed = [format!("`{name}`"), format!("`{name}{{")];
            assert!(listed.iter().any(|name| guide.contains(name)), "{name}");
        }
    }
}
