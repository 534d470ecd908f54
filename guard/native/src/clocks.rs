//! The system's clocks.

use std::time::SystemTime;

use guard::clock::HostClock;
use nix::time::{ClockId, clock_gettime};

/// Each request reads this clock. On Linux it shows the time of the kernel's last tick, some milliseconds ago, and takes a
/// fraction of the time of an exact clock.
#[cfg(target_os = "linux")]
const MONOTONIC: ClockId = ClockId::CLOCK_MONOTONIC_COARSE;
#[cfg(not(target_os = "linux"))]
const MONOTONIC: ClockId = ClockId::CLOCK_MONOTONIC;

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

    fn monotonic(&self) -> Option<u64> {
        u64::try_from(clock_gettime(MONOTONIC).ok()?.tv_sec()).ok()
    }
}
