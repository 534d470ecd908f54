//! Outages of the database, for the log, the metrics and `/readyz`.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

/// An outage is over when an operation succeeds and none has failed for this time. Shorter, and an outage in which some
/// operations succeed would fill the log.
const QUIET: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Ongoing {
    began: Instant,
    last_failure: Instant,
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

    /// Notes that an operation failed because of the database.
    pub(super) fn failed(&self, cause: &dyn Display) {
        self.failed.inc();
        let (now, cause) = (Instant::now(), cause.to_string());
        let mut ongoing = self.ongoing();
        let began = ongoing.as_ref().map(|outage| outage.began);
        if began.is_none() {
            tracing::error!(cause, "the database fails");
        }
        *ongoing = Some(Ongoing {
            began: began.unwrap_or(now),
            last_failure: now,
            cause,
        });
    }

    /// Notes that an operation succeeded.
    pub(super) fn succeeded(&self) {
        let mut ongoing = self.ongoing();
        let over = ongoing.take_if(|outage| outage.last_failure.elapsed() >= QUIET);
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
