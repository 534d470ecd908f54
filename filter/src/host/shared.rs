//! State that the root context and the requests of one VM share. A VM has one thread.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use proxy_wasm::hostcalls;
use proxy_wasm::types::LogLevel;

use super::calls;
use super::log::{self, Log};
use guard::clock::{Clock, Time};
use guard::guard::Guard;
use guard::waiting::Waiting;

/// Time to the next tick while no request waits.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Time to the next tick while another VM reads revocations for this one.
pub(super) const FOLLOWING_TICK: Duration = Duration::from_millis(50);

/// Time to the next tick while a request waits for a fetch or for its turn. Only ticks start fetches: the
/// fetches then belong to the root context, and do not end with the request that needs them.
const SOON: Duration = Duration::from_millis(1);

/// What the decision about a held request needs.
#[derive(Debug)]
pub(super) struct HeldRequest {
    pub(super) method: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) authorization: Vec<Vec<u8>>,
    pub(super) request_id: Vec<u8>,
}

pub(super) struct Shared {
    pub(super) root_context: u32,
    pub(super) guard: RefCell<Guard>,
    pub(super) waiting: RefCell<Waiting<HeldRequest>>,
    pub(super) log: RefCell<Log>,
    clock: RefCell<Clock>,
    /// The time of the last tick.
    time: Cell<Time>,
}

impl Shared {
    pub(super) fn new(root_context: u32, guard: Guard) -> Self {
        Self {
            root_context,
            guard: RefCell::new(guard),
            waiting: RefCell::default(),
            log: RefCell::default(),
            clock: RefCell::default(),
            time: Cell::new(Time {
                wall: now(),
                steady: 0,
            }),
        }
    }

    /// The time of the last tick, in seconds since 1970.
    pub(super) fn tick(&self) -> u64 {
        self.time.get().wall
    }

    /// The time of the last tick, in seconds of the steady clock.
    pub(super) fn steady(&self) -> u64 {
        self.time.get().steady
    }

    /// Reads the clocks, once for each tick. Returns the time of the steady clock, in seconds.
    pub(super) fn take_time(&self) -> u64 {
        let monotonic = calls::monotonic_time().ok().map(|time| time.as_secs());
        let (time, stepped) = self.clock.borrow_mut().read(now(), monotonic);
        self.time.set(time);
        let mut guard = self.guard.borrow_mut();
        guard.set_time(time);
        if stepped {
            log::write(
                LogLevel::Warn,
                "the clock stepped: all revocations are read again",
            );
            guard.doubt();
        }
        time.steady
    }

    /// Removes a request that has ended.
    pub(super) fn forget(&self, context: u32) {
        if let Ok(mut waiting) = self.waiting.try_borrow_mut() {
            waiting.forget(context);
        }
    }

    /// Asks the host for a tick at once.
    pub(super) fn hurry(&self) {
        if hostcalls::set_effective_context(self.root_context).is_ok() {
            // If the host refuses, the next tick still comes within a second.
            let _ = calls::set_tick_period(SOON);
        }
    }
}

/// Seconds since 1970, from the host.
pub(super) fn now() -> u64 {
    hostcalls::get_current_time()
        .ok()
        .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
        .map_or(0, |elapsed| elapsed.as_secs())
}
