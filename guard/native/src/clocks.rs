//! The system's clocks.

use std::time::SystemTime;

use coarsetime::Instant;
use guard::clock::HostClock;

/// The wall clock, and the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Clocks;

impl HostClock for Clocks {
    #[expect(
        clippy::disallowed_methods,
        reason = "hosts of the guard read the wall clock only here"
    )]
    fn wall(&self) -> u64 {
        let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        elapsed.map_or(0, |elapsed| elapsed.as_secs())
    }

    /// Each request reads this clock. On Linux it shows the time of the kernel's last tick, some milliseconds ago, and takes a
    /// fraction of the time of an exact clock. Threads share nothing: [`Instant::now`] would write to a common variable.
    fn monotonic(&self) -> Option<u64> {
        let now = Instant::now_without_cache_update();
        Some(now.duration_since(Instant::from_ticks(0)).as_secs())
    }
}
