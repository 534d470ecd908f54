//! Whether the store answers, for `/readyz`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use store::{Store, StoreError};

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
    /// # Errors
    /// The failure of the store, or that it does not answer in time.
    pub async fn check(&self, store: &Arc<dyn Store>) -> Result<(), StoreError> {
        let mut outcome = self.running(store);
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

    fn running(&self, store: &Arc<dyn Store>) -> Outcome {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = &*running
            && outcome.borrow().is_none()
            && outcome.has_changed().is_ok()
        {
            return outcome.clone();
        }
        let (answer, outcome) = watch::channel(None);
        let store = Arc::clone(store);
        tokio::spawn(async move { answer.send_replace(Some(store.ready().await)) });
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
