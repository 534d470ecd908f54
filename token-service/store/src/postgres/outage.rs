//! Outages of the database, for the log, the metrics and `/readyz`.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;

use super::limits::{ANSWER, LEASE};
use crate::SWEEP_EVERY;

/// An outage is over when an operation succeeds and none has failed for this time. Shorter, and an outage in which some
/// operations succeed would fill the log: an operation that hangs, such as a commit without its synchronous standby, fails only
/// after [`LEASE`] and [`ANSWER`].
const QUIET: Duration = LEASE.saturating_add(ANSWER);

/// Instead of [`QUIET`] after an operation without an answer: only writes may hang, and a service without requests writes
/// only at each sweep, to note that it runs.
const QUIET_WRITES: Duration = SWEEP_EVERY.saturating_add(QUIET);

#[derive(Debug)]
struct Ongoing {
    began: Instant,
    last_failure: Instant,
    /// Time without a failure after which the outage is over.
    quiet: Duration,
    cause: String,
}

/// Logs the beginning and the end of an outage, and not each operation that failed.
#[derive(Debug, Default)]
pub(super) struct Outage {
    ongoing: Mutex<Option<Ongoing>>,
    /// Operations that failed.
    pub(super) failed: Counter,
}

impl Outage {
    fn ongoing(&self) -> MutexGuard<'_, Option<Ongoing>> {
        self.ongoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an operation failed because of the database. `is_unanswered`: the database did not refuse, it hangs.
    pub(super) fn failed(&self, cause: &dyn Display, is_unanswered: bool, now: Instant) {
        self.failed.inc();
        let cause = cause.to_string();
        let mut ongoing = self.ongoing();
        if ongoing.is_none() {
            tracing::error!(cause, "the database fails");
        }
        let quiet = match is_unanswered {
            true => QUIET_WRITES,
            false => QUIET,
        };
        let before = ongoing.as_ref();
        *ongoing = Some(Ongoing {
            began: before.map_or(now, |outage| outage.began),
            last_failure: now,
            quiet: before.map_or(quiet, |outage| outage.quiet.max(quiet)),
            cause,
        });
    }

    /// Notes that an operation succeeded.
    pub(super) fn succeeded(&self, now: Instant) {
        let mut ongoing = self.ongoing();
        let over =
            ongoing.take_if(|outage| now.duration_since(outage.last_failure) >= outage.quiet);
        if let Some(outage) = over {
            let seconds = outage.last_failure.duration_since(outage.began).as_secs();
            tracing::warn!(seconds, cause = outage.cause, "the database works again");
        }
    }

    /// The cause of the last failure in the present outage.
    pub(super) fn cause(&self) -> Option<String> {
        self.ongoing().as_ref().map(|outage| outage.cause.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_when_nothing_fails_as_long_as_it_could_have_failed() {
        for (is_unanswered, every, quiet) in [
            (false, ANSWER, QUIET),
            // The sweep of a service without requests fails, and reads work.
            (true, SWEEP_EVERY + ANSWER, QUIET_WRITES),
        ] {
            let outage = Outage::default();
            let mut now = Instant::now();
            for _ in 0..3 {
                outage.failed(&"a commit", is_unanswered, now);
                for _ in 0..every.as_secs() {
                    now += Duration::from_secs(1);
                    outage.succeeded(now);
                    assert_eq!(outage.cause().as_deref(), Some("a commit"));
                }
            }
            // Another fault makes the time no shorter.
            outage.failed(&"a refusal", false, now);
            outage.succeeded(now + quiet - Duration::from_secs(1));
            assert!(outage.cause().is_some());
            outage.succeeded(now + quiet);
            assert_eq!(outage.cause(), None);
        }
    }
}
