//! The pause before a transaction, in which more operations gather.
//!
//! Under load, each caller sends its next operation shortly after the result of its last operation. Without a pause, a
//! transaction has only the operations that arrived during the transaction before, so the callers divide into groups
//! that wait for each other's transactions. A transaction takes as much time as several operations, on the CPU and on
//! the disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Longest pause, however long transactions take.
const LONGEST: Duration = Duration::from_millis(2);

/// Fewest callers for which the thread pauses. Fewer callers would lose more time than they save.
const CROWD: usize = 4;

/// What a transaction tells about the next transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Last {
    /// Number of operations in the transaction and in the queue at its end.
    pub(super) callers: usize,
    /// A pause takes no longer than the transaction, so that it pays.
    pub(super) took: Duration,
}

/// The pause of the writer's thread.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Number of queued operations at which the pause ends; 0 if the thread does not pause.
    wanted: AtomicUsize,
}

impl Last {
    /// The longest pause after this transaction; `None` if its callers are too few.
    fn pause(self) -> Option<Duration> {
        (self.callers >= CROWD).then(|| self.took.min(LONGEST))
    }
}

impl Gathering {
    /// Pauses the calling thread until as many operations are `queued` as the last transaction had callers.
    pub(super) fn pause(&self, last: Last, queued: impl Fn() -> usize) {
        if let Some(longest) = last.pause() {
            self.until(last.callers, longest, queued);
        }
    }

    fn until(&self, wanted: usize, longest: Duration, queued: impl Fn() -> usize) {
        let end = Instant::now() + longest;
        self.wanted.store(wanted, Ordering::SeqCst);
        while queued() < wanted {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        self.wanted.store(0, Ordering::SeqCst);
    }

    /// Ends the pause of `thread` if `queued` operations are enough.
    pub(super) fn arrived(&self, queued: usize, thread: &Thread) {
        let wanted = self.wanted.load(Ordering::SeqCst);
        if wanted > 0 && queued >= wanted {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn only_a_crowd_is_worth_a_pause() {
        let pause = |callers, took| Last { callers, took }.pause();
        assert_eq!(Last::default().pause(), None);
        assert_eq!(pause(CROWD - 1, LONG), None);
        assert_eq!(pause(CROWD, LONG), Some(LONGEST));
        assert_eq!(pause(CROWD, Duration::ZERO), Some(Duration::ZERO));
    }

    #[test]
    fn the_pause_ends_with_its_time() {
        Gathering::default().until(CROWD, Duration::ZERO, || 1);
    }

    #[test]
    fn the_pause_ends_when_the_expected_operations_have_arrived() {
        let gathering = Gathering::default();
        let queued = AtomicUsize::new(1);
        thread::scope(|scope| {
            let pausing = scope.spawn(|| {
                gathering.until(CROWD, LONG, || queued.load(Ordering::SeqCst));
            });
            for number in 2..=CROWD {
                queued.store(number, Ordering::SeqCst);
                gathering.arrived(number, pausing.thread());
            }
        });
        assert_eq!(queued.into_inner(), CROWD);
    }
}
