//! Counts and durations of outcomes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::measure::percentile;

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
}

impl fmt::Display for Observed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most] = [500, 990].map(|part| percentile(&self.times, part));
        let count = self.times.len();
        write!(
            formatter,
            "{count:>5} requests, p50 {half:>5.0} ms, p99 {most:>5.0} ms; {}",
            self.outcomes
        )
    }
}
