//! Whether the store answers, for `/readyz`.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use domain::clock::Timestamp;
use store::StoreError;

/// How long a caller waits for the store. A database that hangs lets the check wait longer than load balancers do.
const WITHIN: Duration = Duration::from_millis(1500);

type Check = Result<Option<ClockDifference>, StoreError>;

type Outcome = watch::Receiver<Option<Check>>;

/// A clock that differs from the database's. Replicas with such clocks do not agree about what has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockDifference {
    own: Timestamp,
    database: Timestamp,
    tolerated: Duration,
}

impl ClockDifference {
    /// `None` if the time of the database is within the span in which it was asked for, or not more than `tolerated`
    /// from it.
    pub(crate) fn of(
        (before, after): (Timestamp, Timestamp),
        database: Timestamp,
        tolerated: Duration,
    ) -> Option<Self> {
        let differs = database + tolerated < before || after + tolerated < database;
        differs.then_some(Self {
            own: after,
            database,
            tolerated,
        })
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the clock of this machine says {}, and the clock of the database {}; they may differ by {} seconds \
             (lifetimes.clock_skew): correct the clock that is wrong",
            self.own.rfc3339(),
            self.database.rfc3339(),
            self.tolerated.as_secs()
        )
    }
}

/// Runs one check of the store at a time, for all callers: while a database hangs, checks occupy one connection.
#[derive(Default)]
pub(crate) struct Readiness {
    running: Mutex<Option<Outcome>>,
    /// Why the service is not ready, as the log knows.
    told: Mutex<Option<&'static str>>,
}

impl Readiness {
    /// Waits for the check that runs, or runs `check`.
    ///
    /// # Errors
    /// The failure of the store, or that it does not answer in time.
    pub(crate) async fn of<F>(&self, check: impl FnOnce() -> F) -> Check
    where
        F: Future<Output = Check> + Send + 'static,
    {
        let mut outcome = self.running(check);
        let checked = async { outcome.wait_for(Option::is_some).await.ok()?.clone() };
        match timeout(WITHIN, checked).await {
            Ok(checked) => {
                let ended = || Err(StoreError::Failed("the check ended".to_owned()));
                checked.unwrap_or_else(ended)
            }
            Err(_) => Err(StoreError::Failed(format!(
                "no answer within {} ms",
                WITHIN.as_millis()
            ))),
        }
    }

    fn running<F>(&self, check: impl FnOnce() -> F) -> Outcome
    where
        F: Future<Output = Check> + Send + 'static,
    {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = &*running
            && outcome.borrow().is_none()
            && outcome.has_changed().is_ok()
        {
            return outcome.clone();
        }
        let (answer, outcome) = watch::channel(None);
        let check = check();
        tokio::spawn(async move { answer.send_replace(Some(check.await)) });
        *running = Some(outcome.clone());
        outcome
    }

    /// Logs once that the service stops or begins to be ready, and not each answer.
    pub(crate) fn tell(&self, reason: Option<&'static str>, description: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == reason {
            return;
        }
        *told = reason;
        match reason {
            Some(reason) => tracing::warn!(reason, error = description, "not ready"),
            None => tracing::info!("ready again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// A database that hangs must not get a statement for each question of a load balancer.
    #[tokio::test]
    async fn one_check_runs_at_a_time_and_nobody_waits_for_it_long() {
        let readiness = Readiness::default();
        let (answer, answered) = oneshot::channel();
        let first = readiness.of(|| async { answered.await.unwrap() }).await;
        let late = Err(StoreError::Failed("no answer within 1500 ms".to_owned()));
        assert_eq!(first, late);
        let other = || async { unreachable!("another check runs") };
        assert_eq!(readiness.of(other).await, late);
        let failure = Err(StoreError::Failed("the cause".to_owned()));
        let both = tokio::join!(readiness.of(other), async {
            answer.send(failure.clone()).unwrap();
        });
        assert_eq!(both.0, failure);
        assert_eq!(readiness.of(|| async { Ok(None) }).await, Ok(None));
    }

    #[test]
    fn clocks_may_differ_by_the_skew_and_the_time_of_the_question() {
        let at = |seconds: u64| Timestamp::from_seconds(1_800_000_000 + seconds);
        let skew = Duration::from_secs(30);
        let differs = |database| ClockDifference::of((at(100), at(102)), at(database), skew);
        assert_eq!([70, 101, 132].map(differs), [None; 3]);
        assert!(differs(69).is_some() && differs(133).is_some());
        assert_eq!(
            differs(160).unwrap().to_string(),
            "the clock of this machine says 2027-01-15T08:01:42Z, and the clock of the database 2027-01-15T08:02:40Z; \
             they may differ by 30 seconds (lifetimes.clock_skew): correct the clock that is wrong"
        );
    }
}
