//! Counts and gauges of all workers. The names are those of the filter, so that dashboards and alerts fit both.
//! Only the busy time of the workers has no counterpart in the filter, because a gateway measures it for the
//! filter.
//!
//! Each worker publishes once a second. This module writes the text format itself, because the available
//! libraries add `_total` to the names of counters, and the filter's metrics in Envoy have no such suffix.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guard::answers::Denial;
use guard::guard::{Counts, Guard};

/// Content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why token-guard refuses a request for a decision before the guard sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The original request cannot be read.
    Handover,
    /// The address does not belong to a gateway.
    Peer,
}

impl Refused {
    const ALL: [Self; 2] = [Self::Handover, Self::Peer];

    /// The value of `reason` in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Handover => "handover",
            Self::Peer => "peer",
        }
    }
}

#[derive(Debug, Default)]
struct Published {
    counts: Counts,
    fetches: u64,
    fetch_failures: u64,
    busy: Duration,
    gauges: Gauges,
}

/// Gauges of one worker.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gauges {
    keys_age: u64,
    revocations_age: u64,
    keys_missing: usize,
    revocations_missing: usize,
    revocation_entries: usize,
    folding: usize,
    waiting: usize,
    cache_bytes: usize,
    is_running: bool,
    is_ready: bool,
}

impl Gauges {
    /// Gauges of this guard. `waiting`: number of waiting requests. `now`: seconds of the steady clock.
    pub(crate) fn of(guard: &Guard, waiting: usize, is_ready: bool, now: u64) -> Self {
        Self {
            keys_age: guard.keys_age(now).unwrap_or(0),
            revocations_age: guard.revocations_age(now).unwrap_or(0),
            keys_missing: guard.issuers_without_keys(),
            revocations_missing: guard.issuers_without_revocations(),
            revocation_entries: guard.revocation_entries(),
            folding: guard.folding_feeds(),
            waiting,
            cache_bytes: guard.cache_bytes(),
            is_running: true,
            is_ready,
        }
    }
}

/// The metrics of one worker. Dropping it removes the worker's gauges, but its counts stay.
#[derive(Debug)]
pub(crate) struct WorkerMetrics(Arc<Mutex<Published>>);

impl WorkerMetrics {
    fn published(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds counts and sets gauges. `busy` is the time since the worker's start in which the worker did not
    /// wait for work.
    pub(crate) fn publish(&self, counts: Counts, busy: Duration, gauges: Gauges) {
        let mut published = self.published();
        add(&mut published.counts, counts);
        published.busy = busy;
        published.gauges = gauges;
    }

    /// Counts a request that token-guard refused before the guard saw it.
    pub(crate) fn refused(&self, refused: Refused) {
        let mut published = self.published();
        *published.counts.denied.entry(refused.name()).or_default() += 1;
    }

    pub(crate) fn fetched(&self, succeeded: bool) {
        let mut published = self.published();
        published.fetches += 1;
        published.fetch_failures += u64::from(!succeeded);
    }
}

impl Drop for WorkerMetrics {
    fn drop(&mut self) {
        self.published().gauges = Gauges::default();
    }
}

fn add(sum: &mut Counts, counts: Counts) {
    let Counts {
        allowed,
        anonymous,
        reported,
        cache_hits,
        cache_misses,
        revocations_folded,
        revocations_skipped,
        denied,
    } = counts;
    sum.allowed += allowed;
    sum.anonymous += anonymous;
    sum.reported += reported;
    sum.cache_hits += cache_hits;
    sum.cache_misses += cache_misses;
    sum.revocations_folded += revocations_folded;
    sum.revocations_skipped += revocations_skipped;
    for (reason, count) in denied {
        *sum.denied.entry(reason).or_default() += count;
    }
}

/// The metrics of all workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(Arc<Mutex<Vec<Arc<Mutex<Published>>>>>);

impl Metrics {
    /// Adds a worker.
    pub(crate) fn worker(&self) -> WorkerMetrics {
        let published = Arc::<Mutex<Published>>::default();
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&published));
        WorkerMetrics(published)
    }

    fn each(&self, mut look: impl FnMut(&Published)) {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in workers.iter() {
            look(&worker.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Number of workers that can decide.
    pub(crate) fn ready_workers(&self) -> usize {
        let mut ready = 0;
        self.each(|worker| ready += usize::from(worker.gauges.is_ready));
        ready
    }

    /// All metrics in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut counts = Counts::default();
        let names = Denial::names().into_iter();
        let names = names.chain(Refused::ALL.map(Refused::name));
        counts.denied.extend(names.map(|name| (name, 0)));
        let (mut fetches, mut fetch_failures, mut busy) = (0, 0, Duration::ZERO);
        let mut gauges = BTreeMap::<&str, u64>::new();
        self.each(|worker| {
            add(&mut counts, worker.counts.clone());
            fetches += worker.fetches;
            fetch_failures += worker.fetch_failures;
            busy += worker.busy;
            let worker = worker.gauges;
            for (name, age) in [
                ("keys_age_seconds", worker.keys_age),
                ("revocations_age_seconds", worker.revocations_age),
            ] {
                let worst = gauges.entry(name).or_default();
                *worst = age.max(*worst);
            }
            for (name, share) in [
                ("keys_missing", worker.keys_missing),
                ("revocations_missing", worker.revocations_missing),
                ("revocation_entries", worker.revocation_entries),
                ("revocations_folding", worker.folding),
                ("waiting", worker.waiting),
                ("cache_bytes", worker.cache_bytes),
                (BUILD_INFO, usize::from(worker.is_running)),
            ] {
                *gauges.entry(name).or_default() += share as u64;
            }
        });
        let mut text = String::new();
        for (name, count) in [
            ("allowed", counts.allowed),
            ("anonymous", counts.anonymous),
            ("reported", counts.reported),
            ("cache_hits", counts.cache_hits),
            ("cache_misses", counts.cache_misses),
            ("revocations_folded", counts.revocations_folded),
            ("revocations_skipped", counts.revocations_skipped),
            ("fetches", fetches),
            ("fetch_failures", fetch_failures),
        ] {
            put(&mut text, name, "counter", [("", count)]);
        }
        let denied: Vec<(String, u64)> = counts
            .denied
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
            let counts = Counts {
                allowed: 2,
                denied: BTreeMap::from([("expired", 1)]),
                ..Counts::default()
            };
            let gauges = Gauges {
                keys_age: age,
                waiting: 1,
                is_running: true,
                ..Gauges::default()
            };
            worker.publish(counts, Duration::from_millis(250), gauges);
            worker.refused(Refused::Peer);
            worker.fetched(age == 7);
        }
        let has = |line: &str| metrics.text().lines().any(|other| other == line);
        for line in [
            "# TYPE token_filter_allowed counter",
            "token_filter_allowed 4",
            "token_filter_fetches 2",
            "token_filter_fetch_failures 1",
            "token_filter_denied{reason=\"expired\"} 2",
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
        assert!(has("token_filter_allowed 4"), "counters never fall");
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
