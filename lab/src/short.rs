//! Short runs of the benchmarks: with `SHORT=1` each measures for a moment, to show that it still works. The figures of a
//! short run mean nothing.

use std::time::Duration;

/// How much a short run shortens.
const PART: u16 = 20;

fn is_short() -> bool {
    std::env::var_os("SHORT").is_some_and(|value| !value.is_empty())
}

/// A number of repetitions or objects: `usual`, or the smaller number of a short run, which is at least 1.
pub(crate) fn count(usual: usize) -> usize {
    if is_short() {
        (usual / usize::from(PART)).max(1)
    } else {
        usual
    }
}

/// The time of a block: `usual`, or the shorter time of a short run.
pub(crate) fn time(usual: Duration) -> Duration {
    if is_short() {
        usual / u32::from(PART)
    } else {
        usual
    }
}

/// The sizes that benchmarks compare unless `SIZES` names others.
pub(crate) fn sizes() -> String {
    format!("{},{}", count(1000), count(100_000))
}
