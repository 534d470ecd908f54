//! Short runs of the benchmarks: with `SHORT=1` each measures for a moment, to show that it still works. The figures of a
//! short run mean nothing.

use std::time::Duration;

/// How much a short run shortens.
const PART: usize = 20;

fn is_short() -> bool {
    std::env::var_os("SHORT").is_some_and(|value| !value.is_empty())
}

/// A number of repetitions: `usual`, or the smaller number of a short run, which is at least 1.
pub(crate) fn count(usual: usize) -> usize {
    if is_short() {
        (usual / PART).max(1)
    } else {
        usual
    }
}

/// A number of objects, for which a store that is not optimized takes milliseconds each.
pub(crate) fn objects(usual: usize) -> usize {
    count(count(usual))
}

/// The time of a block: `usual`, or the shorter time of a short run.
pub(crate) fn time(usual: Duration) -> Duration {
    if is_short() {
        usual / PART as u32
    } else {
        usual
    }
}

/// The sizes that benchmarks compare, the least first: those that `SIZES` names.
pub(crate) fn sizes() -> Vec<usize> {
    let usual = format!("{},{}", count(1000), objects(100_000));
    let sizes = crate::variable("SIZES", &usual);
    let sizes = sizes.split(',').filter_map(|size| size.trim().parse().ok());
    let mut sizes: Vec<usize> = sizes.collect();
    sizes.sort_unstable();
    sizes
}

/// True if `STORES` names this store, or nothing.
pub(crate) fn is_wanted(store: &str) -> bool {
    crate::variable("STORES", "redb,postgres").contains(store)
}
