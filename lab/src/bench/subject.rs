//! What benchmarks compare: requests to a server, measured in blocks that alternate with those of the other subjects, so that
//! other load on the machine affects all alike.

use std::net::SocketAddr;
use std::time::Duration;

use super::http::{Block, Load, Scripts, block};
use crate::measure::{Bound, cpu, percentile, row};

/// Requests to a server, and what was measured of them.
pub(crate) struct Subject {
    pub(crate) name: String,
    address: SocketAddr,
    scripts: Scripts,
    load: Load,
    counters: Vec<Box<dyn Fn() -> f64>>,
    measured: Vec<Measured>,
}

/// A measured block, or some together.
pub(crate) struct Measured {
    block: Block,
    /// What each counter counted meanwhile.
    counted: Vec<f64>,
}

impl Measured {
    /// Answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.block.times.len() as f64 / self.block.elapsed.as_secs_f64()
    }

    /// The latency at position `part` of 1000, in milliseconds.
    pub(crate) fn percentile(&self, part: usize) -> f64 {
        percentile(&self.block.times, part)
    }

    /// What the counter number `counter` counted for each answer.
    pub(crate) fn cost(&self, counter: usize) -> f64 {
        self.counted[counter] / self.block.times.len() as f64
    }

    fn and(mut self, other: Self) -> Self {
        self.block.elapsed += other.block.elapsed;
        self.block.times.extend(other.block.times);
        for (counted, other) in self.counted.iter_mut().zip(other.counted) {
            *counted += other;
        }
        self
    }
}

impl Subject {
    pub(crate) fn new(name: &str, address: SocketAddr, scripts: Scripts, load: Load) -> Self {
        Self {
            name: name.to_owned(),
            address,
            scripts,
            load,
            counters: Vec::new(),
            measured: Vec::new(),
        }
    }

    /// Also measures how much a number grows that `counter` reads.
    pub(crate) fn counting(mut self, counter: impl Fn() -> f64 + 'static) -> Self {
        self.counters.push(Box::new(counter));
        self
    }

    /// Also measures the CPU time of a process, in microseconds.
    pub(crate) fn counting_cpu(self, pid: u32) -> Self {
        self.counting(move || cpu(pid) as f64 / 1000.0)
    }

    /// Sends requests for `time` that are not measured.
    pub(crate) async fn warm_up(&mut self, time: Duration) {
        let mut load = self.load;
        load.time = time;
        block(self.address, &mut self.scripts, load).await;
    }

    /// Measures a block.
    pub(crate) async fn run(&mut self) {
        // The first counter is the nearest to the block: the others may cost the CPU time that it counts.
        let before = self.counters.iter().rev().map(|counter| counter());
        let before: Vec<f64> = before.collect();
        let block = block(self.address, &mut self.scripts, self.load).await;
        let counters = self.counters.iter().zip(before.iter().rev());
        // A thread whose CPU time counted may have ended meanwhile.
        let counted = counters.map(|(counter, before)| (counter() - before).max(0.0));
        let counted = counted.collect();
        self.measured.push(Measured { block, counted });
    }

    /// A value of each block.
    pub(crate) fn each(&self, of: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.measured.iter().map(of).collect()
    }

    /// What the first counter counted for each answer.
    pub(crate) fn costs(&self) -> Vec<f64> {
        self.each(|measured| measured.cost(0))
    }

    /// All blocks together; `None` before the first one.
    pub(crate) fn together(self) -> Option<Measured> {
        self.measured.into_iter().reduce(Measured::and)
    }

    /// Prints a row about the subject.
    pub(crate) fn row(&self, what: &str, values: &[f64], unit: &str, bound: Option<Bound>) {
        row(&format!("{}: {what}", self.name), values, unit, bound);
    }

    /// Prints the rates, with this bound.
    pub(crate) fn print_rates(&self, bound: Option<Bound>) {
        row(&self.name, &self.each(Measured::rate), "1/s", bound);
    }

    pub(crate) fn print_latencies(&self) {
        for (name, part) in [("p50", 500), ("p99", 990)] {
            let what = format!("{}, {name}", self.name);
            row(
                &what,
                &self.each(|block| block.percentile(part)),
                "ms",
                None,
            );
        }
    }
}

/// Measures this number of blocks of each subject, in turn. Each round begins with another subject.
pub(crate) async fn alternate<'a>(
    subjects: impl IntoIterator<Item = &'a mut Subject>,
    rounds: usize,
) {
    let mut subjects: Vec<_> = subjects.into_iter().collect();
    for _ in 0..rounds {
        for subject in &mut subjects {
            subject.run().await;
        }
        subjects.rotate_left(1);
    }
}
