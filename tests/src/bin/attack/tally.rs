//! Counts and durations of outcomes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Number of each outcome: a status, or an error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub(crate) fn count(&mut self, outcome: &str) {
        *self.0.entry(outcome.to_owned()).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (outcome, count) in other.0 {
            *self.0.entry(outcome).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (outcome, count) in &self.0 {
            write!(formatter, "{separator}{outcome}: {count}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Results of one operation of the client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    outcomes: Tally,
    times: Vec<Duration>,
}

impl Observed {
    pub(crate) fn record(&mut self, outcome: &str, took: Duration) {
        self.outcomes.count(outcome);
        self.times.push(took);
    }

    /// Outcomes other than success, with their counts.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&str, u64)> {
        let failed = |outcome: &str| !matches!(outcome, "200" | "303");
        self.outcomes
            .0
            .iter()
            .map(|(outcome, count)| (outcome.as_str(), *count))
            .filter(move |(outcome, _)| failed(outcome))
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = times.len() * percent / 100;
        times
            .get(at.min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most] = [50, 99].map(|percent| self.percentile(percent).as_millis());
        let count = self.times.len();
        write!(
            formatter,
            "{count:>5} requests, p50 {half:>5} ms, p99 {most:>5} ms; {}",
            self.outcomes
        )
    }
}
