//! What a soak test measures in each window, and what of that must not grow.

use tests::load::{Operation, Times};

use super::sample::{Stored, Taken};
use super::verdict::{self, Bound, Verdict};
use crate::measure;

/// One row of the report.
pub(super) struct Window {
    pub(super) service: Taken,
    pub(super) envoy: Taken,
    pub(super) token_cache_mib: f64,
    pub(super) stored: Stored,
    /// Microseconds of processor time for each answer. NaN if the process started in this window.
    pub(super) service_work: f64,
    pub(super) envoy_work: f64,
    pub(super) times: Times,
}

impl Window {
    /// Percentile of the latency, in milliseconds.
    fn percentile(&self, operation: Operation, percent: usize) -> f64 {
        let times = self.times.operations.get(&operation);
        measure::percentile(times.map_or(&[], Vec::as_slice), percent * 10)
    }

    /// The same for the probes of the machine.
    fn machine(&self, percent: usize) -> f64 {
        measure::percentile(&self.times.machine, percent * 10)
    }
}

/// A measurement that must not grow.
struct Measure {
    name: &'static str,
    bound: Bound,
    of: fn(&Window) -> f64,
    /// The percentile, if the measurement is a latency.
    latency: Option<usize>,
}

impl Measure {
    const fn new(name: &'static str, ratio: f64, slack: f64, of: fn(&Window) -> f64) -> Self {
        Self {
            name,
            bound: Bound { ratio, slack },
            of,
            latency: None,
        }
    }

    const fn latency(
        name: &'static str,
        ratio: f64,
        slack: f64,
        percent: usize,
        of: fn(&Window) -> f64,
    ) -> Self {
        Self {
            latency: Some(percent),
            ..Self::new(name, ratio, slack, of)
        }
    }

    fn check(&self, windows: &[Window]) -> Option<Verdict> {
        let series: Vec<f64> = windows.iter().map(self.of).collect();
        match self.latency {
            None => verdict::check(&series, self.bound),
            Some(percent) => {
                let machine: Vec<f64> = windows
                    .iter()
                    .map(|window| window.machine(percent))
                    .collect();
                verdict::check_latency(&series, &machine, self.bound)
            }
        }
    }
}

/// Prints the measurements. Returns true if none grew.
pub(super) fn compare(windows: &[Window]) -> bool {
    let mut all_well = true;
    println!(
        "\n{:<42} {:>10} {:>10} {:>10}",
        "windows 5 to 8, and 9 to 12", "before", "at the end", "at most"
    );
    for measure in MEASURES {
        match measure.check(windows) {
            Some(verdict) => {
                let Verdict { before, end, most } = verdict;
                let name = measure.name;
                let remark = if verdict.is_growth() { "  GREW" } else { "" };
                println!("{name:<42} {before:>10.1} {end:>10.1} {most:>10.1}{remark}");
                all_well &= !verdict.is_growth();
            }
            None => {
                println!("{}: not measured", measure.name);
                all_well = false;
            }
        }
    }
    all_well
}

const MEASURES: [Measure; 13] = [
    Measure::new("token service without page cache, MiB", 1.1, 4.0, |w| {
        w.service.memory_mib - w.stored.page_cache_mib
    }),
    Measure::new("Envoy without token cache, MiB", 1.1, 16.0, |window| {
        window.envoy.memory_mib - window.token_cache_mib
    }),
    Measure::new("descriptors of the token service", 1.1, 8.0, |window| {
        window.service.descriptors
    }),
    Measure::new("descriptors of Envoy", 1.1, 8.0, |window| {
        window.envoy.descriptors
    }),
    Measure::new("store without audit log, MiB", 1.0, 4.0, |window| {
        window.stored.mib_without_audit
    }),
    Measure::new("grants, sessions, revocations", 1.25, 50.0, |window| {
        window.stored.rows
    }),
    Measure::new("published keys", 1.0, 1.0, |window| window.stored.keys),
    // The mix of requests varies with other load on the machine.
    Measure::new("token service, CPU us for an answer", 1.5, 0.0, |window| {
        window.service_work
    }),
    Measure::new("Envoy, CPU us for an answer", 1.5, 0.0, |window| {
        window.envoy_work
    }),
    Measure::latency("API call, p50, ms", 1.5, 5.0, 50, |window| {
        window.percentile(Operation::Call, 50)
    }),
    Measure::latency("API call, p99, ms", 2.0, 50.0, 99, |window| {
        window.percentile(Operation::Call, 99)
    }),
    Measure::latency("token request, p50, ms", 1.5, 5.0, 50, |window| {
        window.percentile(Operation::ClientCredentials, 50)
    }),
    Measure::latency("token request, p99, ms", 2.0, 50.0, 99, |window| {
        window.percentile(Operation::ClientCredentials, 99)
    }),
];

pub(super) const HEADINGS: &str = "        token service           Envoy                   store                       \
    API call, ms   token, ms     machine, ms
window    MiB  fds  us/answer     MiB  fds  us/answer     MiB  audited  rows  keys   p50    p99     p50    p99    p50    p99";

pub(super) fn row(number: u32, window: &Window) -> String {
    let times = |operation| [50, 99].map(|percent| window.percentile(operation, percent));
    let [call, slow_call] = times(Operation::Call);
    let [token, slow_token] = times(Operation::ClientCredentials);
    let [probe, slow_probe] = [50, 99].map(|percent| window.machine(percent));
    let Window {
        service,
        envoy,
        stored,
        ..
    } = window;
    format!(
        "{:>6} {:>6.1} {:>4} {:>10.0}  {:>6.1} {:>4} {:>10.0}  {:>6.1} {:>8} {:>5} {:>5}  {call:>4.1} {slow_call:>6.1}  \
         {token:>6.1} {slow_token:>6.1} {probe:>6.1} {slow_probe:>6.1}",
        number + 1,
        service.memory_mib,
        service.descriptors,
        window.service_work,
        envoy.memory_mib,
        envoy.descriptors,
        window.envoy_work,
        stored.mib,
        stored.audited,
        stored.rows,
        stored.keys,
    )
}
