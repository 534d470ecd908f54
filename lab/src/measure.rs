//! CPU time and memory of processes, and medians with their spread.

use std::fs;
use std::time::Duration;

/// CPU time of all live threads of the process, in nanoseconds.
pub(crate) fn cpu(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// CPU time of the process with all threads that have ended, in nanoseconds, in steps of 10 ms.
pub(crate) fn cpu_of_all_time(pid: u32) -> u64 {
    const TICK: u64 = 10_000_000;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name of the program, which may contain anything: `utime` and `stime` are fields 14 and 15, the state is field 3.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks = times.filter_map(|time| time.parse::<u64>().ok());
    ticks.sum::<u64>() * TICK
}

/// CPU time of an answer, in microseconds, from the CPU time before and after `answers` of them, in nanoseconds.
pub(crate) fn microseconds(before: u64, after: u64, answers: usize) -> f64 {
    after.saturating_sub(before) as f64 / 1000.0 / answers as f64
}

pub(crate) fn ratios(values: &[f64], to: &[f64]) -> Vec<f64> {
    let pairs = values.iter().zip(to);
    pairs.map(|(value, to)| value / to).collect()
}

/// Resident memory of the process, in MiB.
pub(crate) fn resident(pid: u32) -> f64 {
    memory(pid, "VmRSS:")
}

/// Largest resident memory of the process since its start, in MiB.
pub(crate) fn peak(pid: u32) -> f64 {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, key: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB"))
        .and_then(|number| number.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

/// Median, minimum and maximum of measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

pub(crate) fn spread(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    Spread {
        median: at(sorted.len() / 2),
        least: at(0),
        most: at(sorted.len().saturating_sub(1)),
    }
}

/// Prints the heads of the columns of [`row`].
pub(crate) fn heads() {
    println!(
        "{:<100} {:>10} {:<8} {:>9} .. {:<9}",
        "what", "median", "", "least", "most"
    );
}

/// Prints a row: name, median, spread, and the bound.
pub(crate) fn row(what: &str, values: &[f64], unit: &str, bound: Option<Bound>) {
    let Spread {
        median,
        least,
        most,
    } = spread(values);
    let verdict = bound.map_or(String::new(), |bound| bound.verdict(median));
    println!("{what:<100} {median:>10.2} {unit:<8} {least:>9.2} .. {most:<9.2} {verdict}");
}

/// A bound for a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn verdict(self, value: f64) -> String {
        let (kept, text) = match self {
            Self::AtMost(bound) => (value <= bound, format!("<= {bound}")),
            Self::AtLeast(bound) => (value >= bound, format!(">= {bound}")),
        };
        format!("{text}: {}", if kept { "kept" } else { "MISSED" })
    }
}

/// The value at position `part` of 1000 in the sorted `times`, in milliseconds.
pub(crate) fn percentile(times: &[Duration], part: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let index = (times.len() * part / 1000).min(times.len().saturating_sub(1));
    times
        .get(index)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
}

/// The lower quartile, the median and the upper quartile.
pub(crate) fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| {
        let place = values.len().saturating_sub(1) * quarter / 4;
        values.get(place).copied().unwrap_or(f64::NAN)
    })
}
