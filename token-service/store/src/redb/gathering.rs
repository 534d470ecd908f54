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

impl Gathering {
    /// Pauses the calling thread until as many operations are `queued` as the last transaction had callers.
    pub(super) fn pause(&self, last: Last, queued: impl Fn() -> usize) {
        if last.callers < CROWD {
            return;
        }
        let end = Instant::now() + last.took.min(LONGEST);
        self.wanted.store(last.callers, Ordering::SeqCst);
        while queued() < last.callers {
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
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn last(callers: usize, took: Duration) -> Last {
        Last { callers, took }
    }

    /// Returns how often a pause looked at the queue, in which nothing arrives.
    fn looks(last: Last) -> u32 {
        let looks = Cell::new(0);
        Gathering::default().pause(last, || {
            looks.set(looks.get() + 1);
            1
        });
        looks.get()
    }

    #[test]
    fn only_a_crowd_is_worth_a_pause() {
        assert_eq!(looks(Last::default()), 0);
        assert_eq!(looks(last(CROWD - 1, LONG)), 0);
        assert!(looks(last(CROWD, LONG)) >= 2);
    }

    #[test]
    fn after_a_short_transaction_the_thread_does_not_pause() {
        assert_eq!(looks(last(CROWD, Duration::ZERO)), 1);
    }

    #[test]
    fn the_pause_ends_when_the_expected_operations_have_arrived() {
        let gathering = Arc::new(Gathering::default());
        let queued = Arc::new(AtomicUsize::new(1));
        let pausing = thread::spawn({
            let (gathering, queued) = (Arc::clone(&gathering), Arc::clone(&queued));
            move || {
                // Repeated, because a pause may be over before the operation arrives.
                while queued.load(Ordering::SeqCst) < CROWD {
                    gathering.pause(last(CROWD, LONG), || queued.load(Ordering::SeqCst));
                }
            }
        });
        for number in 2..=CROWD {
            queued.store(number, Ordering::SeqCst);
            gathering.arrived(number, pausing.thread());
        }
        pausing.join().unwrap();
    }
}
