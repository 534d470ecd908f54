//! Counts and durations of outcomes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::measure::percentile;

/// Number of each outcome: a status, or an error.
#[derive(Debug, Default)]
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
        let outcomes = self.0.iter();
        let outcomes = outcomes.map(|(outcome, count)| format!("{outcome}: {count}"));
        formatter.write_str(&outcomes.collect::<Vec<_>>().join(", "))
    }
}

/// Results of one operation of the client.
#[derive(Debug, Default)]
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
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&String, &u64)> {
        let outcomes = self.outcomes.0.iter();
        outcomes.filter(|(outcome, _)| !matches!(outcome.as_str(), "200" | "303"))
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most] = [500, 990].map(|part| percentile(&self.times, part));
        let (count, outcomes) = (self.times.len(), &self.outcomes);
        write!(
            formatter,
            "{count:>5} requests, p50 {half:>5.0} ms, p99 {most:>5.0} ms; {outcomes}"
        )
    }
}
