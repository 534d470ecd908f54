//! The system's clocks.

use std::time::{Instant, SystemTime};

use guard::clock::HostClock;

/// The wall clock, and the time since this moment.
#[derive(Debug)]
pub struct Clocks(Instant);

impl Clocks {
    /// Starts the monotonic clock.
    #[expect(
        clippy::new_without_default,
        reason = "two of them tell different times"
    )]
    #[must_use]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl HostClock for Clocks {
    #[expect(
        clippy::disallowed_methods,
        reason = "hosts of the guard read the wall clock here alone"
    )]
    fn wall(&self) -> u64 {
        let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        elapsed.map_or(0, |elapsed| elapsed.as_secs())
    }

    fn monotonic(&self) -> Option<u64> {
        Some(self.0.elapsed().as_secs())
    }
}
