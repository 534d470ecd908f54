//! The host's clocks.

use std::time::SystemTime;

use proxy_wasm::hostcalls;

use super::calls;
use guard::clock::HostClock;

/// The wall clock of the ABI, and the monotonic clock of WASI.
pub(super) struct Clocks;

impl HostClock for Clocks {
    fn wall(&self) -> u64 {
        hostcalls::get_current_time()
            .ok()
            .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
            .map_or(0, |elapsed| elapsed.as_secs())
    }

    fn monotonic(&self) -> Option<u64> {
        calls::monotonic_time().ok().map(|time| time.as_secs())
    }
}
