//! The module's timer. Envoy gives no timers to HTTP filters, but a way to call the main thread from any thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::abi::MainThread;

/// A thread that calls the main thread when it is time. It ends with this value.
#[derive(Debug)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// `None` while the main thread has not set the next time.
    due: Option<Instant>,
    /// True from a call of the main thread until the thread answers it.
    calls: bool,
    has_ended: bool,
}

impl Timer {
    /// Starts the thread. The first call is due at once.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) fn start(main_thread: MainThread) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("token_filter".to_owned());
        let timer = Self {
            thread: Some(thread.spawn(move || its.run(&main_thread))?),
            shared,
        };
        timer.set(Duration::ZERO);
        Ok(timer)
    }

    /// The main thread was called.
    pub(crate) fn has_called(&self) {
        self.shared.state().calls = false;
        self.shared.changed.notify_one();
    }

    /// Calls the main thread after `period`, or earlier if that was set before.
    pub(crate) fn set(&self, period: Duration) {
        let due = Instant::now() + period;
        let mut state = self.shared.state();
        if state.due.is_none_or(|earlier| due < earlier) {
            state.due = Some(due);
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, main_thread: &MainThread) {
        let mut state = self.state();
        while !state.has_ended {
            let left = state
                .due
                .filter(|_| !state.calls)
                .map(|due| due.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => {
                    state.due = None;
                    state.calls = true;
                    drop(state);
                    main_thread.call();
                    self.state()
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl Drop for Timer {
    /// Waits for the thread, which runs code of the module.
    fn drop(&mut self) {
        self.shared.state().has_ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
