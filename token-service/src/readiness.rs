//! Whether the store answers, for `/readyz`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use store::StoreError;

/// How long a caller waits for the store. A database that hangs lets the check wait longer than load balancers do.
const WITHIN: Duration = Duration::from_millis(1500);

type Outcome = watch::Receiver<Option<Result<(), StoreError>>>;

/// Runs one check of the store at a time, for all callers: while a database hangs, checks occupy one connection.
#[derive(Default)]
pub struct Readiness {
    running: Mutex<Option<Outcome>>,
    /// Why the service is not ready, as the log knows.
    told: Mutex<Option<&'static str>>,
}

impl Readiness {
    /// Waits for the check that runs, or runs `check`.
    ///
    /// # Errors
    /// The failure of the store, or that it does not answer in time.
    pub async fn of<F>(&self, check: impl FnOnce() -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
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
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
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
    pub fn tell(&self, reason: Option<&'static str>, description: &str) {
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
        assert_eq!(readiness.of(|| async { Ok(()) }).await, Ok(()));
    }
}
